//! The history checker: was anything applied that must not have been?
//!
//! A history is what clients have called and what they were answered, one JSON object a line ([`Line`]); the format is
//! documented in `docs/history-format.md` so that anybody can write one. [`check`] looks for
//!
//! * grants out of order, or one token granted twice (I1),
//! * two sessions that held one domain at a time (I2),
//! * a write applied although a greater token had been there before (I3),
//! * an operation that took effect twice, was replayed without having taken effect, or for another request (I6, I7),
//! * a register that no order of its calls explains: a lost update, a read of something never written.
//!
//! A call without an answer has an unknown outcome: it may take effect at any later time, or never. What is found is a
//! [`Violation`] with the shortest story that the checker could cut it down to.
//!
//! ```
//! use fencepost_testkit::history::{check, read};
//!
//! let history = r#"
//! {"call":1,"who":"A","do":"write","domain":"d","token":"0.8","value":"x"}
//! {"answer":1,"got":"applied"}
//! {"call":2,"who":"B","do":"write","domain":"d","token":"0.7","value":"y"}
//! {"answer":2,"got":"applied"}
//! "#;
//! let report = check(&read(history.as_bytes())?);
//! assert_eq!(report.violations[0].invariant, "I3");
//! # Ok::<(), fencepost_testkit::history::Malformed>(())
//! ```

mod call;
mod line;
mod once;
mod order;
mod register;
mod story;

use std::collections::BTreeMap;

pub use call::{Action, Call, History, Outcome};
pub use line::{Answer, Did, Doing, Line, Malformed, read};

/// Something that must not happen, and the story that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant by its number, or `register` where a register has no explanation.
    pub invariant: &'static str,
    /// What happened, in a sentence.
    pub what: String,
    /// The calls that show it, in order of time.
    pub story: Vec<String>,
}

/// What a check has found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many calls were looked at.
    pub calls: usize,
    /// How many of them have no answer.
    pub unknown: usize,
    /// How many registers were explained.
    pub registers: usize,
    /// What must not have happened; empty where all is well.
    pub violations: Vec<Violation>,
    /// Registers about which nothing is said, for too many of their calls were under way at a time.
    pub undecided: Vec<String>,
}

/// Checks a history. Takes time in proportion to its length, and more where many calls overlap; where that would be
/// without bound the register is among the [`undecided`](Report::undecided).
#[must_use]
pub fn check(history: &History) -> Report {
    let calls = &history.calls;
    let mut registers: BTreeMap<(&str, &str), Vec<&Call>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.action.is_of_a_register()) {
        registers.entry((&call.resource, &call.domain)).or_default().push(call);
    }
    let mut violations = order::check(calls);
    let mut undecided = Vec::new();
    for ((resource, domain), calls) in &registers {
        let plain = once::check(calls).or_else(|| order::check_applied(calls));
        match plain.map_or_else(|| register::check(calls), |violation| Ok(Some(violation))) {
            Ok(found) => violations.extend(found),
            Err(register::TooMany) => undecided.push(format!("{domain} at {resource:?}")),
        }
    }
    Report {
        calls: calls.len(),
        unknown: calls.iter().filter(|call| call.outcome == Outcome::Unknown).count(),
        registers: registers.len(),
        violations,
        undecided,
    }
}

#[cfg(test)]
mod tests;
