//! Sessions kept alive on a thread of their own, lease handles, and the HTTP driver of the coordinator contract.
//!
//! * [`Session`] is this process's liveness at a coordinator. It is opened at any
//!   [`Coordinator`](fencepost_coordinator::Coordinator), embedded or remote, and kept alive by one thread that no
//!   async runtime of the caller can block.
//! * [`Acquire`] asks for a domain, patiently and safe to repeat; [`Lease`] is what it gives. What a lease hands out
//!   follows from its contract, and the compiler knows: a token comes from contract `safety` only.
//! * `HttpCoordinator` (feature `http`) is the coordinator behind `fencepost serve`. Whatever it does not understand
//!   is an error and never a permission.
//!
//! What it is not: protection of a resource. A lease is a permission with an end, and a process can be stopped
//! between its last look at the clock and its write. The receiver refuses that write, by the grant's token.
//!
//! ```
//! use fencepost_client::Session;
//! use fencepost_coordinator::Coordinator;
//! use fencepost_core::{Domain, Holder, Ttl};
//!
//! async fn bill(coordinator: impl Coordinator) -> Result<(), Box<dyn std::error::Error>> {
//!     let session = Session::open(coordinator, Holder::new("biller-3")?, Ttl::default()).await?;
//!     let lease = session.acquire(Domain::new("invoices/2026-11")?).await?;
//!     let token = lease.run(async { lease.grant().token /* write with the grant */ }).await?;
//!     println!("wrote under {token}");
//!     lease.release().await?;
//!     Ok(session.close().await?)
//! }
//! ```

mod acquire;
mod chance;
mod clock;
mod error;
#[cfg(feature = "http")]
mod http;
mod keeper;
mod lease;
mod pending;
mod session;
mod shared;

pub use acquire::Acquire;
pub use clock::{BootClock, Clock};
pub use error::{AcquireError, CloseError, OpenError, ReleaseError};
pub use fencepost_core::holder::{LeaseState, Loss};
#[cfg(feature = "fuzzing")]
pub use http::fuzzing;
#[cfg(feature = "http")]
pub use http::{CoordinatorEvent, EventStream, HttpCoordinator, HttpError, HttpOptions, UrlError};
pub use lease::{Advisory, Lease, Permitted};
pub use session::Session;
