//! The same life over HTTP: the real client, a proxy that can be cut, the real server, the real coordinator.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use fencepost_client::{AcquireError, HttpCoordinator, HttpOptions, LeaseState, Loss};
use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator, SessionKey,
    embedded::{self, Embedded, testing::MemoryStore},
};
use fencepost_core::{
    BootId, Holder, Reason, RequestId, Secret, SessionId, Wait,
    lease::{AcquireRefusal, BreakRefusal, Claim, Filter, HeartbeatRefusal, LeaseEnd, ReleaseRefusal, SessionRefusal},
};
use fencepost_server::{Metrics, Options, Server};
use fencepost_testkit::proxy::{Fault, Proxy, more_open_files};
use support::{coordinator, domain, is_held, releases_race_heartbeats, session, ttl, until};
use tokio::{net::TcpListener, sync::oneshot};

/// A server on a thread of its own, so that tests can block theirs.
struct Served {
    coordinator: Embedded,
    address: SocketAddr,
    _running: oneshot::Sender<()>,
}

fn serve() -> Served {
    serve_at("127.0.0.1:0", coordinator())
}

fn serve_at(address: impl std::net::ToSocketAddrs, coordinator: Embedded) -> Served {
    let listener = std::net::TcpListener::bind(address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (running, stopped) = oneshot::channel();
    let (told, address) = std::sync::mpsc::channel();
    let served = coordinator.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            let server = Server::on(listener, served, Metrics::new(), Options::default()).await.unwrap();
            told.send(server.local_addr().unwrap()).unwrap();
            server
                .serve(async {
                    let _ = stopped.await;
                })
                .await;
        });
    });
    Served { coordinator, address: address.recv().unwrap(), _running: running }
}

impl Served {
    fn client(&self) -> HttpCoordinator {
        HttpCoordinator::new(&format!("http://{}", self.address)).unwrap()
    }
}

#[tokio::test]
async fn a_lease_over_http_outlives_its_ttl_and_a_blocked_runtime() {
    let served = serve();
    let session = session(served.client(), 1_000).await;
    let lease = session.acquire(domain("d/ä?#%2F")).await.unwrap();
    // bounded: being blocked for longer than the TTL is what is tried
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(lease.state(), LeaseState::Held);
    assert_eq!(lease.grant().issuer, *served.coordinator.issuer());
    assert_eq!(lease.grant().domain, domain("d/ä?#%2F"));
    assert!(served.client().check(domain("d/ä?#%2F"), lease.token()).await.unwrap());
    assert_eq!(lease.release().await.unwrap().ended, Some(LeaseEnd::Released));
    session.close().await.unwrap();
    until("the session is gone", async || served.coordinator.counts().await.unwrap().sessions == 0).await;
}

#[tokio::test]
async fn every_call_and_every_refusal_says_the_same_over_http() {
    let served = serve();
    let client = served.client();
    let key = client.open_session(Holder::new("a").unwrap(), ttl(60_000)).await.unwrap().answer.key();
    let other = client.open_session(Holder::new("b").unwrap(), ttl(60_000)).await.unwrap().answer.key();
    let (first, second) = (RequestId::from_bytes([1; 16]), RequestId::from_bytes([2; 16]));
    let granted = client.acquire(AcquireRequest::new(&key, domain("d"), first)).await.unwrap();
    let lease = granted.answer.acquired.lease;
    assert_ne!(granted.boot, BootId::from_bytes([0; 16]));
    assert!(!granted.answer.acquired.again);
    let again = client.acquire(AcquireRequest::new(&key, domain("d"), first)).await.unwrap().answer.acquired;
    assert!(again.again);
    assert_eq!(again.permission, granted.answer.acquired.permission);

    let refused = client.acquire(AcquireRequest::new(&other, domain("d"), second)).await.unwrap_err();
    let CallError::Refused(refused) = refused else { panic!("{refused:?}") };
    let AcquireRefusal::Held(held) = *refused else { panic!("{refused:?}") };
    assert_eq!((held.holder.as_str(), held.lease), ("a", lease));
    let conflict = client.acquire(AcquireRequest::new(&key, domain("e"), first)).await.unwrap_err();
    assert!(matches!(conflict, CallError::Refused(refusal) if *refusal == AcquireRefusal::RequestConflict));

    let beat = client.heartbeat(&key, Claim::Held(vec![lease])).await.unwrap().answer;
    assert_eq!(beat.leases.unwrap()[0].lease, lease);
    assert!(client.heartbeat(&key, Claim::Unchanged(beat.version)).await.is_ok());
    let unknown = fencepost_core::lease::Version(beat.version.0 + 100);
    let refused = client.heartbeat(&key, Claim::Unchanged(unknown)).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(HeartbeatRefusal::VersionUnknown)), "{refused:?}");

    assert_eq!(client.read_session(&key).await.unwrap().answer.leases[0].lease, lease);
    let stranger = SessionKey { session: key.session, secret: Secret::from_bytes([9; 32]) };
    let refused = client.read_session(&stranger).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(SessionRefusal::Unauthenticated)), "{refused:?}");
    let nobody = SessionKey { session: SessionId::from_bytes([9; 16]), secret: key.secret.clone() };
    assert!(client.read_session(&nobody).await.is_err());

    let page = client.list(Filter::Prefix("d".to_owned()), None, 10).await.unwrap();
    assert_eq!((page.rows.len(), page.rows[0].lease), (1, lease));
    assert_eq!(client.snapshot(String::new()).await.unwrap().leases.len(), 1);

    let refused = client.release(&key.secret, lease, second).await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(ReleaseRefusal::NeverHeld)), "{refused:?}");
    let broken = client.break_lease(lease, Reason::new("test").unwrap()).await.unwrap();
    assert!(broken.fence_to > Some(again.permission.grant().unwrap().token) && !broken.already);
    let refused =
        client.break_lease(RequestId::from_bytes([7; 16]).to_string().parse().unwrap(), Reason::new("x").unwrap());
    let refused = refused.await.unwrap_err();
    assert!(matches!(refused, CallError::Refused(BreakRefusal::UnknownLease)), "{refused:?}");

    client.end_session(&key).await.unwrap();
    client.end_session(&key).await.unwrap();
    let refused = client.heartbeat(&key, Claim::Held(vec![])).await.unwrap_err();
    let ended = SessionRefusal::SessionEnded(fencepost_core::lease::SessionEnd::Ended);
    assert!(matches!(refused, CallError::Refused(HeartbeatRefusal::Session(refusal)) if refusal == ended));
}

#[tokio::test]
async fn an_acquire_whose_answer_is_swallowed_is_repeated_and_grants_once() {
    let served = serve();
    let proxy = Proxy::start(served.address, Vec::new()).await.unwrap();
    let options = HttpOptions { call_timeout: Duration::from_millis(200), ..HttpOptions::default() };
    let client = HttpCoordinator::with_options(&format!("http://{}", proxy.address()), options).unwrap();
    let session = session(client, 5_000).await;
    let first = session.acquire(domain("first")).await.unwrap();
    proxy.meanwhile(Some(Fault::DropReply));
    let acquiring = tokio::spawn(session.acquire(domain("d")).into_future());
    until("it was granted", async || is_held(&served.coordinator, &domain("d")).await).await;
    proxy.meanwhile(None);
    let second = acquiring.await.unwrap().unwrap();
    assert_eq!(second.token().as_u64(), first.token().as_u64() + 1, "one token was spent");
}

#[tokio::test]
async fn i9_behind_a_swallowing_network_the_holder_gives_up_before_the_coordinator_does() {
    let served = serve();
    let proxy = Proxy::start(served.address, Vec::new()).await.unwrap();
    let session = session(HttpCoordinator::new(&format!("http://{}", proxy.address())).unwrap(), 1_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    proxy.meanwhile(Some(Fault::DropReply));
    // Heartbeats do arrive, and renew the lease at the coordinator: the holder cannot know, and gives up.
    assert_eq!(lease.lost().await, Loss::DeadlinePassed);
    assert!(is_held(&served.coordinator, &domain("d")).await);
}

/// The server goes away and comes back on what it had made durable. Its sessions get one grace, and their holders
/// notice no more than a doubt.
#[tokio::test]
async fn a_coordinator_that_restarts_in_time_costs_no_lease_and_no_token() {
    let store = MemoryStore::new();
    let served = serve_at("127.0.0.1:0", store.clone().open(embedded::Options::default()).unwrap());
    let address = served.address;
    let session = session(served.client(), 3_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    served.coordinator.shutdown().await;
    drop(served);
    let mut is_free = false;
    until("the port is free", async || {
        is_free |= std::net::TcpListener::bind(address).is_ok();
        is_free
    })
    .await;
    let served = serve_at(address, store.open(embedded::Options::default()).unwrap());
    // bounded: outliving the TTL of three seconds is what is tried
    tokio::time::sleep(Duration::from_millis(4_000)).await;
    assert_eq!(lease.state(), LeaseState::Held);
    assert!(served.coordinator.check(domain("d"), lease.token()).await.unwrap());
    assert_eq!(lease.release().await.unwrap().ended, Some(LeaseEnd::Released));
}

/// Waiters over HTTP whose futures are dropped leave the queue, and nobody waits for them.
#[tokio::test]
async fn waiters_who_leave_over_http_are_not_waited_for() {
    more_open_files(4_000).unwrap();
    let served = serve();
    let holder = session(served.client(), 600_000).await.acquire(domain("d")).await.unwrap();
    let wait = Wait::from_millis(600_000).unwrap();
    let leaving = session(served.client(), 600_000).await;
    let tasks: Vec<_> = (0..990).map(|_| tokio::spawn(leaving.acquire(domain("d")).wait(wait).into_future())).collect();
    until("they wait", async || served.coordinator.counts().await.unwrap().waiting == 990).await;
    let staying = session(served.client(), 600_000).await;
    let staying = tokio::spawn(staying.acquire(domain("d")).wait(wait).into_future());
    until("one more waits", async || served.coordinator.counts().await.unwrap().waiting == 991).await;
    for task in tasks {
        task.abort();
    }
    until("the others have left", async || served.coordinator.counts().await.unwrap().waiting == 1).await;
    let started = Instant::now();
    holder.release().await.unwrap();
    let _lease = staying.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_releases_over_http_race_the_heartbeat_that_claims_and_none_is_revived() {
    let served = serve();
    releases_race_heartbeats(served.client(), &served.coordinator).await;
}

/// The acquire's future dropped at any moment of the exchange.
#[tokio::test]
async fn acquires_dropped_over_http_leave_no_grant_behind() {
    let served = serve();
    let session = session(served.client(), 600_000).await;
    for round in 0..300_u64 {
        let acquire = session.acquire(domain(&format!("d{round}"))).into_future();
        let _ = tokio::time::timeout(Duration::from_micros(round * 10), acquire).await;
    }
    until("all are given back", async || served.coordinator.counts().await.unwrap().leases == 0).await;
}

#[tokio::test]
async fn bad_input_is_refused_by_name_before_or_at_the_server() {
    let served = serve();
    let session = session(served.client(), 60_000).await;
    let error = session.acquire(domain("d")).reentrancy_limit(0).await.unwrap_err();
    let AcquireError::Call(error) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "reentrancy_limit: must be 1 to 1000 holds, found 0");
    assert!(!is_held(&served.coordinator, &domain("d")).await);
}
