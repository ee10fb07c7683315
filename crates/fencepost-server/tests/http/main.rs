//! The real server on a free port, the real coordinator behind it, and clients that write bytes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

mod acquire;
mod calls;
mod door;
mod events;
mod exhausted;
mod logs;
mod look;
mod lost_answers;
mod mass_expiry;
mod metrics;
mod names;
mod sizes;
mod stopping;
mod storage;
mod waiting;
