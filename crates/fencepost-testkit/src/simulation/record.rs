//! What everybody called and was answered, and the trace for people.

use crate::history::{Answer, Did, Doing, Line};

#[derive(Default)]
pub(super) struct Record {
    pub(super) lines: Vec<Line>,
    pub(super) trace: Vec<String>,
    next: u64,
}

impl Record {
    pub(super) fn note(&mut self, now_us: u64, text: impl AsRef<str>) {
        self.trace.push(format!("{:>10.3} ms  {}", now_us as f64 / 1_000.0, text.as_ref()));
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

    /// A call that the network has made a copy of.
    pub(super) fn repeat(&mut self, mut line: Line) {
        self.next += 1;
        line.call = Some(self.next);
        line.who = line.who.map(|who| format!("a copy of {who}"));
        self.lines.push(line);
    }

    pub(super) fn answer(&mut self, now_us: u64, call: u64, got: Answer) -> &mut Line {
        let mut line = Line::of(Did::Answered(call, got));
        line.at_us = Some(now_us);
        self.lines.push(line);
        let at = self.lines.len() - 1;
        &mut self.lines[at]
    }
}
