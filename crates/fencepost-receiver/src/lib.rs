//! What a receiver is: the enforcing side of a resource.
//!
//! A receiver compares the token of a grant with its own records and changes the protected state in one atomic step,
//! or not at all. It decides without asking anybody: only a [`Grant`](fencepost_core::Grant) and an
//! [`Operation`](fencepost_core::fence::Operation) cross over to it. How a write looks differs from resource to
//! resource (a transaction, a file, a script), so the [`Receiver`] trait has only what composition needs: a name,
//! what the receiver is able to promise, and [`advance`](Receiver::advance).
//!
//! * [`MemoryReceiver`] is the reference: a lock around the register that the core defines.
//! * `file` (feature `file`) replaces a whole file atomically, with its fence and operation records beside it.
//! * [`WriteError`] and [`AdvanceError`] say of every failure whether it can have happened and whether a retry is
//!   safe. A refusal is not among them: that is a [`Verdict`](fencepost_core::fence::Verdict).
//! * [`ReceiverSeed`] is what a receiver is guarded or recovered with.
//! * [`Seen`] is the greatest mutation counter that a caller has seen: the only witness of a copied-back file.
//! * [`Audit`] is what looking for ways around a receiver has found.
//! * `adapter` (feature `adapter`) is what receivers with a storage of their own have in common.
//! * [`header`] and [`VerdictCode`] are the HTTP form of the same contract.
//!
//! ```
//! use fencepost_core::fence::{Rejection, Verdict};
//! use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, SessionId};
//! use fencepost_receiver::{MemoryReceiver, ReceiverSeed};
//!
//! let (issuer, domain) = (Issuer::new("prod")?, Domain::new("invoices/2026-11")?);
//! let receiver = MemoryReceiver::guard(&ReceiverSeed::new(issuer.clone(), Epoch::ZERO));
//! let grant = |token: &str| -> Result<Grant, fencepost_core::Invalid> {
//!     let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
//!     Ok(Grant { issuer: issuer.clone(), domain: domain.clone(), token: token.parse()?, lease, session })
//! };
//!
//! assert_eq!(receiver.advance_now(&grant("0.8")?)?, Verdict::Applied(()));
//! let late = receiver.advance_now(&grant("0.7")?)?;
//! assert!(matches!(late.rejection(), Some(Rejection::Stale { .. })));
//! # Ok::<(), fencepost_core::Invalid>(())
//! ```

#[cfg(feature = "adapter")]
pub mod adapter;
mod audit;
mod code;
mod error;
#[cfg(feature = "file")]
pub mod file;
pub mod header;
mod memory;
mod receiver;
mod seed;
mod seen;

pub use audit::{Audit, Finding, Severity};
pub use code::VerdictCode;
pub use error::{AdvanceError, Cause, WriteError};
pub use memory::MemoryReceiver;
pub use receiver::{Capabilities, Guarantee, Receiver};
pub use seed::ReceiverSeed;
pub use seen::Seen;
