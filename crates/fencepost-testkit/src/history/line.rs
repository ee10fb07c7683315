//! The lines of a history, as they stand in a file.

use std::{collections::HashMap, io::BufRead};

use fencepost_core::{Token, fence::Operation};
use serde::{Deserialize, Serialize};

use super::call::{Action, Call, History, Outcome};

/// One line: a call when it has `call`, its answer when it has `answer`. Lines stand in the order in which they were
/// observed, or all of them have `at_us`, by which they are sorted. Other fields are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// When it was observed, in microseconds of one clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_us: Option<u64>,
    /// The number of the call that this line begins. Never used twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The number of the call that this line answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<u64>,
    /// Who calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What is called for.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    pub doing: Option<Doing>,
    /// The resource that is written to or read; one and the same where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The token that a call presents, or that an acquire was granted: `"8016.3"`, or the integer in a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The operation id of a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What the operation is to do; the value where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The value that a write writes, or that a read found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The lease that a grant, a renewal or a release is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Until when the holder may believe in the lease, on the clock of `at_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_us: Option<u64>,
    /// What the answer says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub got: Option<Answer>,
    /// Why a write was rejected: a code such as `stale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a stale token lay below: `fence`, also where it is left out, or another bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doing {
    /// To acquire a domain.
    Acquire,
    /// To renew a lease.
    Renew,
    /// To release a lease.
    Release,
    /// To open a session.
    Open,
    /// To renew a session, with the leases that it claims.
    Heartbeat,
    /// To end a session.
    End,
    /// To write a value under a token.
    Write,
    /// To read a value; under a token, by a fenced read that raises the fence.
    Read,
    /// To raise the fence without a mutation.
    Advance,
}

/// What an answer says. Anything else than these, and no answer at all, is an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A lease was granted.
    Granted,
    /// A lease or a session was renewed.
    Renewed,
    /// A lease was released.
    Released,
    /// A session was opened.
    Opened,
    /// A session was ended.
    Ended,
    /// A write or an advance took effect.
    Applied,
    /// The operation had taken effect before.
    Replayed,
    /// The receiver refused; nothing has changed.
    Rejected,
    /// A read found a value.
    Value,
    /// It certainly did not happen.
    Refused,
    /// It may have happened.
    Unknown,
}

/// What a line did, for those who write histories from a program.
#[derive(Clone, Debug)]
pub enum Did {
    /// A call.
    Called(u64, Doing),
    /// An answer.
    Answered(u64, Answer),
}

impl Line {
    /// A line with the number and the kind filled in.
    #[must_use]
    pub fn of(did: Did) -> Self {
        match did {
            Did::Called(number, doing) => Self { call: Some(number), doing: Some(doing), ..Self::default() },
            Did::Answered(number, got) => Self { answer: Some(number), got: Some(got), ..Self::default() },
        }
    }

    /// Takes the id and the fingerprint of the operation that a write names, as its receiver gets them.
    pub fn name_operation(&mut self, operation: &Operation) {
        (self.operation, self.fingerprint) = (Some(operation.id.to_string()), Some(operation.fingerprint.to_string()));
    }
}

/// A history that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// A line breaks a rule of the format.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Reads a history. Empty lines are skipped.
///
/// # Errors
/// When a line breaks a rule of the format. A history that is half understood is not checked.
pub fn read(input: impl BufRead) -> Result<History, Malformed> {
    let mut lines = Vec::new();
    for (at, text) in input.lines().enumerate() {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&text)
            .map_err(|error| Malformed::Line { line: at + 1, why: format!("not a line of a history: {error}") })?;
        lines.push((at + 1, line));
    }
    let timed = lines.iter().filter(|(_, line)| line.at_us.is_some()).count();
    if timed > 0 {
        if let Some((line, _)) = lines.iter().find(|(_, line)| line.at_us.is_none()) {
            let why = "has no at_us although other lines have one".to_owned();
            return Err(Malformed::Line { line: *line, why });
        }
        // At one microsecond a call goes before the answers, so that two such calls count as overlapping.
        lines.sort_by_key(|(_, line)| (line.at_us, line.answer.is_some()));
    }
    collect(lines)
}

fn collect(lines: Vec<(usize, Line)>) -> Result<History, Malformed> {
    let mut calls: Vec<Call> = Vec::new();
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    for (time, (number, line)) in lines.into_iter().enumerate() {
        let wrong = |why: &str| Malformed::Line { line: number, why: why.to_owned() };
        match (line.call, line.answer) {
            (Some(id), None) => {
                if numbers.insert(id, calls.len()).is_some() {
                    return Err(wrong("the number of the call is used twice"));
                }
                calls.push(called(line, time).map_err(|why| wrong(&why))?);
            }
            (None, Some(id)) => {
                let at = *numbers.get(&id).ok_or_else(|| wrong("answers a call that is not there"))?;
                let call = &mut calls[at];
                if call.answered.is_some() {
                    return Err(wrong("the call is answered twice"));
                }
                call.until_us = line.until_us.or(call.until_us);
                call.lease = line.lease.clone().or(call.lease.take());
                call.answered_us = line.at_us;
                call.outcome = answered(&call.action, line).map_err(|why| wrong(&why))?;
                call.answered = Some(time);
            }
            (Some(_), Some(_)) | (None, None) => return Err(wrong("has to have either call or answer")),
        }
    }
    Ok(History { calls })
}

fn token(text: Option<&str>) -> Result<Option<Token>, String> {
    text.map(|text| text.parse::<Token>().map_err(|invalid| invalid.to_string())).transpose()
}

fn called(line: Line, time: usize) -> Result<Call, String> {
    let presented = token(line.token.as_deref())?;
    let need = |value: Option<String>, field: &str| value.ok_or_else(|| format!("has to have {field}"));
    let action = match line.doing.ok_or("has to have do")? {
        Doing::Acquire => Action::Acquire,
        Doing::Renew => Action::Renew,
        Doing::Release => Action::Release,
        Doing::Open => Action::Open,
        Doing::Heartbeat => Action::Heartbeat,
        Doing::End => Action::End,
        Doing::Advance => Action::Advance { token: presented.ok_or("has to have token")? },
        Doing::Read => Action::Read { token: presented },
        Doing::Write => Action::Write {
            token: presented.ok_or("has to have token")?,
            value: need(line.value.clone(), "value")?,
            operation: line.operation.clone(),
            fingerprint: line.fingerprint.or(line.value),
        },
    };
    Ok(Call {
        who: line.who.unwrap_or_default(),
        resource: line.resource.unwrap_or_default(),
        domain: if action.is_of_a_session() { String::new() } else { need(line.domain, "domain")? },
        action,
        called: time,
        called_us: line.at_us,
        answered: None,
        answered_us: None,
        outcome: Outcome::Unknown,
        lease: line.lease,
        until_us: None,
    })
}

fn answered(action: &Action, line: Line) -> Result<Outcome, String> {
    let got = line.got.ok_or("has to have got")?;
    Ok(match (action, got) {
        (_, Answer::Unknown) => Outcome::Unknown,
        (_, Answer::Refused) => Outcome::Refused,
        (Action::Acquire, Answer::Granted) => {
            Outcome::Granted { token: token(line.token.as_deref())?.ok_or("has to have token")? }
        }
        (Action::Renew | Action::Heartbeat, Answer::Renewed)
        | (Action::Release, Answer::Released)
        | (Action::Open, Answer::Opened)
        | (Action::End, Answer::Ended) => Outcome::Done,
        (Action::Write { .. } | Action::Advance { .. }, Answer::Applied) => Outcome::Applied,
        (Action::Write { operation: Some(_), .. }, Answer::Replayed) => Outcome::Replayed,
        (Action::Write { .. } | Action::Advance { .. } | Action::Read { .. }, Answer::Rejected) => {
            let reason = line.reason.ok_or("has to have reason")?;
            match line.by.as_deref() {
                None | Some("fence") => Outcome::Rejected { reason },
                Some(by) => Outcome::Rejected { reason: format!("{reason} by {by}") },
            }
        }
        (Action::Read { .. }, Answer::Value) => Outcome::Value(line.value.ok_or("has to have value")?),
        (action, got) => return Err(format!("{got:?} is no answer to {}", action.name())),
    })
}
