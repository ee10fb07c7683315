//! A storage that fails: the server stays up, says so, and comes back by itself.

use std::time::Duration;

use fencepost_coordinator::embedded::{self, Embedded, InitOptions, testing::Fault};
use fencepost_server::{Metrics, Options, Server};
use serde_json::json;
use tokio::time::timeout;

use crate::support::{Client, PATIENCE, TestServer, opening};

async fn until_ready(server: &TestServer) {
    let ready = async {
        while server.get("/readyz").await.status != 200 {
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ready).await.expect("service resumes by itself");
}

#[tokio::test]
async fn a_storage_that_refuses_is_503_and_spends_no_tokens() {
    let server = TestServer::start().await;
    let before = server.call("POST", "/v1/leases", opening("before", 1)).await;
    server.store.inject(Fault::RefuseCommits);
    let mut client = server.client().await;
    for number in 2..102 {
        let body = opening("d", number);
        let refused = client.call("POST", "/v1/leases", None, body).await.problem(503, "storage_unavailable");
        assert_eq!(refused["retryable"], true);
        assert!(refused["retry_after_ms"].is_u64());
    }
    let not_ready = server.get("/readyz").await;
    not_ready.problem(503, "storage_unavailable");
    assert_eq!(not_ready.header("retry-after"), Some("1"));
    assert_eq!(server.get("/healthz").await.status, 200, "the process is up");
    assert_eq!(server.get("/v1/leases").await.json()["items"].as_array().unwrap().len(), 1, "reads go on");

    server.store.heal();
    until_ready(&server).await;
    let after = server.call("POST", "/v1/leases", opening("d", 200)).await;
    assert_eq!(after.status, 201);
    let (before, after) = (before.json()["sequence"].as_u64().unwrap(), after.json()["sequence"].as_u64().unwrap());
    assert!(before < after && after <= before + 10_000, "{before} {after}: at most one block");
}

#[tokio::test]
async fn a_commit_whose_outcome_is_unknown_says_that_it_may_have_happened() {
    let server = TestServer::start().await;
    server.store.inject(Fault::FailNextCommitAfter);
    let refused = server.call("POST", "/v1/leases", opening("d", 1)).await.problem(503, "storage_unavailable");
    assert_eq!(refused["may_have_happened"], true);
    server.store.heal();
    until_ready(&server).await;
    let again = server.call("POST", "/v1/leases", opening("d", 1)).await;
    assert_eq!(again.status / 100, 2, "the same request id finds out: {again:?}");
    assert_eq!(server.get("/v1/leases").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_storage_that_hangs_is_given_up_and_may_have_happened() {
    let server = TestServer::with(Options { call_timeout: Duration::from_millis(300), ..Options::default() }).await;
    server.store.inject(Fault::Stall);
    let late = server.call("POST", "/v1/leases", opening("d", 1)).await.problem(504, "call_timeout");
    assert_eq!((&late["retryable"], &late["may_have_happened"]), (&json!(true), &json!(true)));
    assert_eq!(server.get("/healthz").await.status, 200);
    server.store.heal();
    until_ready(&server).await;
    let again = server.call("POST", "/v1/leases", opening("d", 1)).await;
    assert_eq!(again.status / 100, 2, "{again:?}");
}

/// Nobody calls, so nothing but the question itself can bring it to light.
/// Mutant: without the count in `readyz` an idle server says for ever that it is ready.
#[tokio::test]
async fn a_data_directory_that_is_deleted_behind_an_idle_server_makes_it_not_ready() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    Embedded::init(&data, InitOptions::default()).unwrap();
    let coordinator = Embedded::open(&data, embedded::Options::default()).unwrap();
    let server = Server::bind("127.0.0.1:0", coordinator, Metrics::new(), Options::default()).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(std::future::pending()));
    let mut client = Client::connect(address).await;
    let ready = "GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    assert_eq!(client.send(ready).await.status, 200);
    std::fs::remove_dir_all(&data).unwrap();
    let noticed = async {
        while client.send(ready).await.status == 200 {
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, noticed).await.expect("it looks once a second");
    let refused = client.send(ready).await.problem(503, "storage_unavailable");
    assert!(refused["detail"].as_str().unwrap().contains("was removed"), "{refused}");
    client.call("POST", "/v1/leases", None, opening("after", 2)).await.problem(503, "storage_unavailable");
    client.send("GET /v1/leases HTTP/1.1\r\nhost: localhost\r\n\r\n").await.problem(503, "storage_unavailable");
}
