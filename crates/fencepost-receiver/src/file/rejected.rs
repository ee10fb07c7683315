use fencepost_core::{
    Grant,
    fence::{Operation, Rejection},
};

/// One line for each rejection, for whoever watches: many of them mean that holders pause.
pub(crate) fn log(grant: &Grant, operation: Option<&Operation>, rejection: &Rejection) {
    let bound = match rejection {
        Rejection::Stale { least_accepted, by, .. } => Some((least_accepted.to_string(), by.as_str())),
        _ => None,
    };
    let (least_accepted, by) = bound.unzip();
    tracing::warn!(
        target: "fencepost::rejected",
        reason = rejection.code(),
        domain = %grant.domain,
        token = %grant.token,
        least_accepted,
        by,
        lease = %grant.lease,
        operation = operation.map(|operation| operation.id.as_str()),
        "{rejection}"
    );
}
