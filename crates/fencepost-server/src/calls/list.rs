use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Request, StatusCode},
};
use fencepost_core::limits;
use fencepost_wire::{CheckAnswer, CheckBody, LeaseList, ListQuery, PrefixQuery, snapshot_lines};
use futures_util::stream;

use crate::{
    Inspect,
    app::{App, Received, Reply},
    body::read_json,
    reply,
};

/// How much of a snapshot goes out in one piece.
const PIECE_BYTES: usize = 32 * 1024;

pub(crate) async fn list<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let query = ListQuery::read(request.uri().query().unwrap_or_default())?;
    let (filter, after, limit) = query.parse()?;
    let page = app.within(app.coordinator.list(filter, after, limit)).await?;
    Ok(reply::json(StatusCode::OK, &LeaseList::from(page)))
}

pub(crate) async fn check<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let body: CheckBody = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let (domain, token) = body.parse()?;
    let current = app.within(app.coordinator.check(domain, token)).await?;
    Ok(reply::json(StatusCode::OK, &CheckAnswer { current }))
}

pub(crate) async fn snapshot<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let prefix = PrefixQuery::read(request.uri().query().unwrap_or_default())?.parse()?;
    let snapshot = app.within(app.coordinator.snapshot(prefix)).await?;
    let mut lines = snapshot_lines(snapshot);
    let pieces = std::iter::from_fn(move || {
        let mut piece = lines.next()?;
        while piece.len() < PIECE_BYTES {
            let Some(line) = lines.next() else { break };
            piece.push_str(&line);
        }
        Some(Ok::<_, std::convert::Infallible>(Bytes::from(piece)))
    });
    let body = Body::from_stream(stream::iter(pieces));
    Ok(reply::with_type(StatusCode::OK, HeaderValue::from_static("application/x-ndjson"), body))
}
