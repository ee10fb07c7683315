use fencepost_core::{
    Moment,
    lease::{AcquireRefusal, SessionEnd, SessionRefusal},
};

use crate::world::{TTL, Tokened, Wanted, World, request, want};

fn patient(name: &str, n: u64) -> Wanted {
    Wanted { wait: 60_000, ..want(name, n) }
}

#[test]
fn waiters_are_granted_in_the_order_in_which_they_came() {
    let mut world = World::new();
    let (a, b, c) = (world.open("a"), world.open("b"), world.open("c"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let second = world.queue(b, &patient("d", 2));
    let third = world.queue(c, &patient("d", 3));
    world.at(10).release(a, lease, request(1)).unwrap();
    let granted = world.acquired_by(second).unwrap().unwrap();
    assert!(world.acquired_by(third).is_none());
    world.release(b, granted.lease, request(2)).unwrap();
    assert!(world.acquired_by(third).unwrap().unwrap().token() > granted.token());
}

#[test]
fn a_wait_that_is_over_is_answered_with_who_holds_the_domain() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    world.acquire(a, &want("d", 1)).unwrap();
    let waiting = world.queue(b, &Wanted { wait: 500, ..want("d", 2) });
    world.at(499);
    assert!(world.acquired_by(waiting).is_none());
    world.at(500);
    let AcquireRefusal::Held(by) = world.acquired_by(waiting).unwrap().unwrap_err() else { panic!() };
    assert_eq!((by.holder.as_str(), by.waited_ms), ("a", 500));
}

/// Mutant: `waiter.ticket.is_some()` left out of `next_in_line`.
#[test]
fn a_dead_waiter_is_never_granted_and_holds_nobody_up() {
    let mut world = World::new();
    let (a, b, c) = (world.open("a"), world.open("b"), world.open("c"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let dead = world.queue(b, &patient("d", 2));
    let alive = world.queue(c, &patient("d", 3));
    world.leases.disconnect(dead, Moment::from_millis(world.now));
    world.release(a, lease, request(1)).unwrap();
    assert!(world.acquired_by(dead).is_none());
    assert!(world.acquired_by(alive).unwrap().is_ok());
}

#[test]
fn a_retry_on_a_new_connection_finds_its_place_in_the_queue_again() {
    let mut world = World::new();
    let (a, b, c) = (world.open("a"), world.open("b"), world.open("c"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let lost = world.queue(b, &patient("d", 2));
    let behind = world.queue(c, &patient("d", 3));
    world.leases.disconnect(lost, Moment::from_millis(world.now));
    let retried = world.at(1_000).queue(b, &patient("d", 2));
    world.release(a, lease, request(1)).unwrap();
    assert!(world.acquired_by(retried).unwrap().is_ok());
    assert!(world.acquired_by(behind).is_none());
}

#[test]
fn a_place_without_a_connection_is_kept_for_one_ttl() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let held = world.acquire(a, &want("d", 1)).unwrap().lease;
    let lost = world.queue(b, &patient("d", 2));
    world.leases.disconnect(lost, Moment::from_millis(world.now));
    for now in [1_000, 2_000, 3_000] {
        world.at(now).heartbeat(a, &[held]).unwrap();
        world.heartbeat(b, &[]).unwrap();
        assert_eq!(world.holder_of("d").unwrap().queue, u32::from(now < TTL), "at {now}");
    }
}

#[test]
fn of_two_connections_with_one_request_id_the_older_one_is_told() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    world.acquire(a, &want("d", 1)).unwrap();
    let older = world.queue(b, &patient("d", 2));
    let newer = world.queue(b, &patient("d", 2));
    assert_eq!(world.acquired_by(older).unwrap().unwrap_err(), AcquireRefusal::Superseded);
    let other = Wanted { renew: true, ..patient("d", 2) };
    assert_eq!(world.acquire(b, &other).unwrap_err(), AcquireRefusal::RequestConflict);
    world.end(a).unwrap();
    assert!(world.acquired_by(newer).unwrap().is_ok());
}

#[test]
fn a_waiting_request_does_not_keep_its_session_alive() {
    let mut world = World::new();
    let b = world.open("b");
    let a = world.at(1_000).open("a");
    world.acquire(a, &want("d", 1)).unwrap();
    let waiting = world.queue(b, &patient("d", 2));
    world.at(TTL);
    let refused = world.acquired_by(waiting).unwrap().unwrap_err();
    assert_eq!(refused, AcquireRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Expired)));
}

/// After a stall everything is due at once: what has expired is expired, and nobody who has expired is granted.
#[test]
fn a_stall_grants_nothing_to_a_waiter_whose_session_ended_in_it() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    world.acquire(a, &want("d", 1)).unwrap();
    let waiting = world.queue(b, &patient("d", 2));
    world.at(10 * TTL);
    assert!(world.acquired_by(waiting).unwrap().is_err());
    assert!(world.holder_of("d").is_none());
}

#[test]
fn a_waiting_opening_acquire_opens_its_session_at_the_grant() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let caller = fencepost_core::lease::Caller::Opening {
        holder: fencepost_core::Holder::new("b").unwrap(),
        ttl: fencepost_core::Ttl::from_millis(TTL).unwrap(),
    };
    let command = world.command(caller, &patient("d", 2));
    let ticket = world.send(command);
    world.at(2_000).release(a, lease, request(1)).unwrap();
    let granted = world.acquired_by(ticket).unwrap().unwrap();
    assert_eq!((granted.remaining_ms, granted.secret_taken), (TTL, true));
}

#[test]
fn a_second_request_of_the_new_holder_does_not_wait_for_it_to_let_go() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let first = world.queue(b, &patient("d", 2));
    let second = world.queue(b, &patient("d", 3));
    world.release(a, lease, request(1)).unwrap();
    assert!(world.acquired_by(first).unwrap().is_ok());
    let refused = world.acquired_by(second).unwrap().unwrap_err();
    assert_eq!(refused, AcquireRefusal::ReentrancyLimit { limit: 1 });
}
