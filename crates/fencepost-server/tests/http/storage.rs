//! A storage that fails: the server stays up, says so, and comes back by itself.

use std::time::Duration;

use fencepost_coordinator::embedded::testing::Fault;
use fencepost_server::Options;
use serde_json::json;
use tokio::time::timeout;

use crate::support::{PATIENCE, TestServer, opening};

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
    assert!(before < after && after < before + 1_000_000, "{before} {after}");
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
