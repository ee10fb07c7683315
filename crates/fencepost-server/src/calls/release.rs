use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use fencepost_core::limits;
use fencepost_wire::{BreakAnswer, BreakBody, ReleaseAnswer, ReleaseBody};

use crate::{
    Inspect,
    app::{App, Received, Reply},
    auth,
    body::read_json,
    reply,
};

pub(crate) async fn release<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let secret = auth::required_bearer(request.headers())?;
    let body: ReleaseBody = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (lease, hold) = body.parse()?;
    let released = app.within(app.coordinator.release(&secret, lease, hold)).await?;
    Ok(reply::json(StatusCode::OK, &ReleaseAnswer::from(released)))
}

pub(crate) async fn break_lease<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let body: BreakBody = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (lease, reason) = body.parse()?;
    let broken = app.within(app.coordinator.break_lease(lease, reason)).await?;
    Ok(reply::json(StatusCode::OK, &BreakAnswer::from(broken)))
}
