//! Deterministic simulation: the real client, the real server and the real machines on virtual time, network and disk,
//! from a seed.
//!
//! Every process has a runtime of its own, whose time is virtual, on a machine with a clock of its own (`process`). A
//! worker is such a process with the client as it ships: session, keeper, retries, releases, HTTP driver (`worker`,
//! `hand`). The coordinator is another, with the server as it ships: connections, paths, wire (`server`). Between them
//! are connections of bytes that come late, break, are cut off and have their requests repeated (`wires`). Behind the
//! server the real lease machine decides, on a disk that loses what was not synced (`coordinator`); the resource is the
//! reference receiver (`resource`). One queue holds everything that is going to happen (`world`), and what goes wrong
//! follows from the seed like all else (`faults`), so one seed has one [trace](Run::trace) and one
//! [digest](Run::digest) of every byte.
//!
//! A process that stands still is one that is not run: all of it stops between two awaits and goes on exactly there. A
//! process that dies is dropped. A suspended machine's clock counts the time, its timers do not. Clocks begin anywhere
//! and run at rates of their own.
//!
//! What was called and answered goes to a [history](crate::history), which is checked; besides, no update may be lost
//! where workers read under a raised fence, an acquire is one request, however often it is repeated, and nothing may panic.
//! What was there to be checked is counted ([`Deeds`]).
//!
//! What is not real here: the driver around the lease machine (batch, sync, answer; the embedded coordinator's is a
//! thread, with SQLite under it), the resource's database, TCP below the bytes, the thread that keeps a session alive
//! beside a blocked runtime, and the server's stream of events. They are tested with the real thing elsewhere. Timers
//! are looked at every fiftieth of a TTL, which is how late a busy machine would be.
//!
//! [`find`] looks through seeds for a failing one and shrinks it: fewer kinds of faults, a shorter run.

mod calls;
mod coordinator;
mod deeds;
mod digest;
mod faults;
mod hand;
mod happening;
mod mistaken;
mod network;
mod outbox;
mod pace;
mod panics;
mod pipe;
mod process;
mod record;
mod resource;
mod server;
mod settings;
mod shrink;
mod wires;
mod worker;
mod world;

pub use deeds::{Deed, Deeds};
pub use pace::{Pace, Stopwatch};
pub use settings::{Fault, Mistake, Settings};
pub use shrink::{Failure, find};

use crate::history::Violation;

/// What a seed has led to.
#[derive(Clone, Debug)]
pub struct Run {
    /// What happened, a line each, with virtual time.
    pub trace: Vec<String>,
    /// Everything that happened, as one number: every moment, every byte that passed, every line of the history and of
    /// the trace.
    pub digest: u64,
    /// How many calls workers made.
    pub calls: usize,
    /// How many things happened, each at a moment of its own. Time is spent on them, so it passes faster where they are
    /// few.
    pub happenings: u64,
    /// What was done, and how often.
    pub deeds: Deeds,
    /// How many updates were lost: writes that were based on a value that another write had replaced.
    pub lost_updates: usize,
    /// What must not have happened. A panic in any process is among it, and ends the run; so is what could not be checked.
    pub violations: Vec<Violation>,
}

impl Run {
    /// Whether a promise was broken. Lost updates break one only where workers read under a raised fence, and leases
    /// that end by themselves only where nothing goes wrong: there whatever is not wanted any more is given back.
    #[must_use]
    pub fn is_broken(&self, settings: &Settings) -> bool {
        !self.violations.is_empty()
            || settings.fence_on_acquire && self.lost_updates > 0
            || settings.faults.is_empty() && self.deeds.of(Deed::Expired) > 0
    }
}

/// Runs a seed.
#[must_use]
pub fn simulate(seed: u64, settings: &Settings) -> Run {
    world::World::new(seed, settings.clone()).run_to_the_end()
}

#[cfg(test)]
mod tests;
