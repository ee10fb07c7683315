//! The stream of events, read as it comes.

use std::time::Duration;

use bytes::Bytes;
use fencepost_coordinator::{CallError, Refused};
use fencepost_wire::{EventData, PrefixQuery};
use http::HeaderValue;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use super::{
    HttpCoordinator,
    calls::with_query,
    exchange::{AbortOnDrop, Call, Failure, Reply, SMALL, chain},
};

/// A server that has nothing to say sends a comment every 15 seconds; after three of them it counts as gone.
const SILENCE: Duration = Duration::from_secs(45);
/// Most bytes of one event.
const EVENT_BYTES: usize = SMALL;
/// Events that are read ahead of whoever takes them; a slower taker lets the server's own buffer fill, which tells.
const AHEAD: usize = 64;
const KNOWN: [&str; 8] = ["granted", "released", "expired", "revoked", "recovered", "rejected", "epoch", "gap"];
const EVENT_STREAM: &str = "text/event-stream";

/// One event as the coordinator sent it. A hint, never authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorEvent {
    /// What to come back with; some events have none.
    pub id: Option<String>,
    /// `granted`, `released`, `expired`, `revoked`, `recovered`, `rejected`, `epoch`, `gap`, or one of a later version.
    pub name: String,
    /// What it says; `None` where this version does not know the event.
    pub data: Option<EventData>,
    /// The same as it was sent, one line of JSON.
    pub json: String,
}

/// Events as they happen. Dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    events: mpsc::Receiver<Result<CoordinatorEvent, CallError<Refused>>>,
    _reading: AbortOnDrop<()>,
}

impl HttpCoordinator {
    /// What happens from now on to domains with this prefix; with the id of an earlier event, from behind it on. Where
    /// the coordinator no longer knows that one, the stream begins with a `gap`.
    ///
    /// # Errors
    /// When there is no answer, or another than a stream. Safe to repeat.
    pub async fn events(&self, prefix: &str, last_seen: Option<&str>) -> Result<EventStream, CallError<Refused>> {
        let query = PrefixQuery { prefix: (!prefix.is_empty()).then(|| prefix.to_owned()) }.write();
        let call = Call::get(with_query("/v1/events", &query), SMALL);
        let unusable = |why: String| CallError::Unreachable { why, may_have_happened: false };
        let mut request = call
            .into_request(&self.shared)
            .map_err(|error| unusable(format!("the request cannot be made: {error}")))?;
        request.headers_mut().insert(http::header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(id) = last_seen.and_then(|id| HeaderValue::from_str(id).ok()) {
            request.headers_mut().insert("last-event-id", id);
        }
        let (client, limit) = (self.shared.client.clone(), self.shared.options.call_timeout);
        let opening: JoinHandle<Result<_, Failure>> = self.shared.io.spawn(async move {
            let answer = timeout(limit, client.request(request)).await.map_err(|_| Failure {
                why: format!("no answer in {} ms", limit.as_millis()),
                may_have_happened: false,
            })?;
            answer.map_err(|error| Failure { why: chain(&error), may_have_happened: false })
        });
        let answer =
            AbortOnDrop(opening).await.map_err(|_| unusable("the thread for its connections is gone".to_owned()))??;
        let (head, body) = answer.into_parts();
        if !head.status.is_success() {
            let body = timeout(limit, Limited::new(body, SMALL).collect()).await;
            let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
            return Err(Reply::new(&head, body)
                .expect::<Refused>(&[200], None)
                .err()
                .unwrap_or_else(|| CallError::Protocol { why: format!("status {}", head.status) }));
        }
        Reply::new(&head, Bytes::new()).expect::<Refused>(&[200], Some(EVENT_STREAM))?;
        let (to, events) = mpsc::channel(AHEAD);
        let reading = self.shared.io.spawn(async move {
            if let Err(why) = read(body, &to).await {
                let _ = to.send(Err(CallError::Unreachable { why, may_have_happened: false })).await;
            }
        });
        Ok(EventStream { events, _reading: AbortOnDrop(reading) })
    }
}

impl EventStream {
    /// The next event; `None` when the coordinator has ended the stream, as it does when it stops.
    ///
    /// # Errors
    /// When the connection is lost. Open another stream with the last id.
    pub async fn next(&mut self) -> Result<Option<CoordinatorEvent>, CallError<Refused>> {
        self.events.recv().await.transpose()
    }
}

async fn read(
    mut body: Incoming,
    to: &mpsc::Sender<Result<CoordinatorEvent, CallError<Refused>>>,
) -> Result<(), String> {
    let mut frames = Frames::default();
    loop {
        let piece = timeout(SILENCE, body.frame()).await;
        let piece = piece.map_err(|_| format!("the coordinator has been silent for {} s", SILENCE.as_secs()))?;
        let Some(piece) = piece else { return Ok(()) };
        let piece = piece.map_err(|error| format!("the stream was cut: {}", chain(&error)))?;
        let Ok(data) = piece.into_data() else { continue };
        frames.take(&data);
        while let Some(event) = frames.next()? {
            if to.send(Ok(event)).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Bytes of a stream on their way to events.
#[derive(Default)]
pub(super) struct Frames {
    unread: Vec<u8>,
}

impl Frames {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next whole event; comments are passed over.
    pub(super) fn next(&mut self) -> Result<Option<CoordinatorEvent>, String> {
        loop {
            let Some(end) = self.unread.windows(2).position(|pair| pair == b"\n\n") else {
                if self.unread.len() > EVENT_BYTES {
                    return Err("an event is too long".to_owned());
                }
                return Ok(None);
            };
            let frame: Vec<u8> = self.unread.drain(..end + 2).collect();
            let frame = String::from_utf8(frame).map_err(|_| "an event is not UTF-8".to_owned())?;
            let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let (Some(name), Some(json)) = (field("event: "), field("data: ")) {
                // By its name alone: what a later version sends could be taken for something else by its fields.
                let data = KNOWN.contains(&name.as_str()).then(|| serde_json::from_str(&json).ok()).flatten();
                return Ok(Some(CoordinatorEvent { id: field("id: "), name, data, json }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_their_bytes_are_cut_and_comments_are_none() {
        let sent = "event: epoch\ndata: {\"epoch\":3}\n\n: still here\n\nid: 1-2\nevent: gap\ndata: {\"missed\":null}\n\nid: 1-3\nevent: new\ndata: {}\n\n";
        for size in [1, 2, 7, 1_000] {
            let (mut frames, mut events) = (Frames::default(), Vec::new());
            for piece in sent.as_bytes().chunks(size) {
                frames.take(piece);
                while let Some(event) = frames.next().unwrap() {
                    events.push(event);
                }
            }
            let names: Vec<_> = events.iter().map(|event| (event.name.as_str(), event.id.as_deref())).collect();
            assert_eq!(names, [("epoch", None), ("gap", Some("1-2")), ("new", Some("1-3"))]);
            assert_eq!(events[1].data, Some(EventData::Gap { missed: None }));
            assert_eq!(events[2].data, None);
        }
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut frames = Frames::default();
        frames.take(&vec![b'x'; EVENT_BYTES + 1]);
        assert!(frames.next().is_err());
    }
}
