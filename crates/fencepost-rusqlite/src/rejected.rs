use fencepost_core::{
    Grant,
    fence::{Operation, Rejection},
};

/// Says every rejection once, as one line: a rise of these shows the check at work, so look for pauses.
pub(crate) fn note(grants: &[&Grant], operation: Option<&Operation>, rejection: &Rejection) {
    let (least_accepted, by) = match rejection {
        Rejection::Stale { least_accepted, by, .. } => (Some(least_accepted.to_string()), Some(by.as_str())),
        Rejection::Closed(_)
        | Rejection::Missing
        | Rejection::WrongDomain
        | Rejection::WrongContract
        | Rejection::WrongIssuer
        | Rejection::Unverified
        | Rejection::OperationConflict
        | Rejection::OperationInProgress
        | Rejection::OperationTooOld
        | Rejection::UnknownEpoch { .. }
        | Rejection::NotCurrent => (None, None),
    };
    for grant in grants {
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
}
