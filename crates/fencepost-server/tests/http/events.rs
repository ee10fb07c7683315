//! The stream of events: hints, in order, that a reader can come back to.

use std::time::Duration;

use fencepost_core::{
    Domain, OperationId, Token,
    fence::{RejectedBy, Rejection},
};
use fencepost_server::Options;
use serde_json::{Value, json};

use crate::support::{Client, TestServer, opening, request_id};

struct Reader(Client);

#[derive(Debug)]
struct Event {
    id: Option<String>,
    name: String,
    data: Value,
}

impl Reader {
    async fn open(server: &TestServer, query: &str, last_seen: Option<&str>) -> Self {
        let mut client = server.client().await;
        let last_seen = last_seen.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        client.write(format!("GET /v1/events{query} HTTP/1.1\r\nhost: localhost\r\n{last_seen}\r\n").as_bytes()).await;
        let (status, headers) = client.head().await.unwrap();
        assert_eq!(status, 200);
        assert!(headers.iter().any(|header| header == &("content-type".into(), "text/event-stream".into())));
        let mut reader = Self(client);
        let first = reader.next().await;
        assert_eq!((first.name.as_str(), &first.data), ("epoch", &json!({"epoch": 0})));
        reader
    }

    /// The next frame, out of the chunks of the body.
    async fn frame(&mut self) -> String {
        self.0.until("\r\n").await.expect("the stream goes on");
        let frame = self.0.until("\n\n").await.unwrap();
        self.0.until("\r\n").await.unwrap();
        frame
    }

    async fn next(&mut self) -> Event {
        let frame = self.frame().await;
        let line = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = serde_json::from_str(&line("data: ").unwrap()).unwrap();
        Event { id: line("id: "), name: line("event: ").unwrap(), data }
    }
}

async fn grant_and_release(server: &TestServer, domain: &str, number: u64) {
    let granted = server.call("POST", "/v1/leases", opening(domain, number)).await;
    let body = json!({"lease": granted.text("lease"), "request_id": request_id(number)});
    server.client().await.call("POST", "/v1/leases/release", Some(&granted.text("secret")), body).await;
}

#[tokio::test]
async fn a_reader_sees_what_happens_to_the_domains_it_asked_for() {
    let server = TestServer::start().await;
    let mut reader = Reader::open(&server, "?prefix=jobs/", None).await;
    grant_and_release(&server, "other", 1).await;
    grant_and_release(&server, "jobs/\u{1f980}\"}", 2).await;
    let (granted, released) = (reader.next().await, reader.next().await);
    assert_eq!((granted.name.as_str(), released.name.as_str()), ("granted", "released"));
    assert_eq!(granted.data["domain"], "jobs/\u{1f980}\"}");
    assert_eq!(granted.data["lease"], released.data["lease"]);
    assert!(granted.data["token"].is_string() && granted.data["waited_ms"] == 0);

    server.call("POST", "/v1/leases", opening("jobs/3", 3)).await;
    server.clock.advance(15_000);
    assert_eq!([reader.next().await.name, reader.next().await.name], ["granted", "expired"]);

    let granted = server.call("POST", "/v1/leases", opening("jobs/4", 4)).await;
    let body = json!({"lease": granted.text("lease"), "reason": "two\nlines"});
    assert_eq!(server.call("POST", "/v1/leases/break", body).await.status, 400, "a reason is one line");
    let body = json!({"lease": granted.text("lease"), "reason": "stuck"});
    server.call("POST", "/v1/leases/break", body).await;
    let (_, revoked) = (reader.next().await, reader.next().await);
    assert_eq!((revoked.name.as_str(), &revoked.data["reason"]), ("revoked", &json!("stuck")));
    assert!(revoked.data["fence_to"].is_string());
}

#[tokio::test]
async fn a_reader_comes_back_to_where_it_was() {
    let server = TestServer::start().await;
    let mut reader = Reader::open(&server, "", None).await;
    grant_and_release(&server, "d", 1).await;
    let (first, second) = (reader.next().await, reader.next().await);
    drop(reader);
    grant_and_release(&server, "e", 2).await;

    let mut back = Reader::open(&server, "", first.id.as_deref()).await;
    let repeated = back.next().await;
    assert_eq!((repeated.id, repeated.name), (second.id, second.name), "the one behind the last seen is next");
    assert_eq!(back.next().await.data["domain"], "e");
}

#[tokio::test]
async fn what_is_no_longer_known_is_a_gap() {
    let server = TestServer::with(Options { replayed_events: 2, ..Options::default() }).await;
    let mut reader = Reader::open(&server, "", None).await;
    grant_and_release(&server, "d", 1).await;
    let (first, _) = (reader.next().await, reader.next().await);
    for number in 2..5 {
        grant_and_release(&server, "d", number).await;
        let _ = (reader.next().await, reader.next().await);
    }
    for last_seen in [first.id.as_deref().unwrap(), "0000000000000000-1", "nonsense", ""] {
        let mut back = Reader::open(&server, "", Some(last_seen)).await;
        assert_eq!(back.next().await.name, "gap", "{last_seen}");
    }
}

#[tokio::test]
async fn an_open_stream_is_kept_open_by_comments() {
    let options = Options { event_comment_every: Duration::from_millis(20), ..Options::default() };
    let server = TestServer::with(options).await;
    let mut reader = Reader::open(&server, "", None).await;
    assert!(reader.frame().await.starts_with(": "));
}

#[tokio::test]
async fn a_rejection_in_this_process_is_an_event_too() {
    let server = TestServer::start().await;
    let mut reader = Reader::open(&server, "", None).await;
    let token = |text: &str| text.parse::<Token>().unwrap();
    let rejection = Rejection::Stale { presented: token("0.7"), least_accepted: token("0.8"), by: RejectedBy::Fence };
    let operation = OperationId::new("invoice-1").unwrap();
    server.metrics.rejected(&Domain::new("d").unwrap(), &rejection, None, Some(&operation));
    let rejected = reader.next().await;
    assert_eq!(rejected.name, "rejected");
    assert_eq!(
        rejected.data,
        json!({"domain": "d", "rejected": "stale", "presented": "7", "least_accepted": "8", "operation": "invoice-1"})
    );
}

#[tokio::test]
async fn a_rejection_that_another_process_reports_is_the_same_event() {
    let server = TestServer::start().await;
    let mut reader = Reader::open(&server, "", None).await;
    let report = json!({
        "domain": "d", "rejected": "stale", "presented": "7", "least_accepted": "8",
        "lease": "1".repeat(32), "operation": "invoice-1",
    });
    assert_eq!(server.call("POST", "/v1/reports/rejected", report.clone()).await.status, 204);
    let rejected = reader.next().await;
    assert_eq!((rejected.name.as_str(), &rejected.data), ("rejected", &report));

    for (field, value) in [
        ("domain", json!("")),
        ("rejected", json!("old")),
        ("presented", json!("0")),
        ("presented", json!(7)),
        ("least_accepted", json!("-8")),
        ("lease", json!("1")),
        ("operation", json!("x".repeat(257))),
        ("holder", json!("w")),
    ] {
        let mut wrong = report.clone();
        wrong[field] = value;
        let problem = server.call("POST", "/v1/reports/rejected", wrong).await.problem(400, "invalid_input");
        assert!(problem["detail"].as_str().unwrap().contains(field), "{problem}");
    }
    for wrong in [json!({}), json!({"domain": "d", "lease": "x"}), json!({"domain": "d", "reason": "tired"})] {
        server.call("POST", "/v1/reports/work-failed", wrong).await.problem(400, "invalid_input");
    }
}

#[tokio::test]
async fn a_slow_reader_is_told_what_it_missed_and_holds_nobody_up() {
    let server = TestServer::start().await;
    let mut slow = Reader::open(&server, "", None).await;
    let domain = Domain::new(&"d".repeat(500)).unwrap();
    let mut fast = Reader::open(&server, "?prefix=end", None).await;
    // More than any buffer on the way can take, while the reader reads nothing.
    for _ in 0..40 {
        for _ in 0..500 {
            server.metrics.rejected(&domain, &Rejection::Missing, None, None);
        }
        // bounded: forty times one millisecond, so that the fast reader keeps up
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.metrics.rejected(&Domain::new("end").unwrap(), &Rejection::Missing, None, None);
    while fast.next().await.name == "gap" {}
    let mut missed = 0;
    loop {
        let event = slow.next().await;
        if event.name == "gap" {
            missed += event.data["missed"].as_u64().unwrap();
        }
        if event.data["domain"] == "end" {
            break;
        }
    }
    assert!(missed > 0);
}
