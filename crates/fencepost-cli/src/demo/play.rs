//! Makes the script happen, step by step, and tells each one.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    time::Duration,
};

use fencepost_core::{OperationId, Ttl, Wait};
use tokio::time::{Instant, interval, sleep};

use super::{
    crew::Worker,
    promise::{Checked, Seen, Tokens, camel},
    protocol::{Manner, Reply, Request, domain_of},
    script::{Act, Actor, Change, Check, Fenced, GREATER_TOKEN, KNOWS_ITS_LOSS, Scene, Step},
    stage::Stage,
    tell::{Line, Teller},
};
use crate::{
    exit::Exit,
    failure::{Failure, REPORT},
};

/// How long anybody waits for a lease: far longer than leases last here.
const WAIT_MS: u64 = 30_000;
/// How long the first of two writes stays open for the second to arrive at it. Only a defective receiver, which decides
/// before it has the lock, could tell the difference.
const HOLD_OPEN: Duration = Duration::from_millis(300);

pub(super) struct Player<'a> {
    stage: &'a Stage,
    teller: &'a mut Teller,
    crew: BTreeMap<Actor, Worker>,
    started: Instant,
    checked: Vec<Checked>,
    act: u8,
    /// Counts the operations that the script gives no id.
    operations: u32,
    scene: InScene,
}

/// What is remembered from step to step of one scene.
#[derive(Default)]
struct InScene {
    item: &'static str,
    fenced: Option<Fenced>,
    ttl_ms: u64,
    holder: Option<Actor>,
    tokens: Tokens,
    readings: BTreeMap<Actor, i64>,
    amount: i64,
    applied: i64,
    bytes: Option<Vec<u8>>,
    /// Operations of the script that somebody has tried already.
    tried: BTreeSet<&'static str>,
}

impl<'a> Player<'a> {
    pub(super) fn new(stage: &'a Stage, teller: &'a mut Teller) -> Self {
        Self {
            stage,
            teller,
            crew: BTreeMap::new(),
            started: Instant::now(),
            checked: Vec::new(),
            act: 0,
            operations: 0,
            scene: InScene::default(),
        }
    }

    /// Plays all acts. What was promised and what was seen, in order.
    ///
    /// # Errors
    /// When the demo itself cannot go on; a broken promise is no such error.
    pub(super) async fn play(mut self, acts: &[Act]) -> Result<Vec<Checked>, Failure> {
        for actor in Actor::ALL {
            self.enter(actor)?;
        }
        for act in acts {
            self.act = act.number;
            self.teller.act(act)?;
            for scene in &act.scenes {
                self.teller.scene(scene)?;
                self.scene = InScene {
                    item: scene.item,
                    fenced: Some(scene.fenced),
                    ttl_ms: scene.ttl_ms,
                    amount: scene.amount,
                    ..InScene::default()
                };
                self.play_scene(scene).await?;
            }
        }
        Ok(self.checked)
    }

    async fn play_scene(&mut self, scene: &Scene) -> Result<(), Failure> {
        for step in &scene.steps {
            match step {
                Step::Acquire(actor) => self.acquire(*actor).await?,
                Step::Release(actor) => self.release(*actor).await?,
                Step::Read(actor) => self.read(*actor).await?,
                Step::Look(actor) => self.look(*actor).await?,
                Step::Pause(actor) => {
                    self.worker(*actor)?.pause()?;
                    self.line(*actor, "pause", "is paused (SIGSTOP)")?;
                }
                Step::Continue(actor) => self.go_on(*actor).await?,
                Step::Write { by, change, operation, check } => {
                    let line = self.write_line(*by, *change, *operation);
                    let reply = self.write(*by, *change, *operation, Manner::Plain).await?;
                    self.verdict(line, *by, reply, *check)?;
                }
                Step::WriteUnheard { by, change, operation } => {
                    let mut line = self.write_line(*by, *change, Some(operation));
                    self.write(*by, *change, Some(operation), Manner::Unheard).await?;
                    line.got = Some("answer lost".to_owned());
                    self.tell(line)?;
                }
                Step::WriteDuring { first, second } => self.write_during(*first, *second).await?,
                Step::PlainSql { sql, check } => {
                    let seen = self.stage.plain(sql)?;
                    let line = self.new_line(None, "plain_sql", (*sql).to_owned());
                    self.outcome(line, seen, *check, None)?;
                }
                Step::Remember => self.scene.bytes = Some(self.stage.bytes()?),
                Step::Untouched(check) => {
                    let same = self.scene.bytes.as_ref() == Some(&self.stage.bytes()?);
                    let seen = if same { Seen::Untouched } else { Seen::Changed };
                    let line = self.new_line(None, "compare", "compares all bytes of shop.db".to_owned());
                    self.outcome(line, seen, *check, None)?;
                }
                Step::Amount(check) => {
                    let amount = self.stage.amount(self.scene.item)?;
                    let says = format!("looks at what is left of {}", self.scene.amount);
                    let line = self.new_line(None, "amount", says);
                    self.outcome(line, Seen::Amount(amount), *check, None)?;
                }
                Step::LostUpdates(check) => {
                    let counted = self.stage.amount(self.scene.item)? - self.scene.amount;
                    let says = format!("{} writes Applied, {counted} counted", self.scene.applied);
                    let line = self.new_line(None, "count", says);
                    self.outcome(line, Seen::LostUpdates(self.scene.applied - counted), *check, None)?;
                }
                Step::Block { blocked, asks, ms, ask_after_ms, refused, held } => {
                    let (ms, ask_after) = (*ms, Duration::from_millis(*ask_after_ms));
                    self.block(*blocked, ms, *held, *asks, ask_after, *refused).await?;
                }
            }
        }
        Ok(())
    }

    async fn acquire(&mut self, actor: Actor) -> Result<(), Failure> {
        let others = self.scene.holder.filter(|holder| *holder != actor);
        if others.is_some() {
            self.line(actor, "wait", "asks for the lease, and waits")?;
        }
        let request = self.acquire_request(WAIT_MS)?;
        let doing = others.map(|other| format!("{actor} waits until {other}'s lease ends"));
        self.worker(actor)?.say(&request)?;
        let worker = self.crew.get_mut(&actor).expect("it has just been spoken to");
        let reply = while_shown(self.teller, doing.as_deref(), worker.hear()).await??;
        let says = match self.scene.fenced {
            Some(Fenced::OnAcquire) => "acquires, and the fence rises",
            Some(Fenced::OnFirstWrite) | None => "acquires, the fence stays",
        };
        match reply {
            Reply::Granted { token } => {
                let seen = Seen::Granted(token);
                self.scene.holder = Some(actor);
                let kept = GREATER_TOKEN.promise.is_kept(&seen, Some(actor), &self.scene.tokens);
                self.scene.tokens.granted(actor, token);
                let line = self.new_line(Some(actor), "acquire", says.to_owned());
                self.judged(line, &seen, GREATER_TOKEN, kept)
            }
            Reply::Held { holder } => {
                let line = self.new_line(Some(actor), "acquire", says.to_owned());
                self.outcome(line, Seen::HeldBy(holder), GREATER_TOKEN, Some(actor))
            }
            other => Err(unexpected(actor, &other)),
        }
    }

    async fn release(&mut self, actor: Actor) -> Result<(), Failure> {
        self.worker(actor)?.ask(&Request::Release).await?;
        self.scene.holder = None;
        self.line(actor, "release", "gives the lease back")
    }

    async fn read(&mut self, actor: Actor) -> Result<(), Failure> {
        match self.worker(actor)?.ask(&Request::Read).await? {
            Reply::Read { amount } => {
                self.scene.readings.insert(actor, amount);
                self.line(actor, "read", &format!("reads {amount}"))
            }
            other => Err(unexpected(actor, &other)),
        }
    }

    async fn look(&mut self, actor: Actor) -> Result<(), Failure> {
        let seen = self.looked(actor).await?;
        let mut line = self.new_line(Some(actor), "look", "looks at its lease once more".to_owned());
        line.got = Some(seen.to_string());
        self.tell(line)
    }

    async fn looked(&mut self, actor: Actor) -> Result<Seen, Failure> {
        let reply = self.worker(actor)?.ask(&Request::Look).await?;
        looked(actor, &reply)
    }

    async fn go_on(&mut self, actor: Actor) -> Result<(), Failure> {
        self.worker(actor)?.resume()?;
        let seen = self.looked(actor).await?;
        let line = self.new_line(Some(actor), "continue", "goes on (SIGCONT)".to_owned());
        let kept = KNOWS_ITS_LOSS.promise.is_kept(&seen, Some(actor), &self.scene.tokens);
        self.judged(line, &seen, KNOWS_ITS_LOSS, kept)
    }

    async fn write(
        &mut self,
        by: Actor,
        change: Change,
        operation: Option<&str>,
        manner: Manner,
    ) -> Result<Reply, Failure> {
        let request = self.write_request(by, change, operation, manner)?;
        self.worker(by)?.ask(&request).await
    }

    async fn write_during(
        &mut self,
        (first, first_change, first_check): (Actor, Change, Check),
        (second, second_change, second_check): (Actor, Change, Check),
    ) -> Result<(), Failure> {
        let line = self.write_line(first, first_change, None);
        let mut reply = self.write(first, first_change, None, Manner::HeldOpen).await?;
        if !matches!(reply, Reply::Inside) {
            // Refused at once, so there is nothing to arrive at.
            self.verdict(line, first, reply, first_check)?;
            let line = self.write_line(second, second_change, None);
            let reply = self.write(second, second_change, None, Manner::Plain).await?;
            return self.verdict(line, second, reply, second_check);
        }
        self.line(first, "write", &format!("{}, not yet committed", says(first_change, None, None)))?;

        let request = self.write_request(second, second_change, None, Manner::Announced)?;
        match self.worker(second)?.ask(&request).await? {
            Reply::Sending => {}
            other => return Err(unexpected(second, &other)),
        }
        self.line(second, "write", &format!("{}, and has to wait", says(second_change, None, None)))?;
        sleep(HOLD_OPEN).await;

        reply = self.worker(first)?.ask(&Request::GoOn).await?;
        let committed = self.new_line(Some(first), "commit", "commits".to_owned());
        self.verdict(committed, first, reply, first_check)?;
        let reply = self.worker(second)?.hear().await?;
        let decided = self.new_line(Some(second), "decided", "has its turn, and is decided".to_owned());
        self.verdict(decided, second, reply, second_check)
    }

    async fn block(
        &mut self,
        blocked: Actor,
        ms: u64,
        held: Check,
        asks: Actor,
        ask_after: Duration,
        refused: Check,
    ) -> Result<(), Failure> {
        self.worker(blocked)?.say(&Request::Block { ms })?;
        self.line(blocked, "block", &format!("blocks its async runtime, {} s", ms / 1_000))?;
        let doing = format!("{blocked} is blocked");
        while_shown(self.teller, Some(&doing), sleep(ask_after)).await?;

        let request = self.acquire_request(0)?;
        let seen = match self.worker(asks)?.ask(&request).await? {
            Reply::Held { holder } => Seen::HeldBy(holder),
            Reply::Granted { token } => Seen::Granted(token),
            other => return Err(unexpected(asks, &other)),
        };
        let line = self.new_line(Some(asks), "acquire", "asks for the lease, at once".to_owned());
        self.outcome(line, seen, refused, Some(asks))?;

        let reply = self.worker(blocked)?.hear().await?;
        let seen = looked(blocked, &reply)?;
        let line = self.new_line(Some(blocked), "look", "is back, looks at its lease".to_owned());
        self.outcome(line, seen, held, Some(blocked))
    }

    fn enter(&mut self, actor: Actor) -> Result<(), Failure> {
        let worker = Worker::start(actor, &self.stage.url, &self.stage.database)?;
        self.teller.worker(actor, worker.id())?;
        self.crew.insert(actor, worker);
        Ok(())
    }

    fn worker(&mut self, actor: Actor) -> Result<&mut Worker, Failure> {
        let nobody =
            || Failure::new(Exit::Bug, format!("the script speaks of {actor} before it has entered")).then(REPORT);
        self.crew.get_mut(&actor).ok_or_else(nobody)
    }

    fn acquire_request(&self, wait_ms: u64) -> Result<Request, Failure> {
        Ok(Request::Acquire {
            item: self.scene.item.to_owned(),
            fenced: self.scene.fenced.unwrap_or(Fenced::OnAcquire),
            ttl: Ttl::from_millis(self.scene.ttl_ms)?,
            wait: Wait::from_millis(wait_ms)?,
        })
    }

    fn write_request(
        &mut self,
        by: Actor,
        change: Change,
        operation: Option<&str>,
        manner: Manner,
    ) -> Result<Request, Failure> {
        self.operations += 1;
        let operation = match operation {
            Some(id) => OperationId::new(id)?,
            None => OperationId::new(&format!("{}-{by}-{}", self.scene.item, self.operations))?,
        };
        Ok(Request::Write { change, operation, manner })
    }

    fn write_line(&mut self, by: Actor, change: Change, operation: Option<&'static str>) -> Line {
        let reading = self.scene.readings.get(&by).copied();
        let again = operation.is_some_and(|operation| !self.scene.tried.insert(operation));
        let says = format!("{}{}", says(change, operation, reading), if again { " again" } else { "" });
        self.new_line(Some(by), "write", says)
    }

    fn verdict(&mut self, line: Line, by: Actor, reply: Reply, check: Check) -> Result<(), Failure> {
        let Reply::Verdict(told) = reply else { return Err(unexpected(by, &reply)) };
        self.scene.applied += i64::from(told.seen() == Seen::Applied);
        let seen = told.seen();
        self.outcome(Line { told: Some(told), ..line }, seen, check, Some(by))
    }

    fn outcome(&mut self, line: Line, seen: Seen, check: Check, by: Option<Actor>) -> Result<(), Failure> {
        let kept = check.promise.is_kept(&seen, by, &self.scene.tokens);
        self.judged(line, &seen, check, kept)
    }

    fn judged(&mut self, line: Line, seen: &Seen, check: Check, kept: bool) -> Result<(), Failure> {
        let (promised, seen_in_words) = (check.promise.to_string(), seen.to_string());
        let (promised_again, claim) = (promised.clone(), check.claim);
        self.checked.push(Checked { act: self.act, claim, promised, seen: seen_in_words, kept });
        let got = match seen {
            Seen::Stale { least_accepted, .. } => format!("Stale: needs {least_accepted}"),
            Seen::Rejected(code) => camel(code),
            Seen::LeaseLost(_) => "its lease is lost".to_owned(),
            Seen::StillHeld => "its lease is held".to_owned(),
            other => other.to_string(),
        };
        self.tell(Line { got: Some(got), promised: Some(promised_again), kept: Some(kept), ..line })
    }

    fn line(&mut self, actor: Actor, what: &'static str, says: &str) -> Result<(), Failure> {
        let line = self.new_line(Some(actor), what, says.to_owned());
        self.tell(line)
    }

    fn new_line(&self, actor: Option<Actor>, what: &'static str, says: String) -> Line {
        Line {
            act: self.act,
            at: Duration::ZERO,
            domain: domain_of(self.scene.item).ok(),
            holder: self.scene.holder,
            actor,
            what,
            says,
            token: actor.and_then(|actor| self.scene.tokens.of(actor)),
            told: None,
            got: None,
            promised: None,
            kept: None,
        }
    }

    fn tell(&mut self, line: Line) -> Result<(), Failure> {
        self.teller.line(&Line { at: self.started.elapsed(), ..line })
    }
}

fn says(change: Change, operation: Option<&str>, reading: Option<i64>) -> String {
    let operation = operation.map(|id| format!(" as {id}")).unwrap_or_default();
    match (change, reading) {
        (Change::To(amount), _) => format!("writes {amount}{operation}"),
        (Change::By(difference), _) => format!("books {difference}{operation}"),
        (Change::ReadingPlusOne, Some(reading)) => format!("writes {reading} + 1{operation}"),
        (Change::ReadingPlusOne, None) => format!("writes its reading + 1{operation}"),
    }
}

fn looked(actor: Actor, reply: &Reply) -> Result<Seen, Failure> {
    match reply {
        Reply::Looked { held: true, .. } => Ok(Seen::StillHeld),
        Reply::Looked { held: false, why, .. } => Ok(Seen::LeaseLost(why.clone().unwrap_or_default())),
        other => Err(unexpected(actor, other)),
    }
}

fn unexpected(actor: Actor, reply: &Reply) -> Failure {
    Failure::new(Exit::Bug, format!("worker {actor} answered something else than it was asked: {reply:?}")).then(REPORT)
}

/// Waits, and on a terminal shows for what and for how long.
async fn while_shown<T>(
    teller: &mut Teller,
    doing: Option<&str>,
    waiting: impl Future<Output = T>,
) -> Result<T, Failure> {
    let mut waiting = pin!(waiting);
    let Some(doing) = doing else { return Ok(waiting.await) };
    let since = Instant::now();
    let mut ticks = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            biased;
            done = &mut waiting => {
                teller.progress_ends()?;
                return Ok(done);
            }
            _ = ticks.tick() => teller.progress(doing, since.elapsed())?,
        }
    }
}
