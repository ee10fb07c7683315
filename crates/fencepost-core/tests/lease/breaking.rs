use fencepost_core::{
    Contract, LeaseId,
    lease::{BreakRefusal, LeaseEnd},
};

use crate::world::{Tokened, Wanted, World, request, want};

#[test]
fn a_break_burns_a_token_between_the_old_holder_and_the_next() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let held = world.acquire(a, &want("d", 1)).unwrap();
    let broken = world.break_lease(held.lease).unwrap();
    let again = world.break_lease(held.lease).unwrap();
    assert_eq!((broken.fence_to, broken.already, again.already), (again.fence_to, false, true));
    let next = world.acquire(b, &want("d", 2)).unwrap();
    assert!(held.token() < broken.fence_to.unwrap() && broken.fence_to.unwrap() < next.token());
    let named = world.heartbeat(a, &[held.lease]).unwrap();
    assert_eq!(named.ended[0].end, Some(LeaseEnd::Revoked));
}

#[test]
fn a_break_never_hits_the_successor() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let first = world.acquire(a, &want("d", 1)).unwrap();
    world.release(a, first.lease, request(1)).unwrap();
    let second = world.acquire(b, &want("d", 2)).unwrap();
    let next = world.snapshot().next_token;
    assert_eq!(world.break_lease(first.lease).unwrap_err(), BreakRefusal::LeaseEnded(LeaseEnd::Released));
    assert_eq!(world.break_lease(LeaseId::from_bytes([9; 16])).unwrap_err(), BreakRefusal::UnknownLease);
    assert_eq!(world.holder_of("d").unwrap().lease, second.lease);
    assert_eq!(world.snapshot().next_token, next, "nothing was burned");
}

#[test]
fn a_break_of_a_lease_that_cannot_fence_names_no_token() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &Wanted { contract: Contract::Advisory, ..want("d", 1) }).unwrap().lease;
    assert_eq!(world.break_lease(lease).unwrap().fence_to, None);
    assert_eq!(world.break_lease(lease).unwrap().fence_to, None);
    assert!(world.holder_of("d").is_none());
}
