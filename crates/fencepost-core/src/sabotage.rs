//! Deliberate defects, for the tests that prove the tests. Nothing of this is compiled into a normal build.
//!
//! With the feature `sabotage` the defect is chosen at run time by the variable `FENCEPOST_SABOTAGE`; a test that
//! still passes under the defect it should catch is no test.

/// Whether this defect is switched on in this process.
#[cfg(feature = "sabotage")]
#[must_use]
pub fn active(defect: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("FENCEPOST_SABOTAGE").ok()).as_deref() == Some(defect)
}

/// Whether this defect is switched on in this process: never, in a normal build.
#[cfg(not(feature = "sabotage"))]
#[must_use]
pub const fn active(_defect: &str) -> bool {
    false
}
