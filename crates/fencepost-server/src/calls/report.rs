//! What others have seen: counted, logged and told to watchers, and believed by nobody. No lease depends on it.

use axum::{body::Body, http::Request};
use fencepost_core::limits;
use fencepost_wire::{RejectedReport, WorkFailedReport};

use crate::{
    Inspect,
    app::{App, Received, Reply},
    body::read_json,
    reply,
};

pub(crate) async fn rejected<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let report: RejectedReport = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (data, reason) = report.parse()?;
    app.metrics.reported(data, reason);
    Ok(reply::empty())
}

pub(crate) async fn work_failed<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let report: WorkFailedReport = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (domain, lease) = report.parse()?;
    app.metrics.work_failed(&domain, lease);
    Ok(reply::empty())
}
