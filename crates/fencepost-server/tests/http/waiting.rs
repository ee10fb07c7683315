//! Waiting for a domain, and no longer waiting.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{Client, PATIENCE, TestServer, opening, request_id};

fn patient(domain: &str, number: u64) -> Value {
    let mut acquire = opening(domain, number);
    acquire["wait_ms"] = json!(600_000);
    acquire
}

async fn waiter(server: &TestServer, domain: &str, number: u64) -> Client {
    let mut client = server.client().await;
    client.write_call("POST", "/v1/leases", None, patient(domain, number).to_string().as_bytes()).await;
    client
}

async fn release(server: &TestServer, granted: &crate::support::Answer, number: u64) {
    let body = json!({"lease": granted.text("lease"), "request_id": request_id(number)});
    let released = server.client().await.call("POST", "/v1/leases/release", Some(&granted.text("secret")), body).await;
    assert_eq!(released.status, 200);
}

#[tokio::test]
async fn waiters_are_served_in_the_order_they_came() {
    let server = TestServer::start().await;
    let mut holder = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut waiters = Vec::new();
    for number in 2..6 {
        waiters.push(waiter(&server, "d", number).await);
        server.until_waiting(waiters.len()).await;
    }
    let queued = server.call("POST", "/v1/leases", opening("d", 99)).await.problem(409, "held");
    assert_eq!(queued["queue"], 4);
    for (number, mut waiter) in (2..).zip(waiters) {
        release(&server, &holder, number - 1).await;
        let granted = waiter.answer().await.unwrap();
        assert_eq!(granted.status, 201);
        assert!(granted.json()["sequence"].as_u64() > holder.json()["sequence"].as_u64());
        holder = granted;
    }
}

#[tokio::test]
async fn a_wait_that_is_over_is_answered_with_how_long_it_was() {
    let server = TestServer::start().await;
    server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut acquire = opening("d", 2);
    acquire["wait_ms"] = json!(5_000);
    let mut client = server.client().await;
    client.write_call("POST", "/v1/leases", None, acquire.to_string().as_bytes()).await;
    server.until_waiting(1).await;
    server.clock.advance(5_000);
    let held = client.answer().await.unwrap().problem(409, "held");
    assert_eq!(held["waited_ms"], 5_000);
    server.until_waiting(0).await;
}

#[tokio::test]
async fn dead_waiters_are_never_granted_and_hold_nobody_up() {
    // Falls when the future of a call outlives its connection.
    let server = TestServer::start().await;
    let holder = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut dead = Vec::new();
    for number in 2..62 {
        dead.push(waiter(&server, "d", number).await);
    }
    server.until_waiting(60).await;
    let mut alive = waiter(&server, "d", 100).await;
    server.until_waiting(61).await;
    for (number, client) in dead.into_iter().enumerate() {
        match number % 3 {
            // Closed in order.
            0 => drop(client),
            // Reset.
            1 => {
                socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
            }
            // Closed for writing only, as a process that is shot leaves it for a moment.
            _ => {
                socket2::SockRef::from(&client.stream).shutdown(std::net::Shutdown::Write).unwrap();
                std::mem::forget(client.stream.into_std().unwrap());
            }
        }
    }
    server.until_waiting(1).await;
    release(&server, &holder, 1).await;
    let granted = timeout(PATIENCE, alive.answer()).await.expect("no wait for the dead").unwrap();
    assert_eq!(granted.status, 201);
    let next = granted.json()["sequence"].as_u64().unwrap();
    assert_eq!(next, holder.json()["sequence"].as_u64().unwrap() + 1, "no token was spent on the dead");
}

#[tokio::test]
async fn a_newer_connection_takes_over_the_place_in_the_queue() {
    let server = TestServer::start().await;
    let holder = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut older = waiter(&server, "d", 2).await;
    server.until_waiting(1).await;
    let mut second = waiter(&server, "d", 3).await;
    server.until_waiting(2).await;
    let mut newer = waiter(&server, "d", 2).await;
    let superseded = older.answer().await.unwrap().problem(409, "superseded");
    assert_eq!(superseded["may_have_happened"], true);
    release(&server, &holder, 1).await;
    let granted = newer.answer().await.unwrap();
    assert_eq!(granted.status, 201, "the place belongs to the request and not to the connection");
    release(&server, &granted, 2).await;
    assert_eq!(second.answer().await.unwrap().status, 201);
}

#[tokio::test]
async fn a_wait_ends_with_its_session() {
    let server = TestServer::start().await;
    server.call("POST", "/v1/leases", opening("d", 1)).await;
    let (session, secret) = server.session("worker-b", 2_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(2), "session": session, "wait_ms": 60_000});
    let mut client = server.client().await;
    client.write_call("POST", "/v1/leases", Some(&secret), acquire.to_string().as_bytes()).await;
    server.until_waiting(1).await;
    server.clock.advance(2_000);
    assert_eq!(client.answer().await.unwrap().problem(410, "session_ended")["reason"], "expired");
}
