//! The memory receiver, with what it does not do by itself: several domains in one write.

use fencepost_core::{
    Grant, Invalid,
    fence::{
        Closure, Condition, Decision, Operation, Presented, RecordedResult, Register, Rejection, Standing, Verdict,
        decide,
    },
};
use fencepost_receiver::{MemoryReceiver, ReceiverSeed};

use super::script::domain;

/// Why there was no verdict.
#[derive(Debug, PartialEq)]
pub(crate) enum Undecided {
    Invalid(Invalid),
    /// The mutation failed, on purpose.
    Mutation,
}

impl From<Invalid> for Undecided {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

pub(crate) type Answer = Result<Verdict<RecordedResult>, Undecided>;

/// What every receiver is compared with.
pub(crate) struct Reference {
    memory: MemoryReceiver,
    pub(crate) is_closed: bool,
}

impl Reference {
    pub(crate) fn new(seed: &ReceiverSeed) -> Self {
        Self { memory: MemoryReceiver::guard(seed), is_closed: false }
    }

    pub(crate) fn memory(&self) -> &MemoryReceiver {
        &self.memory
    }

    pub(crate) fn standing(&self, place: usize) -> Standing {
        self.memory.register().standing(&domain(place), None)
    }

    pub(crate) fn saved(&self) -> Register {
        self.memory.register().clone()
    }

    pub(crate) fn restore(&self, saved: Register) {
        *self.memory.register() = saved;
    }

    pub(crate) fn close(&mut self) {
        self.memory.register().close(Condition::Closed(Closure::ByOperator));
        self.is_closed = true;
    }

    /// A write over these domains, of which each has one grant.
    pub(crate) fn write(
        &self,
        mut grants: Vec<Grant>,
        operation: Option<&Operation>,
        mutation: impl FnOnce() -> Effect,
    ) -> Answer {
        grants.sort_unstable_by(|a, b| a.domain.cmp(&b.domain));
        let operation = operation.cloned().map(|operation| match grants.len() {
            1 => operation,
            _ => Operation {
                fingerprint: operation.fingerprint.over(grants.iter().map(|grant| &grant.domain)),
                ..operation
            },
        });
        let operation = operation.as_ref();
        let present = |grant| Presented { operation, ..Presented::grant(grant) };
        let mut register = self.memory.register();
        if let [grant] = grants.as_slice() {
            return register.write(&grant.domain, &present(grant), mutation);
        }
        let (mut applied, mut replayed) = (0, 0);
        for grant in &grants {
            match decide(&present(grant), &register.standing(&grant.domain, operation.map(|operation| &operation.id)))?
            {
                Decision::Reject(rejection) => return Ok(Verdict::Rejected(rejection)),
                Decision::Apply { .. } => applied += 1,
                Decision::Replay { .. } => replayed += 1,
            }
        }
        let result = match (applied, replayed) {
            (_, 0) => mutation()?,
            (0, _) => RecordedResult::default(),
            // One commit records an operation in all of its domains, so records of some of them are missing.
            (_, _) => return Ok(Verdict::Rejected(Rejection::Closed(Closure::MetadataMissing))),
        };
        let mut verdict = None;
        for grant in &grants {
            verdict = Some(register.write(&grant.domain, &present(grant), || Ok::<_, Undecided>(result.clone()))?);
        }
        Ok(verdict.expect("there are grants"))
    }
}

/// What a mutation comes to.
pub(crate) type Effect = Result<RecordedResult, Undecided>;
