use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, Request, StatusCode},
};
use fencepost_wire::{EventData, PrefixQuery, event_data};
use futures_util::stream;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

use crate::{
    Inspect,
    app::{App, Received, Reply},
    hub::{Happened, Hub, Published},
    reply,
    stop::Stopping,
};

pub(crate) async fn events<C: Inspect>(app: &App<C>, request: Request<Body>, _: Received) -> Reply {
    let prefix = PrefixQuery::read(request.uri().query().unwrap_or_default())?.parse()?;
    let last_seen = request.headers().get(HeaderName::from_static("last-event-id"));
    // An id that cannot be read is one that this run has not made: a gap, not a refusal, or a browser could never
    // come back.
    let last_seen = last_seen.map(|id| id.to_str().unwrap_or_default());
    let subscription = app.hub.subscribe(last_seen);

    let mut ready = VecDeque::new();
    // An id from the start, so that a reader who has seen nothing yet still misses nothing when it comes back.
    let from = subscription.replay.is_empty().then(|| app.hub.id(subscription.before));
    ready.push_back(frame("epoch", &EventData::Epoch { epoch: app.epoch }, from.as_deref()));
    if subscription.gap {
        ready.push_back(frame("gap", &EventData::Gap { missed: None }, None));
    }
    ready.extend(subscription.replay.iter().filter_map(|event| shown(event, &app.hub, &prefix)));
    let stream = Stream {
        ready,
        live: subscription.live,
        hub: app.hub.clone(),
        prefix,
        comment_every: app.options.event_comment_every,
        stopping: app.stopping.clone(),
    };
    let frames = stream::unfold(stream, |mut stream| async move {
        let frame = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), stream))
    });
    Ok(reply::with_type(StatusCode::OK, HeaderValue::from_static("text/event-stream"), Body::from_stream(frames)))
}

/// One reader. It holds no more than what it is about to send; when it is slow, the hub drops its oldest events.
struct Stream {
    ready: VecDeque<Bytes>,
    live: Receiver<Arc<Published>>,
    hub: Arc<Hub>,
    prefix: String,
    comment_every: Duration,
    stopping: Stopping,
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.ready.pop_front() {
            return Some(frame);
        }
        loop {
            let event = tokio::select! {
                event = timeout(self.comment_every, self.live.recv()) => event,
                () = self.stopping.begun() => return None,
            };
            match event {
                Ok(Ok(event)) => {
                    if let Some(frame) = shown(&event, &self.hub, &self.prefix) {
                        return Some(frame);
                    }
                }
                Ok(Err(RecvError::Lagged(missed))) => {
                    return Some(frame("gap", &EventData::Gap { missed: Some(missed) }, None));
                }
                Ok(Err(RecvError::Closed)) => return None,
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }
}

/// The event as it is sent, where its domain starts with the prefix.
fn shown(event: &Published, hub: &Hub, prefix: &str) -> Option<Bytes> {
    let id = hub.id(event.number);
    match &event.what {
        Happened::Lease(watched, at) => {
            let event = watched.events.get(*at).filter(|event| event.domain.as_str().starts_with(prefix))?;
            let (name, data) = event_data(event);
            Some(frame(name, &data, Some(&id)))
        }
        Happened::Rejected(data) => data
            .domain
            .as_str()
            .starts_with(prefix)
            .then(|| frame("rejected", &EventData::Rejected(data.as_ref().clone()), Some(&id))),
        Happened::Missed(missed) => Some(frame("gap", &EventData::Gap { missed: Some(*missed) }, Some(&id))),
    }
}

fn frame(name: &str, data: &EventData, id: Option<&str>) -> Bytes {
    // JSON in one line, so that no text of a holder can end the event early.
    let json = serde_json::to_string(data).expect("events are structs of strings and numbers");
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: {json}\n\n").into()
}
