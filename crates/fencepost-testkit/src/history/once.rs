//! I6 and I7 as far as answers show them: an operation takes effect at most once, and for one request.

use std::collections::BTreeMap;

use super::{
    Violation,
    call::{Call, Outcome},
    story::tell,
};

pub(super) fn check(calls: &[&Call]) -> Option<Violation> {
    let mut operations: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        if let Some(operation) = call.action.operation() {
            operations.entry(operation).or_default().push(call);
        }
    }
    operations.iter().find_map(|(operation, attempts)| one(operation, attempts))
}

fn one(operation: &str, attempts: &[&Call]) -> Option<Violation> {
    let with = |outcome: Outcome| attempts.iter().copied().filter(move |call| call.outcome == outcome);
    let mut applied = with(Outcome::Applied);
    if let (Some(first), Some(second)) = (applied.next(), applied.next()) {
        let what = format!("operation {operation} took effect twice");
        return Some(Violation { invariant: "I6", what, story: tell(&[first, second]) });
    }
    for replayed in with(Outcome::Replayed) {
        let originals: Vec<&Call> = attempts.iter().copied().filter(|call| could_have_been(call, replayed)).collect();
        if originals.is_empty() {
            let what = format!("operation {operation} was replayed and had not taken effect");
            return Some(Violation { invariant: "I6", what, story: tell(&[replayed]) });
        }
        let is_another = |call: &&Call| !is_same_request(call, replayed);
        // Without an answer that says which one took effect, one of the same request is enough.
        let all_others = originals.iter().all(is_another).then(|| originals[0]);
        let on_record = attempts.iter().copied().filter(|call| is_on_record(call)).find(is_another);
        let conflicting = on_record.or(all_others);
        if let Some(conflicting) = conflicting {
            let what = format!("operation {operation} was replayed for another request");
            return Some(Violation { invariant: "I7", what, story: tell(&[conflicting, replayed]) });
        }
    }
    attempts
        .iter()
        .copied()
        .filter(|call| is_conflict(call))
        .find_map(|refused| no_conflict(operation, attempts, refused))
}

/// Whether this attempt may be the one whose effect a replay answers for.
fn could_have_been(attempt: &Call, replayed: &Call) -> bool {
    may_have_happened(attempt) && replayed.answered.is_some_and(|answered| attempt.called < answered)
}

fn may_have_happened(attempt: &Call) -> bool {
    matches!(attempt.outcome, Outcome::Applied | Outcome::Unknown)
}

/// Whether its answer says that its own request is the one that took effect.
fn is_on_record(call: &Call) -> bool {
    matches!(call.outcome, Outcome::Applied | Outcome::Replayed)
}

fn is_conflict(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Rejected { reason } if reason == "operation_conflict")
}

/// A call that was refused as a conflict although the request on record was its own, or no other one was ever there.
fn no_conflict(operation: &str, attempts: &[&Call], refused: &Call) -> Option<Violation> {
    let own = attempts
        .iter()
        .copied()
        .find(|call| is_on_record(call) && call.precedes(refused) && is_same_request(call, refused));
    // One that was only under way at the time has been in the way too, whatever came of it.
    let in_the_way = |call: &Call| {
        let is_before = refused.answered.is_some_and(|answered| call.called < answered);
        is_before && (may_have_happened(call) || !call.precedes(refused)) && !is_same_request(call, refused)
    };
    let what = format!("operation {operation} was refused as a conflict with its own request");
    match own {
        Some(own) => Some(Violation { invariant: "I7", what, story: tell(&[own, refused]) }),
        None if attempts.iter().any(|call| in_the_way(call)) => None,
        None => Some(Violation { invariant: "I7", what, story: tell(&[refused]) }),
    }
}

fn is_same_request(call: &Call, other: &Call) -> bool {
    call.action.fingerprint() == other.action.fingerprint()
}
