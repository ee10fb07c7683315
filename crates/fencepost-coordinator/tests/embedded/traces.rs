//! Traces of the guarantees that are about holds, deadlines and lost answers, on the running driver.

use fencepost_coordinator::{AcquireRequest, Coordinator, embedded::testing::MemoryStore};
use fencepost_core::lease::{AcquireRefusal, Claim, LeaseEnd, Terms};

use crate::common::{NOON, acquire, clock, domain, holder, on, refusal, request, session, token, until, waiting};

/// R2: holds are named. Were they counted, the copy of a release would free the hold of another thread.
/// Mutant: a release that ends any hold of its lease.
#[tokio::test]
async fn r2_a_repeated_release_frees_nobody_elses_hold() {
    let coordinator = MemoryStore::new().open(on(&clock())).unwrap();
    let (a, b) = (session(&coordinator, "a", 15_000).await, session(&coordinator, "b", 15_000).await);
    let terms = Terms { reentrancy_limit: 2, ..Terms::default() };
    let hold = || AcquireRequest { terms, ..AcquireRequest::new(&a, domain("d"), request()) };
    let (first, second) = (hold(), hold());
    let granted = coordinator.acquire(first.clone()).await.unwrap().answer;
    let again = coordinator.acquire(second.clone()).await.unwrap().answer;
    assert_eq!(
        (again.acquired.lease, token(&again)),
        (granted.acquired.lease, token(&granted)),
        "one lease, one token"
    );

    let lease = granted.acquired.lease;
    let released = coordinator.release(&a.secret, lease, first.request).await.unwrap();
    assert_eq!((released.ended, released.holds_left), (None, 1));
    for _ in 0..3 {
        assert_eq!(
            coordinator.release(&a.secret, lease, first.request).await.unwrap(),
            released,
            "the recorded answer"
        );
    }
    let other = coordinator.acquire(AcquireRequest::new(&b, domain("d"), request())).await;
    assert!(matches!(refusal(other), AcquireRefusal::Held(_)), "the other thread still holds it");
    let last = coordinator.release(&a.secret, lease, second.request).await.unwrap();
    assert_eq!((last.ended, last.holds_left), (Some(LeaseEnd::Released), 0));
    acquire(&coordinator, &b, "d").await;
}

/// T1: a grant late in a session's life ends with the session, and what its holder adds up says so: the moment of sending,
/// what the coordinator took, what remains.
/// Mutant: a whole time to live as what remains of any new grant.
#[tokio::test]
async fn t1_what_a_holder_adds_up_never_lies_behind_the_grant_to_another() {
    let clock = clock();
    let coordinator = MemoryStore::new().open(on(&clock)).unwrap();
    let (a, b) = (session(&coordinator, "a", 10_000).await, session(&coordinator, "b", 60_000).await);
    let (kept, kept_hold) = acquire(&coordinator, &b, "waited for").await;
    let sent = NOON;
    let waiter = {
        let (coordinator, wanted) = (coordinator.clone(), waiting(&a, "waited for", 60_000));
        tokio::spawn(async move { coordinator.acquire(wanted).await })
    };
    until("a waits", || async { coordinator.counts().await.unwrap().waiting == 1 }).await;
    clock.advance(8_000);
    coordinator.release(&b.secret, kept.acquired.lease, kept_hold).await.unwrap();
    let granted = waiter.await.unwrap().unwrap();
    let elapsed = u64::try_from(granted.elapsed.as_millis()).unwrap();
    let believes_until = sent + elapsed + granted.answer.acquired.remaining_ms;
    let at_once = coordinator.acquire(AcquireRequest::new(&a, domain("at once"), request())).await.unwrap();
    assert_eq!(at_once.answer.acquired.remaining_ms, 2_000, "the session ends then");

    // Two more seconds, and the session is over: whoever comes is granted both.
    clock.advance(1_999);
    for name in ["waited for", "at once"] {
        let early = coordinator.acquire(AcquireRequest::new(&b, domain(name), request())).await;
        assert!(matches!(refusal(early), AcquireRefusal::Held(_)), "{name}");
    }
    clock.advance(1);
    for name in ["waited for", "at once"] {
        acquire(&coordinator, &b, name).await;
    }
    assert!(believes_until <= NOON + 10_000, "a believes until {believes_until}");
}

/// T2: nobody guesses which answers arrived. What a holder names lives, also when its first answer was lost; what it does
/// not name ends after one time to live, however long its session lives.
/// Mutant: a heartbeat that renews every lease of its session.
#[tokio::test]
async fn t2_what_a_holder_names_lives_and_a_lost_grant_ends_by_itself() {
    let clock = clock();
    let coordinator = MemoryStore::new().open(on(&clock)).unwrap();
    let a = session(&coordinator, "a", 10_000).await;
    let (received, _) = acquire(&coordinator, &a, "received").await;
    // Its caller is gone before the answer; the grant is made all the same.
    let lost = AcquireRequest::new(&a, domain("lost"), request());
    let gone = tokio::time::timeout(std::time::Duration::ZERO, coordinator.acquire(lost)).await;
    drop(gone);
    until("it is granted all the same", || async { holder(&coordinator, "lost").await.is_some() }).await;
    for beat in 1..=4 {
        clock.advance(4_000);
        let answer = coordinator.heartbeat(&a, Claim::Held(vec![received.acquired.lease])).await.unwrap().answer;
        assert_eq!(answer.leases.unwrap()[0].remaining_ms, 10_000, "beat {beat}");
        let unclaimed: Vec<_> = answer.unclaimed.iter().map(|lease| lease.domain.as_str()).collect();
        assert_eq!(unclaimed, if beat < 3 { &["lost"][..] } else { &[] }, "beat {beat}");
    }
    assert_eq!(holder(&coordinator, "received").await.unwrap().lease, received.acquired.lease);
    let b = session(&coordinator, "b", 10_000).await;
    acquire(&coordinator, &b, "lost").await;
}
