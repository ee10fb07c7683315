//! A worker process: it acquires through the real client over HTTP, reads a set, adds an element, and writes the set
//! through the real receiver, again and again. It notes every call and every answer.
//!
//! It looks at its lease before it thinks, and writes without looking again: it stands for a program that is stopped
//! between the two.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fencepost::{Advance as _, FencedLease};
use fencepost_client::{HttpCoordinator, HttpOptions, Lease, Session};
use fencepost_core::{
    Grant, Holder, OperationId, Ttl, Wait,
    fence::{Operation, Verdict},
};
use fencepost_testkit::{
    history::{Answer, Doing},
    torture::{Discipline, Random, Recorder, now_us},
};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use writing::{Came, Effect};

use crate::{
    gates::Gates,
    noted::{Noted, Shared, say_why, with},
    sessions::NotedSessions,
    subject::{Kind, SUBJECTS, Set, Store, Subject},
};

mod writing;

pub(crate) use writing::OLDER_REFUSED;

/// Names the variable with the orders of a worker process.
pub(crate) const ORDERS: &str = "TORTURE_WORKER";
pub(crate) const TTL_MS: u64 = 1_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) root: PathBuf,
    pub(crate) url: String,
    pub(crate) index: usize,
    /// How many processes have stood in this worker's place.
    pub(crate) life: u32,
    pub(crate) seed: u64,
    /// What a time namespace adds to this process's monotonic clocks.
    pub(crate) shift_us: u64,
    /// The greatest counters that were seen of each resource before this process.
    pub(crate) seen: BTreeMap<String, u64>,
}

impl Orders {
    pub(crate) fn name(&self) -> String {
        format!("w{}.{}", self.index, self.life)
    }
}

/// The worker process. Not a test by itself: the nemesis starts it.
#[test]
fn the_worker() {
    let Ok(orders) = env::var(ORDERS) else { return };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    Worker::new(serde_json::from_str(&orders).unwrap()).run();
}

enum Held {
    Plain(Lease),
    Fenced(FencedLease),
}

impl Held {
    fn lease(&self) -> &Lease {
        match self {
            Self::Plain(lease) => lease,
            Self::Fenced(lease) => lease,
        }
    }

    fn leave_to_expire(self) {
        match self {
            Self::Plain(lease) => lease.leave_to_expire(),
            Self::Fenced(lease) => lease.leave_to_expire(),
        }
    }
}

struct Worker {
    orders: Orders,
    gates: Gates,
    store: Store,
    /// What the checker looks at, and what it cannot: writes that nobody decides about.
    history: Shared,
    unfenced: Shared,
    notes: fs::File,
    random: Random,
    runtime: Runtime,
    coordinator: NotedSessions,
    session: Option<Session>,
    effects: Vec<Effect>,
    elements: u64,
    wall_offset_s: i64,
}

impl Worker {
    fn new(orders: Orders) -> Self {
        let (name, histories) = (orders.name(), orders.root.join("histories"));
        let process = u32::try_from(orders.index * 10_000).unwrap() + orders.life * 2;
        let recorder = |kind: &str, process| {
            let path = histories.join(format!("{name}.{kind}"));
            Arc::new(Mutex::new(Recorder::create(&path, &name, process, orders.shift_us).unwrap()))
        };
        // A call that hangs costs the whole TTL, so most workers do not wait as long for an answer as the client would.
        let call_timeout = Duration::from_millis(if orders.index == 0 { 10_000 } else { 700 });
        let options = HttpOptions { call_timeout, connect_timeout: Duration::from_millis(500) };
        let (inner, history) =
            (HttpCoordinator::with_options(&orders.url, options).unwrap(), recorder("history", process));
        Self {
            gates: Gates::of(&orders.root),
            store: Store::open(&orders.root, &orders.seen).unwrap(),
            unfenced: recorder("unfenced", process + 1),
            notes: fs::File::options()
                .append(true)
                .create_new(true)
                .open(histories.join(format!("{name}.notes")))
                .unwrap(),
            random: Random::new(orders.seed),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            coordinator: NotedSessions { inner, recorder: history.clone() },
            history,
            session: None,
            effects: Vec::new(),
            elements: 0,
            wall_offset_s: wall_offset_s(),
            orders,
        }
    }

    fn run(mut self) {
        while !self.gates.is_there("stop") {
            if self.gates.is_there("quiet") {
                self.be_quiet();
                continue;
            }
            let focus = self.gates.text("focus").and_then(|label| Subject::by_label(&label));
            // The first ones more often, so that somebody waits for what a stopped worker has.
            let mut any = || usize::try_from(self.random.next() % SUBJECTS.len() as u64).unwrap();
            let drawn = SUBJECTS[any().min(any())];
            self.look_at_the_wall_clock();
            if let Err(why) = self.cycle(focus.unwrap_or(drawn)) {
                self.note(&why);
                self.pause(5, 40);
            }
        }
        if let Some(session) = self.session.take() {
            let _ = self.runtime.block_on(session.close());
        }
    }

    /// Does nothing, and says so, and what it has seen, until it may go on. It has nothing open meanwhile: SQLite itself
    /// asks for that of whoever copies a database back, because a kept connection may go on with pages from before.
    fn be_quiet(&mut self) {
        self.store.close();
        let name = format!("quiet.{}", self.orders.name());
        self.gates.write(&name, &serde_json::to_string(&self.store.seen()).unwrap());
        self.gates.stand("quiet", Some("stop"));
        self.store.reopen();
        self.gates.take_away(&name);
        if let Some(seen) = self.gates.text("seen") {
            self.store.note(&serde_json::from_str(&seen).unwrap());
        }
    }

    fn pause(&mut self, least_ms: u64, most_ms: u64) {
        // bounded: the time that work takes between two calls
        thread::sleep(Duration::from_millis(self.random.between(least_ms, most_ms)));
    }

    /// Without digits, except where something is broken: failures are counted by their words.
    fn note(&mut self, what: &str) {
        let what = what.replace('\n', " ").replace(self.orders.root.to_str().unwrap(), "");
        let is_broken = what.starts_with("BROKEN");
        let kept = |c: char| if c.is_ascii_digit() && !is_broken { '#' } else { c };
        let most = if is_broken { usize::MAX } else { 90 };
        writeln!(self.notes, "{}", what.chars().map(kept).take(most).collect::<String>()).unwrap();
    }

    fn look_at_the_wall_clock(&mut self) {
        let offset_s = wall_offset_s();
        if offset_s.abs_diff(self.wall_offset_s) > 60 {
            self.wall_offset_s = offset_s;
            self.note("saw the wall clock jump");
        }
    }

    fn generation(&self) -> u32 {
        self.gates.text("generation").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn recorder_of(&self, subject: Subject) -> Shared {
        if subject.is_fenced() { self.history.clone() } else { self.unfenced.clone() }
    }

    fn fresh_element(&mut self) -> String {
        self.elements += 1;
        format!("{}-{}", self.orders.name(), self.elements)
    }

    /// One hold of a domain, from acquire to its end.
    fn cycle(&mut self, subject: Subject) -> Result<(), String> {
        let generation = self.generation();
        let held = self.acquire(subject, generation)?;
        let grant = held.lease().grant().clone();
        let writes = if self.random.chance(30) { 2 } else { 1 };
        let mut is_settled = true;
        for _ in 0..writes {
            let Some(base) = self.read(subject, generation, &grant) else { break };
            if !self.believe(&held) {
                self.note("lost before the write");
                break;
            }
            self.think(subject);
            let element = self.fresh_element();
            let id = OperationId::new(&element).unwrap();
            let set = base.with(&element);
            let operation = Operation::new(id, set.as_str().as_bytes()).born(grant.token);
            let effect = Effect { subject, generation, grant: grant.clone(), operation, element, set };
            let came = self.write(&effect, Some(&held));
            is_settled &= came != Came::Nowhere;
            self.gates.take_away(&format!("at.{}.{}", subject.label, self.orders.name()));
            if came != Came::Through {
                break;
            }
            if subject.is_fenced() {
                self.effects.push(effect);
                // A file keeps its latest hundred records, of all workers.
                if self.effects.len() > 20 {
                    self.effects.remove(0);
                }
            }
        }
        self.retry_an_earlier_one(&grant);
        self.give_back(held, is_settled);
        Ok(())
    }

    fn acquire(&mut self, subject: Subject, generation: u32) -> Result<Held, String> {
        if self.session.as_ref().is_none_or(|session| session.over().is_some()) || self.random.chance(3) {
            self.session = None;
            let (holder, ttl) = (Holder::new(&self.orders.name()).unwrap(), Ttl::from_millis(TTL_MS).unwrap());
            let opened = self.runtime.block_on(Session::open(self.coordinator.clone(), holder, ttl));
            self.session = Some(opened.map_err(|_| "a session was not opened")?);
        }
        let session = self.session.as_ref().expect("it was opened just now");
        let call = with(&self.history, |recorder| recorder.call(Doing::Acquire, subject.domain().as_str(), |_| {}));
        let acquire = session.acquire(subject.domain()).wait(Wait::from_millis(3_000).unwrap());
        let (recorder, gates, who) = (self.history.clone(), self.gates.clone(), self.orders.name());
        let held = match (subject.discipline, subject.kind) {
            (Discipline::FencedOnAcquire, Kind::Sqlite) => {
                let noted = Noted { inner: &self.store.database, recorder, gates, subject, generation, who };
                self.runtime.block_on(acquire.advance(&noted).into_future()).map(Held::Fenced).map_err(told)
            }
            (Discipline::FencedOnAcquire, Kind::File) => {
                let noted = Noted { inner: self.store.file(subject), recorder, gates, subject, generation, who };
                self.runtime.block_on(acquire.advance(&noted).into_future()).map(Held::Fenced).map_err(told)
            }
            (Discipline::FencedOnFirstWrite | Discipline::Unfenced, _) => {
                self.runtime.block_on(acquire.into_future()).map(Held::Plain).map_err(told)
            }
        };
        match held {
            Ok(held) => {
                self.kill_the_server_where_asked(subject);
                let lease = held.lease();
                with(&self.history, |recorder| {
                    // Read first: the deadline is at least that far from this moment.
                    let at_us = recorder.now_us();
                    let remaining = u64::try_from(lease.remaining().as_micros()).unwrap();
                    recorder.answer(call, Answer::Granted, |line| {
                        (line.at_us, line.until_us) = (Some(at_us), Some(at_us + remaining));
                        (line.token, line.lease) = (Some(lease.token().to_string()), Some(lease.id().to_string()));
                    })
                });
                Ok(held)
            }
            Err(why) => {
                with(&self.history, |recorder| recorder.answer(call, Answer::Unknown, |_| {}));
                Err(why)
            }
        }
    }

    /// In a scene: nobody else is as near to the moment after an answer.
    fn kill_the_server_where_asked(&self, subject: Subject) {
        if !self.gates.is_there(&format!("hold.{}", subject.label)) {
            return;
        }
        if let Some(pid) = self.gates.text("victim").and_then(|text| text.parse().ok()).and_then(Pid::from_raw) {
            self.gates.take_away("victim");
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Looks at the lease and notes until when it may be believed in; false when it is lost.
    fn believe(&self, held: &Held) -> bool {
        let lease = held.lease();
        let at_us = now_us(self.orders.shift_us);
        let remaining = u64::try_from(lease.remaining().as_micros()).unwrap();
        if remaining == 0 {
            return false;
        }
        with(&self.history, |recorder| {
            let id = Some(lease.id().to_string());
            let call = recorder.call(Doing::Renew, lease.domain().as_str(), |line| {
                (line.lease, line.at_us) = (id.clone(), Some(at_us));
            })?;
            recorder.answer(call, Answer::Renewed, |line| (line.lease, line.until_us) = (id, Some(at_us + remaining)))
        });
        true
    }

    /// Reads what the next write is based on; at a receiver that is fenced on acquire now and then by a fenced read.
    fn read(&mut self, subject: Subject, generation: u32, grant: &Grant) -> Option<Set> {
        let recorder = self.recorder_of(subject);
        let fenced = subject.discipline == Discipline::FencedOnAcquire && self.random.chance(30);
        let call = with(&recorder, |recorder| {
            recorder.call(Doing::Read, subject.domain().as_str(), |line| {
                line.resource = Some(subject.resource(generation));
                line.token = fenced.then(|| grant.token.to_string());
            })
        });
        let found = if fenced {
            self.store.fenced_read(subject, grant)
        } else {
            self.store.read(subject).map(Verdict::Applied)
        };
        with(&recorder, |recorder| match &found {
            Ok(Verdict::Applied(set) | Verdict::Replayed(set)) => {
                let value = set.latest().to_owned();
                recorder.answer(call, Answer::Value, |line| line.value = Some(value))
            }
            Ok(Verdict::Rejected(rejection)) => {
                recorder.answer(call, Answer::Rejected, |line| say_why(line, rejection))
            }
            // A fenced read that failed may have raised the fence.
            Err(_) => recorder.answer(call, Answer::Unknown, |_| {}),
        });
        match found {
            Ok(verdict) => verdict.result(),
            Err(error) => {
                self.note(&format!("a read failed: {error}"));
                None
            }
        }
    }

    /// Between reading and writing: in a scene until it is told to go on, else for a moment.
    fn think(&mut self, subject: Subject) {
        let (label, who) = (subject.label, self.orders.name());
        let gate = format!("hold.{label}");
        if self.gates.is_there(&gate) {
            self.gates.put(&format!("at.{label}.{who}"));
            self.gates.stand(&gate, Some(&format!("go.{who}")));
        } else {
            let thinking = format!("thinking.{who}");
            self.gates.put(&thinking);
            self.pause(0, 80);
            self.gates.take_away(&thinking);
        }
    }

    fn give_back(&mut self, held: Held, is_settled: bool) {
        let (lease, domain) = (held.lease().id().to_string(), held.lease().domain().clone());
        let call = with(&self.history, |recorder| {
            recorder.call(Doing::Release, domain.as_str(), |line| line.lease = Some(lease))
        });
        if !is_settled || self.random.chance(5) {
            held.leave_to_expire();
            return;
        }
        let released = self.runtime.block_on(async {
            match held {
                Held::Plain(lease) => lease.release().await,
                Held::Fenced(lease) => lease.release().await,
            }
        });
        let got = if released.is_ok() { Answer::Released } else { Answer::Unknown };
        with(&self.history, |recorder| recorder.answer(call, got, |_| {}));
    }
}

fn told(error: impl std::fmt::Display) -> String {
    format!("no lease: {error}")
}

/// What the wall clock shows beyond the monotonic one.
fn wall_offset_s() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    i64::try_from(wall).unwrap() - i64::try_from(now_us(0) / 1_000_000).unwrap()
}
