//! What the demo and its worker processes say to each other: one JSON value on a line, a request down, a reply up.

use fencepost_core::{
    Domain, Invalid, OperationId, Token, Ttl, Wait,
    fence::{RecordedResult, RejectedBy, Verdict},
};
use serde::{Deserialize, Serialize};

use super::{
    promise::Seen,
    script::{Change, Fenced},
};

/// The guarded table.
pub(super) const TABLE: &str = "stock";
/// The SQL that gives a row its domain. [`domain_of`] says the same.
pub(super) const DOMAIN_EXPRESSION: &str = "'stock/' || item";

pub(super) fn domain_of(item: &str) -> Result<Domain, Invalid> {
    Domain::new(&format!("stock/{item}"))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request {
    /// In a session of its own. Replies `Granted` or `Held`.
    Acquire { item: String, fenced: Fenced, ttl: Ttl, wait: Wait },
    /// Replies `Done`.
    Release,
    /// Replies `Looked`.
    Look,
    /// Replies `Read`.
    Read,
    /// Replies `Verdict`; see [`Manner`] for what comes before.
    Write { change: Change, operation: OperationId, manner: Manner },
    /// Lets a write go on that stands still inside its transaction.
    GoOn,
    /// Blocks every thread of the async runtime, then replies `Looked`.
    Block { ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Manner {
    Plain,
    /// The worker throws the answer away; replies `Done`.
    Unheard,
    /// Replies `Sending` right before the write.
    Announced,
    /// Replies `Inside` when the row is changed and nothing is committed yet, and stands still until `GoOn`.
    HeldOpen,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub(super) enum Reply {
    Granted {
        token: Token,
    },
    Held {
        holder: String,
    },
    Looked {
        held: bool,
        remaining_ms: u64,
        /// Why it is lost.
        why: Option<String>,
    },
    Read {
        amount: i64,
    },
    Sending,
    Inside,
    Verdict(Told),
    Done,
    /// Neither a verdict nor a refusal: what went wrong.
    Failed {
        why: String,
    },
}

/// A verdict in the form in which `--json` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub(super) verdict: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presented: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) least_accepted: Option<Token>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<RejectedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Applied,
    Replayed,
    #[default]
    Rejected,
}

impl From<Verdict<RecordedResult>> for Told {
    fn from(verdict: Verdict<RecordedResult>) -> Self {
        let text = |result: RecordedResult| Some(String::from_utf8_lossy(result.as_bytes()).into_owned());
        match verdict {
            Verdict::Applied(result) => Self { verdict: Kind::Applied, result: text(result), ..Self::default() },
            Verdict::Replayed(result) => Self { verdict: Kind::Replayed, result: text(result), ..Self::default() },
            Verdict::Rejected(rejection) => {
                let (reason, stale) = (Some(rejection.code().to_owned()), rejection.stale());
                Self {
                    reason,
                    presented: stale.map(|stale| stale.presented),
                    least_accepted: stale.map(|stale| stale.least_accepted),
                    by: stale.map(|stale| stale.by),
                    ..Self::default()
                }
            }
        }
    }
}

impl Told {
    pub(super) fn seen(&self) -> Seen {
        let result = self.result.clone().unwrap_or_default();
        match (self.verdict, self.presented, self.least_accepted, self.by) {
            (Kind::Applied, ..) => Seen::Applied,
            (Kind::Replayed, ..) => Seen::Replayed(result),
            (Kind::Rejected, Some(presented), Some(least_accepted), Some(by)) => {
                Seen::Stale { presented, least_accepted, by }
            }
            (Kind::Rejected, ..) => Seen::Rejected(self.reason.clone().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::fence::{Closure, Rejection};

    use super::*;

    fn passed_on(verdict: Verdict<RecordedResult>) -> Seen {
        let line = serde_json::to_string(&Reply::Verdict(verdict.into())).unwrap();
        match serde_json::from_str(&line).unwrap() {
            Reply::Verdict(told) => told.seen(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_verdict_comes_over_the_pipe_as_it_was() {
        let token = |sequence| Token::from_integer(sequence).unwrap();
        let result = RecordedResult::new(*b"97").unwrap();
        assert_eq!(passed_on(Verdict::Applied(result.clone())), Seen::Applied);
        assert_eq!(passed_on(Verdict::Replayed(result)), Seen::Replayed("97".to_owned()));
        let (presented, least_accepted, by) = (token(1), token(2), RejectedBy::Fence);
        let stale = Rejection::Stale { presented, least_accepted, by };
        assert_eq!(passed_on(Verdict::Rejected(stale)), Seen::Stale { presented, least_accepted, by });
        let closed = Rejection::Closed(Closure::WentBack);
        assert_eq!(passed_on(Verdict::Rejected(closed)), Seen::Rejected("closed".to_owned()));
    }
}
