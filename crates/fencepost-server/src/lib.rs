//! The HTTP server of a coordinator.
//!
//! [`Server`] puts the API in front of anything that is a [`Coordinator`](fencepost_coordinator::Coordinator), can be
//! [watched](fencepost_coordinator::Watch) and lets itself be [inspected](Inspect). It decides nothing about leases:
//! it reads a request, calls the coordinator and puts the answer into words. What it does decide is who gets through
//! the door: hosts and pages on loopback, sizes, times, numbers of connections.
//!
//! [`Metrics`] are the figures shown at `/metrics`. They are made first, because the coordinator is opened with their
//! observer. What receivers refuse is told to them by hand in the same process, and by `POST /v1/reports/rejected` from
//! another.
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fencepost_coordinator::embedded::testing::MemoryStore;
//! use fencepost_server::{Metrics, Options, Server};
//!
//! let metrics = Metrics::new();
//! let store = fencepost_coordinator::embedded::Options { observer: Some(metrics.commit_observer()), ..Default::default() };
//! let coordinator = MemoryStore::new().open(store)?; // `Embedded::open(dir, store)` keeps what it grants
//! let server = Server::bind("127.0.0.1:0", coordinator, metrics, Options::default()).await?;
//! println!("http://{}", server.local_addr()?);
//! server.serve(async { /* a signal */ }).await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```
//!
//! Failures are answers: whatever a client sends, it gets a problem with a code and a next step, and the server goes
//! on. See [`fencepost_wire`] for the words.

mod app;
mod auth;
mod bare;
mod body;
mod calls;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hub;
mod inspect;
mod loopback;
mod metrics;
mod options;
mod reply;
mod server;
mod stop;

pub use inspect::Inspect;
pub use metrics::Metrics;
pub use options::Options;
pub use server::{BindError, Server};
