//! What callers of the embedded coordinator see when nothing goes wrong underneath: every call once, waiting, lost
//! answers, lost connections, events.

use std::{sync::Arc, time::Duration};

use crate::common::{
    acquire, clock, domain, holder, is_unavailable, on, refusal, request, session, token, until, waiting,
};
use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator, RequestCaller, Watch,
    embedded::{NotReady, Options, testing::MemoryStore},
};
use fencepost_core::{
    Holder, Reason, Ttl,
    lease::{AcquireRefusal, Claim, EventKind, Filter, LeaseEnd, SessionRefusal},
};

#[tokio::test]
async fn a_domain_is_acquired_renewed_released_and_granted_again_under_a_greater_token() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let (a, b) = (session(&coordinator, "a", 15_000).await, session(&coordinator, "b", 15_000).await);
    let (first, hold) = acquire(&coordinator, &a, "d").await;

    let AcquireRefusal::Held(by) = refusal(coordinator.acquire(AcquireRequest::new(&b, domain("d"), request())).await)
    else {
        panic!("the domain is held")
    };
    assert_eq!((by.holder.as_str(), by.lease), ("a", first.acquired.lease));

    let beat = coordinator.heartbeat(&a, Claim::Held(vec![first.acquired.lease])).await.unwrap();
    assert_eq!(beat.answer.leases.unwrap()[0].lease, first.acquired.lease);
    assert_eq!(beat.boot, coordinator.boot());
    assert_eq!(coordinator.read_session(&a).await.unwrap().answer.leases.len(), 1);
    assert!(coordinator.check(domain("d"), token(&first)).await.unwrap());

    let released = coordinator.release(&a.secret, first.acquired.lease, hold).await.unwrap();
    assert_eq!((released.ended, released.holds_left), (Some(LeaseEnd::Released), 0));
    assert_eq!(coordinator.release(&a.secret, first.acquired.lease, hold).await.unwrap(), released);

    let (second, _) = acquire(&coordinator, &b, "d").await;
    assert!(token(&second) > token(&first));
    let live = coordinator.snapshot(String::new()).await.unwrap();
    assert_eq!(live.leases.len(), 1);
    assert!(live.next_token.unwrap() > token(&second));

    let broken = coordinator.break_lease(second.acquired.lease, Reason::new("test").unwrap()).await.unwrap();
    assert!(broken.fence_to.unwrap() > token(&second));
    coordinator.end_session(&a).await.unwrap();
    coordinator.end_session(&a).await.unwrap();
    assert!(matches!(coordinator.read_session(&a).await, Err(CallError::Refused(SessionRefusal::SessionEnded(_)))));
    let counts = coordinator.counts().await.unwrap();
    assert_eq!((counts.sessions, counts.leases, counts.waiting), (1, 0, 0));
}

#[tokio::test]
async fn an_acquire_that_opens_its_session_gets_the_secret_once_settled() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let key = session(&coordinator, "unused", 15_000).await;
    let caller = RequestCaller::Opening { holder: Holder::new("a").unwrap(), ttl: Ttl::default() };
    let opening = AcquireRequest { caller, ..AcquireRequest::new(&key, domain("d"), request()) };
    let first = coordinator.acquire(opening.clone()).await.unwrap().answer;
    let again = coordinator.acquire(opening.clone()).await.unwrap().answer;
    assert_eq!(token(&first), token(&again));
    let (lost, kept) = (first.secret.unwrap(), again.secret.unwrap());

    let session = again.acquired.session;
    let with = |secret| fencepost_coordinator::SessionKey { session, secret };
    assert!(coordinator.read_session(&with(lost)).await.is_err(), "the secret of the lost answer is dead");
    coordinator.read_session(&with(kept)).await.unwrap();
    assert!(coordinator.acquire(opening).await.unwrap().answer.secret.is_none(), "the secret is settled by its use");
}

#[tokio::test]
async fn waiters_are_served_in_order_as_soon_as_the_holder_releases() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let a = session(&coordinator, "a", 15_000).await;
    let (held, hold) = acquire(&coordinator, &a, "d").await;
    let mut waiters = Vec::new();
    for number in 1..=3 {
        let key = session(&coordinator, "waiter", 15_000).await;
        let queued = coordinator.clone();
        waiters.push(tokio::spawn(async move { queued.acquire(waiting(&key, "d", 60_000)).await.map(|g| (g, key)) }));
        until("it waits", || async { coordinator.counts().await.unwrap().waiting == number }).await;
    }
    coordinator.release(&a.secret, held.acquired.lease, hold).await.unwrap();
    let mut before = token(&held);
    for waiter in waiters {
        let (granted, key) = waiter.await.unwrap().unwrap();
        assert!(token(&granted.answer) > before, "first in, first out");
        before = token(&granted.answer);
        coordinator.end_session(&key).await.unwrap();
    }
}

#[tokio::test]
async fn a_wait_ends_by_the_clock_and_says_who_holds_and_how_long_it_was() {
    let clock = clock();
    let coordinator = MemoryStore::new().open(on(&clock)).unwrap();
    let (a, b) = (session(&coordinator, "a", 60_000).await, session(&coordinator, "b", 60_000).await);
    acquire(&coordinator, &a, "d").await;
    let queued = coordinator.clone();
    let waiter = tokio::spawn(async move { queued.acquire(waiting(&b, "d", 5_000)).await });
    until("b waits", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;
    clock.advance(5_000);
    let AcquireRefusal::Held(by) = refusal(waiter.await.unwrap()) else { panic!("a still holds it") };
    assert_eq!((by.holder.as_str(), by.waited_ms), ("a", 5_000));
}

/// Mutant: without `Message::Disconnected` (or with it ignored in `Writer::serve`) a dead waiter is granted and the
/// live one behind it waits for ever.
#[tokio::test]
async fn a_thousand_waiters_whose_futures_were_dropped_do_not_hold_up_the_live_one() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let a = session(&coordinator, "a", 60_000).await;
    let (held, hold) = acquire(&coordinator, &a, "d").await;
    let b = session(&coordinator, "b", 60_000).await;
    let dead: Vec<_> = (0..1_000)
        .map(|_| {
            let (queued, request) = (coordinator.clone(), waiting(&b, "d", 600_000));
            tokio::spawn(async move { queued.acquire(request).await })
        })
        .collect();
    until("all wait", || async { coordinator.counts().await.unwrap().waiting == 1_000 }).await;
    let live = session(&coordinator, "live", 60_000).await;
    let queued = coordinator.clone();
    let live = tokio::spawn(async move { queued.acquire(waiting(&live, "d", 600_000)).await });
    until("the live one waits", || async { coordinator.counts().await.unwrap().waiting == 1_001 }).await;

    dead.iter().for_each(|dead| dead.abort());
    until("the number is true again", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;
    coordinator.release(&a.secret, held.acquired.lease, hold).await.unwrap();
    let granted = tokio::time::timeout(Duration::from_secs(10), live).await.expect("granted at once").unwrap().unwrap();
    assert!(token(&granted.answer) > token(&held));
}

#[tokio::test]
async fn an_acquire_whose_answer_was_lost_is_repeated_by_its_request_id_or_found_unclaimed() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let key = session(&coordinator, "a", 15_000).await;
    let lost = AcquireRequest::new(&key, domain("d"), request());
    let granted = coordinator.acquire(lost.clone()).await.unwrap().answer;
    let again = coordinator.acquire(lost.clone()).await.unwrap().answer;
    assert!(again.acquired.again);
    assert_eq!((token(&again), again.acquired.lease), (token(&granted), granted.acquired.lease));
    let other = AcquireRequest { domain: domain("e"), ..lost };
    assert_eq!(refusal(coordinator.acquire(other).await), AcquireRefusal::RequestConflict);
    let beat = coordinator.heartbeat(&key, Claim::Held(vec![])).await.unwrap().answer;
    assert_eq!(beat.unclaimed[0].lease, granted.acquired.lease, "a heartbeat shows what it does not claim");
}

#[tokio::test]
async fn a_silent_holder_loses_its_lease_to_time_alone_and_a_late_renewal_fails() {
    let clock = clock();
    let coordinator = MemoryStore::new().open(on(&clock)).unwrap();
    let mut events = coordinator.watch();
    let key = session(&coordinator, "a", 2_000).await;
    let (held, _) = acquire(&coordinator, &key, "d").await;
    clock.advance(2_000);
    let ended = loop {
        let told = events.recv().await.unwrap();
        match told.events.first().map(|event| &event.kind) {
            Some(EventKind::Ended { end, .. }) => break *end,
            Some(EventKind::Granted { .. }) | None => {}
        }
    };
    assert_eq!(ended, LeaseEnd::Expired);
    let late = coordinator.heartbeat(&key, Claim::Held(vec![held.acquired.lease])).await;
    assert!(matches!(late, Err(CallError::Refused(_))), "{late:?}");
    let b = session(&coordinator, "b", 2_000).await;
    assert!(token(&acquire(&coordinator, &b, "d").await.0) > token(&held));
}

#[tokio::test]
async fn events_are_numbered_and_come_after_what_they_tell() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let mut events = coordinator.watch();
    let key = session(&coordinator, "a", 15_000).await;
    let (held, hold) = acquire(&coordinator, &key, "d").await;
    coordinator.release(&key.secret, held.acquired.lease, hold).await.unwrap();
    let granted = events.recv().await.unwrap();
    let ended = events.recv().await.unwrap();
    assert_eq!(granted.events[0].token, Some(token(&held)));
    assert!(matches!(ended.events[0].kind, EventKind::Ended { end: LeaseEnd::Released, .. }));
    assert_eq!(ended.first, granted.first + 1);
}

#[tokio::test]
async fn shutdown_answers_waiters_closes_for_every_clone_and_may_be_repeated() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let a = session(&coordinator, "a", 15_000).await;
    acquire(&coordinator, &a, "d").await;
    let b = session(&coordinator, "b", 15_000).await;
    let queued = coordinator.clone();
    let waiter = tokio::spawn(async move { queued.acquire(waiting(&b, "d", 60_000)).await });
    until("b waits", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;

    let clone = coordinator.clone();
    coordinator.shutdown().await;
    assert!(is_unavailable(&waiter.await.unwrap(), false));
    assert!(is_unavailable(&clone.list(Filter::Prefix(String::new()), None, 1).await, false));
    assert_eq!(clone.ready(), Err(NotReady::Stopped));
    clone.shutdown().await;
}

#[tokio::test]
async fn calls_of_one_time_share_a_commit() {
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let key = session(&coordinator, "a", 15_000).await;
    let before = coordinator.statistics();
    // The runtime has one thread, so all of them are queued before the writer is waited for.
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let (coordinator, key) = (coordinator.clone(), key.clone());
            tokio::spawn(async move { acquire(&coordinator, &key, &format!("d/{number}")).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let after = coordinator.statistics();
    assert!(after.records - before.records >= 200);
    assert!(after.commits - before.commits < 200, "{} commits", after.commits - before.commits);
    assert_eq!(after.queued, 0);
}

#[tokio::test]
async fn snapshots_shorten_the_log_and_nothing_is_forgotten_by_them() {
    let store = MemoryStore::new();
    let options = || Options { snapshot_log_bytes: 2_000, ..Options::default() };
    let coordinator = store.open(options()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (kept, _) = acquire(&coordinator, &key, "kept").await;
    for _ in 0..300 {
        let (held, hold) = acquire(&coordinator, &key, "d").await;
        coordinator.release(&key.secret, held.acquired.lease, hold).await.unwrap();
    }
    until("the log is short", || async { store.log_rows() < 300 && coordinator.statistics().snapshots > 0 }).await;
    let last = token(&acquire(&coordinator, &key, "last").await.0);
    coordinator.shutdown().await;

    let coordinator = store.open(options()).unwrap();
    let row = holder(&coordinator, "kept").await.expect("still held");
    assert_eq!((row.lease, row.token), (kept.acquired.lease, Some(token(&kept))));
    assert!(token(&acquire(&coordinator, &key, "next").await.0) > last);
}

#[test]
fn no_runtime_is_needed() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let coordinator = MemoryStore::new().open(Options::default()).unwrap();
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut counts = std::pin::pin!(coordinator.counts());
    let mut context = std::task::Context::from_waker(&waker);
    let counts = loop {
        match counts.as_mut().poll(&mut context) {
            std::task::Poll::Ready(counts) => break counts,
            std::task::Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(counts.unwrap().sessions, 0);
}
