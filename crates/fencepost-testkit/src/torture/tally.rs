use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::history::{Action, History, Outcome};

/// How often something happened, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Counts one more.
    pub fn count(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    /// How often it happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what.clone()).or_default() += count;
        }
    }

    /// What the calls of a history were answered: writes by verdict and reason, everything else by verdict.
    #[must_use]
    pub fn of_answers(history: &History) -> Self {
        let mut tally = Self::default();
        for call in &history.calls {
            let answer = match &call.outcome {
                Outcome::Granted { .. } => "granted".to_owned(),
                Outcome::Done => "done".to_owned(),
                Outcome::Applied => "applied".to_owned(),
                Outcome::Replayed => "replayed".to_owned(),
                Outcome::Rejected { reason } => format!("rejected: {reason}"),
                Outcome::Value(_) => "answered".to_owned(),
                Outcome::Refused => "did not happen".to_owned(),
                Outcome::Unknown => "unknown".to_owned(),
            };
            let action = match &call.action {
                Action::Read { token: Some(_) } => "fenced read",
                other => other.name(),
            };
            tally.count(format!("{action} {answer}"));
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.keys().map(String::len).max().unwrap_or(0);
        self.0.iter().try_for_each(|(what, count)| writeln!(f, "  {what:width$}  {count:>7}"))
    }
}
