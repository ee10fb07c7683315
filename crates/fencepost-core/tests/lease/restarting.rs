use fencepost_core::{
    MinHold,
    lease::{AcquireRefusal, Terms},
};

use crate::world::{TTL, Tokened, Wanted, World, boot, want};

#[test]
fn a_restart_keeps_leases_and_skips_the_numbers_that_were_reserved() {
    for by_snapshot in [false, true] {
        let mut world = World::new();
        let (a, b) = (world.open("a"), world.open("b"));
        let held = world.acquire(a, &want("d", 1)).unwrap();
        match by_snapshot {
            true => world.restart_from_snapshot(boot(1), 100),
            false => world.restart(boot(1), 100),
        }
        let AcquireRefusal::Held(by) = world.acquire(b, &want("d", 2)).unwrap_err() else { panic!() };
        assert_eq!(by.lease, held.lease);
        let again = world.acquire(a, &want("d", 1)).unwrap();
        assert_eq!((again.token(), again.again), (held.token(), true));
        let next = world.acquire(b, &want("e", 3)).unwrap();
        assert!(next.token().sequence().get() > 10_000, "a block is skipped, so nothing of it is issued twice");
    }
}

/// T3: with a grace at every restart a dead holder would live for ever.
///
/// Mutants: `session.mark.filter(|_| same_boot)` or `lease.mark.filter(|_| same_boot)` replaced by `None`.
#[test]
fn t3_restarts_more_often_than_a_ttl_do_not_keep_a_dead_holder_alive() {
    let mut world = World::new();
    let dead = world.open("dead");
    world.acquire(dead, &want("d", 1)).unwrap();
    for restart in 1..=4 {
        world.restart(boot(1), restart * 1_000);
        let held = restart < 4;
        world.at(world.now);
        assert_eq!(world.holder_of("d").is_some(), held, "restart {restart}");
    }
    assert!(world.read(dead).is_err(), "the session ends as well as its lease");
}

/// T4: a grace given once must not cost a healthy holder its lease at the second restart.
///
/// Mutant: the record `SessionHeard` left out of `renew`.
#[test]
fn t4_a_holder_that_was_heard_gets_a_grace_at_the_next_restart_too() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    world.restart(boot(1), 1_000);
    world.at(2_000).heartbeat(a, &[lease]).unwrap();
    world.restart(boot(1), 4_500);
    assert!(world.at(7_499).holder_of("d").is_some());
    assert!(world.at(7_500).holder_of("d").is_none());
}

/// T4, the other half: a marked session keeps its end, so nobody else is granted before it.
#[test]
fn t4_a_session_that_was_not_heard_keeps_the_end_that_it_was_given() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    world.restart(boot(1), 1_000);
    world.restart(boot(1), 2_000);
    assert!(world.at(3_999).acquire(b, &want("d", 2)).is_err());
    world.now = 3_999;
    assert!(world.heartbeat(a, &[lease]).is_ok(), "in time, up to the end it was given");
}

/// T4 under a change of boot: nobody knows how much time has passed, so the grace starts anew.
#[test]
fn t4_under_another_boot_a_marked_session_gets_a_fresh_ttl() {
    let mut world = World::new();
    let a = world.open("a");
    world.acquire(a, &want("d", 1)).unwrap();
    world.restart(boot(1), 1_000);
    world.restart(boot(2), 50);
    assert!(world.at(50 + TTL - 1).holder_of("d").is_some());
    assert!(world.at(50 + TTL).holder_of("d").is_none());
}

#[test]
fn a_grant_whose_answer_was_lost_is_not_prolonged_by_a_second_restart() {
    let mut world = World::new();
    let a = world.open("a");
    world.acquire(a, &want("lost", 1)).unwrap();
    world.restart(boot(1), 1_000);
    world.at(2_000).heartbeat(a, &[]).unwrap();
    world.restart(boot(1), 3_000);
    world.at(3_500).heartbeat(a, &[]).unwrap();
    assert!(
        world.at(4_000).holder_of("lost").is_none(),
        "its mark was not cleared by a heartbeat that did not name it"
    );
}

#[test]
fn versions_of_the_start_before_are_void() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let version = world.heartbeat(a, &[lease]).unwrap().version;
    world.restart(boot(1), 1_000);
    assert!(world.heartbeat_version(a, version).is_err());
    assert!(world.heartbeat(a, &[lease]).is_ok());
}

#[test]
fn a_least_holding_time_goes_on_across_a_restart_and_starts_anew_under_another_boot() {
    let terms = Terms { min_hold: Some(MinHold::from_millis(10_000).unwrap()), ..Terms::default() };
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &Wanted { terms, ..want("d", 1) }).unwrap().lease;
    world.release(a, lease, crate::world::request(1)).unwrap();
    let mut rebooted = world.clone();
    world.restart(boot(1), 9_000);
    let b = world.at(9_999).open("b");
    assert!(world.acquire(b, &want("d", 2)).is_err());
    assert!(world.at(10_000).acquire(b, &want("d", 3)).is_ok());
    rebooted.restart(boot(2), 5);
    let b = rebooted.at(10_004).open("b");
    assert!(rebooted.acquire(b, &want("d", 2)).is_err());
    assert!(rebooted.at(10_005).acquire(b, &want("d", 3)).is_ok());
}
