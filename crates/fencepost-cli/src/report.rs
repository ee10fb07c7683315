//! Tells the coordinator what it would otherwise never hear of: refused writes and failed work. Nothing depends on it, so
//! it is tried once, briefly, and in silence.

use std::time::Duration;

use fencepost_client::{HttpCoordinator, HttpOptions};
use fencepost_core::{Domain, Grant, LeaseId, OperationId, fence::Rejection};

use crate::coordinator::url_from_environment;

/// How long anybody's end may be put off by it.
const PATIENCE: Duration = Duration::from_secs(1);

/// A receiver has refused this grant. Only where a coordinator is named, as `run` names it: the usual address may be
/// that of another one.
pub(crate) fn rejected(grant: &Grant, rejection: &Rejection, operation: Option<&OperationId>) {
    let Some(url) = url_from_environment() else { return };
    let Some(coordinator) = hasty(&url) else { return };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
    let report = coordinator.report_rejected(&grant.domain, rejection, Some(grant.lease), operation);
    drop(runtime.block_on(report));
}

/// A command has failed under a lease that was not lost.
pub(crate) async fn work_failed(url: &str, domain: &Domain, lease: LeaseId) {
    if let Some(coordinator) = hasty(url) {
        drop(coordinator.report_work_failed(domain, lease).await);
    }
}

fn hasty(url: &str) -> Option<HttpCoordinator> {
    HttpCoordinator::with_options(url, HttpOptions { connect_timeout: PATIENCE, call_timeout: PATIENCE }).ok()
}
