use std::cell::{Cell, RefCell};

use fencepost_core::{Domain, Token};
use fencepost_receiver::{VerdictCode, header};

use super::{
    message::{Answer, NoAnswer, Request},
    plan::{Call, Plan},
    report::{Failure, Kind, Outcome},
    world::{Trouble, World},
};

/// A step of a scenario; the error is an outcome that ends it early.
pub(super) type Step<T> = Result<T, Box<Outcome>>;

/// A holder of a lease: nothing but its name in the story, and what it was granted.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) name: &'static str,
    pub(super) token: Token,
    pub(super) domain: Domain,
}

/// One intended effect: the same on every retry.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    pub(super) value: u64,
    pub(super) operation: String,
    pub(super) born: Token,
}

/// What it means when a scenario finds something, and what to change then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advice {
    pub(super) meaning: &'static str,
    pub(super) fix: &'static str,
}

/// Where scenarios play: the plan, the world, and the story so far.
pub(super) struct Stage<'a, W> {
    pub(super) plan: &'a Plan,
    pub(super) world: &'a W,
    counter: Cell<u64>,
    operations: Cell<u64>,
    requests: Cell<u64>,
    story: RefCell<Vec<String>>,
    /// Answers that do not say which verdict they are, or say it beside another status.
    unnamed: RefCell<Vec<String>>,
}

impl From<Trouble> for Box<Outcome> {
    fn from(trouble: Trouble) -> Self {
        Self::new(Outcome::NotTried { why: trouble.to_string(), asked_for: true })
    }
}

pub(super) fn failed(
    kind: Kind,
    expected: impl Into<String>,
    found: impl Into<String>,
    advice: Advice,
) -> Box<Outcome> {
    Box::new(Outcome::Failed(Failure {
        kind,
        expected: expected.into(),
        found: found.into(),
        meaning: advice.meaning.to_owned(),
        fix: advice.fix.to_owned(),
    }))
}

pub(super) const PASSED: Outcome = Outcome::Passed { note: None };

const SILENT: Advice = Advice {
    meaning: "the caller cannot know whether its write happened, and nothing more can be tried",
    fix: "look into the service's log; a request that cannot be decided is answered with a status, 503 for example",
};
const UNREADABLE: Advice = Advice {
    meaning: "without reading the value nobody can say what a write has done",
    fix: "name a path that answers JSON with --read, and where the value stands in it with --read-pointer",
};
const LOST_WRITE: Advice = Advice {
    meaning: "a write was answered as done, and is not to be read",
    fix: "commit before answering; or correct --read, --read-pointer and --body, if they do not belong together",
};
const NOT_SAID: Advice = Advice {
    meaning: "nothing was changed that must not be, but a client cannot tell from the answer what to do next",
    fix: "answer with the status and the Fencepost-Verdict of the table in docs/prove.md",
};

impl<'a, W: World> Stage<'a, W> {
    pub(super) fn new(plan: &'a Plan, world: &'a W) -> Self {
        Self {
            plan,
            world,
            counter: Cell::new(0),
            operations: Cell::new(0),
            requests: Cell::new(0),
            story: RefCell::default(),
            unnamed: RefCell::default(),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(super) fn take_story(&self) -> Vec<String> {
        self.story.take()
    }

    pub(super) fn unnamed(&self) -> Vec<String> {
        self.unnamed.borrow().clone()
    }

    pub(super) fn tell(&self, line: impl Into<String>) {
        self.story.borrow_mut().push(line.into());
    }

    pub(super) async fn owner(&self, name: &'static str) -> Step<Owner> {
        let token = self.world.grant(&self.plan.domain).await?;
        Ok(self.owner_with(name, token))
    }

    pub(super) fn owner_with(&self, name: &'static str, token: Token) -> Owner {
        self.tell(format!("{name} is granted {} with token {token}", self.plan.domain));
        if self.counter.get() == 0 {
            // Far from what an earlier proof of this service has written: its values began at an earlier token.
            self.counter.set(token.sequence().get() % 1_000_000_000);
        }
        Owner { name, token, domain: self.plan.domain.clone() }
    }

    /// A fresh effect with a value and an operation id that nothing before it had.
    pub(super) fn intent(&self, owner: &Owner) -> Intent {
        let value = self.counter.get() + 1;
        self.counter.set(value);
        let number = self.operations.get() + 1;
        self.operations.set(number);
        let operation = format!("prove-{}-{number}", owner.token.to_decimal());
        Intent { value, operation, born: owner.token }
    }

    pub(super) fn request(&self, call: &Call, owner: &Owner, intent: &Intent) -> Request {
        let mut request = call.request(&self.plan.body, intent.value);
        let mut add = |name: &str, value: String| request.headers.push((name.to_owned(), value));
        add(header::TOKEN, owner.token.to_decimal());
        add(header::DOMAIN, owner.domain.as_str().to_owned());
        add(header::IDEMPOTENCY_KEY, intent.operation.clone());
        add(header::OPERATION_BORN, intent.born.to_decimal());
        if call.has_body() {
            add("content-type", "application/json".to_owned());
        }
        request
    }

    pub(super) fn write(&self, owner: &Owner, intent: &Intent) -> Request {
        self.request(&self.plan.write, owner, intent)
    }

    /// Sends, counts, and notes an answer that does not name its verdict. Not in the story.
    pub(super) async fn send_quietly(&self, request: &Request) -> Result<Answer, NoAnswer> {
        self.requests.set(self.requests.get() + 1);
        let answer = self.world.send(request).await;
        self.note(request, &answer);
        answer
    }

    fn note(&self, request: &Request, answer: &Result<Answer, NoAnswer>) {
        let Ok(answer) = answer else { return };
        let names_it = answer.verdict.is_some() && answer.agrees_with_itself();
        if !names_it {
            self.unnamed.borrow_mut().push(format!("{} -> {answer}", self.describe(request)));
        }
    }

    /// Puts an exchange into the story. No answer ends the scenario.
    pub(super) fn hear(&self, who: &str, request: &Request, answer: Result<Answer, NoAnswer>) -> Step<Answer> {
        let sent = self.describe(request);
        match answer {
            Ok(answer) => {
                self.tell(format!("{who} sends {sent}: answered {answer}"));
                Ok(answer)
            }
            Err(none) => {
                self.tell(format!("{who} sends {sent}: {none}"));
                Err(failed(Kind::Silence, "an answer", none.to_string(), SILENT))
            }
        }
    }

    pub(super) async fn send(&self, who: &str, request: &Request) -> Step<Answer> {
        let answer = self.send_quietly(request).await;
        self.hear(who, request, answer)
    }

    pub(super) async fn begin(&self, who: &str, request: &Request) -> Step<W::Begun> {
        self.requests.set(self.requests.get() + 1);
        let sent = self.describe(request);
        match self.world.begin(request).await {
            Ok(begun) => {
                self.tell(format!("{who} sends the head and half of the body of {sent}"));
                Ok(begun)
            }
            Err(none) => Err(failed(Kind::Silence, "a connection", none.to_string(), SILENT)),
        }
    }

    pub(super) async fn finish_quietly(&self, request: &Request, begun: W::Begun) -> Result<Answer, NoAnswer> {
        let answer = self.world.finish(begun).await;
        self.note(request, &answer);
        answer
    }

    fn describe(&self, request: &Request) -> String {
        let mut text = format!("{} {}", request.method, request.target);
        if !request.body.is_empty() {
            text.push_str(&format!(" {}", String::from_utf8_lossy(&request.body)));
        }
        let token = request.header(header::TOKEN);
        // As people type it, where it is one.
        let readable = token.and_then(|text| Token::from_decimal(text).ok()).map(|token| token.to_string());
        text.push_str(&match (readable, token) {
            (Some(token), _) => format!(" with token {token}"),
            (None, Some(text)) => format!(" with token {text:?}"),
            (None, None) => " without a token".to_owned(),
        });
        match request.header(header::DOMAIN) {
            Some(domain) if domain == self.plan.domain.as_str() => {}
            Some(domain) => text.push_str(&format!(" of {domain}")),
            None => text.push_str(" and no domain"),
        }
        if let Some(operation) = request.header(header::IDEMPOTENCY_KEY) {
            text.push_str(&format!(", operation {operation}"));
        }
        text
    }

    /// What stands there now; `None` where nothing does.
    pub(super) async fn look(&self) -> Step<Option<String>> {
        let answer = self.look_quietly().await;
        let read = |what: &str| self.tell(format!("GET {}: {what}", self.plan.read.as_str()));
        match answer {
            Ok(answer) if answer.is_success() || matches!(answer.status, 404 | 410) => {
                let value = self.plan.value(&answer);
                read(&value.clone().unwrap_or_else(|| "no value".to_owned()));
                Ok(value)
            }
            Ok(answer) => {
                read(&format!("answered {answer}"));
                let expected = format!("the value, read at {}", self.plan.read.as_str());
                Err(failed(Kind::Answer, expected, format!("status {}", answer.status), UNREADABLE))
            }
            Err(none) => {
                read(&none.to_string());
                Err(failed(Kind::Silence, "an answer to the read", none.to_string(), SILENT))
            }
        }
    }

    pub(super) async fn look_quietly(&self) -> Result<Answer, NoAnswer> {
        self.requests.set(self.requests.get() + 1);
        let target = self.plan.read.as_str().to_owned();
        self.world.send(&Request { method: "GET".to_owned(), target, headers: Vec::new(), body: Vec::new() }).await
    }

    /// Insists that this stands there.
    pub(super) async fn reads(&self, value: u64, advice: Advice) -> Step<()> {
        let found = self.look().await?;
        if found.as_deref() == Some(&*value.to_string()) {
            return Ok(());
        }
        Err(failed(Kind::Effect, format!("{value} to be read"), shown(found.as_deref()), advice))
    }

    /// A write of the rightful owner: it takes effect, and is answered so.
    pub(super) async fn applies(&self, owner: &Owner, intent: &Intent, advice: Advice) -> Step<Answer> {
        let answer = self.send(owner.name, &self.write(owner, intent)).await?;
        applied(&answer, advice)?;
        self.reads(intent.value, LOST_WRITE).await?;
        Ok(answer)
    }

    /// A retry: answered as the first time, and nothing changes: `stands` is still to be read.
    pub(super) async fn replays(
        &self,
        owner: &Owner,
        intent: &Intent,
        first: &Answer,
        stands: u64,
        advice: Advice,
    ) -> Step<()> {
        let answer = self.send(owner.name, &self.write(owner, intent)).await?;
        self.replayed(&answer, first, stands, advice).await
    }

    pub(super) async fn replayed(&self, answer: &Answer, first: &Answer, stands: u64, advice: Advice) -> Step<()> {
        let expected = || format!("the recorded answer, replayed, and {stands} to be read as before");
        let found = self.look().await?;
        if found.as_deref() != Some(&*stands.to_string()) {
            let found = format!("answered {answer}, and {} now", shown(found.as_deref()));
            return Err(failed(Kind::Effect, expected(), found, advice));
        }
        if !answer.is_success() {
            return Err(failed(Kind::Refusal, expected(), format!("answered {answer}"), advice));
        }
        if !answer.says(VerdictCode::Replayed) {
            return Err(failed(Kind::Answer, expected(), format!("answered {answer}"), NOT_SAID));
        }
        if (answer.status, &answer.body) != (first.status, &first.body) {
            let found = format!("answered {answer} with another status or body than the first time ({})", first.status);
            return Err(failed(Kind::Answer, expected(), found, NOT_SAID));
        }
        Ok(())
    }

    /// A request that must be refused, with one of these, and change nothing: `stands` is still to be read.
    pub(super) async fn refuses(
        &self,
        who: &str,
        request: &Request,
        codes: &[VerdictCode],
        stands: u64,
        advice: Advice,
    ) -> Step<()> {
        let answer = self.send(who, request).await?;
        self.refused(&answer, codes, stands, advice).await
    }

    pub(super) async fn refused(
        &self,
        answer: &Answer,
        codes: &[VerdictCode],
        stands: u64,
        advice: Advice,
    ) -> Step<()> {
        let names: Vec<String> = codes.iter().map(|code| format!("{} {code}", code.status())).collect();
        let expected = format!("{}, and {stands} to be read as before", names.join(" or "));
        let found = self.look().await?;
        if found.as_deref() != Some(&*stands.to_string()) {
            let found = format!("answered {answer}, and {} now", shown(found.as_deref()));
            return Err(failed(Kind::Effect, expected, found, advice));
        }
        if answer.is_success() {
            let found =
                format!("answered {answer}, though nothing was changed: its sender believes that it has written");
            return Err(failed(Kind::Answer, expected, found, advice));
        }
        if !codes.iter().any(|code| answer.says(*code)) {
            return Err(failed(Kind::Answer, expected, format!("answered {answer}"), NOT_SAID));
        }
        Ok(())
    }
}

/// Insists that an answer says that the write took effect.
pub(super) fn applied(answer: &Answer, advice: Advice) -> Step<()> {
    let found = || format!("answered {answer}");
    if !answer.is_success() {
        return Err(failed(Kind::Refusal, "the write to be applied", found(), advice));
    }
    if !answer.says(VerdictCode::Applied) {
        return Err(failed(Kind::Answer, "the verdict applied", found(), NOT_SAID));
    }
    Ok(())
}

fn shown(value: Option<&str>) -> String {
    value.map_or_else(|| "no value is to be read".to_owned(), |value| format!("{value} is to be read"))
}
