//! Sizes and times: nothing is read beyond its limit, and nobody holds a connection by being slow.

use std::time::Duration;

use fencepost_server::Options;
use fencepost_testkit::proxy::{Fault, Proxy};
use serde_json::json;

use crate::support::{Client, TestServer, opening, request_id};

#[tokio::test]
async fn a_body_that_is_declared_too_large_is_refused_before_it_is_sent() {
    let server = TestServer::start().await;
    for (path, length) in [
        ("/v1/leases", 65_537_u64),
        ("/v1/leases", 10_000_000_000),
        ("/v1/sessions", u64::MAX),
        ("/v1/leases/release", 65_537),
    ] {
        let mut client = server.client().await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n",
            "1".repeat(64)
        );
        client.write(head.as_bytes()).await;
        let refused = client.answer().await.expect("an answer without a byte of body");
        if length == u64::MAX {
            assert_eq!(refused.status / 100, 4);
        } else {
            let refused = refused.problem(413, "body_too_large");
            assert_eq!(
                (&refused["field"], &refused["detail"]),
                (&json!("body"), &json!("body: must be at most 65536 bytes"))
            );
        }
    }
}

#[tokio::test]
async fn a_body_of_undeclared_length_is_read_no_further_than_its_limit() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client
        .write(b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        .await;
    let piece = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    for _ in 0..5 {
        client.write(piece.as_bytes()).await;
    }
    client.answer().await.unwrap().problem(413, "body_too_large");
}

#[tokio::test]
async fn a_body_at_its_limit_is_taken() {
    let server = TestServer::start().await;
    let mut body = opening("d", 1).to_string();
    body.push_str(&" ".repeat(65_536 - body.len()));
    assert_eq!(server.client().await.call_bytes("POST", "/v1/leases", None, body.as_bytes()).await.status, 201);
    body.push(' ');
    let refused = server.client().await.call_bytes("POST", "/v1/leases", None, body.as_bytes()).await;
    refused.problem(413, "body_too_large");
}

#[tokio::test]
async fn metadata_is_measured_as_the_bytes_sent() {
    let server = TestServer::start().await;
    let id = request_id(1);
    let body = |metadata: &str| {
        format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000,"metadata":{metadata}}}"#)
    };
    let of_length = |length: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(length - 8));
    let mut client = server.client().await;
    let refused = client.call_bytes("POST", "/v1/leases", None, body(&of_length(4_097)).as_bytes()).await;
    let refused = refused.problem(400, "invalid_input");
    assert_eq!(refused["detail"], "metadata: must be 0 to 4096 bytes of UTF-8, found 4097");
    let spaced = format!("{{ {} }}", " ".repeat(4_096));
    client.call_bytes("POST", "/v1/leases", None, body(&spaced).as_bytes()).await.problem(400, "invalid_input");
    assert_eq!(client.call_bytes("POST", "/v1/leases", None, body(&of_length(4_096)).as_bytes()).await.status, 201);
}

#[tokio::test]
async fn a_heartbeat_may_name_every_lease_of_a_session_and_as_many_that_have_ended() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let path = format!("/v1/sessions/{session}/heartbeat");
    let held = |count: u64| json!({"held": (0..count).map(request_id).collect::<Vec<_>>()});
    let mut client = server.client().await;
    let most = client.call("POST", &path, Some(&secret), held(20_000)).await;
    assert_eq!((most.status, most.json()["ended"].as_array().unwrap().len()), (200, 20_000));
    let refused = client.call("POST", &path, Some(&secret), held(20_001)).await.problem(400, "invalid_input");
    assert_eq!(refused["detail"], "held: must be 0 to 20000 leases, found 20001");
    let mut client = server.client().await;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer {secret}\r\ncontent-length: 1048577\r\n\r\n"
    );
    client.send(&head).await.problem(413, "body_too_large");
}

#[tokio::test]
async fn a_slow_client_is_cut_and_the_others_are_served() {
    let quick = Options {
        head_timeout: Duration::from_millis(200),
        body_timeout: Duration::from_millis(200),
        ..Options::default()
    };
    let server = TestServer::with(quick).await;
    let mut never_ends_its_head = server.client().await;
    never_ends_its_head.write(b"GET /healthz HTTP/1.1\r\nhost: local").await;
    let mut never_sends_its_body = server.client().await;
    never_sends_its_body
        .write(b"POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{")
        .await;
    assert_eq!(server.get("/healthz").await.status, 200);
    let refused = never_sends_its_body.answer().await.unwrap().problem(408, "request_timeout");
    assert_eq!((&refused["retryable"], &refused["may_have_happened"]), (&json!(true), &json!(false)));
    assert!(never_sends_its_body.is_closed().await);
    if let Some((status, _)) = never_ends_its_head.head().await {
        assert_eq!(status, 408);
    }
}

/// Ten megabytes are sent to the end before the answer is read: it must still be there. Mutants: nothing is put in the
/// place of the library's bare answer; what still comes is not read before the connection is closed.
#[tokio::test]
async fn what_is_refused_before_there_is_a_request_names_field_rule_and_limit() {
    const SIZES: &str = "headers: must be at most 100, and at most 131072 bytes with the request line";
    const FORM: &str = "request: must be HTTP/1.1 with a method, a path and headers as RFC 9112 has them";
    let server = TestServer::start().await;
    let path =
        |length: usize| format!("GET /v1/leases/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(length - 11));
    let header = |length: usize| format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(length));
    let headers = |count: usize| format!("GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(count - 1));
    for (head, status, detail) in [
        (path(65_535), 414, "path: must be at most 65534 bytes with its query"),
        (path(10_000_000), 431, SIZES),
        (header(131_072), 431, SIZES),
        (header(10_000_000), 431, SIZES),
        (headers(101), 431, SIZES),
        ("NO SUCH THING\r\n\r\n".to_owned(), 400, FORM),
        ("GET / HTTP/1.1\r\na\u{0}b: c\r\n\r\n".to_owned(), 400, FORM),
        ("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n".to_owned(), 400, FORM),
    ] {
        let mut client = server.client().await;
        client.write(head.as_bytes()).await;
        let refused = client.answer().await.expect("an answer").problem(status, "invalid_input");
        assert_eq!(
            (&refused["detail"], &refused["retryable"], &refused["may_have_happened"]),
            (&json!(detail), &json!(false), &json!(false))
        );
        assert!(client.is_closed().await);
    }
    for head in [path(65_534), header(130_000), headers(100)] {
        let mut client = server.client().await;
        let answer = client.send(&head).await;
        assert!(matches!(answer.status, 200 | 404), "{answer:?}");
        assert_eq!(client.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.status, 200);
    }
    let metrics = String::from_utf8(server.get("/metrics").await.body).unwrap();
    assert!(metrics.contains("route=\"refused\",class=\"4xx\"} 8"), "{metrics}");
}

/// A peer that went away without a word, as behind a network that is gone, looks like one that says nothing: from the
/// beginning, after an answer, or behind a proxy that carries nothing any more.
/// Mutant: without `header_read_timeout` in server.rs each of them takes a connection for ever.
#[tokio::test]
async fn connections_whose_peer_says_nothing_any_more_are_dropped() {
    let quick = Options { head_timeout: Duration::from_millis(300), ..Options::default() };
    let server = TestServer::with(quick).await;
    let ping = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let proxy = Proxy::start(server.address, Vec::new()).await.unwrap();
    let mut never_spoke = server.client().await;
    let mut spoke_once = server.client().await;
    assert_eq!(spoke_once.send(ping).await.status, 200);
    let mut behind = Client::connect(proxy.address()).await;
    assert_eq!(behind.send(ping).await.status, 200);
    proxy.meanwhile(Some(Fault::SwallowRequest));
    behind.write(ping.as_bytes()).await;
    assert!(never_spoke.is_closed().await && spoke_once.is_closed().await);
    let dropped = async {
        // Who asks has the only connection that is left.
        while !server.get("/metrics").await.utf8().contains("fencepost_http_connections 1\n") {
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, dropped).await.expect("no connection is left behind");
}

#[tokio::test]
async fn too_many_connections_are_told_so_and_room_is_made_again() {
    let server = TestServer::with(Options { connections: 2, ..Options::default() }).await;
    let (mut first, mut second) = (server.client().await, server.client().await);
    let ping = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!((first.send(ping).await.status, second.send(ping).await.status), (200, 200));
    let refused = server.client().await.answer().await.unwrap();
    assert_eq!((refused.status, refused.text("limit")), (503, "connections".to_owned()));
    drop(second);
    let room = async {
        loop {
            let mut client = server.client().await;
            client.write(ping.as_bytes()).await;
            if client.answer().await.is_some_and(|answer| answer.status == 200) {
                return;
            }
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, room).await.expect("room is made again");
    assert_eq!(first.send(ping).await.status, 200);
}

#[tokio::test]
async fn time_spent_on_the_body_is_counted_as_elapsed() {
    // Falls when the time before the call is left out of `elapsed_ms`. Time can be longer on a busy machine, and
    // never shorter than what the body was held back for.
    let server = TestServer::start().await;
    let body = opening("d", 1).to_string();
    let mut client = server.client().await;
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write(head.as_bytes()).await;
    assert_eq!(client.head().await.unwrap().0, 100, "the server has received the request and waits for its body");
    let held_back = Duration::from_millis(60);
    // bounded: the time is the point: it must count as elapsed
    tokio::time::sleep(held_back).await;
    client.write(body.as_bytes()).await;
    let granted = client.answer().await.unwrap().json();
    assert!(granted["elapsed_ms"].as_u64().unwrap() >= held_back.as_millis() as u64, "{granted}");
}
