use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderValue, Request, StatusCode},
};
use fencepost_wire::{ErrorCode, Problem};
use tokio::time::timeout;

use crate::{
    Inspect,
    app::{App, Received, Reply},
    reply,
};

/// How long a look at the metrics, or at whether it is ready, waits for what the coordinator counts.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(1);

const INDEX: &str = "\
Fencepost: leases whose stale writes fail at the resource.

POST   /v1/sessions                      open a session
POST   /v1/sessions/{session}/heartbeat  renew it and the leases it names
GET    /v1/sessions/{session}            read it
DELETE /v1/sessions/{session}            end it
POST   /v1/leases                        acquire a domain
POST   /v1/leases/release                end a hold
POST   /v1/leases/break                  end a lease against its holder's will
POST   /v1/leases/check                  is this token the current one? (a hint)
GET    /v1/leases?domain=|prefix=        list live leases
GET    /v1/leases/snapshot?prefix=       next token and live leases, in one read
POST   /v1/reports/rejected              a receiver refused a write: count it, log it, tell watchers
POST   /v1/reports/work-failed           the work under a lease failed: count it, log it
GET    /v1/queue?domain=                 who waits for a domain
GET    /v1/history?domain=|prefix=|token= what has happened, the newest first
GET    /v1/events?prefix=                what happens, as server-sent events
GET    /errors/{code}                    what an error code means
GET    /healthz /readyz /metrics
";

pub(crate) async fn index<C: Inspect>(_: &App<C>, _: Request<Body>, _: Received) -> Reply {
    Ok(reply::text(INDEX.to_owned()))
}

pub(crate) async fn error<C: Inspect>(_: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let code = request.uri().path().trim_start_matches("/errors/");
    let Ok(code) = code.parse::<ErrorCode>() else {
        return Err(Problem::new(ErrorCode::NotFound, "there is no such error code").into());
    };
    let yes_or_no = |yes| if yes { "yes" } else { "no" };
    Ok(reply::text(format!(
        "{code}: {}\n\nHTTP status: {}\nMay the same call succeed when it is repeated? {}\n\
         May it have taken effect all the same? {} (`may_have_happened` in the answer knows best)\n\
         What to do: {}\n",
        code.title(),
        code.status(),
        yes_or_no(code.is_retryable()),
        yes_or_no(code.may_have_happened()),
        code.fix(),
    )))
}

/// The process is up. Says nothing about the storage, so that a full disk does not get it killed.
pub(crate) async fn healthz<C: Inspect>(_: &App<C>, _: Request<Body>, _: Received) -> Reply {
    Ok(reply::text("ok\n".to_owned()))
}

/// Calls that need a commit would succeed.
pub(crate) async fn readyz<C: Inspect>(app: &App<C>, _: Request<Body>, _: Received) -> Reply {
    if app.stopping.has_begun() {
        return Err(Problem::new(ErrorCode::ShuttingDown, "the server stops").happened(false).into());
    }
    // An idle coordinator finds out by being asked that its storage was taken away.
    if app.coordinator.ready().is_ok() {
        let _ = timeout(COUNTS_TIMEOUT, app.coordinator.counts()).await;
    }
    match app.coordinator.ready() {
        Ok(()) => Ok(reply::text("ready\n".to_owned())),
        Err(why) => Err(Problem::new(ErrorCode::StorageUnavailable, why).happened(false).after_ms(1_000).into()),
    }
}

pub(crate) async fn metrics<C: Inspect>(app: &App<C>, _: Request<Body>, _: Received) -> Reply {
    // A storage that hangs is what somebody looks at metrics for, so old gauges are better than none.
    if let Ok(Some(counts)) = timeout(COUNTS_TIMEOUT, app.coordinator.counts()).await {
        app.metrics.show(counts);
    }
    let content_type = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    Ok(reply::with_type(StatusCode::OK, content_type, app.metrics.render()))
}

pub(crate) async fn not_found<C: Inspect>(_: &App<C>, _: Request<Body>, _: Received) -> Reply {
    Err(Problem::new(ErrorCode::NotFound, "there is no such path").into())
}

pub(crate) async fn method_not_allowed<C: Inspect>(_: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let detail = format!("the path does not know the method {}", request.method());
    Err(Problem::new(ErrorCode::MethodNotAllowed, detail).into())
}
