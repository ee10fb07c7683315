//! A server that answers wrongly in every way there is. Not one of its answers may become a lease, and each error says
//! whether the call may have happened.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use fencepost_client::{AcquireError, HttpCoordinator, HttpOptions, Session};
use fencepost_coordinator::{AcquireRequest, CallError, Coordinator, SessionKey};
use fencepost_core::{
    Holder, RequestId, Secret, SessionId,
    lease::{AcquireRefusal, Claim, SessionRefusal},
};
use support::{domain, ttl};

const SESSION: &str = "22222222222222222222222222222222";

/// What the server does with a connection after it has read the request.
#[derive(Clone)]
enum Act {
    Say(String),
    Close,
    Hang,
    /// So many bytes of a body that was announced longer.
    Cut(String, usize),
    /// A body that never ends.
    Flood,
}

struct Evil {
    address: SocketAddr,
    act: Arc<Mutex<Act>>,
    requests: Arc<AtomicUsize>,
}

impl Evil {
    fn new(act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let act = Arc::new(Mutex::new(act));
        let requests = Arc::new(AtomicUsize::new(0));
        let (acts, counted) = (act.clone(), requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (acts, counted) = (acts.clone(), counted.clone());
                thread::spawn(move || serve(stream.unwrap(), &acts, &counted));
            }
        });
        Self { address, act, requests }
    }

    fn now(&self, act: Act) {
        *self.act.lock().unwrap() = act;
    }

    fn coordinator(&self) -> HttpCoordinator {
        let options =
            HttpOptions { connect_timeout: Duration::from_millis(500), call_timeout: Duration::from_millis(300) };
        HttpCoordinator::with_options(&format!("http://{}", self.address), options).unwrap()
    }
}

/// Reads one request to its end; `None` when the peer has closed.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        text.extend_from_slice(&chunk[..count]);
        let head = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = head.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0_usize);
        if body.len() >= length {
            return Some(head.to_owned());
        }
    }
}

fn serve(mut stream: TcpStream, act: &Mutex<Act>, requests: &AtomicUsize) {
    while request(&mut stream).is_some() {
        requests.fetch_add(1, Relaxed);
        let act = act.lock().unwrap().clone();
        match act {
            Act::Say(text) => {
                if stream.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
            Act::Close => return,
            // bounded: longer than the time limit that the client is given
            Act::Hang => thread::sleep(Duration::from_secs(2)),
            Act::Cut(text, bytes) => {
                let _ = stream.write_all(&text.as_bytes()[..text.len() - bytes]);
                return;
            }
            Act::Flood => {
                let _ = stream.write_all(b"HTTP/1.1 201 x\r\ncontent-type: application/json\r\n\r\n");
                while stream.write_all(&[b' '; 4096]).is_ok() {}
            }
        }
    }
}

fn answer(status: u16, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A grant of domain `d`, with one thing replaced by another.
fn grant(from: &str, to: &str) -> String {
    let right = format!(
        r#"{{"issuer":"prod","lease":"11111111111111111111111111111111","domain":"d","token":"7","epoch":0,"sequence":7,"session":"{SESSION}","contract":"safety","ttl_ms":1000,"remaining_ms":1000,"elapsed_ms":0,"boot":"33333333333333333333333333333333"}}"#
    );
    assert!(right.contains(from), "{from}");
    right.replace(from, to)
}

fn key() -> SessionKey {
    SessionKey { session: SESSION.parse::<SessionId>().unwrap(), secret: Secret::from_bytes([4; 32]) }
}

async fn acquire(evil: &Evil) -> Result<u64, CallError<Box<AcquireRefusal>>> {
    let request = AcquireRequest::new(&key(), domain("d"), RequestId::from_bytes([5; 16]));
    let granted = evil.coordinator().acquire(request).await?;
    Ok(granted.answer.acquired.permission.grant().unwrap().token.as_u64())
}

fn is_protocol(error: &CallError<Box<AcquireRefusal>>) -> bool {
    matches!(error, CallError::Protocol { .. })
}

fn is_unreachable(error: &CallError<Box<AcquireRefusal>>) -> bool {
    matches!(error, CallError::Unreachable { .. })
}

#[tokio::test]
async fn the_answer_that_the_wrong_ones_differ_from_is_taken() {
    let evil = Evil::new(Act::Say(answer(201, "application/json", &grant("prod", "prod"))));
    assert_eq!(acquire(&evil).await.unwrap(), 7);
    evil.now(Act::Say(answer(200, "application/json; charset=utf-8", &grant("prod", "prod"))));
    assert_eq!(acquire(&evil).await.unwrap(), 7);
}

/// Mutants: `Reply::expect` without its status, or without its content type.
#[tokio::test]
async fn an_answer_that_is_not_to_the_letter_is_no_grant() {
    let json = "application/json";
    let lies = [
        (201, "text/html", grant("prod", "prod"), "another content type"),
        (201, "", grant("prod", "prod"), "no content type"),
        (201, "application/jsonp", grant("prod", "prod"), "a content type that begins like the right one"),
        (202, json, grant("prod", "prod"), "another status of success"),
        (204, json, String::new(), "no content"),
        (302, json, grant("prod", "prod"), "a redirect"),
        (404, json, grant("prod", "prod"), "a grant under an error's status"),
        (201, json, String::new(), "nothing"),
        (201, json, "{}".to_owned(), "an empty object"),
        (201, json, "null".to_owned(), "null"),
        (201, json, grant("prod", "prod")[1..].to_owned(), "broken JSON"),
        (201, json, grant("prod", "prod") + "x", "JSON with something behind it"),
        (201, json, grant(r#""token":"7","epoch":0,"sequence":7,"#, ""), "no token"),
        (201, json, grant(r#""token":"7""#, r#""token":"0""#), "token 0"),
        (201, json, grant(r#""token":"7""#, r#""token":null"#), "token null"),
        (201, json, grant(r#""token":"7""#, r#""token":7"#), "a token as a number"),
        (201, json, grant(r#""token":"7""#, r#""token":"-7""#), "a negative token"),
        (201, json, grant(r#""token":"7""#, r#""token":"9223372036854775808""#), "a token too large"),
        (201, json, grant(r#""sequence":7"#, r#""sequence":8"#), "a sequence that contradicts the token"),
        (201, json, grant(r#""domain":"d""#, r#""domain":"e""#), "another domain"),
        (201, json, grant(SESSION, "44444444444444444444444444444444"), "another session"),
        (201, json, grant("safety", "advisory"), "another contract"),
        (201, json, grant(r#""remaining_ms":1000,"#, ""), "no remaining time"),
        (201, json, grant(r#""remaining_ms":1000"#, r#""remaining_ms":-1"#), "a negative remaining time"),
    ];
    let evil = Evil::new(Act::Close);
    for (status, content_type, body, lie) in lies {
        evil.now(Act::Say(answer(status, content_type, &body)));
        match acquire(&evil).await {
            Ok(token) => panic!("{lie} became token {token}"),
            Err(error) => {
                assert!(is_protocol(&error), "{lie}: {error:?}");
                assert!(error.may_have_happened() && !error.is_worth_repeating(), "{lie}: {error:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_whole_is_unknown_and_worth_repeating() {
    let whole = answer(201, "application/json", &grant("prod", "prod"));
    let silences = [
        (Act::Close, "closed without a word"),
        (Act::Hang, "silence"),
        (Act::Cut(whole.clone(), 1), "cut before the last byte"),
        (Act::Cut(whole, 400), "cut in the middle"),
        (Act::Flood, "an answer without end"),
        (Act::Say("garbage\r\n\r\n".to_owned()), "no HTTP"),
        (Act::Say(answer(500, "text/html", "<h1>oops</h1>")), "a page of an error"),
        (Act::Say(answer(502, "application/json", &grant("prod", "prod"))), "a grant under a proxy's error"),
        (Act::Say(answer(503, "application/problem+json", "{}")), "a problem that is none"),
    ];
    for (act, silence) in silences {
        let evil = Evil::new(act);
        let started = Instant::now();
        let error = acquire(&evil).await.unwrap_err();
        assert!(is_unreachable(&error), "{silence}: {error:?}");
        assert!(error.may_have_happened() && error.is_worth_repeating(), "{silence}: {error:?}");
        assert!(started.elapsed() < Duration::from_millis(1_500), "{silence}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn what_was_never_sent_cannot_have_happened() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for url in [closed.as_str(), "http://no-such-name.invalid:7421"] {
        let request = AcquireRequest::new(&key(), domain("d"), RequestId::from_bytes([5; 16]));
        let error = HttpCoordinator::new(url).unwrap().acquire(request).await.unwrap_err();
        assert!(is_unreachable(&error), "{url}: {error:?}");
        assert!(!error.may_have_happened() && error.is_worth_repeating(), "{url}: {error:?}");
    }
}

#[tokio::test]
async fn a_problem_is_the_refusal_that_it_names() {
    let problem = |status: u16, code: &str, more: &str| {
        let body = format!(
            r#"{{"type":"/errors/x","title":"t","status":{status},"detail":"d","code":"{code}","retryable":false,"may_have_happened":false,"fix":"f"{more}}}"#
        );
        Act::Say(answer(status, "application/problem+json", &body))
    };
    let evil = Evil::new(problem(410, "session_ended", r#","reason":"expired""#));
    let Err(CallError::Refused(refusal)) = acquire(&evil).await else { panic!() };
    assert!(matches!(*refusal, AcquireRefusal::Session(SessionRefusal::SessionEnded(_))), "{refusal:?}");
    // A code that is no answer to this call, one that nobody knows, and a status that contradicts the body.
    for act in [
        problem(409, "version_unknown", ""),
        problem(409, "no_such_code", ""),
        Act::Say(answer(
            404,
            "application/problem+json",
            r#"{"type":"/","title":"t","status":410,"detail":"d","code":"session_ended","retryable":false,"may_have_happened":false,"fix":"f","reason":"expired"}"#,
        )),
    ] {
        evil.now(act);
        let error = acquire(&evil).await.unwrap_err();
        assert!(is_protocol(&error), "{error:?}");
    }
}

#[tokio::test]
async fn neither_a_session_nor_a_heartbeat_is_believed_for_somebody_else() {
    let opened = format!(
        r#"{{"session":"{SESSION}","secret":"{}","holder":"b","ttl_ms":1000,"remaining_ms":1000,"elapsed_ms":0,"boot":"33333333333333333333333333333333"}}"#,
        "4".repeat(64)
    );
    let evil = Evil::new(Act::Say(answer(201, "application/json", &opened)));
    let holder = Holder::new("a").unwrap();
    let error = Session::open(evil.coordinator(), holder, ttl(1_000)).await.unwrap_err();
    assert_eq!(error.to_string(), "the coordinator's answer is not understood: it opened a session for somebody else");
    evil.now(Act::Say(answer(200, "application/json", r#"{"version":1}"#)));
    let refused = evil.coordinator().heartbeat(&key(), Claim::Held(vec![])).await.unwrap_err();
    assert!(matches!(refused, CallError::Protocol { .. }), "{refused:?}");
}

/// A session that was opened honestly, and whose server goes mad afterwards: no acquire gives a lease, and the lease
/// it had is lost in time.
#[tokio::test]
async fn a_session_whose_server_goes_mad_grants_nothing_and_loses_what_it_had() {
    let opened = format!(
        r#"{{"session":"{SESSION}","secret":"{}","holder":"a","ttl_ms":1000,"remaining_ms":1000,"elapsed_ms":0,"boot":"33333333333333333333333333333333"}}"#,
        "4".repeat(64)
    );
    let evil = Evil::new(Act::Say(answer(201, "application/json", &opened)));
    let session = Session::open(evil.coordinator(), Holder::new("a").unwrap(), ttl(1_000)).await.unwrap();
    evil.now(Act::Say(answer(201, "application/json", &grant("prod", "prod"))));
    let lease = session.acquire(domain("d")).await.unwrap();
    evil.now(Act::Say(answer(200, "application/json", &grant("domain\":\"d", "domain\":\"e"))));
    let error = session.acquire(domain("d")).await.unwrap_err();
    assert!(matches!(error, AcquireError::Call(CallError::Protocol { .. })), "{error:?}");
    let started = Instant::now();
    lease.lost().await;
    assert!(started.elapsed() < Duration::from_millis(1_000), "{:?}", started.elapsed());
    assert!(evil.requests.load(Relaxed) > 3, "heartbeats were tried");
}
