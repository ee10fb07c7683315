//! The HTTP server of a coordinator.
//!
//! [`Server`] puts the API in front of anything that is a [`Coordinator`](fencepost_coordinator::Coordinator), can be
//! [watched](fencepost_coordinator::Watch) and lets itself be [inspected](Inspect). It decides nothing about leases:
//! it reads a request, calls the coordinator and puts the answer into words. What it does decide is who gets through
//! the door: hosts and pages on loopback, sizes, times, numbers of connections.
//!
//! [`Metrics`] are the figures shown at `/metrics`. They are made first, because the coordinator is opened with their
//! observer, and they also take what receivers in the same process have to tell.
//!
//! Failures are answers: whatever a client sends, it gets a problem with a code and a next step, and the server goes
//! on. See [`fencepost_wire`] for the words.

mod app;
mod auth;
mod body;
mod calls;
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
