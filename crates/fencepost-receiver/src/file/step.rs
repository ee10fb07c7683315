//! Where a process can die between two steps, for the tests that kill it there. Nothing of this is in a normal build.

/// The variable that names the step after which the process aborts.
#[cfg(feature = "sabotage")]
pub const ABORT_AFTER: &str = "FENCEPOST_FILE_ABORT_AFTER";

/// Every step of a write, in order, and those of finishing one that was left behind.
#[cfg(feature = "sabotage")]
pub const STEPS: [&str; 12] = [
    "content_written",
    "locked",
    "staged",
    "sidecar_written",
    "sidecar_synced",
    "sidecar_renamed",
    "content_synced",
    "sidecar_durable",
    "renamed",
    "folder_synced",
    "settled",
    "finished",
];

#[cfg(feature = "sabotage")]
pub(crate) fn passed(step: &'static str) {
    debug_assert!(STEPS.contains(&step), "{step} is not listed");
    if std::env::var(ABORT_AFTER).is_ok_and(|chosen| chosen == step) {
        std::process::abort();
    }
}

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn passed(_step: &'static str) {}
