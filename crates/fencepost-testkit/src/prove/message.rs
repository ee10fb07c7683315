use std::fmt;

use fencepost_receiver::VerdictCode;
use serde::{Deserialize, Serialize};

/// An HTTP request, before anybody knows where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path with its query, as it stands in the first line.
    pub target: String,
    /// Headers that the scenario is about, in the order in which they are sent. Neither `Host` nor lengths.
    pub headers: Vec<(String, String)>,
    /// The body; empty where there is none.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The same with another value of a header, or with none of that name.
    pub(super) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        self.headers.retain(|(found, _)| found != name);
        self.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `Fencepost-Verdict`.
    pub verdict: Option<String>,
    /// The header `Retry-After`, where it is a number: seconds.
    #[serde(default)]
    pub retry_after: Option<u64>,
    /// The body, as far as it is kept.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether it says that something took effect.
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether it says this: by the status, and by the verdict where there is one.
    pub(super) fn says(&self, code: VerdictCode) -> bool {
        let status = match code {
            VerdictCode::Applied | VerdictCode::Replayed => self.is_success(),
            refusal => self.status == refusal.status(),
        };
        status && self.verdict.as_deref().is_none_or(|verdict| verdict == code.as_str())
    }

    /// Whether its verdict, where it has one, is of those that come with its status.
    pub(super) fn agrees_with_itself(&self) -> bool {
        self.verdict
            .as_deref()
            .is_none_or(|verdict| VerdictCode::ALL.into_iter().any(|code| code.as_str() == verdict && self.says(code)))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Some(verdict) => write!(f, "{} {verdict}", self.status),
            None => write!(f, "{}", self.status),
        }
    }
}

/// Why there is no answer. The request may have taken effect all the same, except where nobody took the connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NoAnswer {
    /// Nobody listens.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// It took longer than is waited.
    #[error("no answer within {0} ms")]
    Late(u64),
    /// The connection ended first.
    #[error("the connection ended before the answer: {0}")]
    Cut(String),
    /// What came is not an answer of HTTP/1.1, or has no end.
    #[error("what came back is not HTTP: {0}")]
    NotHttp(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, verdict: Option<&str>) -> Answer {
        Answer { status, verdict: verdict.map(str::to_owned), retry_after: None, body: Vec::new() }
    }

    #[test]
    fn a_verdict_that_is_named_must_be_the_one_and_the_status_always() {
        assert!(answer(412, Some("stale_token")).says(VerdictCode::StaleToken));
        assert!(answer(412, None).says(VerdictCode::StaleToken));
        assert!(!answer(412, Some("wrong_domain")).says(VerdictCode::StaleToken));
        assert!(!answer(409, None).says(VerdictCode::StaleToken));
        assert!(answer(204, None).says(VerdictCode::Applied));
        assert!(!answer(200, Some("replayed")).says(VerdictCode::Applied));
    }

    #[test]
    fn a_verdict_beside_another_status_contradicts_itself() {
        assert!(answer(412, Some("stale_token")).agrees_with_itself());
        assert!(answer(500, None).agrees_with_itself());
        assert!(!answer(200, Some("stale_token")).agrees_with_itself());
        assert!(!answer(412, Some("stale")).agrees_with_itself());
    }
}
