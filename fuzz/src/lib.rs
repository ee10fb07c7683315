//! What a fuzzer attacks: each function takes any bytes at all and panics when something is wrong.
//!
//! `cargo xtask fuzz` builds a program of each with libFuzzer and runs it, the saved corpus first.

mod addresses;
mod answer;
mod calls;
mod command;
mod damaged;
mod decision;
mod events;
mod expression;
mod guard;
mod history;
mod http;
mod log;
mod made;
mod mirror;
mod names;
mod relay;
mod rows;
mod sidecar;
mod store;
mod typed;
mod wire;

pub use addresses::addresses;
pub use answer::answer;
pub use calls::calls;
pub use command::command;
pub use damaged::damaged;
pub use decision::{decision, file};
pub use events::events;
pub use expression::expression;
pub use guard::guard_of_a_table as guard;
pub use history::history;
pub use http::http;
pub use log::log;
pub use mirror::mirror;
pub use names::names;
pub use relay::relay;
pub use rows::rows;
pub use sidecar::sidecar;
pub use store::store;
pub use typed::typed;
pub use wire::wire;

/// What each target has to take before it is attacked, or it would be satisfied with a parser that refuses everything.
/// Each function panics where something is refused.
pub mod taken {
    pub use crate::{
        addresses::taken as addresses,
        answer::taken as answer,
        calls::taken as calls,
        command::taken as command,
        damaged::taken as damaged,
        decision::{taken as decision, taken_by_file as file},
        events::taken as events,
        expression::taken as expression,
        guard::taken as guard,
        history::taken as history,
        http::taken as http,
        log::taken as log,
        mirror::taken as mirror,
        names::taken as names,
        relay::taken as relay,
        rows::taken as rows,
        sidecar::taken as sidecar,
        store::taken as store,
        typed::taken as typed,
        wire::taken as wire,
    };
}
