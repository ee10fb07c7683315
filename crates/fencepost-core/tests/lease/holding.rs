use fencepost_core::{
    Contract, MaxHold, Permission, Sequence,
    lease::{AcquireRefusal, LeaseEnd, Terms},
};

use crate::world::{TTL, Tokened, World, domain, request, token, want};

#[test]
fn tokens_rise_across_domains_and_owners() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    assert_eq!(world.acquire(a, &want("d", 1)).unwrap().token(), token("0.1"));
    assert_eq!(world.acquire(b, &want("e", 2)).unwrap().token(), token("0.2"));
    let lease = world.holder_of("d").unwrap().lease;
    world.release(a, lease, request(1)).unwrap();
    assert_eq!(world.acquire(b, &want("d", 3)).unwrap().token(), token("0.3"));
}

/// Mutant: `place.lease` ignored in `grant_or_queue`.
#[test]
fn a_held_domain_is_refused_with_what_an_operator_needs() {
    let mut world = World::new();
    let (a, b) = (world.open("worker-a"), world.open("b"));
    let held = world.acquire(a, &want("d", 1)).unwrap();
    world.at(700);
    let AcquireRefusal::Held(by) = world.acquire(b, &want("d", 2)).unwrap_err() else { panic!() };
    assert_eq!((by.holder.as_str(), by.lease, by.token), ("worker-a", held.lease, Some(held.token())));
    assert_eq!((by.held_ms, by.remaining_ms, by.queue, by.waited_ms), (700, TTL - 700, 0, 0));
}

#[test]
fn only_safety_hands_out_a_token_and_only_admission_a_correlation() {
    let mut world = World::new();
    let a = world.open("a");
    let admission = world.acquire(a, &crate::world::Wanted { contract: Contract::Admission, ..want("d", 1) }).unwrap();
    let Permission::Admission(correlation) = admission.permission else { panic!() };
    assert!(correlation.as_str().parse::<fencepost_core::Token>().is_err(), "not in token form");
    let advisory = world.acquire(a, &crate::world::Wanted { contract: Contract::Advisory, ..want("e", 2) }).unwrap();
    assert_eq!(advisory.permission, Permission::Advisory);
    assert_eq!(world.holder_of("d").unwrap().token, None);
    assert!(world.snapshot().leases.is_empty(), "collection sees what can write");
}

/// R1: a retried acquire without a request id leaves a lease that nobody releases.
#[test]
fn r1_a_repeated_acquire_is_the_same_grant_and_spends_no_second_token() {
    let mut world = World::new();
    let a = world.open("a");
    let first = world.acquire(a, &want("d", 1)).unwrap();
    let again = world.acquire(a, &want("d", 1)).unwrap();
    assert_eq!((again.lease, again.token(), again.again), (first.lease, first.token(), true));
    world.release(a, first.lease, request(1)).unwrap();
    assert!(world.holder_of("d").is_none());
    assert_eq!(world.snapshot().next_token, Some(token("0.2")));
}

#[test]
fn a_repeated_acquire_that_asks_for_something_else_is_a_conflict() {
    let mut world = World::new();
    let a = world.open("a");
    world.acquire(a, &want("d", 1)).unwrap();
    for other in [
        want("e", 1),
        crate::world::Wanted { contract: Contract::Admission, ..want("d", 1) },
        crate::world::Wanted { renew: true, ..want("d", 1) },
    ] {
        assert_eq!(world.acquire(a, &other).unwrap_err(), AcquireRefusal::RequestConflict);
    }
    let waits_longer = crate::world::Wanted { wait: 500, ..want("d", 1) };
    assert!(world.acquire(a, &waits_longer).unwrap().again, "how long to wait is not part of the request");
}

/// An equal token is the same owner: a reentrant acquire must not make its holder stale to itself.
#[test]
fn a_reentrant_acquire_adds_a_hold_under_the_same_token() {
    let mut world = World::new();
    let a = world.open("a");
    let twice = Terms { reentrancy_limit: 2, ..Terms::default() };
    let first = world.acquire(a, &crate::world::Wanted { terms: twice, ..want("d", 1) }).unwrap();
    let second = world.acquire(a, &crate::world::Wanted { terms: twice, ..want("d", 2) }).unwrap();
    assert_eq!((second.lease, second.token(), second.again), (first.lease, first.token(), false));
    let third = world.acquire(a, &crate::world::Wanted { terms: twice, wait: 900, ..want("d", 3) });
    assert_eq!(third.unwrap_err(), AcquireRefusal::ReentrancyLimit { limit: 2 });
    let other_terms = Terms { max_hold: Some(MaxHold::from_millis(9_000).unwrap()), ..twice };
    let mismatch = world.acquire(a, &crate::world::Wanted { terms: other_terms, ..want("d", 4) });
    assert_eq!(mismatch.unwrap_err(), AcquireRefusal::LeaseMismatch);
}

#[test]
fn renew_forces_a_greater_token_and_ends_the_earlier_hold() {
    let mut world = World::new();
    let a = world.open("a");
    let first = world.acquire(a, &want("d", 1)).unwrap();
    let renewed = world.acquire(a, &crate::world::Wanted { renew: true, ..want("d", 2) }).unwrap();
    assert_eq!(renewed.lease, first.lease);
    assert!(renewed.token() > first.token());
    let released = world.release(a, first.lease, request(1)).unwrap();
    assert_eq!((released.ended, released.holds_left), (None, 1), "the earlier hold is over, the lease is not");
    assert_eq!(world.holder_of("d").unwrap().token, Some(renewed.token()));
    assert_eq!(world.release(a, first.lease, request(2)).unwrap().ended, Some(LeaseEnd::Released));
}

#[test]
fn a_lease_ends_at_its_greatest_holding_time_whatever_the_heartbeats() {
    let mut world = World::new();
    let a = world.open("a");
    let terms = Terms { max_hold: Some(MaxHold::from_millis(5_000).unwrap()), ..Terms::default() };
    let held = world.acquire(a, &crate::world::Wanted { terms, ..want("d", 1) }).unwrap();
    for now in [1_000, 2_500, 4_000] {
        let heartbeat = world.at(now).heartbeat(a, &[held.lease]).unwrap();
        assert_eq!(heartbeat.leases.unwrap()[0].remaining_ms, TTL.min(5_000 - now));
    }
    world.at(4_999);
    assert!(world.holder_of("d").is_some());
    world.at(5_000);
    assert!(world.holder_of("d").is_none());
}

/// Deleting the last trace of a domain must not reset the counter.
#[test]
fn a_domain_that_is_forgotten_and_used_again_gets_a_greater_token() {
    let mut world = World::new();
    let a = world.open("a");
    let first = world.acquire(a, &want("d", 1)).unwrap();
    world.release(a, first.lease, request(1)).unwrap();
    world.at(3_600_000);
    let b = world.open("b");
    assert!(world.acquire(b, &want("d", 2)).unwrap().token() > first.token());
}

/// Mutant: `checked_add` replaced by a wrapping addition.
#[test]
fn the_end_of_the_token_space_is_refused_and_never_wraps() {
    let mut world = World::new();
    let start = fencepost_core::lease::Start {
        number: 9,
        boot: crate::world::boot(1),
        at: fencepost_core::Moment::from_millis(0),
        least: Sequence::new(Sequence::MAX.get() - 1).unwrap(),
    };
    let _ = world.leases.start(start).committed();
    let a = world.open("a");
    let mut granted = Vec::new();
    for n in 0..4 {
        granted.push(world.acquire(a, &want(&format!("d{n}"), n)).map(|acquired| acquired.token().sequence().get()));
    }
    let max = Sequence::MAX.get();
    assert_eq!(granted[..2], [Ok(max - 1), Ok(max)]);
    assert_eq!(granted[2..], [Err(AcquireRefusal::TokenSpaceExhausted), Err(AcquireRefusal::TokenSpaceExhausted)]);
    assert_eq!(world.snapshot().next_token, None);
    let lease = world.holder_of("d0").unwrap().lease;
    assert!(world.break_lease(lease).is_err(), "a break burns a token, and there is none");
}

#[test]
fn a_check_knows_the_current_token_of_a_domain_and_no_other() {
    let mut world = World::new();
    let a = world.open("a");
    let held = world.acquire(a, &want("d", 1)).unwrap();
    for (name, token, current) in [("d", held.token(), true), ("e", held.token(), false), ("d", token("0.9"), false)] {
        let query = fencepost_core::lease::Query::Check { domain: domain(name), token };
        let ticket = world.send(fencepost_core::lease::Command::Query(query));
        let Some(fencepost_core::lease::Answer::Current(answer)) = world.answer_to(ticket) else { panic!() };
        assert_eq!(answer, current, "{name} {token}");
    }
}
