//! A holder's life in stories. Times are milliseconds; the TTL is 3000, so the margin is 300.

use std::time::Duration;

use crate::{
    Contract, Correlation, Domain, LeaseId, Moment, Permission, RequestId, SessionId, Ttl,
    lease::{
        Acquired, Claim, ConfirmedLease, EndedLease, Heartbeat, HeartbeatRefusal, LeaseEnd, SessionEnd, SessionRefusal,
        Version,
    },
};

use super::{Attempt, Confirmed, Holdings, Jitter, LeaseState, Loss};

const A: u8 = 1;
const B: u8 = 2;

fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

fn lease(n: u8) -> LeaseId {
    LeaseId::from_bytes([n; 16])
}

fn request(n: u8) -> RequestId {
    RequestId::from_bytes([n; 16])
}

fn domain(n: u8) -> Domain {
    Domain::new(&format!("d{n}")).unwrap()
}

struct Holder {
    holdings: Holdings,
    version: u64,
}

impl Holder {
    fn opened_at(sent: u64) -> Self {
        let ttl = Ttl::from_millis(3_000).unwrap();
        let opened = Confirmed { sent: at(sent), elapsed: Duration::ZERO, remaining_ms: 3_000 };
        Self { holdings: Holdings::open(ttl, opened, Jitter::NONE), version: 0 }
    }

    /// An acquire sent at `sent`, answered at `now` with `remaining_ms`.
    fn granted(&mut self, n: u8, sent: u64, now: u64, remaining_ms: u64) {
        let acquired = Acquired {
            lease: lease(n),
            domain: domain(n),
            permission: Permission::Admission(Correlation::of(lease(n))),
            session: SessionId::from_bytes([9; 16]),
            ttl: Ttl::from_millis(3_000).unwrap(),
            remaining_ms,
            again: false,
            secret_taken: false,
        };
        assert_eq!(acquired.permission.contract(), Contract::Admission);
        self.holdings.granted(request(n), &acquired, false, at(sent), Duration::ZERO, at(now));
    }

    /// An answer to `attempt` at `now` that confirms these leases for one TTL, decided as soon as it was sent.
    fn confirmed(&mut self, attempt: &Attempt, leases: &[u8], now: u64) {
        self.answered(attempt, leases, &[], now);
    }

    fn answered(&mut self, attempt: &Attempt, leases: &[u8], ended: &[(u8, LeaseEnd)], now: u64) {
        self.version += 1;
        let heartbeat = Heartbeat {
            version: Version(self.version),
            leases: Some(
                leases
                    .iter()
                    .map(|n| ConfirmedLease { lease: lease(*n), domain: domain(*n), token: None, remaining_ms: 3_000 })
                    .collect(),
            ),
            unclaimed: vec![],
            ended: ended.iter().map(|(n, end)| EndedLease { lease: lease(*n), end: Some(*end) }).collect(),
            remaining_ms: 3_000,
        };
        self.holdings.confirmed(attempt, &heartbeat, Duration::ZERO, at(now), Jitter::NONE);
    }

    fn unchanged(&mut self, attempt: &Attempt, now: u64) {
        let heartbeat = Heartbeat {
            version: Version(self.version),
            leases: None,
            unclaimed: vec![],
            ended: vec![],
            remaining_ms: 3_000,
        };
        self.holdings.confirmed(attempt, &heartbeat, Duration::ZERO, at(now), Jitter::NONE);
    }

    fn state(&self, n: u8, now: u64) -> LeaseState {
        self.holdings.state(request(n), at(now))
    }

    fn deadline(&self, n: u8) -> Option<u64> {
        self.holdings.deadline(request(n)).map(Moment::as_millis)
    }
}

/// T1: acquire sent and granted at 2 in a session that ends at 3; believing it for a whole TTL would overlap with a
/// grant to somebody else at 3.
///
/// Mutant: `remaining_ms` replaced by the TTL in `Confirmed::deadline`.
#[test]
fn t1_a_grant_in_a_session_about_to_end_is_believed_no_longer_than_the_session() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 2_000, 2_100, 1_000);
    assert_eq!(holder.deadline(A), Some(2_700));
    assert_eq!(holder.holdings.next_heartbeat(), Some(at(1_000)), "it is claimed at once: the moment has passed");
    assert!(holder.state(A, 2_699).is_held());
    assert_eq!(holder.state(A, 2_700), LeaseState::Lost(Loss::DeadlinePassed));
}

/// I9: the network is gone and the process is paused; the deadline is a matter of the clock alone.
///
/// Mutant: `now < until` removed from `Holdings::state`.
#[test]
fn i9_a_paused_process_knows_at_once_that_its_deadline_has_passed() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(10));
    holder.confirmed(&attempt, &[A], 20);
    // No machine method ran meanwhile: the process was stopped for an hour.
    assert_eq!(holder.state(A, 3_600_000), LeaseState::Lost(Loss::DeadlinePassed));
    // The answer that was in the socket all along does not bring it back.
    holder.confirmed(&attempt, &[A], 3_600_001);
    assert_eq!(holder.state(A, 3_600_001), LeaseState::Lost(Loss::DeadlinePassed));
    assert_eq!(holder.holdings.take_losses(), [(request(A), Loss::DeadlinePassed)]);
}

/// Mutant: counting from the arrival of the answer in `Holdings::extend`.
#[test]
fn a_slow_answer_confirms_from_the_moment_its_attempt_was_sent() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(1_000));
    holder.confirmed(&attempt, &[A], 2_500);
    assert_eq!(holder.deadline(A), Some(1_000 + 3_000 - 300));
}

/// Mutant: `max` removed in `Holdings::extend`.
#[test]
fn answers_that_overtake_each_other_leave_the_latest_promise_standing() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let first = holder.holdings.heartbeat(at(500));
    let second = holder.holdings.heartbeat(at(1_000));
    holder.confirmed(&second, &[A], 1_010);
    holder.confirmed(&first, &[A], 1_020);
    assert_eq!(holder.deadline(A), Some(1_000 + 3_000 - 300));
}

#[test]
fn an_answer_extends_only_what_it_confirms() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    holder.granted(B, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(1_000));
    holder.confirmed(&attempt, &[B], 1_010);
    assert_eq!((holder.deadline(A), holder.deadline(B)), (Some(2_700), Some(3_700)));
}

#[test]
fn an_answer_that_confirms_what_its_attempt_did_not_name_is_not_believed() {
    let mut holder = Holder::opened_at(0);
    let attempt = holder.holdings.heartbeat(at(1_000));
    holder.granted(A, 1_000, 1_005, 2_000);
    holder.confirmed(&attempt, &[A], 1_010);
    assert_eq!(holder.deadline(A), Some(1_000 + 2_000 - 300));
}

#[test]
fn a_lease_granted_while_a_heartbeat_is_under_way_is_claimed_by_the_next_one_at_once() {
    let mut holder = Holder::opened_at(0);
    let attempt = holder.holdings.heartbeat(at(1_000));
    assert_eq!(attempt.claim(), Claim::Held(vec![]));
    holder.granted(A, 1_000, 1_005, 2_000);
    holder.confirmed(&attempt, &[], 1_010);
    assert_eq!(holder.holdings.next_heartbeat(), Some(at(1_010)));
    let next = holder.holdings.heartbeat(at(1_010));
    assert_eq!(next.claim(), Claim::Held(vec![lease(A)]), "the version names a set without it");
}

#[test]
fn a_hurry_is_not_forgotten_over_the_answer_to_an_earlier_heartbeat() {
    let mut holder = Holder::opened_at(0);
    let earlier = holder.holdings.heartbeat(at(1_000));
    holder.holdings.hurry(at(1_005));
    holder.confirmed(&earlier, &[], 1_010);
    assert_eq!(holder.holdings.next_heartbeat(), Some(at(1_010)));
    let later = holder.holdings.heartbeat(at(1_010));
    holder.confirmed(&later, &[], 1_020);
    assert_eq!(holder.holdings.next_heartbeat(), Some(at(2_010)));
}

#[test]
fn an_unchanged_set_is_named_by_its_version_and_extended_with_the_session() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(10));
    assert_eq!(attempt.claim(), Claim::Held(vec![lease(A)]));
    holder.confirmed(&attempt, &[A], 20);
    let attempt = holder.holdings.heartbeat(at(1_000));
    assert_eq!(attempt.claim(), Claim::Unchanged(Version(1)));
    holder.unchanged(&attempt, 1_010);
    assert_eq!(holder.deadline(A), Some(3_700));
}

#[test]
fn a_release_while_a_heartbeat_is_under_way_is_not_undone_by_its_answer() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    holder.granted(B, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(1_000));
    holder.holdings.released(request(A));
    holder.confirmed(&attempt, &[A, B], 1_010);
    assert_eq!(holder.state(A, 1_010), LeaseState::Lost(Loss::Released));
    let next = holder.holdings.heartbeat(at(2_000));
    assert_eq!(next.claim(), Claim::Held(vec![lease(B)]));
}

#[test]
fn an_answer_without_a_list_to_a_list_confirms_nothing() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(1_000));
    assert!(matches!(attempt.claim(), Claim::Held(_)));
    holder.unchanged(&attempt, 1_010);
    assert_eq!(holder.deadline(A), Some(2_700));
}

#[test]
fn an_unknown_version_makes_the_next_heartbeat_name_the_leases_at_once() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(10));
    holder.confirmed(&attempt, &[A], 20);
    let attempt = holder.holdings.heartbeat(at(1_000));
    holder.holdings.refused(&attempt, HeartbeatRefusal::VersionUnknown, at(1_010));
    assert_eq!(holder.holdings.next_heartbeat(), Some(at(1_010)));
    assert_eq!(holder.holdings.heartbeat(at(1_010)).claim(), Claim::Held(vec![lease(A)]));
    assert_eq!(holder.deadline(A), Some(10 + 3_000 - 300), "a refusal renews nothing");
}

#[test]
fn unanswered_heartbeats_put_a_lease_in_doubt_until_its_deadline() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let attempt = holder.holdings.heartbeat(at(1_000));
    assert_eq!(holder.state(A, 1_100), LeaseState::Held);
    holder.holdings.unanswered(at(1_500), Jitter::NONE);
    assert_eq!(holder.state(A, 1_500), LeaseState::InDoubt { until: at(2_700) });
    holder.confirmed(&attempt, &[A], 2_000);
    assert_eq!(holder.state(A, 2_000), LeaseState::Held);
    // Nobody has noticed a failure, but no answer has come for two thirds of a TTL.
    assert_eq!(holder.state(A, 3_000), LeaseState::InDoubt { until: at(3_700) });
}

#[test]
fn every_way_a_lease_can_end_is_told_once_and_stays() {
    let ends = [LeaseEnd::Expired, LeaseEnd::Revoked, LeaseEnd::Recovered, LeaseEnd::Released];
    for end in ends {
        let mut holder = Holder::opened_at(0);
        holder.granted(A, 0, 10, 3_000);
        let attempt = holder.holdings.heartbeat(at(1_000));
        let late = holder.holdings.heartbeat(at(1_001));
        holder.answered(&attempt, &[], &[(A, end)], 1_010);
        assert_eq!(holder.holdings.take_losses(), [(request(A), Loss::Ended(end))]);
        holder.confirmed(&late, &[A], 1_020);
        assert_eq!(holder.state(A, 1_020), LeaseState::Lost(Loss::Ended(end)));
        assert_eq!(holder.holdings.take_losses(), []);
        assert_eq!(holder.holdings.heartbeat(at(1_030)).claim(), Claim::Held(vec![]));
    }
}

#[test]
fn when_the_session_is_over_everything_is_lost_and_no_heartbeat_follows() {
    let ended = HeartbeatRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Expired));
    let unknown = HeartbeatRefusal::Session(SessionRefusal::UnknownSession);
    for (refusal, loss) in [(ended, Loss::SessionEnded(SessionEnd::Expired)), (unknown, Loss::SessionUnknown)] {
        let mut holder = Holder::opened_at(0);
        holder.granted(A, 0, 10, 3_000);
        let attempt = holder.holdings.heartbeat(at(1_000));
        holder.holdings.refused(&attempt, refusal, at(1_010));
        assert_eq!(holder.state(A, 1_010), LeaseState::Lost(loss));
        assert_eq!(holder.holdings.next_heartbeat(), None);
        holder.granted(B, 1_000, 1_020, 3_000);
        assert_eq!(holder.state(B, 1_020), LeaseState::Lost(loss), "a grant of an ended session is no grant");
    }
}

#[test]
fn a_grant_that_arrives_after_its_deadline_is_lost_from_the_start() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 2_700, 3_000);
    assert_eq!(holder.state(A, 2_700), LeaseState::Lost(Loss::DeadlinePassed));
    assert_eq!(holder.holdings.take_losses(), [(request(A), Loss::DeadlinePassed)]);
}

#[test]
fn a_repeated_grant_does_not_revive_a_lost_hold() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    holder.holdings.expire(at(2_700));
    holder.granted(A, 2_600, 2_710, 3_000);
    assert_eq!(holder.state(A, 2_710), LeaseState::Lost(Loss::DeadlinePassed));
}

#[test]
fn two_holds_of_one_lease_are_given_back_one_by_one() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let second = Acquired {
        lease: lease(A),
        domain: domain(A),
        permission: Permission::Advisory,
        session: SessionId::from_bytes([9; 16]),
        ttl: Ttl::from_millis(3_000).unwrap(),
        remaining_ms: 3_000,
        again: false,
        secret_taken: false,
    };
    holder.holdings.granted(request(B), &second, false, at(0), Duration::ZERO, at(10));
    holder.holdings.released(request(A));
    assert_eq!(holder.state(A, 20), LeaseState::Lost(Loss::Released));
    assert_eq!(holder.state(B, 20), LeaseState::Held);
    assert_eq!(holder.holdings.heartbeat(at(20)).claim(), Claim::Held(vec![lease(A)]));
    holder.holdings.released(request(B));
    assert_eq!(holder.holdings.heartbeat(at(20)).claim(), Claim::Held(vec![]));
}

#[test]
fn a_renewed_grant_takes_the_place_of_earlier_holds() {
    let mut holder = Holder::opened_at(0);
    holder.granted(A, 0, 10, 3_000);
    let renewed = Acquired {
        lease: lease(A),
        domain: domain(A),
        permission: Permission::Advisory,
        session: SessionId::from_bytes([9; 16]),
        ttl: Ttl::from_millis(3_000).unwrap(),
        remaining_ms: 3_000,
        again: false,
        secret_taken: false,
    };
    holder.holdings.granted(request(B), &renewed, true, at(100), Duration::ZERO, at(110));
    assert_eq!(holder.state(A, 110), LeaseState::Lost(Loss::Renewed));
    assert_eq!(holder.state(B, 110), LeaseState::Held);
    holder.holdings.released(request(A));
    assert_eq!(holder.holdings.heartbeat(at(120)).claim(), Claim::Held(vec![lease(A)]), "the lease lives on");
}
