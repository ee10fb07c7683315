//! A server that stops: everybody is answered, and nobody holds it up.

use std::time::{Duration, Instant};

use fencepost_coordinator::embedded::testing::Fault;
use fencepost_server::Options;
use serde_json::json;
use tokio::net::TcpStream;

use crate::support::{PATIENCE, TestServer, opening};

#[tokio::test]
async fn waiting_acquires_are_told_and_idle_connections_are_closed() {
    let mut server = TestServer::start().await;
    server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut idle = server.client().await;
    assert_eq!(idle.send("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.status, 200);
    let mut events = server.client().await;
    events.write(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(events.head().await.unwrap().0, 200);
    let mut acquire = opening("d", 2);
    acquire["wait_ms"] = json!(600_000);
    let mut waiting = server.client().await;
    waiting.write_call("POST", "/v1/leases", None, acquire.to_string().as_bytes()).await;
    server.until_waiting(1).await;

    let began = Instant::now();
    server.stop();
    let told = waiting.answer().await.unwrap().problem(503, "shutting_down");
    assert_eq!((&told["retryable"], &told["may_have_happened"]), (&json!(true), &json!(true)));
    assert!(idle.is_closed().await);
    let address = server.address;
    server.stopped().await;
    assert!(began.elapsed() < PATIENCE);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_call_that_does_not_end_holds_the_server_up_only_so_long() {
    let mut server = TestServer::with(Options { stop_timeout: Duration::from_millis(200), ..Options::default() }).await;
    server.store.inject(Fault::Stall);
    let mut client = server.client().await;
    client.write_call("POST", "/v1/leases", None, opening("d", 1).to_string().as_bytes()).await;
    let stalled = async {
        while !server.store.is_stalled() {
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stalled).await.unwrap();
    server.stop();
    // Its last handle would wait for the store before the store is let go.
    let (store, _coordinator) = (server.store.clone(), server.coordinator.clone());
    server.stopped().await;
    assert!(client.is_closed().await);
    store.heal();
}
