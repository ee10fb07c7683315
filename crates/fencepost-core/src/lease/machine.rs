use crate::{BootId, Epoch, Issuer, Moment, Sequence};

use super::{Command, Output, Record, Snapshot, Ticket};

/// The coordinator's state and its rules.
#[derive(Clone, Debug)]
pub struct Leases {}

/// What a start of the coordinator brings.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Greater than at every earlier start of this store.
    pub number: u64,
    /// The boot it runs under.
    pub boot: BootId,
    /// The present moment.
    pub at: Moment,
    /// The least number to issue, pushed forward by the driver as a second line against an unnoticed restore.
    pub least: Sequence,
}

impl Leases {
    /// An empty coordinator. It grants nothing before it is [started](Self::start).
    #[must_use]
    pub fn new(issuer: Issuer, epoch: Epoch) -> Self {
        unimplemented!()
    }

    /// The state that a snapshot was taken of.
    #[must_use]
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        unimplemented!()
    }

    /// The whole durable state; records before it are no longer needed.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }

    /// Applies a record read back from the store.
    pub fn replay(&mut self, record: &Record) {
        unimplemented!()
    }

    /// Starts: its record is to be durable before any command is taken.
    pub fn start(&mut self, start: Start) -> Output {
        unimplemented!()
    }

    /// Decides one command. What has expired by `now` is expired before the command is looked at.
    pub fn step(&mut self, ticket: Ticket, command: Command, now: Moment) -> Output {
        unimplemented!()
    }

    /// Does what time brings: ends, grants to waiters, answers whose wait is over.
    pub fn tick(&mut self, now: Moment) -> Output {
        unimplemented!()
    }

    /// When [`tick`](Self::tick) has something to do.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        unimplemented!()
    }

    /// The connection of a call is gone. A waiting request keeps its place for one TTL and is not granted meanwhile.
    pub fn disconnect(&mut self, ticket: Ticket, now: Moment) {
        unimplemented!()
    }

    /// Takes over what heartbeats have renewed from the state before a failed commit, into the state that the store
    /// was found to hold: their answers have been sent and stay true.
    pub fn keep_renewals_of(&mut self, before: &Self) {
        unimplemented!()
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &Issuer {
        unimplemented!()
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        unimplemented!()
    }

    /// The number of the present start.
    #[must_use]
    pub fn start_number(&self) -> u64 {
        unimplemented!()
    }
}
