//! The store fails, hangs, or is taken away: what is answered, what is remembered, and how service resumes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    task::{Context, Poll, Waker},
};

use crate::common::{
    acquire, clock, domain, holder, is_unavailable, on, refusal, request, session, token, until, waiting,
};
use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator,
    embedded::{
        Embedded, NotReady, Observer, OpenError, Options,
        testing::{Fault, MemoryStore},
    },
};
use fencepost_core::{
    Reason,
    lease::{Claim, Filter, LeaseEnd},
    limits,
};

async fn resumed(coordinator: &Embedded) {
    until("service resumes", || async { coordinator.ready().is_ok() }).await;
}

/// Mutant: with the state that `Writer::read_back` found thrown away, the present one stays ahead of the store and
/// shows a grant that nobody has.
#[tokio::test]
async fn a_commit_that_failed_without_effect_is_not_remembered() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let key = session(&coordinator, "a", 15_000).await;
    store.inject(Fault::FailNextCommitBefore);
    let lost = coordinator.acquire(AcquireRequest::new(&key, domain("d"), request())).await;
    assert!(is_unavailable(&lost, true), "nobody can know: {lost:?}");
    resumed(&coordinator).await;
    assert!(holder(&coordinator, "d").await.is_none());
    acquire(&coordinator, &key, "d").await;
}

#[tokio::test]
async fn a_commit_that_failed_after_it_took_effect_is_found_again_by_its_request_id() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let (a, b) = (session(&coordinator, "a", 15_000).await, session(&coordinator, "b", 15_000).await);
    store.inject(Fault::FailNextCommitAfter);
    let wanted = AcquireRequest::new(&a, domain("d"), request());
    assert!(is_unavailable(&coordinator.acquire(wanted.clone()).await, true));
    resumed(&coordinator).await;
    let found = holder(&coordinator, "d").await.expect("the grant took effect");
    refusal(coordinator.acquire(AcquireRequest::new(&b, domain("d"), request())).await);
    let granted = coordinator.acquire(wanted).await.unwrap().answer;
    assert!(granted.acquired.again);
    assert_eq!((granted.acquired.lease, Some(token(&granted))), (found.lease, found.token));
}

#[tokio::test]
async fn during_an_outage_reads_and_heartbeats_go_on_and_nothing_is_granted() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let a = session(&coordinator, "a", 10_000).await;
    let (held, hold) = acquire(&coordinator, &a, "d").await;
    store.inject(Fault::RefuseCommits);
    let fresh = AcquireRequest::new(&a, domain("e"), request());
    assert!(is_unavailable(&coordinator.acquire(fresh.clone()).await, true), "this one found out");
    assert!(matches!(coordinator.ready(), Err(NotReady::Storage { .. })));

    for _ in 0..5 {
        clock.advance(8_000);
        let beat = coordinator.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await.unwrap();
        assert_eq!(beat.answer.remaining_ms, 10_000);
    }
    assert_eq!(holder(&coordinator, "d").await.unwrap().lease, held.acquired.lease);
    assert!(is_unavailable(&coordinator.acquire(fresh.clone()).await, false), "this one was not tried");
    assert!(is_unavailable(&coordinator.release(&a.secret, held.acquired.lease, hold).await, false));
    assert!(is_unavailable(&coordinator.break_lease(held.acquired.lease, Reason::new("x").unwrap()).await, false));
    assert!(is_unavailable(&coordinator.end_session(&a).await, false));

    store.heal();
    resumed(&coordinator).await;
    assert_eq!(coordinator.release(&a.secret, held.acquired.lease, hold).await.unwrap().holds_left, 0);
    coordinator.acquire(fresh).await.unwrap();
}

/// What is on record was committed, so it may be said although nothing can be committed now; a hold that is not ended
/// on record is not touched.
/// Mutant: every release decided in an outage; the second domain is then free in memory and held in the store.
#[tokio::test]
async fn a_retried_release_gets_its_recorded_answer_during_an_outage_and_a_first_one_waits() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let a = session(&coordinator, "a", 60_000).await;
    let (done, done_hold) = acquire(&coordinator, &a, "done").await;
    let (held, held_hold) = acquire(&coordinator, &a, "held").await;
    let answered = coordinator.release(&a.secret, done.acquired.lease, done_hold).await.unwrap();
    let (lost, lost_hold) = acquire(&coordinator, &a, "lost").await;
    store.inject(Fault::FailNextCommitAfter);
    assert!(is_unavailable(&coordinator.release(&a.secret, lost.acquired.lease, lost_hold).await, true));
    store.inject(Fault::RefuseCommits);
    assert!(coordinator.acquire(AcquireRequest::new(&a, domain("e"), request())).await.is_err());

    let again = coordinator.release(&a.secret, done.acquired.lease, done_hold).await.unwrap();
    assert_eq!(again, answered);
    let settled = coordinator.release(&a.secret, lost.acquired.lease, lost_hold).await.unwrap();
    assert_eq!((settled.ended, settled.holds_left), (Some(LeaseEnd::Released), 0), "its commit had taken effect");
    assert!(is_unavailable(&coordinator.release(&a.secret, held.acquired.lease, held_hold).await, false));
    assert!(is_unavailable(&coordinator.release(&a.secret, held.acquired.lease, done_hold).await, false));
    assert!(holder(&coordinator, "held").await.is_some());

    drop(coordinator);
    store.heal();
    let coordinator = store.open(Options::default()).unwrap();
    assert_eq!(coordinator.release(&a.secret, done.acquired.lease, done_hold).await.unwrap(), answered);
    assert!(holder(&coordinator, "held").await.is_some() && holder(&coordinator, "lost").await.is_none());
}

/// That a lease has expired is nowhere on record then, and a start that comes before it is gives the session its grace.
/// Mutant: without the look at how the hold ended in `Leases::is_released` the answer says what the next start takes
/// back.
#[tokio::test]
async fn a_release_of_what_expired_during_an_outage_is_not_answered_before_that_is_on_record() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let a = session(&coordinator, "a", 60_000).await;
    let (held, hold) = acquire(&coordinator, &a, "d").await;
    clock.advance(30_000);
    coordinator.heartbeat(&a, Claim::Held(Vec::new())).await.unwrap();
    store.inject(Fault::RefuseCommits);
    assert!(coordinator.acquire(AcquireRequest::new(&a, domain("e"), request())).await.is_err());
    clock.advance(30_000);
    assert!(holder(&coordinator, "d").await.is_none(), "expired, while the session lives on");
    assert!(is_unavailable(&coordinator.release(&a.secret, held.acquired.lease, hold).await, false));
    drop(coordinator);
    store.heal();
    let coordinator = store.open(on(&clock)).unwrap();
    assert_eq!(
        holder(&coordinator, "d").await.unwrap().lease,
        held.acquired.lease,
        "nobody had been told that it ended"
    );
}

/// Mutant: without `keep_renewals_of` in `Writer::read_back` the lease falls back to the end that its grant had, and
/// is given away while its holder rightly believes in the renewal it was promised.
#[tokio::test]
async fn renewals_answered_before_the_outage_stay_true_even_for_a_lease_that_lost_records_ended() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let a = session(&coordinator, "a", 10_000).await;
    let (kept, _) = acquire(&coordinator, &a, "kept").await;
    let (broken, _) = acquire(&coordinator, &a, "broken").await;
    for _ in 0..3 {
        clock.advance(9_000);
        let both = Claim::Held(vec![kept.acquired.lease, broken.acquired.lease]);
        coordinator.heartbeat(&a, both).await.unwrap();
    }
    store.inject(Fault::FailNextCommitBefore);
    let tried = coordinator.break_lease(broken.acquired.lease, Reason::new("test").unwrap()).await;
    assert!(is_unavailable(&tried, true));
    resumed(&coordinator).await;
    for name in ["kept", "broken"] {
        let row = holder(&coordinator, name).await.unwrap_or_else(|| panic!("{name} is still held"));
        assert_eq!(row.remaining_ms, 10_000, "{name}");
    }
}

/// A renewal is only told when the end of the grace is durable: otherwise the next start keeps the end that the start
/// before gave, and grants the domain to another while its holder rightly believes in the renewal.
#[tokio::test]
async fn a_session_heard_for_the_first_time_in_an_outage_is_promised_nothing_that_a_crash_takes_back() {
    let (store, clock) = (MemoryStore::new(), clock());
    let before = store.open(on(&clock)).unwrap();
    let a = session(&before, "a", 10_000).await;
    let (held, _) = acquire(&before, &a, "d").await;
    drop(before);

    let coordinator = store.open(on(&clock)).unwrap();
    store.inject(Fault::RefuseCommits);
    clock.advance(4_000);
    let claim = || Claim::Held(vec![held.acquired.lease]);
    let mut promised = 0_u64;
    for _ in 0..3 {
        clock.advance(1_000);
        promised = promised.saturating_sub(1_000);
        if let Ok(beat) = coordinator.heartbeat(&a, claim()).await {
            promised = beat.answer.remaining_ms;
        }
    }
    drop(coordinator);
    store.heal();

    let after = store.open(on(&clock)).unwrap();
    let left = holder(&after, "d").await.map_or(0, |row| row.remaining_ms);
    assert!(left >= promised, "the holder was promised {promised} ms more, and the coordinator keeps {left} ms");
}

/// Mutant: with what is owed dropped in `Writer::try_to_resume` the log tells of a second grant of a held domain, and
/// the next start stops at it.
#[tokio::test]
async fn what_expires_during_an_outage_is_made_durable_before_anything_else() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let (a, b) = (session(&coordinator, "a", 2_000).await, session(&coordinator, "b", 60_000).await);
    let (held, _) = acquire(&coordinator, &a, "d").await;
    store.inject(Fault::RefuseCommits);
    let next = AcquireRequest::new(&b, domain("d"), request());
    clock.advance(2_000);
    assert!(coordinator.acquire(next.clone()).await.is_err());
    assert!(holder(&coordinator, "d").await.is_none(), "expired is expired, whatever the disk does");
    let late = coordinator.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await;
    assert!(late.is_err(), "{late:?}");
    store.heal();
    resumed(&coordinator).await;
    let next = coordinator.acquire(next).await.unwrap().answer;
    assert!(token(&next) > token(&held));
    drop(coordinator);
    let coordinator = store.open(on(&clock)).unwrap();
    assert_eq!(holder(&coordinator, "d").await.unwrap().lease, next.acquired.lease);
}

#[tokio::test]
async fn while_the_store_cannot_even_be_read_nothing_is_answered_and_then_all_is_well() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let a = session(&coordinator, "a", 60_000).await;
    let (held, _) = acquire(&coordinator, &a, "d").await;
    store.inject(Fault::RefuseAll);
    assert!(is_unavailable(&coordinator.acquire(AcquireRequest::new(&a, domain("e"), request())).await, true));
    assert!(is_unavailable(&coordinator.list(Filter::Prefix(String::new()), None, 9).await, false));
    assert!(is_unavailable(&coordinator.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await, false));
    store.heal();
    resumed(&coordinator).await;
    assert_eq!(holder(&coordinator, "d").await.unwrap().lease, held.acquired.lease);
}

#[tokio::test]
async fn a_read_that_finds_the_store_gone_is_the_beginning_of_an_outage_too() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    store.inject(Fault::RefuseAll);
    assert!(is_unavailable(&coordinator.counts().await, false));
    assert!(matches!(coordinator.ready(), Err(NotReady::Storage { .. })));
    store.heal();
    resumed(&coordinator).await;
    coordinator.counts().await.unwrap();
}

#[tokio::test]
async fn waiting_requests_are_told_of_an_outage_and_may_wait_again() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let (a, b) = (session(&coordinator, "a", 60_000).await, session(&coordinator, "b", 60_000).await);
    let (held, hold) = acquire(&coordinator, &a, "d").await;
    let wanted = waiting(&b, "d", 60_000);
    let start_waiting = || {
        let (queued, wanted) = (coordinator.clone(), wanted.clone());
        tokio::spawn(async move { queued.acquire(wanted).await })
    };
    let waiter = start_waiting();
    until("b waits", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;
    store.inject(Fault::FailNextCommitBefore);
    assert!(is_unavailable(&coordinator.end_session(&a).await, true));
    assert!(is_unavailable(&waiter.await.unwrap(), true), "the release would have granted it");
    resumed(&coordinator).await;
    let waiter = start_waiting();
    until("b waits again", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;
    coordinator.release(&a.secret, held.acquired.lease, hold).await.unwrap();
    waiter.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_hundred_thousand_failed_acquires_use_up_no_lasting_token_space() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let before = token(&acquire(&coordinator, &key, "before").await.0);
    store.inject(Fault::RefuseCommits);
    for round in 0..100 {
        let tries: Vec<_> = (0..1_000)
            .map(|number| {
                let (coordinator, key) = (coordinator.clone(), key.clone());
                let wanted = AcquireRequest::new(&key, domain(&format!("{round}/{number}")), request());
                tokio::spawn(async move { coordinator.acquire(wanted).await })
            })
            .collect();
        for tried in tries {
            assert!(matches!(tried.await.unwrap(), Err(CallError::Unavailable { .. })));
        }
    }
    store.heal();
    resumed(&coordinator).await;
    let after = token(&acquire(&coordinator, &key, "after").await.0);
    assert!(after > before);
    assert!(after.sequence().get() - before.sequence().get() <= 10_000, "{before} to {after}: at most one block");
}

#[derive(Default)]
struct Told {
    committed: AtomicU64,
    failed: AtomicU64,
    resumed: AtomicU64,
}

struct Tell(Arc<Told>);

impl Observer for Tell {
    fn committed(&mut self, _calls: usize, records: usize, _took: std::time::Duration) {
        self.0.committed.fetch_add(u64::from(records > 0), SeqCst);
    }

    fn failed(&mut self, _why: &str) {
        self.0.failed.fetch_add(1, SeqCst);
    }

    fn resumed(&mut self, _after: std::time::Duration) {
        self.0.resumed.fetch_add(1, SeqCst);
    }
}

#[tokio::test]
async fn an_observer_hears_of_an_outage_once_and_of_its_end() {
    let (store, told) = (MemoryStore::new(), Arc::new(Told::default()));
    let observer = Some(Box::new(Tell(Arc::clone(&told))) as _);
    let coordinator = store.open(Options { observer, ..Options::default() }).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    store.inject(Fault::RefuseCommits);
    for _ in 0..3 {
        let wanted = AcquireRequest::new(&key, domain("d"), request());
        assert!(coordinator.acquire(wanted).await.is_err());
    }
    store.heal();
    resumed(&coordinator).await;
    until("the end is told", || async { told.resumed.load(SeqCst) == 1 }).await;
    assert_eq!((told.committed.load(SeqCst), told.failed.load(SeqCst)), (1, 1));
}

/// Callers give up and come again while the storage hangs; what they left behind must not grow without end.
/// Mutant: the number of queued calls not compared; the last call waits as well.
#[tokio::test]
async fn calls_that_pile_up_behind_a_storage_that_hangs_are_refused_from_a_limit_on() {
    let store = MemoryStore::new();
    let coordinator = store.open(Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    store.inject(Fault::Stall);
    let stuck = {
        let (coordinator, wanted) = (coordinator.clone(), AcquireRequest::new(&key, domain("d"), request()));
        tokio::spawn(async move { coordinator.acquire(wanted).await })
    };
    until("the commit hangs", || async { store.is_stalled() }).await;
    // The first call may be among those that wait: upkeep meets the storage as well.
    while coordinator.statistics().queued < limits::QUEUED_CALLS {
        let mut gives_up = std::pin::pin!(coordinator.counts());
        assert!(gives_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "nobody answers now");
    }
    let mut refused = std::pin::pin!(coordinator.counts());
    let refused = refused.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    store.heal();
    let Poll::Ready(refused) = refused else { panic!("one more call waits") };
    assert!(is_unavailable(&refused, false), "{refused:?}");
    stuck.await.unwrap().unwrap();
    until("there is room again", || async { coordinator.counts().await.is_ok() }).await;
    until("all of them are dealt with", || async { coordinator.statistics().queued == 0 }).await;
}

/// The commit of the first one hangs while its process is otherwise alive; a second one takes the store over.
///
/// Mutant: without the comparison of start numbers when a row is appended, the first one's grant is not certainly
/// refused; without the one in `Writer::settle` before answers that need no record, its queued renewal is confirmed.
#[tokio::test]
async fn a_writer_that_hung_while_another_took_over_never_speaks_again() {
    let (store, clock) = (MemoryStore::new(), clock());
    let first = store.open(on(&clock)).unwrap();
    let a = session(&first, "a", 10_000).await;
    let (held, _) = acquire(&first, &a, "d").await;

    store.inject(Fault::Stall);
    let stuck = {
        let (first, wanted) = (first.clone(), AcquireRequest::new(&a, domain("e"), request()));
        tokio::spawn(async move { first.acquire(wanted).await })
    };
    until("the commit hangs", || async { store.is_stalled() }).await;
    let queued = {
        let (first, a, lease) = (first.clone(), a.clone(), held.acquired.lease);
        tokio::spawn(async move { first.heartbeat(&a, Claim::Held(vec![lease])).await })
    };
    until("the heartbeat is queued", || async { first.statistics().queued == 1 }).await;

    // The second start cannot commit either while the disk hangs, so it is opened on the way out of the hang.
    let opening = {
        let (store, options) = (store.clone(), on(&clock));
        tokio::task::spawn_blocking(move || store.open(options))
    };
    until("the second one has taken its start number", || async { store.latest_start() == 2 }).await;
    store.heal();
    let second = opening.await.unwrap().unwrap();

    assert!(is_unavailable(&stuck.await.unwrap(), false), "deposed: certainly not granted");
    assert!(is_unavailable(&queued.await.unwrap(), false), "a renewal needs no record and is refused all the same");
    assert_eq!(first.ready(), Err(NotReady::Deposed { by: 2 }));
    assert!(is_unavailable(&first.list(Filter::Prefix(String::new()), None, 1).await, false));
    assert!(holder(&second, "e").await.is_none());
    let beat = second.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await.unwrap();
    assert_eq!(beat.answer.leases.unwrap()[0].lease, held.acquired.lease, "holders move over without loss");
    assert!(token(&acquire(&second, &a, "e").await.0) > token(&held));
}

#[tokio::test]
async fn a_deposed_writer_expires_nothing_and_confirms_no_renewal() {
    let (store, clock) = (MemoryStore::new(), clock());
    let first = store.open(on(&clock)).unwrap();
    let a = session(&first, "a", 10_000).await;
    let (held, _) = acquire(&first, &a, "d").await;
    let second = store.open(on(&clock)).unwrap();
    let claim = || Claim::Held(vec![held.acquired.lease]);
    assert!(is_unavailable(&first.heartbeat(&a, claim()).await, false));
    clock.advance(9_000);
    second.heartbeat(&a, claim()).await.unwrap();
    clock.advance(9_000);
    assert!(is_unavailable(&first.check(domain("d"), token(&held)).await, false));
    assert_eq!(holder(&second, "d").await.unwrap().lease, held.acquired.lease);
}

#[test]
fn a_damaged_log_row_is_noticed_at_the_start_and_the_error_says_what_to_do() {
    let store = MemoryStore::new();
    drop(store.open(Options::default()).unwrap());
    store.damage_last_row();
    let refused = store.open(Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }));
    let text = refused.to_string();
    assert!(text.contains("checksum") && text.contains("initialise a new one"), "{text}");
}
