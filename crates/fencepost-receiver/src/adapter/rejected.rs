use fencepost_core::{
    Grant,
    fence::{Operation, Rejection},
};

/// Says a rejection once, as one line: a rise of these shows the check at work, so look for pauses of holders.
pub fn log_rejection(grant: &Grant, operation: Option<&Operation>, rejection: &Rejection) {
    let stale = rejection.stale();
    tracing::warn!(
        target: "fencepost::rejected",
        reason = rejection.code(),
        domain = %grant.domain,
        token = %grant.token,
        least_accepted = stale.map(|stale| stale.least_accepted.to_string()),
        by = stale.map(|stale| stale.by.as_str()),
        lease = %grant.lease,
        operation = operation.map(|operation| operation.id.as_str()),
        "{rejection}"
    );
}
