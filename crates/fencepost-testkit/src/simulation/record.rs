//! What everybody called and was answered, and the trace for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use fencepost_core::fence::{Rejection, Verdict};

use super::outbox::{Answered, Wish};
use crate::history::{Answer, Did, Doing, Line};

#[derive(Default)]
pub(super) struct Record {
    pub(super) lines: Vec<Line>,
    /// What really came of calls to the resource.
    settled: BTreeMap<u64, Line>,
    heard: BTreeSet<u64>,
    pub(super) trace: Vec<String>,
    next: u64,
}

impl Record {
    pub(super) fn note(&mut self, now_us: u64, text: impl fmt::Display) {
        self.trace.push(format!("{:>6}.{:03} ms  {text}", now_us / 1_000, now_us % 1_000));
    }

    /// Begins a call, with its number.
    pub(super) fn call(&mut self, now_us: u64, who: &str, doing: Doing, domain: &str) -> (u64, &mut Line) {
        self.next += 1;
        let mut line = Line::of(Did::Called(self.next, doing));
        (line.at_us, line.who, line.domain) = (Some(now_us), Some(who.to_owned()), Some(domain.to_owned()));
        self.lines.push(line);
        let at = self.lines.len() - 1;
        (self.next, &mut self.lines[at])
    }

    /// A call that the network has made a copy of; the copy's number.
    pub(super) fn repeat(&mut self, mut line: Line) -> u64 {
        self.next += 1;
        line.call = Some(self.next);
        line.who = line.who.map(|who| format!("a copy of {who}"));
        self.lines.push(line);
        self.next
    }

    /// What the resource has made of a call, whether or not anybody hears of it.
    pub(super) fn settle(&mut self, now_us: u64, call: u64, wish: &Wish, answered: &Answered) {
        self.settled.insert(call, told(now_us, call, wish, answered));
    }

    /// A call will never come to the resource.
    pub(super) fn lose(&mut self, now_us: u64, call: u64) {
        let mut line = Line::of(Did::Answered(call, Answer::Refused));
        line.at_us = Some(now_us);
        self.settled.insert(call, line);
    }

    /// What the resource has made of a call has been heard.
    pub(super) fn hear(&mut self, now_us: u64, call: u64, wish: &Wish, answered: &Answered) {
        self.heard.insert(call);
        self.lines.push(told(now_us, call, wish, answered));
    }

    /// Answers for the calls that nobody has heard of. Whoever looks at the whole world knows them, and a checker that had
    /// to try all that may have come of hundreds of them would never end.
    pub(super) fn tell_the_rest(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        let rest = std::mem::take(&mut self.settled);
        self.lines.extend(rest.into_iter().filter(|(call, _)| !heard.contains(call)).map(|(_, line)| line));
    }

    pub(super) fn answer(&mut self, now_us: u64, call: u64, got: Answer) -> &mut Line {
        let mut line = Line::of(Did::Answered(call, got));
        line.at_us = Some(now_us);
        self.lines.push(line);
        let at = self.lines.len() - 1;
        &mut self.lines[at]
    }
}

/// The line for what the resource has answered.
fn told(now_us: u64, call: u64, wish: &Wish, (verdict, value): &Answered) -> Line {
    let got = match (verdict, wish) {
        (Verdict::Rejected(_), _) => Answer::Rejected,
        (Verdict::Applied(_) | Verdict::Replayed(_), Wish::Read { .. }) => Answer::Value,
        (Verdict::Applied(_), Wish::Advance | Wish::Write { .. }) | (Verdict::Replayed(_), Wish::Advance) => {
            Answer::Applied
        }
        (Verdict::Replayed(_), Wish::Write { .. }) => Answer::Replayed,
    };
    let mut line = Line::of(Did::Answered(call, got));
    line.at_us = Some(now_us);
    line.value = Some(value.clone()).filter(|_| got == Answer::Value);
    if let Verdict::Rejected(rejection) = verdict {
        line.reason = Some(rejection.code().to_owned());
        if let Rejection::Stale { by, .. } = rejection {
            line.by = Some(by.as_str().to_owned());
        }
    }
    line
}
