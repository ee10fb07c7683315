use fencepost_core::{
    MaxHold,
    lease::{AcquireRefusal, Credential, HeartbeatRefusal, LeaseEnd, SessionEnd, SessionRefusal, Terms},
};

use crate::world::{TTL, Tokened, Wanted, World, request, want};

/// I8: a renewal after the end fails even if nobody else came and nothing has swept yet.
///
/// Mutant: `step.expire()` left out of `Leases::step_after`.
#[test]
fn a_heartbeat_after_the_end_revives_nothing() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    world.now = TTL;
    let late = world.heartbeat(a, &[lease]).unwrap_err();
    assert_eq!(late, HeartbeatRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Expired)));
    let b = world.open("b");
    assert!(world.acquire(b, &want("d", 2)).unwrap().token() > crate::world::token("0.1"));
}

/// Who looks only at whether the domain is free takes this for a lease that nobody has had meanwhile.
///
/// Mutant: a heartbeat that renews by domain and not by lease.
#[test]
fn a_late_heartbeat_revives_nothing_though_another_had_the_domain_and_gave_it_back() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let terms = Terms { max_hold: Some(MaxHold::from_millis(1_000).unwrap()), ..Terms::default() };
    let lost = world.acquire(a, &Wanted { terms, ..want("d", 1) }).unwrap();
    let between = world.at(1_000).acquire(b, &want("d", 2)).unwrap();
    world.release(b, between.lease, request(2)).unwrap();
    let late = world.heartbeat(a, &[lost.lease]).unwrap();
    let told: Vec<_> = late.ended.iter().map(|ended| (ended.lease, ended.end)).collect();
    assert_eq!((late.leases.unwrap_or_default().len(), told), (0, vec![(lost.lease, Some(LeaseEnd::Expired))]));
    assert!(world.holder_of("d").is_none(), "the domain is free, and not A's");
    assert!(world.acquire(a, &want("d", 3)).unwrap().token() > between.token());
}

/// T1: a lease granted late in its session's life ends with the session, whatever the session's TTL.
///
/// Mutant: the session's end left out of `end_of`.
#[test]
fn t1_a_grant_promises_no_more_than_its_session_has_left() {
    let mut world = World::new();
    let a = world.open("a");
    let held = world.at(2_000).acquire(a, &want("d", 1)).unwrap();
    assert_eq!(held.remaining_ms, 1_000);
    world.at(3_000);
    let b = world.open("b");
    assert!(world.acquire(b, &want("d", 2)).is_ok());
}

/// T2: a lease that no heartbeat names ends after one TTL: the answer that granted it may have been lost.
#[test]
fn t2_a_lease_that_is_never_claimed_does_not_live_on() {
    let mut world = World::new();
    let a = world.open("a");
    let claimed = world.acquire(a, &want("claimed", 1)).unwrap().lease;
    world.acquire(a, &want("lost", 2)).unwrap();
    let heartbeat = world.at(2_000).heartbeat(a, &[claimed]).unwrap();
    assert_eq!(heartbeat.unclaimed.len(), 1);
    assert_eq!(heartbeat.unclaimed[0].remaining_ms, 1_000);
    world.at(3_000);
    assert!(world.holder_of("lost").is_none());
    assert!(world.holder_of("claimed").is_some());
}

#[test]
fn a_version_stands_for_the_claimed_set_and_is_void_when_the_set_changes() {
    let mut world = World::new();
    let a = world.open("a");
    let one = world.acquire(a, &want("one", 1)).unwrap().lease;
    let first = world.heartbeat(a, &[one]).unwrap();
    let by_version = world.at(1_000).heartbeat_version(a, first.version).unwrap();
    assert_eq!((by_version.version, by_version.leases), (first.version, None));
    let two = world.acquire(a, &want("two", 2)).unwrap().lease;
    let unclaimed = world.heartbeat_version(a, first.version).unwrap().unclaimed;
    assert_eq!(unclaimed[0].lease, two, "a grant alone claims nothing");
    let both = world.heartbeat(a, &[one, two]).unwrap();
    assert_ne!(both.version, first.version);
    world.break_lease(one).unwrap();
    assert_eq!(world.heartbeat_version(a, both.version).unwrap_err(), HeartbeatRefusal::VersionUnknown);
    let named = world.heartbeat(a, &[one, two]).unwrap();
    assert_eq!((named.ended[0].lease, named.ended[0].end), (one, Some(LeaseEnd::Revoked)));
    assert_eq!(named.leases.unwrap().len(), 1);
}

/// Mutant: `renew` called before the version is compared.
#[test]
fn a_heartbeat_of_another_version_renews_nothing() {
    let mut world = World::new();
    let a = world.open("a");
    let lease = world.acquire(a, &want("d", 1)).unwrap().lease;
    let version = world.heartbeat(a, &[lease]).unwrap().version;
    let other = fencepost_core::lease::Version(version.0 + 1);
    assert!(world.at(2_000).heartbeat_version(a, other).is_err());
    world.at(3_000);
    assert!(world.holder_of("d").is_none());
}

#[test]
fn nothing_but_a_heartbeat_keeps_a_session_alive() {
    let mut world = World::new();
    let a = world.open("a");
    let held = world.acquire(a, &want("d", 1)).unwrap();
    for now in [1_000, 2_000, 2_900] {
        world.at(now).read(a).unwrap();
        world.acquire(a, &want("d", 1)).unwrap();
        world.acquire(a, &want(&format!("other{now}"), now)).unwrap();
    }
    world.at(3_000);
    assert!(world.holder_of("d").is_none());
    assert_eq!(world.read(a).unwrap_err(), SessionRefusal::SessionEnded(SessionEnd::Expired));
    let _ = held;
}

#[test]
fn callers_are_told_apart_by_their_secret() {
    let mut world = World::new();
    let (a, b) = (world.open("a"), world.open("b"));
    let anonymous = Credential { secret: None, ..a };
    let forged = Credential { secret: Some(crate::world::secret(99)), ..a };
    let stranger = Credential { secret: b.secret, ..a };
    assert_eq!(world.read(anonymous).unwrap_err(), SessionRefusal::Unauthenticated);
    assert_eq!(world.read(forged).unwrap_err(), SessionRefusal::Unauthenticated);
    assert_eq!(world.read(stranger).unwrap_err(), SessionRefusal::NotYours);
    let unknown = Credential { session: fencepost_core::SessionId::from_bytes([9; 16]), ..a };
    assert_eq!(world.read(unknown).unwrap_err(), SessionRefusal::UnknownSession);
}

#[test]
fn a_session_ends_cleanly_and_again_without_harm() {
    let mut world = World::new();
    let a = world.open("a");
    world.acquire(a, &want("d", 1)).unwrap();
    world.end(a).unwrap();
    world.end(a).unwrap();
    assert!(world.holder_of("d").is_none());
    let refused = world.acquire(a, &want("d", 2)).unwrap_err();
    assert_eq!(refused, AcquireRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Ended)));
}

#[test]
fn the_retry_of_an_opening_acquire_gets_a_new_secret_until_one_is_used() {
    let mut world = World::new();
    let (first, lost) = world.acquire_opening(&want("d", 1)).unwrap();
    let (again, found) = world.acquire_opening(&want("d", 1)).unwrap();
    assert_eq!((again.lease, again.token(), again.again), (first.lease, first.token(), true));
    assert_eq!(world.read(lost).unwrap_err(), SessionRefusal::Unauthenticated, "the old secret is dead");
    world.heartbeat(found, &[first.lease]).unwrap();
    let (third, none) = world.acquire_opening(&want("d", 1)).unwrap();
    assert_eq!((third.token(), none.secret), (first.token(), None), "the secret is settled");
    world.restart(crate::world::boot(1), 100);
    let (fourth, none) = world.acquire_opening(&want("d", 1)).unwrap();
    assert_eq!((fourth.token(), none.secret), (first.token(), None), "also after a restart");
    world.release(found, first.lease, request(1)).unwrap();
    assert_eq!(world.acquire_opening(&want("d", 1)).unwrap_err(), AcquireRefusal::HoldEnded);
}

#[test]
fn an_opening_acquire_of_an_ended_session_is_answered_and_grants_nothing() {
    let mut world = World::new();
    world.acquire_opening(&want("d", 1)).unwrap();
    world.at(TTL);
    let late = world.acquire_opening(&want("d", 1)).unwrap_err();
    assert_eq!(late, AcquireRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Expired)));
}
