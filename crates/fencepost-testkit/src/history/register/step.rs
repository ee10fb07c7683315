//! The calls of one register in numbers.

use std::collections::HashMap;

use fencepost_core::Token;

use crate::history::call::{Action, Call, Outcome};

/// Which rules of a register are held against the history.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub(super) fence: bool,
    pub(super) once: bool,
}

pub(super) const ALL: Rules = Rules { fence: true, once: true };

/// A call.
#[derive(PartialEq, Eq)]
pub(super) struct Step {
    pub(super) token: Option<Token>,
    /// The value written.
    pub(super) writes: Option<u32>,
    /// The value read.
    pub(super) reads: Option<u32>,
    pub(super) named: Option<Named>,
    pub(super) outcome: Expected,
}

impl Step {
    pub(super) fn operation(&self) -> Option<u32> {
        self.named.map(|named| named.operation)
    }
}

/// An operation, and what it is asked to do: one id with two fingerprints is one operation and two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) operation: u32,
    pub(super) request: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Applied,
    Replayed,
    Stale,
    /// Another request of the operation was in the way: its own has not taken effect.
    Conflict,
    Unknown,
}

/// Values, operations and requests as numbers. Calls that say nothing about the register have no step.
pub(super) fn number<'a>(calls: &[&'a Call], rules: Rules) -> Vec<Option<Step>> {
    let mut values: HashMap<&'a str, u32> = HashMap::new();
    let mut operations: HashMap<&str, (u32, u32)> = HashMap::new();
    for call in calls {
        if let Some(operation) = call.action.operation() {
            let next = u32::try_from(operations.len()).unwrap_or(u32::MAX);
            operations.entry(operation).or_insert((next, 0)).1 += 1;
        }
    }
    let mut requests: HashMap<(u32, Option<&str>), u32> = HashMap::new();
    let mut value_of = |text: &'a str| {
        let next = u32::try_from(values.len()).unwrap_or(u32::MAX);
        *values.entry(text).or_insert(next)
    };
    let mut steps = Vec::with_capacity(calls.len());
    for call in calls.iter().copied() {
        let outcome = match &call.outcome {
            Outcome::Applied | Outcome::Value(_) => Some(Expected::Applied),
            Outcome::Replayed => Some(Expected::Replayed),
            Outcome::Unknown => Some(Expected::Unknown),
            Outcome::Rejected { reason } if reason == "stale" && rules.fence => Some(Expected::Stale),
            Outcome::Rejected { reason } if reason == "operation_conflict" => Some(Expected::Conflict),
            Outcome::Rejected { .. } | Outcome::Refused | Outcome::Granted { .. } | Outcome::Done => None,
        };
        let writes = match &call.action {
            Action::Write { value, .. } => Some(value_of(value)),
            _ => None,
        };
        let reads = match &call.outcome {
            Outcome::Value(value) => Some(value_of(value)),
            _ => None,
        };
        let operation = call.action.operation().and_then(|id| operations.get(id));
        let named = operation.filter(|(_, attempts)| *attempts > 1 && rules.once).map(|(operation, _)| {
            let next = u32::try_from(requests.len()).unwrap_or(u32::MAX);
            let request = *requests.entry((*operation, call.action.fingerprint())).or_insert(next);
            Named { operation: *operation, request }
        });
        let token = call.action.token().filter(|_| rules.fence);
        let says_nothing = match outcome {
            Some(Expected::Unknown) => writes.is_none() && token.is_none(),
            Some(Expected::Conflict) => named.is_none(),
            Some(Expected::Applied | Expected::Replayed | Expected::Stale) | None => false,
        };
        steps.push(outcome.filter(|_| !says_nothing).map(|outcome| Step { token, writes, reads, named, outcome }));
    }
    steps
}
