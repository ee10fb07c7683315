//! The command line against the real binary and a real coordinator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod breaking;
mod doubts;
mod exit_codes;
mod exporting;
mod guarding;
mod helping;
mod leasing;
mod looking;
mod names;
mod next_commands;
mod pipes;
mod progress;
mod serving;
mod session_file;
mod typing;
