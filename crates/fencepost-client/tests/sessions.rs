//! A worker's day: it opens a session, holds leases for longer than their TTL, gives them back, and loses some.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use fencepost_client::{AcquireError, LeaseState, Loss, Session};
use fencepost_coordinator::Coordinator;
use fencepost_core::{
    Grant, Holder, LeaseId, Permission, Reason, SessionId, Wait,
    lease::{Acquired, Claim, Filter, LeaseEnd, SessionEnd},
};
use support::{Network, StoppedClock, Verb, coordinator, domain, is_held, session, ttl, until};

#[tokio::test]
async fn a_lease_lives_for_as_long_as_its_holder_does_and_not_only_for_its_ttl() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 1_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2_500) {
        assert_eq!(lease.state(), LeaseState::Held);
        assert!(lease.remaining() > Duration::from_millis(300), "{:?}", lease.remaining());
        // bounded: the loop around it ends after 2.5 TTLs, which is what is tried
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(coordinator.check(domain("d"), lease.token()).await.unwrap());
}

#[tokio::test]
async fn what_is_held_is_refused_to_others_who_learn_who_has_it_and_free_once_released() {
    let coordinator = coordinator();
    let a = session(coordinator.clone(), 1_000).await;
    let b = Session::open(coordinator, Holder::new("b").unwrap(), ttl(1_000)).await.unwrap();
    let first = a.acquire(domain("d")).await.unwrap();
    let refused = b.acquire(domain("d")).await.unwrap_err();
    assert_eq!(refused.held_by().unwrap().holder, Holder::new("a").unwrap());
    assert!(refused.is_worth_repeating());
    let token = first.token();
    let released = first.release().await.unwrap();
    assert_eq!((released.ended, released.holds_left), (Some(LeaseEnd::Released), 0));
    assert!(b.acquire(domain("d")).await.unwrap().token() > token);
}

#[tokio::test]
async fn each_contract_hands_out_its_own_and_nothing_else() {
    let session = session(coordinator(), 1_000).await;
    let safety = session.acquire(domain("s")).await.unwrap();
    assert_eq!(safety.grant().domain, domain("s"));
    let admission = session.acquire_admission(domain("a")).await.unwrap();
    assert!(admission.correlation().as_str().parse::<fencepost_core::Token>().is_err());
    session.acquire_advisory(domain("o")).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lease_that_an_operator_breaks_is_lost_everywhere_at_the_next_heartbeat() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 1_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    let (told, callback) = mpsc::channel();
    lease.on_lost(move |loss| told.send(loss).unwrap());
    let finished = Arc::new(AtomicBool::new(false));
    let work = {
        let finished = finished.clone();
        async move {
            // bounded: it is cancelled
            tokio::time::sleep(Duration::from_secs(60)).await;
            finished.store(true, Ordering::Relaxed);
        }
    };
    coordinator.break_lease(lease.id(), Reason::new("test").unwrap()).await.unwrap();
    let revoked = Loss::Ended(LeaseEnd::Revoked);
    assert_eq!(lease.run(work).await, Err(revoked));
    assert!(!finished.load(Ordering::Relaxed));
    assert_eq!(lease.lost().await, revoked);
    assert_eq!(lease.state(), LeaseState::Lost(revoked));
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert_eq!(callback.recv_timeout(Duration::from_secs(5)).unwrap(), revoked);
    // A callback that comes late is called all the same.
    let (told, callback) = mpsc::channel();
    lease.on_lost(move |loss| told.send(loss).unwrap());
    assert_eq!(callback.recv_timeout(Duration::from_secs(5)).unwrap(), revoked);
}

#[tokio::test]
async fn a_callback_that_blocks_for_ever_stalls_nothing() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 1_000).await;
    let broken = session.acquire(domain("broken")).await.unwrap();
    let kept = session.acquire(domain("kept")).await.unwrap();
    // bounded: longer than the TTL, on a thread that nobody waits for
    broken.on_lost(|_| std::thread::sleep(Duration::from_secs(3)));
    coordinator.break_lease(broken.id(), Reason::new("test").unwrap()).await.unwrap();
    broken.lost().await;
    // bounded: outliving the TTL of one second is what is tried
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(kept.state(), LeaseState::Held);
}

#[tokio::test]
async fn work_that_ends_in_time_returns_its_result() {
    let session = session(coordinator(), 1_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    assert_eq!(lease.run(async { 7 }).await, Ok(7));
}

#[tokio::test]
async fn closing_a_session_frees_all_it_holds_and_its_handles_know_why() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 60_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    let clone = session.clone();
    session.close().await.unwrap();
    assert!(!is_held(&coordinator, &domain("d")).await);
    let ended = Loss::SessionEnded(SessionEnd::Ended);
    assert_eq!(lease.state(), LeaseState::Lost(ended));
    assert_eq!(lease.lost().await, ended);
    assert!(matches!(clone.acquire(domain("d")).await, Err(AcquireError::SessionOver(over)) if over == ended));
    clone.close().await.unwrap();
}

#[tokio::test]
async fn a_session_lives_as_long_as_one_of_its_leases_and_ends_with_the_last() {
    let coordinator = coordinator();
    let lease = session(coordinator.clone(), 1_000).await.acquire(domain("d")).await.unwrap();
    // bounded: outliving the TTL of one second is what is tried
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(lease.state(), LeaseState::Held);
    drop(lease);
    until("the session has ended", async || coordinator.counts().await.unwrap().sessions == 0).await;
}

#[tokio::test]
async fn a_panic_in_the_work_gives_the_lease_back() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 60_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    let task = tokio::spawn(async move {
        lease.run(async { panic!("the work fails") }).await.unwrap();
    });
    assert!(task.await.unwrap_err().is_panic());
    until("the domain is free", async || !is_held(&coordinator, &domain("d")).await).await;
}

#[tokio::test]
async fn a_lease_left_to_expire_is_given_to_nobody_before_its_end_even_when_the_session_is_closed() {
    let coordinator = coordinator();
    let a = session(coordinator.clone(), 1_000).await;
    let b = session(coordinator.clone(), 1_000).await;
    let lease = a.acquire(domain("d")).await.unwrap();
    let acquired = Instant::now();
    lease.leave_to_expire();
    a.close().await.unwrap();
    assert!(is_held(&coordinator, &domain("d")).await);
    let _second = b.acquire(domain("d")).wait(Wait::from_millis(5_000).unwrap()).await.unwrap();
    assert!(acquired.elapsed() > Duration::from_millis(600), "it was freed early: {:?}", acquired.elapsed());
}

#[tokio::test]
async fn a_lease_left_to_expire_does_not_keep_the_others_from_being_given_back() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 60_000).await;
    let left = session.acquire(domain("left")).await.unwrap();
    for n in 0..200 {
        let lease = session.acquire(domain(&format!("d{n}"))).await.unwrap();
        drop(lease);
    }
    left.leave_to_expire();
    drop(session);
    until("only what was left is held", async || coordinator.counts().await.unwrap().leases == 1).await;
    assert!(is_held(&coordinator, &domain("left")).await);
}

/// Mutant: `holdings.released` left out of `Shared::give_up`.
#[tokio::test]
async fn no_heartbeat_names_a_lease_after_its_release_began() {
    let network = Network::new();
    let session = session(network.clone(), 1_000).await;
    for round in 0..50 {
        let lease = session.acquire(domain(&format!("d{round}"))).await.unwrap();
        let id = lease.id();
        if round % 2 == 0 {
            // Let a heartbeat claim it, so that there is one to race with.
            until("it is claimed", async || network.claims().iter().any(|claim| names(claim, id))).await;
        }
        lease.release().await.unwrap();
        let before = network.claims().len();
        assert!(!network.claims()[before..].iter().any(|claim| names(claim, id)));
        until("the next heartbeat has come", async || network.claims().len() > before || round % 10 != 0).await;
        assert!(!network.claims()[before..].iter().any(|claim| names(claim, id)), "claimed after its release");
        assert!(!is_held(&network, &domain(&format!("d{round}"))).await);
    }
}

fn names(claim: &Claim, id: LeaseId) -> bool {
    match claim {
        Claim::Held(leases) => leases.contains(&id),
        Claim::Unchanged(_) => false,
    }
}

/// The network goes, and with it every answer. The holder gives up before the coordinator does, and whoever is granted
/// the domain next never shares it, not for a moment.
///
/// Mutant: a heartbeat that was not answered counted as confirmed in `Keeper::answered`.
#[tokio::test]
async fn i9_without_a_network_the_holder_has_lost_before_the_next_one_is_granted() {
    let network = Network::new();
    let a = session(network.clone(), 1_000).await;
    let b = session(network.there.clone(), 1_000).await;
    let lease = a.acquire(domain("d")).await.unwrap();
    let token = lease.token();
    network.cut(true);
    let granted = b.acquire(domain("d")).wait(Wait::from_millis(10_000).unwrap());
    let (states, granted) = tokio::join!(
        async {
            let mut states = Vec::new();
            loop {
                let state = lease.state();
                if states.last() != Some(&state) {
                    states.push(state);
                }
                if !state.is_held() {
                    return states;
                }
                // bounded: the loop around it ends with the lease
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        },
        async {
            let granted = granted.await.unwrap();
            assert_eq!(lease.state(), LeaseState::Lost(Loss::DeadlinePassed), "two holders at one time");
            granted
        }
    );
    assert!(matches!(states[1..], [LeaseState::InDoubt { .. }, LeaseState::Lost(_)]), "{states:?}");
    assert!(granted.token() > token);
    // Back on the network, nothing comes back to life.
    network.cut(false);
    until("the session is over", async || a.over().is_some()).await;
    assert_eq!(lease.state(), LeaseState::Lost(Loss::DeadlinePassed));
    assert!(matches!(a.acquire(domain("d")).await, Err(AcquireError::SessionOver(_))));
}

/// A process that was stopped: not one of its threads ran, and its first look at the clock tells.
#[tokio::test]
async fn i9_a_stopped_process_knows_at_its_first_look_at_the_clock() {
    let clock = StoppedClock::new();
    let network = Network::new();
    let holder = Holder::new("a").unwrap();
    let session = Session::open_with_clock(network.clone(), holder, ttl(60_000), clock.clone()).await.unwrap();
    let lease = session.acquire(domain("d")).await.unwrap();
    assert!(lease.state().is_held());
    network.cut(true);
    clock.advance(54_000);
    assert_eq!(lease.state(), LeaseState::Lost(Loss::DeadlinePassed));
    let touched = AtomicBool::new(false);
    let work = async { touched.store(true, Ordering::Relaxed) };
    assert_eq!(lease.run(work).await, Err(Loss::DeadlinePassed));
    assert!(!touched.load(Ordering::Relaxed), "the work was not even begun");
}

/// The caller's runtime is blocked from before the grant until after its loss.
///
/// Mutant: the last `match` of `Acquire::made` always hands the lease over.
#[tokio::test]
async fn a_grant_that_its_caller_comes_to_too_late_is_not_handed_over() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 1_000).await;
    let acquiring = tokio::spawn(session.acquire(domain("d")).into_future());
    tokio::task::yield_now().await;
    let broken = std::thread::spawn(move || {
        let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        elsewhere.block_on(async {
            until("it is granted", async || is_held(&coordinator, &domain("d")).await).await;
            let page = coordinator.list(Filter::Domain(domain("d")), None, 1).await.unwrap();
            coordinator.break_lease(page.rows[0].lease, Reason::new("test").unwrap()).await.unwrap();
            // bounded: one TTL, after which it is over whether or not a heartbeat has heard of the break
            tokio::time::sleep(Duration::from_millis(1_000)).await;
        });
    });
    broken.join().unwrap();
    let error = acquiring.await.unwrap().unwrap_err();
    let is_told = matches!(error, AcquireError::Lost(Loss::Ended(LeaseEnd::Revoked) | Loss::DeadlinePassed));
    assert!(is_told, "{error}");
}

/// Mutant: any branch left out of `plausible`.
#[tokio::test]
async fn a_grant_of_something_else_is_no_grant_whatever_the_driver() {
    type Lie = (fn(&mut Acquired), &'static str);
    let lies: [Lie; 6] = [
        (|acquired| acquired.domain = domain("e"), "it grants another domain"),
        (|acquired| acquired.session = SessionId::from_bytes([7; 16]), "it grants to another session"),
        (|acquired| acquired.permission = Permission::Advisory, "it grants under another contract"),
        (|acquired| in_grant(acquired, |grant| grant.domain = domain("e")), "its grant is for something else"),
        (
            |acquired| in_grant(acquired, |grant| grant.lease = LeaseId::from_bytes([7; 16])),
            "its grant is for something else",
        ),
        (
            |acquired| in_grant(acquired, |grant| grant.session = SessionId::from_bytes([7; 16])),
            "its grant is for something else",
        ),
    ];
    for (lie, why) in lies {
        let network = Network::new();
        let session = session(network.clone(), 60_000).await;
        network.lie(lie);
        let error = session.acquire(domain("d")).await.unwrap_err();
        assert_eq!(error.to_string(), format!("the coordinator's answer is not understood: {why}"));
        until("what it may have granted is given back", async || !is_held(&network, &domain("d")).await).await;
    }
}

fn in_grant(acquired: &mut Acquired, change: fn(&mut Grant)) {
    let Permission::Safety(grant) = &mut acquired.permission else { unreachable!() };
    change(grant);
}

/// Nobody else wanted the domain, and still: what is over is over.
#[tokio::test]
async fn a_renewal_after_expiry_fails_even_when_nobody_took_the_domain() {
    let network = Network::new();
    let a = session(network.clone(), 1_000).await;
    let lease = a.acquire(domain("d")).await.unwrap();
    let token = lease.token();
    network.cut(true);
    lease.lost().await;
    until("it has expired at the coordinator", async || !is_held(&network, &domain("d")).await).await;
    network.cut(false);
    until("a heartbeat was answered", async || a.over().is_some()).await;
    assert_eq!(a.over(), Some(Loss::SessionEnded(SessionEnd::Expired)));
    let again = session(network, 1_000).await;
    assert!(again.acquire(domain("d")).await.unwrap().token() > token);
}

#[tokio::test]
async fn an_acquire_whose_answers_are_lost_is_repeated_and_grants_once() {
    let network = Network::new();
    let session = session(network.clone(), 1_000).await;
    let first = session.acquire(domain("first")).await.unwrap();
    network.lose_answers(Verb::Acquire, 3);
    let second = session.acquire(domain("second")).await.unwrap();
    assert_eq!(network.calls(Verb::Acquire), 5);
    assert_eq!(second.token().as_u64(), first.token().as_u64() + 1, "one token was spent");
}

#[tokio::test]
async fn a_release_whose_answers_are_lost_is_repeated_and_says_what_happened() {
    let network = Network::new();
    let session = session(network.clone(), 1_000).await;
    let lease = session.acquire(domain("d")).await.unwrap();
    network.lose_answers(Verb::Release, 3);
    assert_eq!(lease.release().await.unwrap().ended, Some(LeaseEnd::Released));
}

/// Mutant: `give_back_abandoned` left out of `Keeper::answered`.
#[tokio::test]
async fn an_acquire_that_gives_up_leaves_no_grant_behind() {
    let network = Network::new();
    let session = session(network.clone(), 60_000).await;
    network.lose_answers(Verb::Acquire, u32::MAX);
    let refused = session.acquire(domain("d")).patience(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(refused, AcquireError::Call(_)), "{refused}");
    until("the orphan is given back, long before its TTL", async || !is_held(&network, &domain("d")).await).await;
}

#[tokio::test]
async fn an_acquire_under_an_unreachable_coordinator_fails_and_says_so() {
    let network = Network::new();
    let session = session(network.clone(), 1_000).await;
    network.cut(true);
    let error = session.acquire(domain("d")).patience(Duration::ZERO).await.unwrap_err();
    assert_eq!(error.to_string(), "the coordinator did not answer: cut");
    assert!(error.is_worth_repeating());
    assert_eq!(network.calls(Verb::Acquire), 1, "no patience is one attempt");
}

#[tokio::test]
async fn two_holds_of_one_lease_have_one_token_and_end_one_by_one() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 1_000).await;
    let first = session.acquire(domain("d")).reentrancy_limit(2).await.unwrap();
    let second = session.acquire(domain("d")).reentrancy_limit(2).await.unwrap();
    assert_eq!((first.token(), first.id()), (second.token(), second.id()));
    assert_eq!(first.release().await.unwrap().holds_left, 1);
    assert_eq!(second.state(), LeaseState::Held);
    assert_eq!(second.release().await.unwrap().ended, Some(LeaseEnd::Released));
}

#[tokio::test]
async fn renewing_forces_a_greater_token_and_takes_it_from_the_earlier_hold() {
    let session = session(coordinator(), 1_000).await;
    let first = session.acquire(domain("d")).await.unwrap();
    let second = session.acquire(domain("d")).renew().await.unwrap();
    assert!(second.token() > first.token());
    assert_eq!(first.state(), LeaseState::Lost(Loss::Renewed));
    drop(first);
    // bounded: outliving the TTL of one second is what is tried
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(second.state(), LeaseState::Held);
}
