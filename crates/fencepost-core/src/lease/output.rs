use serde::{Deserialize, Serialize};

use crate::{Contract, Domain, Holder, LeaseId, Reason, Token};

use super::{Answer, LeaseEnd, Record, Ticket};

/// What a step of the machine wants done: these records made durable, and only then these words spoken.
///
/// The answers are behind [`committed`](Self::committed), which consumes the output: a driver has to write down at
/// the call that the records are safe, and cannot answer first by oversight. Outputs of one batch are
/// [joined](Self::join) and committed together.
#[derive(Debug, Default)]
#[must_use = "records are to be made durable, and answers to be sent"]
pub struct Output {
    pub(super) records: Vec<Record>,
    pub(super) answers: Vec<(Ticket, Answer)>,
    pub(super) events: Vec<Event>,
}

/// What may be said once the records of an [`Output`] are durable.
#[derive(Debug, Default)]
pub struct Spoken {
    /// Answers, each under the ticket of its call.
    pub answers: Vec<(Ticket, Answer)>,
    /// What happened, for watchers. Hints, never authority.
    pub events: Vec<Event>,
}

impl Output {
    /// What is to become durable, in order, all of it or nothing.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Appends the output of the next step of the same batch.
    pub fn join(&mut self, next: Self) {
        self.records.extend(next.records);
        self.answers.extend(next.answers);
        self.events.extend(next.events);
    }

    /// Hands out the answers. To be called when every record is durable, or there was none.
    #[must_use]
    pub fn committed(self) -> Spoken {
        Spoken { answers: self.answers, events: self.events }
    }

    /// Drops the answers because the commit failed, and names the calls that are owed an error instead.
    #[must_use]
    pub fn failed(self) -> Vec<Ticket> {
        self.answers.into_iter().map(|(ticket, _)| ticket).collect()
    }
}

/// Something that happened to a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The domain.
    pub domain: Domain,
    /// The lease.
    pub lease: LeaseId,
    /// Its contract.
    pub contract: Contract,
    /// Its token, under contract `safety` only.
    pub token: Option<Token>,
    /// What the holder calls itself.
    pub holder: Holder,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A grant, after `waited_ms` in the queue.
    Granted {
        /// Milliseconds between arrival and grant.
        waited_ms: u64,
    },
    /// An end.
    Ended {
        /// How.
        end: LeaseEnd,
        /// The token burned for the fence, where the lease was broken under contract `safety`.
        fence_to: Option<Token>,
        /// The operator's reason, where the lease was broken.
        reason: Option<Reason>,
        /// Milliseconds between grant and end.
        held_ms: u64,
    },
}
