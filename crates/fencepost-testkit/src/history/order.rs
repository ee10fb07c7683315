//! I1, I2 and I3 as far as plain order shows them: one sweep each.

use std::collections::{BTreeMap, HashMap};

use fencepost_core::Token;

use super::{
    Violation,
    call::{Action, Call, Outcome},
    story::tell,
};

/// I1 and I2, over the calls to the coordinator.
pub(super) fn check(calls: &[Call]) -> Vec<Violation> {
    let mut domains: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| !call.action.is_of_a_register()) {
        domains.entry(&call.domain).or_default().push(call);
    }
    let mut violations: Vec<Violation> = granted_twice(calls).into_iter().collect();
    for calls in domains.values() {
        violations.extend(grants_rise(calls).or_else(|| one_holder(calls)));
    }
    violations
}

fn granted(call: &Call) -> Option<Token> {
    match call.outcome {
        Outcome::Granted { token } => Some(token),
        Outcome::Done
        | Outcome::Applied
        | Outcome::Replayed
        | Outcome::Rejected { .. }
        | Outcome::Value(_)
        | Outcome::Refused
        | Outcome::Unknown => None,
    }
}

/// No token is granted to two leases, whatever their domains.
fn granted_twice(calls: &[Call]) -> Option<Violation> {
    let mut seen: HashMap<Token, &Call> = HashMap::new();
    for call in calls {
        let Some(token) = granted(call) else { continue };
        let Some(first) = seen.insert(token, call) else { continue };
        let same_lease = first.lease.is_some() && first.lease == call.lease && first.domain == call.domain;
        if !same_lease {
            let what = format!("token {token} was granted twice");
            return Some(Violation { invariant: "I1", what, story: tell(&[first, call]) });
        }
    }
    None
}

/// Items by the moment they become certain, swept together with the moments at which others begin.
fn sweep<'a>(
    calls: &[&'a Call],
    bound: impl Fn(&Call) -> Option<Token>,
    mut breaks: impl FnMut(&'a Call, &'a Call, Token) -> Option<Violation>,
) -> Option<Violation> {
    let mut ends: Vec<&Call> = calls.iter().copied().filter(|call| bound(call).is_some()).collect();
    ends.retain(|call| call.answered.is_some());
    ends.sort_by_key(|call| call.answered);
    let mut begins: Vec<&Call> = calls.to_vec();
    begins.sort_by_key(|call| call.called);
    let mut ended = ends.into_iter().peekable();
    let mut greatest: Option<(Token, &Call)> = None;
    for call in begins {
        while let Some(end) = ended.next_if(|end| end.precedes(call)) {
            if let Some(token) = bound(end).filter(|token| greatest.is_none_or(|(known, _)| *token > known)) {
                greatest = Some((token, end));
            }
        }
        if let Some((token, by)) = greatest
            && let Some(violation) = breaks(by, call, token)
        {
            return Some(violation);
        }
    }
    None
}

/// A grant is greater than every grant of its domain that was over before it was asked for.
fn grants_rise(calls: &[&Call]) -> Option<Violation> {
    sweep(calls, granted, |earlier, later, bound| {
        let token = granted(later)?;
        let again = earlier.lease.is_some() && earlier.lease == later.lease;
        (token < bound || token == bound && !again).then(|| {
            let what = format!("{token} was granted after {bound}");
            Violation { invariant: "I1", what, story: tell(&[earlier, later]) }
        })
    })
}

/// I3: nothing is applied below a token that was certainly there before the write began.
pub(super) fn check_applied(calls: &[&Call]) -> Option<Violation> {
    sweep(calls, Call::raised_to, |earlier, later, bound| {
        let token = later.raised_to().filter(|token| *token < bound)?;
        let what = format!("a {} under {token} was applied after one under {bound}", later.action.name());
        Some(Violation { invariant: "I3", what, story: tell(&[earlier, later]) })
    })
}

/// While one lease of a domain was certainly believed in, no other was. Needs a clock.
fn one_holder(calls: &[&Call]) -> Option<Violation> {
    struct Belief<'a> {
        from: u64,
        until: u64,
        given_up: bool,
        grant: &'a Call,
    }
    let mut leases: BTreeMap<&str, Belief<'_>> = BTreeMap::new();
    for call in calls {
        let Some(lease) = call.lease.as_deref() else { continue };
        match (&call.action, &call.outcome) {
            (Action::Acquire, Outcome::Granted { .. }) => {
                let (Some(from), Some(until)) = (call.answered_us, call.until_us) else { continue };
                let belief = leases.entry(lease).or_insert(Belief { from, until, given_up: false, grant: call });
                belief.until = if belief.given_up { belief.until } else { belief.until.max(until) };
            }
            (Action::Renew, Outcome::Done) => {
                let belief = leases.get_mut(lease).filter(|belief| !belief.given_up);
                if let (Some(belief), Some(until)) = (belief, call.until_us) {
                    belief.until = belief.until.max(until);
                }
            }
            // From the moment it asks to release, or an operator breaks it, nobody may rely on the lease.
            (Action::Release, _) => {
                if let (Some(belief), Some(at)) = (leases.get_mut(lease), call.called_us) {
                    (belief.until, belief.given_up) = (belief.until.min(at), true);
                }
            }
            (_, _) => {}
        }
    }
    let mut beliefs: Vec<Belief<'_>> = leases.into_values().filter(|belief| belief.from < belief.until).collect();
    beliefs.sort_by_key(|belief| belief.from);
    let overlap = beliefs.windows(2).find(|pair| pair[1].from < pair[0].until)?;
    let what = format!("two leases were held at one time, for {} us", overlap[0].until - overlap[1].from);
    Some(Violation { invariant: "I2", what, story: tell(&[overlap[0].grant, overlap[1].grant]) })
}
