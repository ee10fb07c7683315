//! The coordinator in this process, with a durable store of its own.
//!
//! [`Embedded`] is a handle, cheap to clone. Behind it one thread owns the [lease machine](fencepost_core::lease) and
//! the store. It takes everything that has been called meanwhile as one batch, decides it at one moment, makes the
//! records of the batch durable in one commit, and only then answers. A call therefore costs one commit, and many
//! calls at one time share it.
//!
//! What it is not: a server (`fencepost-server` puts HTTP around it) and not replicated. One process has a data
//! directory at one time; a second one is refused by a lock file, and one that gets past it deposes the first, which
//! then answers nothing but [`Unavailable`](crate::CallError::Unavailable).
//!
//! **When the disk fails** the process stays up: calls that need a commit are `Unavailable` and say whether they may
//! have happened, reads and heartbeats go on from the state that the store is known to hold, and service resumes by
//! itself. [`Embedded::ready`] tells.
//!
//! No runtime is needed to await its calls: they are plain futures. It writes no log lines and counts nothing: the server
//! in front of it does, and whoever has none [watches](crate::Watch).
//!
//! ```
//! use fencepost_coordinator::{AcquireRequest, Coordinator, embedded::{Embedded, InitOptions, Options}};
//! use fencepost_core::{Domain, Holder, RequestId, Ttl};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("data");
//! Embedded::init(&dir, InitOptions::default())?; // once
//! let coordinator = Embedded::open(&dir, Options::default())?;
//!
//! let opened = coordinator.open_session(Holder::new("worker-a")?, Ttl::default()).await?.answer;
//! let key = opened.key();
//! let request = AcquireRequest::new(&key, Domain::new("invoices/2026-11")?, RequestId::from_bytes([7; 16]));
//! let granted = coordinator.acquire(request).await?.answer;
//! println!("{:?}", granted.acquired.permission.grant().map(|grant| grant.token));
//!
//! coordinator.release(&key.secret, granted.acquired.lease, RequestId::from_bytes([7; 16])).await?;
//! coordinator.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod clock;
mod directory;
mod facts;
mod handle;
mod history;
mod init;
mod journal;
#[cfg(test)]
mod journal_tests;
mod lock;
mod message;
mod open;
mod options;
mod outage;
mod random;
mod store;
pub mod testing;
mod upkeep;
mod writer;

pub use clock::{BootClock, Clock, SystemWallClock, WallClock};
pub use facts::{NotReady, Observer, Statistics};
pub use handle::Embedded;
pub use open::{Identity, OpenError};
pub use options::{InitOptions, Options};
