//! Who gets in: hosts, pages, content types.

use std::time::Duration;

use fencepost_server::Options;
use serde_json::json;

use crate::support::{TestServer, opening};

#[tokio::test]
async fn a_page_of_a_foreign_site_does_not_get_in() {
    let server = TestServer::start().await;
    let head = |host: &str, more: &str| format!("GET /v1/leases HTTP/1.1\r\nhost: {host}\r\n{more}\r\n");
    let mut client = server.client().await;
    // A foreign name that was made to point at 127.0.0.1.
    client.send(&head("evil.example", "")).await.problem(421, "host_refused");
    client.send(&head("evil.example:7421", "")).await.problem(421, "host_refused");
    client.send(&head("localhost", "origin: http://evil.example\r\n")).await.problem(403, "origin_refused");
    client.send(&head("localhost", "origin: null\r\n")).await.problem(403, "origin_refused");

    let own = format!("origin: http://localhost:{}\r\n", server.address.port());
    let host = format!("localhost:{}", server.address.port());
    assert_eq!(client.send(&head(&host, &own)).await.status, 200);
    for host in ["localhost", "127.0.0.1:1", "[::1]:9", "LOCALHOST"] {
        assert_eq!(client.send(&head(host, "")).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused_with_a_way_out() {
    let server = TestServer::start().await;
    let body = opening("d", 1).to_string();
    let mut client = server.client().await;
    for declared in ["content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n", ""] {
        let request = format!(
            "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\n{declared}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let refused = client.send(&request).await.problem(415, "unsupported_media_type");
        assert!(refused["fix"].as_str().unwrap().contains("curl --json"), "{refused}");
    }
    let request = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: Application/JSON; charset=utf-8\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(client.send(&request).await.status, 201);
}

#[tokio::test]
async fn what_is_not_http_ends_the_connection_and_nothing_else() {
    let quick = Options { head_timeout: Duration::from_millis(300), ..Options::default() };
    let server = TestServer::with(quick).await;
    for junk in [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET\r\n\r\n", b"\r\n\r\n\r\n", &[0xff; 200]] {
        let mut client = server.client().await;
        client.write(junk).await;
        client.write(b"\r\n\r\n").await;
        if let Some((status, _)) = client.head().await {
            assert_eq!(status / 100, 4);
        }
    }
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn answers_are_not_kept_by_anybody() {
    let server = TestServer::start().await;
    let answer = server.call("POST", "/v1/sessions", json!({"holder": "a", "ttl_ms": 1_000})).await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

/// A client that is gone without a word, as after a power failure, is told from one that waits by nothing but probes.
/// Mutant: `set_tcp_keepalive` left out. The kernel shows which timer runs for a connection: 02 is that of probes.
#[tokio::test]
async fn a_client_that_says_nothing_is_asked_whether_it_is_there() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let end = |port: u16| format!("0100007F:{port:04X}");
    let (theirs, ours) = (end(server.address.port()), end(client.stream.local_addr().unwrap().port()));
    let probed = async {
        loop {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let mut rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
            let row = rows.find(|row| row.get(1) == Some(&theirs.as_str()) && row.get(2) == Some(&ours.as_str()));
            if row.is_some_and(|row| row[5].starts_with("02:")) {
                break;
            }
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, probed).await.expect("a probe is due some time");
}
