use fencepost_core::{
    LeaseId, LockDelay, MinHold,
    lease::{AcquireRefusal, LeaseEnd, LimitReached, ReleaseRefusal, ReservedKind, SessionRefusal, Terms},
    limits,
};

use crate::world::{TTL, Tokened, Wanted, World, request, want};

fn three_holds() -> Terms {
    Terms { reentrancy_limit: 3, ..Terms::default() }
}

/// R2: with a count instead of a set of holds, a repeated release frees another thread's hold.
#[test]
fn r2_a_repeated_release_ends_its_own_hold_only() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &Wanted { terms: three_holds(), ..want("d", 1) }).unwrap().lease;
    world.acquire(a, &Wanted { terms: three_holds(), ..want("d", 2) }).unwrap();
    let once = world.release(a, lease, request(1)).unwrap();
    let again = world.release(a, lease, request(1)).unwrap();
    assert_eq!(once, again);
    assert_eq!((once.ended, once.holds_left), (None, 1));
    assert!(world.holder_of("d").is_some(), "the second hold keeps the lease");
}

/// R3: ids forgotten at release would let a late copy of the acquire make a lease that nobody releases.
#[test]
fn r3_a_late_copy_of_a_released_acquire_grants_nothing() {
    let mut world = World::new();
    let a = world.open("a");
    let held = world.acquire(a, &want("d", 1)).unwrap();
    world.release(a, held.lease, request(1)).unwrap();
    assert_eq!(world.acquire(a, &want("d", 1)).unwrap_err(), AcquireRefusal::HoldEnded);
    assert!(world.holder_of("d").is_none());
    world.restart(crate::world::boot(1), 100);
    assert_eq!(world.acquire(a, &want("d", 1)).unwrap_err(), AcquireRefusal::HoldEnded, "also after a restart");
}

#[test]
fn a_release_of_a_lease_that_ended_never_touches_its_successor() {
    let mut world = World::new();
    let a = world.open("a");
    let first = world.acquire(a, &want("d", 1)).unwrap();
    world.release(a, first.lease, request(1)).unwrap();
    let second = world.acquire(a, &want("d", 2)).unwrap();
    let late = world.release(a, first.lease, request(1)).unwrap();
    assert_eq!(late.ended, Some(LeaseEnd::Released), "the recorded answer");
    assert_eq!(world.release(a, first.lease, request(2)).unwrap_err(), ReleaseRefusal::NeverHeld);
    assert_eq!(world.holder_of("d").unwrap().token, Some(second.token()));
}

#[test]
fn a_release_tells_apart_who_asks_and_what_for() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    assert_eq!(world.release(b, lease, request(1)).unwrap_err(), ReleaseRefusal::NotYours);
    assert_eq!(world.release(a, lease, request(9)).unwrap_err(), ReleaseRefusal::NeverHeld);
    let nobody = LeaseId::from_bytes([9; 16]);
    assert_eq!(world.release(a, nobody, request(1)).unwrap_err(), ReleaseRefusal::UnknownLease);
    let anonymous = fencepost_core::lease::Credential { secret: None, ..a };
    let unauthenticated = ReleaseRefusal::Session(SessionRefusal::Unauthenticated);
    assert_eq!(world.release(anonymous, lease, request(1)).unwrap_err(), unauthenticated);
    assert!(world.holder_of("d").is_some());
}

#[test]
fn a_release_in_an_ended_session_says_how_the_lease_ended() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    world.at(TTL);
    let late = world.release(a, lease, request(1)).unwrap();
    assert_eq!((late.ended, late.holds_left), (Some(LeaseEnd::Expired), 0));
    world.at(TTL + limits::ENDED_MEMORY_MS);
    assert!(world.release(a, lease, request(1)).is_err(), "long forgotten");
}

#[test]
fn ended_holds_are_remembered_to_a_limit_and_for_a_time() {
    let mut world = World::new();
    let a = world.open("a");
    for n in 0..limits::ENDED_HOLDS as u64 {
        let lease = world.acquire(a, &want("d", n)).unwrap().lease;
        world.release(a, lease, request(n)).unwrap();
    }
    let full = world.acquire(a, &want("d", 1_000_000)).unwrap_err();
    assert_eq!(full, AcquireRefusal::LimitReached(LimitReached { limit: "ended_holds" }));
    let mut now = 0;
    while now < limits::ENDED_MEMORY_MS {
        now += TTL / 2;
        world.at(now).heartbeat(a, &[]).unwrap();
    }
    assert!(world.acquire(a, &want("d", 1_000_000)).is_ok());
}

#[test]
fn a_least_holding_time_counts_from_the_grant_and_holds_after_any_end() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let terms = Terms { min_hold: Some(MinHold::from_millis(2_000).unwrap()), ..Terms::default() };
    let lease = world.acquire(a, &Wanted { terms, ..want("d", 1) }).unwrap().lease;
    world.at(500).release(a, lease, request(1)).unwrap();
    let AcquireRefusal::Reserved(reserved) = world.acquire(b, &want("d", 2)).unwrap_err() else { panic!() };
    assert_eq!((reserved.kind, reserved.remaining_ms), (ReservedKind::MinHold, 1_500));
    assert!(world.at(1_999).acquire(a, &want("d", 3)).is_err(), "also for the session that released it");
    assert!(world.at(2_000).acquire(b, &want("d", 4)).is_ok());
}

#[test]
fn a_delay_after_an_unclean_end_holds_back_the_next_grant_and_a_clean_end_does_not() {
    let terms = Terms { lock_delay: Some(LockDelay::from_millis(1_000).unwrap()), ..Terms::default() };
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &Wanted { terms, ..want("d", 1) }).unwrap().lease;
    world.release(a, lease, request(1)).unwrap();
    world.acquire(a, &Wanted { terms, ..want("d", 2) }).unwrap();
    world.at(TTL);
    let b = world.open("b");
    let AcquireRefusal::Reserved(reserved) = world.acquire(b, &want("d", 3)).unwrap_err() else { panic!() };
    assert_eq!((reserved.kind, reserved.remaining_ms), (ReservedKind::LockDelay, 1_000));
    world.restart(crate::world::boot(1), TTL + 900);
    let c = world.open("c");
    assert!(world.at(TTL + 1_800).acquire(c, &want("d", 4)).is_err(), "it starts anew after a restart");
    assert!(world.at(TTL + 1_900).acquire(c, &want("d", 5)).is_ok());
}

/// Where the least holding time is the longer of the two, a restart near its end must not cut the delay short.
#[test]
fn a_delay_after_an_unclean_end_starts_anew_also_behind_a_least_holding_time() {
    let terms = Terms {
        min_hold: Some(MinHold::from_millis(TTL + 2_000).unwrap()),
        lock_delay: Some(LockDelay::from_millis(1_500).unwrap()),
        ..Terms::default()
    };
    let mut world = World::new();
    let a = world.open("a");
    world.acquire(a, &Wanted { terms, ..want("d", 1) }).unwrap();
    world.at(TTL);
    world.restart(crate::world::boot(1), TTL + 1_900);
    let b = world.open("b");
    let AcquireRefusal::Reserved(reserved) = world.at(TTL + 2_000).acquire(b, &want("d", 2)).unwrap_err() else {
        panic!()
    };
    assert_eq!((reserved.kind, reserved.remaining_ms), (ReservedKind::LockDelay, 1_400));
    assert!(world.at(TTL + 3_400).acquire(b, &want("d", 3)).is_ok());
}

/// Renewing in a loop must not get around the limit of remembered holds.
#[test]
fn holds_that_a_session_ends_by_renewing_count_too() {
    let mut world = World::new();
    let a = world.open("a");
    for n in 0..=limits::ENDED_HOLDS as u64 {
        world.acquire(a, &Wanted { renew: true, ..want("d", n) }).unwrap();
    }
    let full = world.acquire(a, &Wanted { renew: true, ..want("d", 1_000_000) }).unwrap_err();
    assert_eq!(full, AcquireRefusal::LimitReached(LimitReached { limit: "ended_holds" }));
}
