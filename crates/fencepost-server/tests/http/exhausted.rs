//! The end of the numbers of an epoch: refused by name, never begun anew by itself, and everything else goes on.

use std::sync::Arc;

use fencepost_coordinator::{
    AcquireRequest, Coordinator,
    embedded::{
        self,
        testing::{ManualClock, ManualWallClock, MemoryStore},
    },
};
use fencepost_core::{Domain, Holder, RequestId, Sequence, Ttl};
use fencepost_server::Options;
use serde_json::json;

use crate::support::{Answer, TestServer, opening, request_id};

/// A store with a few numbers left: its clock once stood 278 years ahead, and one number of a block was used then. A start
/// goes on behind the block.
async fn nearly_used_up() -> MemoryStore {
    let (store, block) = (MemoryStore::new(), 10_000);
    let options = embedded::Options {
        clock: Some(Arc::new(ManualClock::new(1, 1_000_000))),
        wall_clock: Some(Arc::new(ManualWallClock::new(Sequence::MAX.get() - block - 3))),
        push_far: true,
        ..Default::default()
    };
    let coordinator = store.open(options).unwrap();
    let key = coordinator.open_session(Holder::new("early").unwrap(), Ttl::default()).await.unwrap().answer.key();
    let (domain, request) = (Domain::new("early").unwrap(), RequestId::from_bytes([0xe; 16]));
    coordinator.acquire(AcquireRequest::new(&key, domain, request)).await.unwrap();
    coordinator.end_session(&key).await.unwrap();
    coordinator.shutdown().await;
    store
}

fn exhausted(answer: &Answer) {
    let problem = answer.problem(507, "token_space_exhausted");
    assert_eq!((&problem["retryable"], &problem["may_have_happened"]), (&json!(false), &json!(false)));
    assert!(problem["fix"].as_str().unwrap().contains("greater epoch"), "{problem}");
}

/// Mutant: `Sequence::checked_add` that begins again at one; the acquire after the last number is granted under an old token.
#[tokio::test]
async fn after_the_last_number_nothing_is_granted_and_everything_else_goes_on() {
    let store = nearly_used_up().await;
    let server = TestServer::over(store.clone(), Options::default()).await;
    let mut granted: Vec<Answer> = Vec::new();
    let refused = loop {
        let number = granted.len() as u64;
        let answer = server.call("POST", "/v1/leases", opening(&format!("d/{number}"), number)).await;
        if answer.status != 201 {
            break answer;
        }
        granted.push(answer);
        assert!(granted.len() < 10, "the numbers do not end");
    };
    exhausted(&refused);
    let sequences: Vec<u64> = granted.iter().map(|answer| answer.json()["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
    assert_eq!(sequences.last(), Some(&Sequence::MAX.get()), "the last number is used");
    assert!(granted.iter().all(|answer| answer.json()["epoch"] == 0), "never a new epoch by itself");

    let (first, secret) = (granted[0].json(), granted[0].text("secret"));
    let again = server.call("POST", "/v1/leases", opening("d/0", 0)).await;
    assert_eq!((again.status, again.text("token")), (200, granted[0].text("token")), "a retry needs no number");
    let secret = again.json()["secret"].as_str().map_or(secret, str::to_owned);
    let mut client = server.client().await;
    let path = format!("/v1/sessions/{}/heartbeat", granted[0].text("session"));
    let beat = client.call("POST", &path, Some(&secret), json!({"held": [first["lease"]]})).await;
    assert_eq!(beat.json()["leases"][0]["lease"], first["lease"], "{beat:?}");
    assert_eq!(server.get("/readyz").await.status, 200);
    assert_eq!(server.get("/v1/leases").await.json()["items"].as_array().unwrap().len(), granted.len());
    let snapshot = server.get("/v1/leases/snapshot").await;
    assert!(snapshot.status == 200 && snapshot.utf8().contains("\"end\":true"), "{snapshot:?}");
    let (_, other) = server.session("still opened", 15_000).await;
    assert_eq!(other.len(), 64);

    // A break burns a number to fence the holder off with; there is none, so it takes nothing away.
    let broken = json!({"lease": first["lease"], "reason": "stuck"});
    exhausted(&server.call("POST", "/v1/leases/break", broken).await);
    assert_eq!(server.get("/v1/leases").await.json()["items"].as_array().unwrap().len(), granted.len());

    // Who waits is told when its turn comes.
    let mut waiting = opening("d/0", 77);
    waiting["wait_ms"] = json!(600_000);
    let mut waiter = server.client().await;
    waiter.write_call("POST", "/v1/leases", None, waiting.to_string().as_bytes()).await;
    server.until_waiting(1).await;
    let release = json!({"lease": first["lease"], "request_id": request_id(0)});
    assert_eq!(client.call("POST", "/v1/leases/release", Some(&secret), release).await.status, 200);
    exhausted(&waiter.answer().await.unwrap());

    // A start does not help either.
    drop(server);
    let server = TestServer::over(store, Options::default()).await;
    exhausted(&server.call("POST", "/v1/leases", opening("after a start", 88)).await);
    assert_eq!(server.get("/v1/leases").await.json()["items"].as_array().unwrap().len(), granted.len() - 1);
}
