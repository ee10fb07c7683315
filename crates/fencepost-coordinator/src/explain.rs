use fencepost_core::{
    Domain, Token,
    lease::{Event, Filter, QueueView},
};

use crate::{CallError, Coordinator, Refused};

/// A coordinator that shows who waits and what has happened. For people: hints, never authority.
pub trait Explain: Coordinator {
    /// Who waits for a domain, at most `limit` rows, and whether the free domain is reserved. Safe to repeat.
    fn queue(&self, domain: Domain, limit: usize)
    -> impl Future<Output = Result<QueueView, CallError<Refused>>> + Send;

    /// What has happened, the newest first. Safe to repeat.
    ///
    /// Kept across restarts and crashes up to a number; what is older is forgotten without a trace.
    fn history(&self, query: HistoryQuery) -> impl Future<Output = Result<HistoryPage, CallError<Refused>>> + Send;
}

/// Which part of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Of which domains.
    pub filter: Filter,
    /// Only the grants of this token, the ends of its leases, and the break that burned it.
    pub token: Option<Token>,
    /// Only what was before this.
    pub before: Option<HistoryNumber>,
    /// At most this many entries.
    pub limit: usize,
}

/// Entries of the history, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries.
    pub entries: Vec<HistoryEntry>,
    /// What to ask for entries before, when there are more.
    pub next: Option<HistoryNumber>,
}

/// Something that happened and became durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Its place, the same after every restart.
    pub number: HistoryNumber,
    /// About when, in milliseconds since 1970 on the coordinator's wall clock as it stood at its start. For display
    /// only: order is in the number. `None` where it is not known any more.
    pub unix_ms: Option<u64>,
    /// What happened. The time that a grant waited is not kept.
    pub event: Event,
}

/// The place of an entry among all: greater is later, gaps are normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryNumber {
    /// The commit that made it durable.
    pub commit: u64,
    /// Its place within that commit.
    pub place: u32,
}
