//! `fencepost run` with real coordinators and real processes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod peers;
mod processes;

mod doubts;
mod environment;
mod names;
mod namespaces;
#[cfg(feature = "sabotage")]
mod panics;
mod rare;
mod recipes;
mod several;
mod signals;
mod standby;
mod stopping;
mod terminal;
mod thousand;
mod waiting;
