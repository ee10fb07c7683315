use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    http::{Method, Request, Response, header},
};
use fencepost_coordinator::{
    WatchedEvents,
    embedded::{Options as Store, testing::MemoryStore},
};
use fencepost_core::{
    Contract, Domain, Holder, LeaseId,
    lease::{Event, EventKind},
};
use fencepost_server::{Options, fuzzing::Door};
use fencepost_wire::Problem;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

/// Longer than any answer takes that does not wait for something.
const PATIENCE: Duration = Duration::from_millis(20);
/// Longer than what is between two answers that are both under way.
const QUIET: Duration = Duration::from_millis(2);
const MOST_REQUESTS: usize = 8;
/// Events that have been before the first request, and how many of them are kept for readers that come back.
const EVENTS: u64 = 7;
const KEPT: u64 = 4;
const END_OF_REQUEST: u8 = 0xff;
const END_OF_TARGET: u8 = 0xfe;

const METHODS: [&str; 8] = ["GET", "POST", "DELETE", "HEAD", "PUT", "OPTIONS", "CONNECT", "get"];
const TARGETS: [&str; 24] = [
    "/v1/sessions",
    "/v1/sessions/$session",
    "/v1/sessions/$session/heartbeat",
    "/v1/leases",
    "/v1/leases/release",
    "/v1/leases/break",
    "/v1/leases/check",
    "/v1/leases/snapshot",
    "/v1/queue",
    "/v1/history",
    "/v1/events",
    "/healthz",
    "/readyz",
    "/metrics",
    "/",
    "/errors/",
    "/v1/sessions/",
    "/v1/leases?domain=",
    "/v1/leases?prefix=",
    "/v1/queue?domain=",
    "/v1/history?domain=",
    "/v1/events?prefix=",
    "/v1/",
    "",
];
const TYPES: [Option<&str>; 4] =
    [Some("application/json"), None, Some("application/json; charset=utf-8"), Some("text/plain")];

/// Requests as the server reads them. With an even first byte the rest are requests, each ended by 255: method, path and
/// headers by three bytes, then more of the target up to a 254, then the body; `$session`, `$secret`, `$lease` and `$token`
/// stand for what was answered before. A reader of events may come back to this very server, and then the body is the
/// number of the last event that it has seen. With an odd one the rest is what comes on a connection.
pub fn http(bytes: &[u8]) {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    if mode % 2 == 0 {
        with_a_server(async |door| requests(door, bytes).await);
    } else {
        with_a_server(async |door| converse(door, bytes, mode & 2 != 0, PATIENCE / 4).await);
    }
}

/// A session is opened and used, its lease is listed, a reader comes back for the events it has missed, a report is taken;
/// and the same request is answered on a connection.
pub fn taken() {
    let post = |target: u8, more: &str, body: &str| {
        [&[1, target, 0][..], more.as_bytes(), &[END_OF_TARGET], body.as_bytes(), &[END_OF_REQUEST]].concat()
    };
    let acquire = r#"{"domain":"d","request_id":"4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e","session":"$session"}"#;
    let release = r#"{"lease":"$lease","request_id":"4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e4e"}"#;
    let script = [
        post(0, "", r#"{"holder":"h","ttl_ms":15000}"#),
        post(3, "", acquire),
        post(2, "", r#"{"held":["$lease"]}"#),
        post(6, "", r#"{"domain":"d","token":"$token"}"#),
        post(4, "", release),
        post(22, "reports/rejected", r#"{"domain":"d","rejected":"stale"}"#),
        [&[0, 10, 7 << 2][..], &[END_OF_TARGET], b"4"].concat(),
    ];
    let answered = with_a_server(async |door| requests(door, &script.concat()).await);
    assert_eq!(answered, [201, 201, 200, 200, 200, 204, 200]);
    let request = b"GET /v1/leases?prefix=d HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(with_a_server(async |door| converse(door, request, true, Duration::from_secs(10)).await), Some(200));
}

fn with_a_server<T>(work: impl AsyncFnOnce(&Door) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let coordinator = MemoryStore::new().open(Store::default()).expect("a coordinator in memory opens");
        let options = Options { replayed_events: KEPT as usize, ..Options::default() };
        let door = Door::open(coordinator, options).await.expect("a coordinator in memory says who it is");
        let event = Event {
            domain: Domain::new("d").expect("a name"),
            lease: LeaseId::from_bytes([1; 16]),
            contract: Contract::Safety,
            token: None,
            holder: Holder::new("h").expect("a name"),
            kind: EventKind::Granted { waited_ms: 0 },
        };
        door.publish(WatchedEvents { first: 1, events: vec![event; EVENTS as usize] });
        work(&door).await
    })
}

/// The statuses of those that were answered.
async fn requests(door: &Door, bytes: &[u8]) -> Vec<u16> {
    let (mut known, mut statuses) = (Known::default(), Vec::new());
    for request in bytes.split(|byte| *byte == END_OF_REQUEST).take(MOST_REQUESTS) {
        statuses.extend(call(door, &mut known, request).await);
    }
    statuses
}

/// What a client would remember of the answers.
#[derive(Default)]
struct Known([(&'static str, String); 4]);

impl Known {
    fn learn(&mut self, answer: &Value) {
        for (place, name) in [(0, "session"), (1, "secret"), (2, "lease"), (3, "token")] {
            if let Some(text) = answer[name].as_str() {
                self.0[place] = (name, text.to_owned());
            }
        }
    }

    fn fill_in(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for (name, value) in self.0.iter().filter(|(name, _)| !name.is_empty()) {
            let name = format!("${name}").into_bytes();
            while let Some(at) = text.windows(name.len()).position(|window| window == name) {
                text.splice(at..at + name.len(), value.bytes());
            }
        }
        text
    }
}

async fn call(door: &Door, known: &mut Known, bytes: &[u8]) -> Option<u16> {
    let [method, target, headers, rest @ ..] = bytes else { return None };
    let (more, body) = match rest.iter().position(|byte| *byte == END_OF_TARGET) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (&[][..], rest),
    };
    let target = [TARGETS[usize::from(*target) % TARGETS.len()].as_bytes(), more].concat();
    let method = METHODS[usize::from(*method) % METHODS.len()];
    let mut request = Request::builder().method(method).uri(known.fill_in(&target));
    if let Some(kind) = TYPES[usize::from(headers % 4)] {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let mut seen = None;
    request = match headers / 4 % 8 {
        0 | 4 => request.header(header::AUTHORIZATION, known.fill_in(b"Bearer $secret")),
        1 | 5 => request,
        2 | 6 => request.header(header::AUTHORIZATION, more),
        3 => request.header("last-event-id", more).header(header::CONTENT_LENGTH, more),
        _ => {
            seen = Some(String::from_utf8_lossy(body).into_owned());
            let id = [door.event_id(0).trim_end_matches('0').as_bytes(), body].concat();
            request.header("last-event-id", id)
        }
    };
    // What is no request to the library that reads them never gets to the server.
    let request = request.body(Body::from(known.fill_in(body))).ok()?;
    let shown = format!("{method} {}", request.uri());
    let method = request.method().clone();
    // An acquire that waits is given up, as by a client that leaves.
    let answer = timeout(PATIENCE, door.answer(request)).await.ok()?;
    let status = answer.status().as_u16();
    let told = examine(&shown, &method, answer);
    if let (Some(seen), "GET /v1/events") = (seen, shown.as_str()) {
        assert_eq!(status, 200, "{shown}");
        come_back(door, &seen, told.as_str().unwrap_or_default());
    } else {
        known.learn(&told);
    }
    Some(status)
}

/// What a reader is told that comes back to the server that it was with: all that is kept of what has been since, in order,
/// and that something is missing where it is.
fn come_back(door: &Door, seen: &str, told: &str) {
    let seen: Option<u64> = seen.parse().ok().filter(|number| *number <= EVENTS);
    let first = seen.map_or(EVENTS + 1, |seen| (seen + 1).max(EVENTS - KEPT + 1));
    let missed = seen.is_none_or(|seen| seen + 1 < first);
    let has_gap = told.lines().any(|line| line == "event: gap");
    assert_eq!(has_gap, missed, "after {seen:?}: {told}");
    let ids: Vec<&str> = told.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let replayed: Vec<String> = (first..=EVENTS).map(|number| door.event_id(number)).collect();
    // Whoever has nothing to catch up with is told where it stands.
    let told_ids = if replayed.is_empty() { vec![door.event_id(EVENTS)] } else { replayed };
    assert_eq!(ids, told_ids, "after {seen:?}: {told}");
}

/// Whatever the server answers is one of its answers.
fn examine(shown: &str, method: &Method, answer: Response<Body>) -> Value {
    let (head, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    // A stream of events has no end; what there is of it is there at once.
    while let Poll::Ready(Some(frame)) = pin!(&mut body).poll_frame(&mut context) {
        bytes.extend_from_slice(frame.expect("a body in memory").data_ref().expect("no trailers"));
    }
    let kind = head.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().expect("a type in ASCII"));
    let (status, text) = (head.status.as_u16(), String::from_utf8_lossy(&bytes));
    assert!(status < 500, "{shown} is answered {status}: {text}");
    if method == Method::HEAD {
        return Value::Null;
    }
    if status >= 400 {
        assert_eq!(kind, Problem::CONTENT_TYPE, "{shown} is answered {status}: {text}");
        let problem = Problem::parse(&bytes).unwrap_or_else(|error| panic!("{shown} is answered {text}: {error}"));
        assert_eq!(problem.status, status, "{shown} is answered {text}");
        return Value::Null;
    }
    match kind {
        "application/json" => serde_json::from_slice(&bytes).expect("an answer is JSON"),
        "text/event-stream" => Value::String(text.into_owned()),
        _ => Value::Null,
    }
}

/// The status of the first answer, where there is one within this time.
async fn converse(door: &Door, bytes: &[u8], on_loopback: bool, first: Duration) -> Option<u16> {
    let (mut near, far) = tokio::io::duplex(1024 * 1024);
    let mut answers = Vec::new();
    let client = async {
        near.write_all(bytes).await.expect("there is room");
        // Whoever ends a connection is not answered any more, so it stays open until nothing more comes.
        let mut patience = first;
        while let Ok(Ok(1..)) = timeout(patience, near.read_buf(&mut answers)).await {
            patience = QUIET;
        }
        // A stream of events, and an acquire that waits, end with their connection.
        near.shutdown().await.expect("nobody else ends it");
        near.read_to_end(&mut answers).await.expect("the other end is gone");
    };
    // What is still under way when the client leaves is given up.
    let server = timeout(first + PATIENCE, door.converse(far, on_loopback));
    let _ = tokio::join!(server, client);
    let end = answers.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        assert!(answers.is_empty(), "half a head: {}", String::from_utf8_lossy(&answers));
        return None;
    };
    let head = String::from_utf8_lossy(&answers[..end]).to_ascii_lowercase();
    let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).expect("an answer begins with its status");
    assert!(status < 500 || status == 505, "{head}");
    // What is no HTTP is refused without a body, before any call is reached.
    let has_body = head.contains("content-type:");
    assert!(has_body || status < 400 || [400, 414, 431, 505].contains(&status), "{head}");
    assert!(!has_body || status < 400 || head.contains("application/problem+json"), "{head}");
    Some(status)
}
