//! Looking at what happens and what has happened, by the real binary at a real coordinator.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod commands_page;
mod digits;
mod explaining;
mod history;
mod looking_up;
mod narrow;
mod queue;
mod watching;
