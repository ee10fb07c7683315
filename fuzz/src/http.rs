use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    http::{Method, Request, Response, header},
};
use fencepost_coordinator::embedded::{Options as Store, testing::MemoryStore};
use fencepost_server::{Options, fuzzing::Door};
use fencepost_wire::Problem;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

/// Longer than any answer takes that does not wait for something.
const PATIENCE: Duration = Duration::from_millis(20);
const MOST_REQUESTS: usize = 8;
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
/// stand for what was answered before. With an odd one the rest is what comes on a connection.
pub fn http(bytes: &[u8]) {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let coordinator = MemoryStore::new().open(Store::default()).expect("a coordinator in memory opens");
        let options = Options { replayed_events: 4, ..Options::default() };
        let door = Door::open(coordinator, options).await.expect("a coordinator in memory says who it is");
        if mode % 2 == 0 {
            let mut known = Known::default();
            for request in bytes.split(|byte| *byte == END_OF_REQUEST).take(MOST_REQUESTS) {
                call(&door, &mut known, request).await;
            }
        } else {
            converse(&door, bytes, mode & 2 != 0).await;
        }
    });
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

async fn call(door: &Door, known: &mut Known, bytes: &[u8]) {
    let [method, target, headers, rest @ ..] = bytes else { return };
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
    request = match headers / 4 % 4 {
        0 => request.header(header::AUTHORIZATION, known.fill_in(b"Bearer $secret")),
        1 => request,
        2 => request.header(header::AUTHORIZATION, more),
        _ => request.header("last-event-id", more).header(header::CONTENT_LENGTH, more),
    };
    // What is no request to the library that reads them never gets to the server.
    let Ok(request) = request.body(Body::from(known.fill_in(body))) else { return };
    let shown = format!("{method} {}", request.uri());
    let method = request.method().clone();
    // An acquire that waits is given up, as by a client that leaves.
    let Ok(answer) = timeout(PATIENCE, door.answer(request)).await else { return };
    known.learn(&examine(&shown, &method, answer));
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
    if kind == "application/json" { serde_json::from_slice(&bytes).expect("an answer is JSON") } else { Value::Null }
}

async fn converse(door: &Door, bytes: &[u8], on_loopback: bool) {
    let (mut near, far) = tokio::io::duplex(1024 * 1024);
    near.write_all(bytes).await.expect("there is room");
    near.shutdown().await.expect("the other end is there");
    // A stream of events, and an acquire that waits, end with their connection.
    let _ = timeout(PATIENCE, door.converse(far, on_loopback)).await;
    let mut answers = Vec::new();
    near.read_to_end(&mut answers).await.expect("the other end is gone");
    let end = answers.windows(4).position(|window| window == b"\r\n\r\n");
    let Some(end) = end else {
        assert!(answers.is_empty(), "half a head: {}", String::from_utf8_lossy(&answers));
        return;
    };
    let head = String::from_utf8_lossy(&answers[..end]).to_ascii_lowercase();
    let status: u16 = head.get(9..12).and_then(|status| status.parse().ok()).expect("an answer begins with its status");
    assert!(status < 500 || status == 505, "{head}");
    // What is no HTTP is refused without a body, before any call is reached.
    let has_body = head.contains("content-type:");
    assert!(has_body || status < 400 || [400, 414, 431, 505].contains(&status), "{head}");
    assert!(!has_body || status < 400 || head.contains("application/problem+json"), "{head}");
}
