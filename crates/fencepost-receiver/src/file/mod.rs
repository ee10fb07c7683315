//! The receiver of a file: replaces it as a whole, together with its fence and its operation records.
//!
//! Beside `NAME` lie `.NAME.fence`, the **sidecar** with everything that the receiver knows, `.NAME.fence-spare`, over which
//! the next sidecar is written, and `.NAME.lock`, which serialises the writers and is the receiver's place: it is never
//! replaced, so its device and inode tell the original from a copy. A file belongs to one domain of one issuer.
//! What is no plain file under these names, or was there before the guard, is refused and left alone.
//!
//! It is not a guard: any program that may write the file can still do so without a token. [`FileReceiver::audit`] tells
//! afterwards. It is for one machine: the lock is one of the kernel's, and network file systems are no place for it.
//!
//! * [`FileReceiver`]: [`guard`](FileReceiver::guard), [`write`](FileReceiver::write), [`read`](FileReceiver::read),
//!   advance, status, audit, collect, recover.
//! * [`Staged`]: new content, written beside the file before any lock is taken.
//! * [`Trouble`]: why a file cannot be used; the cause inside [`WriteError::Unavailable`](crate::WriteError).
//!
//! A write dies safely anywhere. Its order is: content; lock; a sidecar with the raised fence, the operation record and the
//! announced content; both synced; rename; folder, synced; and only then the sidecar says that it is settled.
//! Whoever takes the lock next finishes what was announced and is whole, and drops what is not. Plain readers see the old
//! content or the new one.
//!
//! ```
//! use fencepost_core::fence::{Rejection, Verdict};
//! use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, SessionId};
//! use fencepost_receiver::{ReceiverSeed, file::FileReceiver};
//!
//! let folder = tempfile::tempdir()?;
//! let receiver = FileReceiver::new(folder.path().join("report.csv"));
//! let (issuer, domain) = (Issuer::new("prod")?, Domain::new("report")?);
//! receiver.guard(&domain, Some(&ReceiverSeed::new(issuer.clone(), Epoch::ZERO)))?;
//!
//! let grant = |token: &str| -> Result<Grant, fencepost_core::Invalid> {
//!     let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
//!     Ok(Grant { issuer: issuer.clone(), domain: domain.clone(), token: token.parse()?, lease, session })
//! };
//! assert!(matches!(receiver.write(&grant("0.8")?, None, &b"new"[..])?, Verdict::Applied(_)));
//! let late = receiver.write(&grant("0.7")?, None, &b"old"[..])?;
//! assert!(matches!(late.rejection(), Some(Rejection::Stale { .. })));
//! assert_eq!(std::fs::read(receiver.path())?, b"new");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attributes;
mod audit;
mod beside;
mod held;
mod maintenance;
mod place;
mod receiver;
mod sidecar;
mod staged;
mod step;
mod trouble;

pub use maintenance::{Collected, Guarded, Incarnation, MaintenanceError, Recovered, Status};
pub use place::Identity;
pub use receiver::FileReceiver;
pub use sidecar::Content;
pub use staged::Staged;
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub use step::{ABORT_AFTER, STEPS};
pub use trouble::Trouble;
