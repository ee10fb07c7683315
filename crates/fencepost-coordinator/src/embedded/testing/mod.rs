//! For tests of what is built on the embedded coordinator: a store in memory whose failures are chosen, and clocks
//! that stand still until they are told.
//!
//! ```
//! use fencepost_coordinator::embedded::{Options, testing::{Fault, MemoryStore}};
//!
//! let store = MemoryStore::new();
//! let coordinator = store.open(Options::default())?;
//! store.inject(Fault::RefuseCommits);
//! // … every call that needs a commit is now `Unavailable` …
//! store.heal();
//! # Ok::<(), fencepost_coordinator::embedded::OpenError>(())
//! ```

mod clock;
mod memory;

pub use clock::{ManualClock, ManualWallClock};
pub use memory::{Fault, MemoryStore};
