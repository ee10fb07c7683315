//! Leases whose stale writes fail at the resource.
//!
//! Three things meet in one number, the fencing token: a **coordinator** grants leases, every grant with a greater
//! token; a **receiver** at the resource checks the token and changes the protected state in one atomic step; and a
//! **session** in the worker keeps its leases alive. This crate puts them together:
//! [`advance`](Advance::advance) makes an acquire raise the receivers' fences before the lease is handed over, so
//! that older tokens are dead there from the start ([`Guarantee::FencedOnAcquire`]).
//!
//! | feature | brings |
//! |---|---|
//! | `embedded` | `coordinator::embedded`: the coordinator in this process |
//! | `http` | `HttpCoordinator`: the coordinator behind `fencepost serve` |
//! | `sqlite` | `sqlite`: the receiver for SQLite |
//!
//! Whoever bases a write on something read under the lease needs the fence at its own token before the first read:
//! acquire with `advance`, or read in the same guarded transaction.
//!
//! The receivers for SQLite and for files log each write that they refuse (target `fencepost::rejected`), and know no
//! coordinator. For a rejection to show in the coordinator's metrics and events, hand it on:
//! `HttpCoordinator::report_rejected`, or `Metrics::rejected` of `fencepost-server` where the server runs in this process.
//! Nothing depends on it.
//!
//! ```
//! use fencepost::{Advance, Domain, Holder, MemoryReceiver, Session, Ttl, coordinator::Coordinator};
//!
//! async fn bill(
//!     coordinator: impl Coordinator,
//!     receiver: &MemoryReceiver,
//! ) -> Result<(), Box<dyn std::error::Error>> {
//!     let session = Session::open(coordinator, Holder::new("biller-3")?, Ttl::default()).await?;
//!     let lease = session.acquire(Domain::new("invoices/2026-11")?).advance(receiver).await?;
//!     // From here on no older token writes there. Read, then write with lease.grant().
//!     lease.release().await?;
//!     Ok(())
//! }
//! ```

mod advance;
mod error;
mod fenced;

pub use advance::{Advance, Advancing};
pub use error::AdvancingError;
pub use fenced::{FencedLease, Guaranteed};

pub use fencepost_client::{
    Acquire, AcquireError, Advisory, BootClock, Clock, CloseError, Lease, LeaseState, Loss, OpenError, Permitted,
    ReleaseError, Session,
};
#[cfg(feature = "http")]
pub use fencepost_client::{HttpCoordinator, HttpError, HttpOptions, UrlError};
pub use fencepost_core::{
    Contract, Correlation, Domain, Epoch, Grant, Holder, Invalid, Issuer, LeaseId, LockDelay, MaxHold, Metadata,
    MinHold, OperationId, Sequence, Token, Ttl, Wait,
    fence::{Fingerprint, Operation, RecordedResult, RejectedBy, Rejection, Verdict},
};
pub use fencepost_receiver::{
    AdvanceError, Capabilities, Guarantee, MemoryReceiver, Receiver, ReceiverSeed, WriteError,
};

/// The coordinator contract and its drivers.
pub use fencepost_coordinator as coordinator;
/// The receiver for SQLite.
#[cfg(feature = "sqlite")]
pub use fencepost_rusqlite as sqlite;
