use serde::Serialize;

use super::scenario::Scenario;

/// What became of each scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// In the order in which they were tried.
    pub scenarios: Vec<Tried>,
    /// How many requests were sent.
    pub requests: u64,
}

impl Report {
    /// Whether nothing failed, and everything that was asked for was tried.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.scenarios.iter().all(|tried| match tried.outcome {
            Outcome::Passed { .. } | Outcome::OnlyFencedOnFirstWrite | Outcome::NotTried { asked_for: false, .. } => {
                true
            }
            Outcome::Failed(_) | Outcome::NotTried { asked_for: true, .. } => false,
        })
    }
}

/// One scenario and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// Its name; several calls under proof have the same scenario.
    pub scenario: Scenario,
    /// The further call that it is about, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What was sent and what came back, in order.
    pub story: Vec<String>,
}

/// What became of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// The service keeps the promise.
    Passed {
        /// What more there is to say.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A late request is accepted until the new owner has written: the lesser guarantee, kept.
    OnlyFencedOnFirstWrite,
    /// The service breaks the promise.
    Failed(Failure),
    /// Nothing can be said.
    NotTried {
        /// Why.
        why: String,
        /// Whether it should have been tried: by what was asked for, or because it always is.
        asked_for: bool,
    },
}

/// How a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What kind of harm it is.
    pub kind: Kind,
    /// What should have come.
    pub expected: String,
    /// What came.
    pub found: String,
    /// What that means.
    pub meaning: String,
    /// What to change.
    pub fix: String,
}

/// What kind of harm a broken promise does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something took effect that must not, or did not although it was answered so.
    Effect,
    /// Somebody was refused who is in the right.
    Refusal,
    /// The right thing happened, and the answer does not say so.
    Answer,
    /// No answer came.
    Silence,
}
