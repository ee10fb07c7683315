use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use fencepost_coordinator::{CallError, SessionKey};
use fencepost_core::{SessionId, lease::HeartbeatRefusal, limits};
use fencepost_wire::{
    HeartbeatAnswer, HeartbeatBody, OpenSessionBody, Refusal as _, SessionAnswer, SessionOpenedAnswer,
};

use crate::{
    Inspect,
    app::{App, CallRefused, Received, Reply, counting},
    auth,
    body::read_json,
    reply::{self, Refused},
};

/// The session of `/v1/sessions/{session}…` with the secret that came along.
fn key(request: &Request<Body>) -> Result<SessionKey, Refused> {
    let segment = request.uri().path().split('/').nth(3).unwrap_or_default();
    let session: SessionId = segment.parse()?;
    Ok(SessionKey { session, secret: auth::required_bearer(request.headers())? })
}

pub(crate) async fn open<C: Inspect>(app: &App<C>, request: Request<Body>, received: Received) -> Reply {
    let body: OpenSessionBody = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (holder, ttl) = body.parse()?;
    let before = received.ago();
    let opened = app.within(app.coordinator.open_session(holder, ttl)).await?;
    Ok(reply::json(StatusCode::CREATED, &SessionOpenedAnswer::from(&counting(opened, before))))
}

pub(crate) async fn heartbeat<C: Inspect>(app: &App<C>, request: Request<Body>, received: Received) -> Reply {
    let key = key(&request)?;
    let body: HeartbeatBody = read_json(request, limits::HEARTBEAT_BODY_BYTES, &app.options).await?;
    let claim = body.parse()?;
    let before = received.ago();
    match app.within(app.coordinator.heartbeat(&key, claim)).await {
        Ok(heartbeat) => {
            for ended in &heartbeat.answer.ended {
                app.metrics.renewal_failed(ended.end.map_or("forgotten", |end| end.as_str()));
            }
            Ok(reply::json(StatusCode::OK, &HeartbeatAnswer::from(counting(heartbeat, before))))
        }
        Err(refused) => {
            app.metrics.renewal_failed(renewal_failure(&refused));
            Err(refused.into())
        }
    }
}

fn renewal_failure(refused: &CallRefused<HeartbeatRefusal>) -> &'static str {
    match refused {
        CallRefused::Call(CallError::Refused(refusal)) => refusal.to_problem().code.as_str(),
        CallRefused::Call(CallError::Invalid(_)) => "invalid_input",
        CallRefused::Call(CallError::Unavailable { .. }) => "storage_unavailable",
        CallRefused::Call(CallError::Unreachable { .. } | CallError::Protocol { .. }) => "coordinator_unreachable",
        CallRefused::Late => "call_timeout",
    }
}

pub(crate) async fn read<C: Inspect>(app: &App<C>, request: Request<Body>, received: Received) -> Reply {
    let key = key(&request)?;
    let before = received.ago();
    let view = app.within(app.coordinator.read_session(&key)).await?;
    Ok(reply::json(StatusCode::OK, &SessionAnswer::from(counting(view, before))))
}

pub(crate) async fn end<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let key = key(&request)?;
    app.within(app.coordinator.end_session(&key)).await?;
    Ok(reply::empty())
}
