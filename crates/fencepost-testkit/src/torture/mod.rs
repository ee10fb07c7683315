//! Torture: real processes, and a nemesis that stops, kills and cuts them off.
//!
//! What is in here is everything of a run that needs no process of its own and can be tested by itself:
//!
//! * [`Plan`]: what the nemesis does and when, drawn from a seed. The same seed is the same plan; how far the processes
//!   have come when a deed falls is theirs to choose.
//! * [`Recorder`]: writes what one process calls and is answered as a [history](crate::history), line by line, so that a
//!   process that is killed leaves everything that it knew.
//! * [`Verdict`]: what a run has come to: the checker's findings, the elements that a shared set has lost, and what is
//!   needed for a run to prove anything at all.
//!
//! The run itself, with the real server, client and receivers, is `crates/fencepost-cli/tests/torture/`.
//!
//! The workload is the one that has shown other lock services to lose updates: a set that grows by read-modify-write
//! under a lock, with pauses. A worker acquires, reads the whole set, adds an element and writes the whole set. An element
//! whose write was acknowledged has to be there in the end ([`lost`]).
//!
//! ```
//! use fencepost_testkit::torture::{Plan, Wishes};
//!
//! let wishes = Wishes { workers: 3, ..Wishes::default() };
//! assert_eq!(Plan::draw(7, &wishes), Plan::draw(7, &wishes));
//! ```

mod plan;
mod recorder;
mod skip;
mod tally;
mod verdict;

pub use crate::random::Random;
pub use plan::{Block, Deed, Direction, Disk, Kind, Plan, Scene, Step, Target, Weather, Wishes};
pub use recorder::{Recorder, now_us};
pub use skip::skip;
pub use tally::Tally;
pub use verdict::{Discipline, Lost, Verdict, lost};

#[cfg(test)]
mod tests;
