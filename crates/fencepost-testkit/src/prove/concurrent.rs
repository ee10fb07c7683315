//! Old and new owner at one time: whatever order the service chose, one must explain every answer.

use std::{
    cell::{Cell, RefCell},
    pin::pin,
    time::Duration,
};

use fencepost_core::Token;
use fencepost_receiver::VerdictCode;
use futures_util::future::{join, join_all};
use tokio::time::{sleep, timeout};

use super::{
    message::{Answer, NoAnswer, Request},
    report::{Kind, Outcome},
    stage::{Advice, Intent, Owner, PASSED, Stage, Step, failed},
    world::World,
};
use crate::history::{self, Did, Doing, Line, Violation};

/// Writes of the old owner in each round that are sent as a whole, and those of which half comes after the new owner's.
const WHOLE: usize = 6;
const HALVES: usize = 2;
/// Requests with one operation id at one time.
const ALIKE: usize = 6;
/// How often the new owner repeats a write that the service was too busy for.
const TRIES: u32 = 6;
/// How long it waits before it does so for the first time; twice as long before each further one.
const PAUSE: Duration = Duration::from_millis(20);
/// How long it waits at most because the service asks for that.
const MOST_ASKED: Duration = Duration::from_secs(1);
/// How long the new owner may have to wait for requests that are on their way only in half.
const PATIENCE: Duration = Duration::from_secs(1);

const OVERTAKEN: Advice = Advice {
    meaning: "a stale write was applied after the new owner's: the check and the write are not one step",
    fix: "compare the token, write, and record the operation in one transaction, after its lock is held: in SQLite \
          after BEGIN IMMEDIATE, in PostgreSQL after locking the fence row",
};
const UNEXPLAINED: Advice = Advice { meaning: "no order of these requests explains the answers", fix: OVERTAKEN.fix };
const SHUT_OUT: Advice = Advice {
    meaning: "the new owner cannot write while the old one still sends",
    fix: "let writes of one domain wait for each other for a while instead of failing: in SQLite a busy timeout",
};

/// What was called and answered in one round, in the order in which it was seen.
#[derive(Default)]
struct Recorder {
    calls: Cell<u64>,
    lines: RefCell<Vec<Line>>,
}

impl Recorder {
    fn called(&self, doing: Doing, owner: &Owner, intent: Option<&Intent>) -> u64 {
        let number = self.calls.get() + 1;
        self.calls.set(number);
        self.lines.borrow_mut().push(Line {
            who: Some(owner.name.to_owned()),
            domain: Some(owner.domain.as_str().to_owned()),
            token: intent.map(|_| owner.token.to_string()),
            operation: intent.map(|intent| intent.operation.clone()),
            value: intent.map(|intent| intent.value.to_string()),
            ..Line::of(Did::Called(number, doing))
        });
        number
    }

    fn answered(&self, call: u64, got: history::Answer, more: Line) {
        self.lines.borrow_mut().push(Line { answer: Some(call), got: Some(got), ..more });
    }

    fn wrote(&self, call: u64, answer: &Result<Answer, NoAnswer>) {
        let (got, reason) = meant(answer);
        self.answered(call, got, Line { reason: reason.map(str::to_owned), ..Line::default() });
    }

    /// The first thing that no order explains.
    fn violation(&self) -> Option<Violation> {
        let lines = self.lines.borrow();
        let text: Vec<String> =
            lines.iter().map(|line| serde_json::to_string(line).expect("a line of a history is JSON")).collect();
        let history = history::read(text.join("\n").as_bytes()).expect("a recorder keeps the rules of the format");
        history::check(&history).violations.into_iter().next()
    }
}

/// What an answer says to a history. Whatever leaves a doubt is unknown, which accuses nobody.
fn meant(answer: &Result<Answer, NoAnswer>) -> (history::Answer, Option<&'static str>) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(NoAnswer::NoConnection(_)) => return (history::Answer::Refused, None),
        Err(NoAnswer::Late(_) | NoAnswer::Cut(_) | NoAnswer::NotHttp(_)) => return (history::Answer::Unknown, None),
    };
    match (answer.status, answer.verdict.as_deref()) {
        (200..=299, Some("applied")) => (history::Answer::Applied, None),
        (200..=299, Some("replayed")) => (history::Answer::Replayed, None),
        (412, _) => (history::Answer::Rejected, Some("stale")),
        (409 | 429, _) => (history::Answer::Refused, None),
        _ => (history::Answer::Unknown, None),
    }
}

impl<W: World> Stage<'_, W> {
    pub(super) async fn concurrent(&self) -> Step<Outcome> {
        for round in 1..=self.plan.rounds {
            let recorder = Recorder::default();
            let before = self.take_story();
            let outcome = self.round(&recorder).await;
            drop(self.take_story());
            before.into_iter().for_each(|line| self.tell(line));
            if let Err(outcome) = outcome {
                self.tell(format!("round {round} of {}, some requests at one time:", self.plan.rounds));
                recorder.lines.borrow().iter().for_each(|line| self.tell(told(line)));
                return Err(outcome);
            }
        }
        let count = WHOLE + HALVES;
        self.tell(format!("{} rounds of {count} writes of A and one of B at one time", self.plan.rounds));
        self.alike().await?;
        Ok(PASSED)
    }

    async fn round(&self, recorder: &Recorder) -> Step<()> {
        let a = self.owner("A").await?;
        // What it is answered is on record, and judged there.
        let _ = self.recorded(recorder, &a, &self.intent(&a)).await;
        let count = if self.plan.write.has_body() { HALVES } else { 0 };
        let halves: Vec<Intent> = (0..count).map(|_| self.intent(&a)).collect();
        let halves = halves.iter().map(|intent| self.half(recorder, &a, intent));
        let halves = join_all(halves).await.into_iter().collect::<Step<Vec<_>>>()?;
        let token = self.world.grant(&self.plan.domain).await?;
        let b = Owner { name: "B", token, domain: self.plan.domain.clone() };
        let late: Vec<Intent> = (0..WHOLE).map(|_| self.intent(&a)).collect();
        let stands = self.intent(&b);
        let old = |late: Vec<Intent>| async move {
            join_all(late.iter().map(|intent| self.recorded(recorder, &a, intent))).await;
            a
        };
        let new = async {
            let rest = async || {
                let rest = halves.into_iter().map(|half| self.rest(recorder, half));
                join_all(rest).await;
            };
            let mut written = pin!(self.insisting(recorder, &b, &stands));
            match timeout(PATIENCE, &mut written).await {
                Ok(answer) => {
                    rest().await;
                    answer
                }
                // It takes one request after the other, and waits for the rest of one that has begun.
                Err(_) => join(rest(), written).await.1,
            }
        };
        let (a, answer) = join(old(late), new).await;
        let answer = answer.map_err(|none| failed(Kind::Silence, "an answer", none.to_string(), SHUT_OUT))?;
        if !answer.is_success() {
            return Err(failed(Kind::Refusal, "B's write to be applied", format!("answered {answer}"), SHUT_OUT));
        }
        let _ = self.recorded(recorder, &a, &self.intent(&a)).await;
        let call = recorder.called(Doing::Read, &b, None);
        let found = self.look().await?;
        if let Some(found) = &found {
            recorder.answered(call, history::Answer::Value, Line { value: Some(found.clone()), ..Line::default() });
        }
        if found.as_deref() != Some(&*stands.value.to_string()) {
            let found = found.unwrap_or_else(|| "nothing".to_owned());
            let expected = format!("B's {} to be read at the end", stands.value);
            return Err(failed(Kind::Effect, expected, format!("{found} is to be read"), OVERTAKEN));
        }
        match recorder.violation() {
            None => Ok(()),
            Some(Violation { invariant, what, .. }) => {
                let expected = "an order of these requests that explains every answer";
                Err(failed(Kind::Effect, expected, format!("{what} ({invariant})"), UNEXPLAINED))
            }
        }
    }

    async fn half(&self, recorder: &Recorder, owner: &Owner, intent: &Intent) -> Step<(u64, Request, W::Begun)> {
        let request = self.write(owner, intent);
        let call = recorder.called(Doing::Write, owner, Some(intent));
        let begun = self.begin(owner.name, &request).await?;
        Ok((call, request, begun))
    }

    async fn rest(&self, recorder: &Recorder, (call, request, begun): (u64, Request, W::Begun)) {
        let answer = self.finish_quietly(&request, begun).await;
        recorder.wrote(call, &answer);
    }

    async fn recorded(&self, recorder: &Recorder, owner: &Owner, intent: &Intent) -> Result<Answer, NoAnswer> {
        let call = recorder.called(Doing::Write, owner, Some(intent));
        let answer = self.send_quietly(&self.write(owner, intent)).await;
        recorder.wrote(call, &answer);
        answer
    }

    async fn insisting(&self, recorder: &Recorder, owner: &Owner, intent: &Intent) -> Result<Answer, NoAnswer> {
        let mut answer = self.recorded(recorder, owner, intent).await;
        for tried in 0..TRIES - 1 {
            let asked = match &answer {
                Ok(answer) if answer.status >= 500 || matches!(answer.status, 409 | 429) => answer.retry_after,
                Ok(_) | Err(_) => break,
            };
            let asked = Duration::from_secs(asked.unwrap_or(0)).min(MOST_ASKED);
            sleep(asked.max(PAUSE * 2_u32.pow(tried))).await;
            answer = self.recorded(recorder, owner, intent).await;
        }
        answer
    }

    /// One operation, sent many times at one time: one effect.
    async fn alike(&self) -> Step<()> {
        let a = self.owner("A").await?;
        let intent = self.intent(&a);
        let request: Request = self.write(&a, &intent);
        let recorder = Recorder::default();
        let answers = join_all((0..ALIKE).map(|_| self.recorded(&recorder, &a, &intent))).await;
        for answer in answers {
            let answer = self.hear("A, at one time,", &request, answer)?;
            let is_one_of = [VerdictCode::Applied, VerdictCode::Replayed, VerdictCode::OperationInProgress]
                .into_iter()
                .any(|code| answer.says(code));
            if !is_one_of {
                let expected = "applied, replayed or 409 operation_in_progress";
                return Err(failed(Kind::Answer, expected, format!("answered {answer}"), SHUT_OUT));
            }
        }
        if let Some(Violation { invariant, what, .. }) = recorder.violation() {
            let expected = "one of them to take effect";
            return Err(failed(Kind::Effect, expected, format!("{what} ({invariant})"), UNEXPLAINED));
        }
        self.reads(intent.value, UNEXPLAINED).await
    }
}

/// A line of a history as a sentence.
fn told(line: &Line) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match (line.call, line.answer) {
        (Some(call), _) if line.doing == Some(Doing::Read) => format!("call {call}: a read"),
        (Some(call), _) => {
            let token = line.token.as_deref().and_then(|text| text.parse::<Token>().ok());
            let token = token.map_or_else(String::new, |token| token.to_string());
            format!("call {call}: {} writes {} with token {token}", text(&line.who), text(&line.value))
        }
        (None, Some(answer)) => {
            let got = line.got.and_then(|got| serde_json::to_value(got).ok());
            let got = got.as_ref().and_then(|got| got.as_str()).unwrap_or("unknown").to_owned();
            format!("call {answer} is answered: {got} {}", text(&line.value).as_str().trim()).trim_end().to_owned()
        }
        (None, None) => String::new(),
    }
}
