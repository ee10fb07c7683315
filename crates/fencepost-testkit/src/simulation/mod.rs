//! Deterministic simulation: the real machines on a virtual clock, network and disk, from a seed.
//!
//! [`simulate`] runs the real lease machine behind a disk that loses what was not synced, the real holder machine in
//! workers that pause, crash and retry, and the reference receiver, with messages that are delayed, dropped and
//! repeated. Everything that happens follows from the seed, so one seed has one [trace](Run::trace). What was called and
//! answered goes to a [history](crate::history), which is checked; besides, no update may be lost where workers read
//! under a raised fence.
//!
//! What is not real here: threads, sockets and files, and with them the code of the client's session thread, of the
//! HTTP layers and of the SQLite store. They are tested with the real thing elsewhere.
//!
//! [`find`] looks through seeds for a failing one and shrinks it: fewer kinds of faults, a shorter run.

mod coordinator;
mod faults;
mod life;
mod network;
pub(crate) mod random;
mod record;
mod resource;
mod settings;
mod shrink;
mod wishes;
mod worker;
mod world;

pub use settings::{Fault, Mistake, Settings};
pub use shrink::{Failure, find};

use crate::history::Violation;

/// What a seed has led to.
#[derive(Clone, Debug)]
pub struct Run {
    /// What happened, a line each, with virtual time.
    pub trace: Vec<String>,
    /// How many calls workers made.
    pub calls: usize,
    /// How many writes were applied.
    pub applied: usize,
    /// How many writes were refused as stale.
    pub stale: usize,
    /// How many updates were lost: writes that were based on a value that another write had replaced.
    pub lost_updates: usize,
    /// What must not have happened.
    pub violations: Vec<Violation>,
}

impl Run {
    /// Whether a promise was broken. Lost updates break one only where workers read under a raised fence.
    #[must_use]
    pub fn is_broken(&self, settings: &Settings) -> bool {
        !self.violations.is_empty() || settings.fence_on_acquire && self.lost_updates > 0
    }
}

/// Runs a seed.
#[must_use]
pub fn simulate(seed: u64, settings: &Settings) -> Run {
    world::World::new(seed, settings.clone()).run()
}

#[cfg(test)]
mod tests;
