//! When the coordinator as a whole is full: what is new is refused, and what is there goes on.

use fencepost_core::{
    lease::{AcquireRefusal, LimitReached},
    limits,
};

use crate::world::{Wanted, World, request, want};

#[test]
fn there_is_an_end_to_the_leases_of_a_session_and_what_waits_counts_as_one() {
    // Falls when `room_in` lets everything pass, and when it does not count the waiters.
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let held = world.acquire(b, &want("awaited", 1)).unwrap();
    let waiting = world.queue(a, &Wanted { wait: 1_000, ..want("awaited", 2) });
    for n in 1..limits::SESSION_LEASES as u64 {
        world.acquire(a, &want(&n.to_string(), n + 2)).unwrap();
    }
    let full = AcquireRefusal::LimitReached(LimitReached { limit: "session_leases" });
    assert_eq!(world.acquire(a, &want("one more", 0)).unwrap_err(), full);
    world.release(b, held.lease, request(1)).unwrap();
    world.acquired_by(waiting).unwrap().unwrap();
    assert_eq!(world.read(a).unwrap().leases.len(), limits::SESSION_LEASES);
    assert_eq!(world.acquire(a, &want("one more", 0)).unwrap_err(), full);
}

#[test]
fn there_is_an_end_to_sessions_and_those_there_are_go_on() {
    // Falls when `room_for_a_session` lets everything pass, or is not asked where an acquire opens the session.
    let mut world = World::new();
    let first = world.open("h");
    for _ in 1..limits::SESSIONS {
        world.open("h");
        world.forget_what_happened();
    }
    let full = LimitReached { limit: "sessions" };
    assert_eq!(world.try_open("h").unwrap_err(), full);
    assert_eq!(world.acquire_opening(&want("d", 1)).unwrap_err(), AcquireRefusal::LimitReached(full));
    world.acquire(first, &want("d", 2)).unwrap();

    world.end(first).unwrap();
    world.acquire_opening(&want("d", 3)).unwrap();
    assert_eq!(world.try_open("h").unwrap_err(), full);
}
