//! What a fuzzer attacks: each function takes any bytes at all and panics when something is wrong.
//!
//! `cargo xtask fuzz` builds a program of each with libFuzzer and runs it, the saved corpus first.

mod answer;
mod decision;
mod expression;
mod history;
mod log;
mod names;
mod sidecar;
mod wire;

pub use answer::answer;
pub use decision::decision;
pub use expression::expression;
pub use history::history;
pub use log::log;
pub use names::names;
pub use sidecar::sidecar;
pub use wire::wire;
