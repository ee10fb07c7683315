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

use std::{io, path::Path};

use fencepost_core::BootId;

use super::{Embedded, Identity, InitOptions, OpenError, Options};

pub use clock::{ManualClock, ManualWallClock};
pub use memory::{Fault, MemoryStore};

/// The boot that a text says, as [`BootClock`](super::BootClock) reads what the kernel has written.
///
/// # Errors
/// When it names none.
pub fn boot_in(text: &str) -> io::Result<BootId> {
    super::clock::boot_in(text)
}

/// [Initialises](super::Embedded::init) a directory and names each step when it is done, for tests that end the process
/// in between.
///
/// # Errors
/// As for any init.
pub fn init_telling(dir: impl AsRef<Path>, options: InitOptions, done: &dyn Fn(&str)) -> Result<Identity, OpenError> {
    super::init::init_telling(dir.as_ref(), options, done)
}

/// [Opens](super::Embedded::open) a directory and names each step when it is done, for tests that change the directory in
/// between.
///
/// # Errors
/// As for any open.
pub fn open_telling(dir: impl AsRef<Path>, options: Options, done: &dyn Fn(&str)) -> Result<Embedded, OpenError> {
    super::open::open_telling(dir.as_ref(), options, done)
}
