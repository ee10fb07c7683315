//! Waiting for a domain, and no longer waiting.

use std::time::Duration;

use fencepost_coordinator::{AcquireRequest, Coordinator, RequestCaller};
use fencepost_core::{Domain, Holder, RequestId, Ttl, Wait, limits};
use fencepost_testkit::proxy::more_open_files;
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

/// Falls when the future of a call outlives its connection.
#[tokio::test]
async fn dead_waiters_are_never_granted_and_hold_nobody_up() {
    more_open_files(4_000).unwrap();
    let server = TestServer::start().await;
    let holder = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut dead = Vec::new();
    for number in 2..992 {
        let mut impatient = patient("d", number);
        if number % 4 == 0 {
            impatient["wait_ms"] = json!(5_000);
        }
        let mut client = server.client().await;
        client.write_call("POST", "/v1/leases", None, impatient.to_string().as_bytes()).await;
        dead.push((number, client));
    }
    server.until_waiting(990).await;
    let mut alive = waiter(&server, "d", 1_000).await;
    server.until_waiting(991).await;
    let mut kept = Vec::new();
    for (number, client) in dead {
        match number % 4 {
            // Its wait will be over.
            0 => kept.push(client),
            // Closed in order.
            1 => drop(client),
            // Reset.
            2 => {
                socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
                drop(client);
            }
            // Closed for writing only, as a process that is shot leaves it for a moment.
            _ => {
                socket2::SockRef::from(&client.stream).shutdown(std::net::Shutdown::Write).unwrap();
                kept.push(client);
            }
        }
    }
    server.clock.advance(5_000);
    server.until_waiting(1).await;
    assert!(server.get("/metrics").await.utf8().contains("\nfencepost_waiting 1\n"));
    release(&server, &holder, 1).await;
    let granted = timeout(PATIENCE, alive.answer()).await.expect("no wait for the dead").unwrap();
    assert_eq!(granted.status, 201);
    let next = granted.json()["sequence"].as_u64().unwrap();
    assert_eq!(next, holder.json()["sequence"].as_u64().unwrap() + 1, "no token was spent on the dead");
}

/// What this process has in memory, in bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

/// Fails where the places of those who have left are kept, here for want of time that passes.
#[tokio::test]
async fn crowds_that_come_and_go_leave_nothing_in_memory() {
    const ALONE: &str = "FENCEPOST_CROWDS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        // Other tests may have memory of this process.
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "waiting::crowds_that_come_and_go_leave_nothing_in_memory"]).env(ALONE, "1");
        let told = alone.output().unwrap();
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stdout));
        return;
    }
    more_open_files(4_000).unwrap();
    let server = TestServer::start().await;
    server.call("POST", "/v1/leases", opening("d", 1)).await;
    let mut after = Vec::new();
    for round in 1..=16_u64 {
        let mut crowd = Vec::new();
        for number in 0..500 {
            crowd.push(waiter(&server, "d", round * 1_000 + number).await);
        }
        server.until_waiting(500).await;
        drop(crowd);
        server.until_waiting(0).await;
        // Places of those who would open their session are kept for one TTL.
        server.clock.advance(Ttl::default().as_millis());
        server.call("POST", "/v1/leases", opening("d", round * 1_000 + 999)).await;
        after.push(resident());
    }
    // What is kept for use again is there after ten of them.
    let (early, late) = (after[10], after[15]);
    assert!(late < early + 2_500 * 200, "five crowds of 500 have left {} bytes: {after:?}", late.saturating_sub(early));
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

/// An acquire that would open its session in the domain of this number, and waits.
fn patient_opener(number: u64) -> AcquireRequest {
    let mut id = [0xee; 16];
    id[8..].copy_from_slice(&number.to_be_bytes());
    let domain = Domain::new(&format!("d/{}", number % 20)).unwrap();
    let caller = RequestCaller::Opening { holder: Holder::new("crowd").unwrap(), ttl: Ttl::default() };
    let session = fencepost_coordinator::SessionKey {
        session: fencepost_core::SessionId::from_bytes([0; 16]),
        secret: fencepost_core::Secret::from_bytes([0; 32]),
    };
    let wait = Wait::from_millis(600_000).unwrap();
    AcquireRequest { caller, wait, ..AcquireRequest::new(&session, domain, RequestId::from_bytes(id)) }
}

/// Those who wait in a session of their own are limited by that session; these have none yet, and each one's place
/// outlives its connection.
/// Mutant: the number of opening waiters not compared; the last one waits too.
#[tokio::test]
async fn acquires_that_wait_to_open_a_session_have_a_limit_and_room_is_made_by_those_who_leave() {
    let server = TestServer::start().await;
    for domain in 0..20 {
        server.call("POST", "/v1/leases", opening(&format!("d/{domain}"), domain)).await;
    }
    let mut crowd: Vec<_> = (0..limits::OPENING_WAITERS as u64)
        .map(|number| {
            let coordinator = server.coordinator.clone();
            tokio::spawn(async move { coordinator.acquire(patient_opener(number)).await })
        })
        .collect();
    server.until_waiting(limits::OPENING_WAITERS).await;
    let mut patient_one = patient("d/0", 1_000);
    let refused = server.call("POST", "/v1/leases", patient_one.clone()).await.problem(429, "limit_reached");
    assert_eq!((&refused["limit"], &refused["retryable"]), (&json!("opening_waiters"), &json!(true)));
    // Who waits in a session of its own, and who does not wait, are not concerned.
    let (session, secret) = server.session("s", 60_000).await;
    let in_session = json!({"domain": "free", "request_id": request_id(2_000), "session": session, "wait_ms": 1_000});
    assert_eq!(server.client().await.call("POST", "/v1/leases", Some(&secret), in_session).await.status, 201);
    assert_eq!(server.call("POST", "/v1/leases", opening("other", 3_000)).await.status, 201);

    // A place is kept for one TTL after its connection has gone; then there is room.
    crowd.pop().unwrap().abort();
    server.until_waiting(limits::OPENING_WAITERS - 1).await;
    server.call("POST", "/v1/leases", patient_one.clone()).await.problem(429, "limit_reached");
    server.clock.advance(Ttl::default().as_millis() - 1);
    server.call("POST", "/v1/leases", patient_one.clone()).await.problem(429, "limit_reached");
    for waiter in &crowd {
        waiter.abort();
    }
    server.until_waiting(0).await;
    server.clock.advance(Ttl::default().as_millis());
    patient_one["domain"] = json!("d/1");
    assert_eq!(server.call("POST", "/v1/leases", patient_one).await.status, 201);
}
