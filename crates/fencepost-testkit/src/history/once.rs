//! I6 and I7 as far as answers show them: an operation takes effect at most once, and for one request.

use std::collections::BTreeMap;

use super::{
    Violation,
    call::{Action, Call, Outcome},
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
        let original = attempts.iter().copied().find(|call| could_have_been(call, replayed));
        if original.is_none() {
            let what = format!("operation {operation} was replayed and had not taken effect");
            return Some(Violation { invariant: "I6", what, story: tell(&[replayed]) });
        }
        let conflicting = with(Outcome::Applied).find(|call| fingerprint(call) != fingerprint(replayed));
        if let Some(conflicting) = conflicting {
            let what = format!("operation {operation} was replayed for another request");
            return Some(Violation { invariant: "I7", what, story: tell(&[conflicting, replayed]) });
        }
    }
    None
}

/// Whether this attempt may be the one whose effect a replay answers for.
fn could_have_been(attempt: &Call, replayed: &Call) -> bool {
    let may_have_happened = matches!(attempt.outcome, Outcome::Applied | Outcome::Unknown);
    may_have_happened && replayed.answered.is_some_and(|answered| attempt.called < answered)
}

fn fingerprint(call: &Call) -> Option<&str> {
    match &call.action {
        Action::Write { fingerprint, .. } => fingerprint.as_deref(),
        Action::Acquire | Action::Renew | Action::Release | Action::Read { .. } | Action::Advance { .. } => None,
    }
}
