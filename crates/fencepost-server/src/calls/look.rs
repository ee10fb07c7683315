use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use fencepost_wire::{HistoryList, HistoryListQuery, QueueList, QueueQuery};

use crate::{
    Inspect,
    app::{App, Received, Reply},
    reply,
};

pub(crate) async fn history<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let query = HistoryListQuery::read(request.uri().query().unwrap_or_default())?.parse()?;
    let page = app.within(app.coordinator.history(query)).await?;
    Ok(reply::json(StatusCode::OK, &HistoryList::from(page)))
}

pub(crate) async fn queue<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let (domain, limit) = QueueQuery::read(request.uri().query().unwrap_or_default())?.parse()?;
    let queue = app.within(app.coordinator.queue(domain, limit)).await?;
    Ok(reply::json(StatusCode::OK, &QueueList::from(queue)))
}
