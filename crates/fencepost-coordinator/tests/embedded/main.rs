//! Stories of the embedded coordinator, on its own terms and under everything that a disk, a clock, a signal or a
//! second process can do to it.

#![allow(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod calls;
mod common;
mod crash;
mod directory;
mod disk;
mod history;
mod mass_expiry;
mod outage;
mod start;
mod traces;
