//! What a fuzzer attacks: each function takes any bytes at all and panics when something is wrong.
//!
//! `cargo xtask fuzz` builds a program of each with libFuzzer and runs it, the saved corpus first.

mod addresses;
mod answer;
mod calls;
mod command;
mod decision;
mod events;
mod expression;
mod history;
mod http;
mod log;
mod names;
mod relay;
mod rows;
mod sidecar;
mod typed;
mod wire;

pub use addresses::addresses;
pub use answer::answer;
pub use calls::calls;
pub use command::command;
pub use decision::{decision, file};
pub use events::events;
pub use expression::expression;
pub use history::history;
pub use http::http;
pub use log::log;
pub use names::names;
pub use relay::relay;
pub use rows::rows;
pub use sidecar::sidecar;
pub use typed::typed;
pub use wire::wire;
