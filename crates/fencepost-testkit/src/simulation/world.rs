//! The world: one queue of what happens when, and what each happening leads to in the processes, on the network and at
//! the resource. What goes wrong stands in `faults`, what happens to bytes in `wires`.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use fencepost_core::{
    Issuer, RequestId, Token,
    fence::{RecordedResult, Rejection, Verdict},
};

use super::{
    Run,
    calls::Calls,
    coordinator::Coordinator,
    deeds::Deed,
    digest::Digest,
    happening::{Address, Happening, Who},
    network::{Link, Network},
    outbox::{Outgoing, ToResource, Wish},
    panics::Watching,
    process::LocalClock,
    resource::Resource,
    server::Server,
    settings::Settings,
    wires::{What, Wires},
    worker::{Common, Worker},
};
use crate::history::{self, Answer as Got, Doing, Line, Report, Violation};
use crate::random::Random;

pub(super) struct World {
    pub(super) settings: Arc<Settings>,
    pub(super) random: Random,
    pub(super) common: Common,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    pub(super) digest: Digest,
    pub(super) network: Network,
    pub(super) wires: Wires,
    coordinator: Arc<Mutex<Coordinator>>,
    /// The clock of the coordinator's machine. A boot begins another.
    pub(super) clock: Arc<LocalClock>,
    /// `None` while it is down.
    pub(super) server: Option<Server>,
    pub(super) resource: Resource,
    pub(super) workers: Vec<Worker>,
    /// Until when the coordinator's process stands still.
    pub(super) stalled_until_us: u64,
    /// Whether the coordinator that is down comes back under another boot.
    pub(super) rebooting: bool,
    pub(super) crash_in_next_commit: bool,
    /// What the resource was last told to collect up to.
    pub(super) collected_up_to: Option<Token>,
    tick_us: Option<u64>,
    happenings: u64,
    /// Whose process was run last.
    running: Option<Who>,
    /// What ended the run before its time.
    panics: Vec<String>,
}

/// Something in the queue. Its place is given by its moment, and by its sequence where moments are equal.
struct Entry {
    at_us: u64,
    sequence: u64,
    happening: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_us, self.sequence).cmp(&(other.at_us, other.sequence))
    }
}

/// How often the server's process looks at its timers, in microseconds: all of them are long.
const SERVER_LOOKS_US: u64 = 250_000;

impl World {
    pub(super) fn new(seed: u64, settings: Settings) -> Self {
        let (mut random, settings, common) = (Random::new(seed), Arc::new(settings), Common::default());
        let issuer = Issuer::new("simulated").expect("a valid name");
        let numbers = 0..settings.workers;
        let workers = numbers.map(|number| Worker::new(number, 0, &settings, &common, &mut random)).collect();
        Self {
            resource: Resource::new(issuer.clone(), settings.mistake),
            coordinator: Arc::new(Mutex::new(Coordinator::new(issuer, settings.mistake))),
            clock: Arc::new(LocalClock::new(0, random.between(0, 1_000_000), settings.coordinators_rate(&mut random))),
            network: Network::default(),
            wires: Wires::default(),
            queue: BinaryHeap::new(),
            sequence: 0,
            digest: Digest::default(),
            server: None,
            stalled_until_us: 0,
            rebooting: false,
            crash_in_next_commit: false,
            collected_up_to: None,
            tick_us: None,
            happenings: 0,
            running: None,
            panics: Vec::new(),
            settings,
            random,
            common,
            workers,
        }
    }

    pub(super) fn run_to_the_end(mut self) -> Run {
        self.live();
        self.finish()
    }

    /// Lets everything happen, up to the end of the run or the first panic.
    pub(super) fn live(&mut self) {
        let watching = Watching::begin();
        let ended = catch_unwind(AssertUnwindSafe(|| self.begin_all()));
        let mut has_panicked = self.take_panics(&watching, ended);
        let end_us = self.settings.length_ms * 1_000;
        while !has_panicked && let Some(Reverse(entry)) = self.queue.pop() {
            if entry.at_us > end_us {
                break;
            }
            self.common.set_now(entry.at_us);
            self.happenings += 1;
            self.digest.add(&[entry.at_us]);
            entry.happening.tell(&mut self.digest);
            // What a panic leaves behind is looked at once more, for the story, and then dropped.
            let ended = catch_unwind(AssertUnwindSafe(|| self.happen(entry.happening)));
            has_panicked = self.take_panics(&watching, ended);
        }
    }

    fn begin_all(&mut self) {
        self.start_coordinator();
        self.at(0, Happening::Look { who: Who::Coordinator });
        for worker in 0..self.workers.len() {
            self.begin(worker);
        }
        if !self.settings.faults.is_empty() {
            self.at(500_000, Happening::Fault);
        }
    }

    /// Whether something has panicked; it is in the trace then, with whose process it was.
    fn take_panics(&mut self, watching: &Watching, ended: thread::Result<()>) -> bool {
        let mut panics = watching.take();
        if ended.is_err() && panics.is_empty() {
            panics.push("something, while somebody else had taken the hook".to_owned());
        }
        for panic in &panics {
            let whose = match self.running {
                Some(Who::Worker(address)) => self.workers[address.worker].name.clone(),
                Some(Who::Coordinator) => "the coordinator's process".to_owned(),
                None => "the simulation itself".to_owned(),
            };
            let panic = format!("{whose} panics: {panic}");
            self.common.note(&panic);
            self.panics.push(panic);
        }
        !panics.is_empty()
    }

    pub(super) fn finish(mut self) -> Run {
        for worker in self.workers.drain(..) {
            worker.process.kill();
        }
        let mut record = std::mem::take(&mut *self.common.record());
        record.tell_the_rest();
        let text: String =
            record.lines.iter().map(|line| serde_json::to_string(line).expect("a line") + "\n").collect();
        self.digest.add_bytes(text.as_bytes());
        record.trace.iter().for_each(|line| self.digest.add_bytes(line.as_bytes()));
        let history = history::read(text.as_bytes()).expect("a history of our own is well formed");
        let report = history::check(&history);
        let mut deeds = self.common.deeds().clone();
        deeds.add(&self.network.deeds);
        let machine = self.machine();
        deeds.add(&machine.deeds);
        let panic = |what: &String| Violation { invariant: "panic", what: what.clone(), story: Vec::new() };
        let mut violations: Vec<Violation> = self.panics.iter().map(panic).collect();
        violations.extend(asked_under_several(&machine.requests, &record.lines));
        let calls = report.calls;
        violations.extend(findings(report));
        Run {
            digest: self.digest.get(),
            calls,
            happenings: self.happenings,
            deeds,
            lost_updates: self.resource.lost_updates(),
            violations,
            trace: record.trace,
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.common.now_us()
    }

    pub(super) fn machine(&self) -> MutexGuard<'_, Coordinator> {
        self.coordinator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn at(&mut self, at_us: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse(Entry { at_us, sequence: self.sequence, happening }));
    }

    pub(super) fn after(&mut self, delay_us: u64, happening: Happening) {
        self.at(self.now_us() + delay_us, happening);
    }

    pub(super) fn address(&self, worker: usize) -> Address {
        Address { worker, life: self.workers[worker].life }
    }

    /// Whether an address is somebody's who is alive.
    pub(super) fn lives(&self, address: Address) -> bool {
        self.workers.get(address.worker).is_some_and(|worker| worker.life == address.life)
    }

    /// A worker's process begins.
    pub(super) fn begin(&mut self, worker: usize) {
        let who = Who::Worker(self.address(worker));
        let delay_us = self.random.between(1_000, 100_000);
        self.after(delay_us, Happening::Look { who });
    }

    fn happen(&mut self, happening: Happening) {
        self.running = None;
        match happening {
            Happening::Look { who } => {
                let every_us = match who {
                    Who::Worker(address) if !self.lives(address) => return,
                    Who::Worker(_) => self.settings.ttl_ms * 20,
                    Who::Coordinator => SERVER_LOOKS_US,
                };
                self.run(who);
                self.after(every_us, Happening::Look { who });
            }
            Happening::GoOn { who, suspended_us } => self.go_on(who, suspended_us),
            Happening::Connect { from, made } => self.accept(from, made),
            Happening::Connected { to, made, result } => {
                // Who wanted it may have gone; then dropping it closes it.
                let _ = made.send(result);
                self.run(Who::Worker(to));
            }
            Happening::Bytes { connection, to, bytes } => self.arrive(connection, to, What::Bytes(bytes)),
            Happening::End { connection, to, end } => self.arrive(connection, to, What::End(end)),
            Happening::Copy { link, bytes } => self.copy(link, bytes),
            Happening::ToResource { from, call, request, answer } => {
                let (link, now_us) = (Link::Resource(from.worker), self.now_us());
                let verdict = self.resource.handle(&request);
                self.count_verdict(&request, &verdict);
                let answered = (verdict, self.resource.value(&request.grant.domain));
                self.common.record().settle(now_us, call, &request.wish, &answered);
                let arrivals = self.network.arrivals(now_us, link, &mut self.random, &self.settings);
                // A second answer to one request would be for nobody.
                match (answer, arrivals.first()) {
                    (Some(answer), Some(at_us)) => {
                        self.at(*at_us, Happening::FromResource { to: from, answered, answer });
                    }
                    (Some(_), None) => self.common.count(Deed::AnswerLost),
                    (None, _) => {}
                }
            }
            Happening::FromResource { to, answered, answer } => {
                let _ = answer.send(answered);
                self.run(Who::Worker(to));
            }
            Happening::Synced { start } | Happening::Tick { start } | Happening::Crash { start }
                if start != self.machine().start => {}
            Happening::Synced { start } => match self.stalled_until_us > self.now_us() {
                true => self.at(self.stalled_until_us, Happening::Synced { start }),
                false => {
                    self.machine().synced();
                    self.note_broken();
                    self.run(Who::Coordinator);
                }
            },
            Happening::Tick { .. } => {
                self.tick_us = None;
                self.run(Who::Coordinator);
            }
            Happening::Crash { .. } => self.crash_coordinator(),
            Happening::Start => self.start_coordinator(),
            Happening::Collect { snapshot, horizon } => self.collect(&snapshot, horizon),
            Happening::Fault => self.go_wrong(),
        }
    }

    /// Lets a process do what there is to do, unless it stands still, and takes what it has sent.
    pub(super) fn run(&mut self, who: Who) {
        match who {
            Who::Worker(address) if self.lives(address) => self.run_worker(address.worker),
            Who::Worker(_) => {}
            Who::Coordinator => self.run_coordinator(),
        }
    }

    fn count_verdict(&self, request: &ToResource, verdict: &Verdict<RecordedResult>) {
        let deed = match (verdict, &request.wish) {
            (Verdict::Applied(_), Wish::Write { .. }) => Deed::Applied,
            (Verdict::Replayed(_), Wish::Write { operation, .. })
                if operation.born.is_some_and(|born| born != request.grant.token) =>
            {
                Deed::ReplayedToAnother
            }
            (Verdict::Replayed(_), _) => Deed::Replayed,
            (Verdict::Rejected(Rejection::Stale { .. }), _) => Deed::Stale,
            (Verdict::Rejected(Rejection::OperationConflict), _) => Deed::Conflicting,
            (Verdict::Rejected(Rejection::OperationTooOld), _) => Deed::TooOld,
            (Verdict::Applied(_) | Verdict::Rejected(_), _) => return,
        };
        self.common.count(deed);
    }

    fn run_worker(&mut self, number: usize) {
        let now_us = self.now_us();
        let running = Some(Who::Worker(self.address(number)));
        let worker = &mut self.workers[number];
        if worker.stands_still {
            return;
        }
        self.running = running;
        worker.process.run(now_us);
        let (news, sent) = (worker.news(), worker.outbox.take());
        for (lease, until_us) in news {
            let name = &self.workers[number].name;
            let mut record = self.common.record();
            let (call, line) = record.call(now_us, name, Doing::Renew, lease.domain().as_str());
            line.lease = Some(lease.id().to_string());
            self.common.count(Deed::Renewed);
            record.answer(now_us, call, Got::Renewed).until_us = Some(until_us);
        }
        self.send(number, sent);
    }

    /// Takes what a worker has sent.
    pub(super) fn send(&mut self, number: usize, sent: Vec<Outgoing>) {
        for outgoing in sent {
            match outgoing {
                Outgoing::Connect { made } => self.connect(number, made),
                Outgoing::Bytes { connection, from, bytes } => self.carry(connection, from, bytes),
                Outgoing::Closed { connection, from } => self.close(connection, from),
                Outgoing::Ask { request, line, answer } => {
                    let (from, link, now_us) = (self.address(number), Link::Resource(number), self.now_us());
                    let arrivals = self.network.arrivals(now_us, link, &mut self.random, &self.settings);
                    let first = line.call.expect("a call has its number");
                    if arrivals.len() > 1 {
                        self.common.count(Deed::RepeatedAtResource);
                    }
                    if arrivals.is_empty() {
                        self.common.count(Deed::RequestLost);
                        self.common.record().lose(now_us, first);
                    }
                    let mut answer = Some(answer);
                    for (nth, at_us) in arrivals.into_iter().enumerate() {
                        // To the resource a copy is a call of its own, which nobody hears the answer of.
                        let call = if nth == 0 { first } else { self.common.record().repeat((*line).clone()) };
                        let (request, answer) = (request.clone(), answer.take());
                        self.at(at_us, Happening::ToResource { from, call, request, answer });
                    }
                }
                Outgoing::StandStill { for_us } => self.stand_still(number, for_us, false),
            }
        }
    }

    fn run_coordinator(&mut self) {
        let now_us = self.now_us();
        if self.stalled_until_us > now_us {
            return;
        }
        loop {
            let Some(server) = self.server.as_mut() else { return };
            self.running = Some(Who::Coordinator);
            server.process.run(now_us);
            for outgoing in server.outbox.take() {
                match outgoing {
                    Outgoing::Bytes { connection, from, bytes } => self.carry(connection, from, bytes),
                    Outgoing::Closed { connection, from } => self.close(connection, from),
                    Outgoing::Connect { .. } | Outgoing::Ask { .. } | Outgoing::StandStill { .. } => {}
                }
            }
            let local_us = self.clock.local_us(now_us);
            if !self.machine().is_due(local_us) {
                break;
            }
            if self.machine().decide(local_us) {
                self.sync();
            }
        }
        self.schedule_tick();
    }

    /// The coordinator's records are on their way to the disk.
    fn sync(&mut self) {
        let start = self.machine().start;
        let sync_us = self.random.between(200, 15_000);
        self.after(sync_us, Happening::Synced { start });
        if self.crash_in_next_commit && (self.machine().is_changing_hands() || self.random.chance(5)) {
            self.crash_in_next_commit = false;
            let until_us = self.random.between(0, sync_us - 1);
            self.after(until_us, Happening::Crash { start });
        }
    }

    fn schedule_tick(&mut self) {
        let Some(local_us) = self.machine().wakeup_us() else { return };
        let at_us = self.clock.global_us(local_us).max(self.now_us() + 1);
        if self.tick_us.is_none_or(|scheduled| at_us < scheduled) {
            self.tick_us = Some(at_us);
            let start = self.machine().start;
            self.at(at_us, Happening::Tick { start });
        }
    }

    /// A new process for the coordinator, on its disk.
    pub(super) fn serve(&mut self) {
        self.tick_us = None;
        let calls = Calls {
            machine: self.coordinator.clone(),
            clock: self.clock.clone(),
            events: tokio::sync::broadcast::Sender::new(1),
            mistake: self.settings.mistake,
        };
        self.server = Some(Server::new(calls));
        self.run(Who::Coordinator);
    }
}

/// What the checker has found. What it could not decide has not been checked, so it is a finding too.
pub(super) fn findings(report: Report) -> Vec<Violation> {
    let undecided = report.undecided.into_iter().map(|what| Violation {
        invariant: "undecided",
        what: format!("too many calls of {what} were under way at a time to be explained"),
        story: Vec::new(),
    });
    report.violations.into_iter().chain(undecided).collect()
}

/// R1: an acquire is one request, however often it is repeated.
pub(super) fn asked_under_several(
    requests: &BTreeMap<String, BTreeSet<RequestId>>,
    lines: &[Line],
) -> Option<Violation> {
    let (call, ids) = requests.iter().find(|(call, ids)| call.is_empty() || ids.len() > 1)?;
    let is_it = |line: &&Line| line.call.is_some_and(|number| number.to_string() == *call);
    let told = lines.iter().find(is_it).map(|line| serde_json::to_string(line).expect("a line"));
    let what = format!("one acquire came under {} request ids", ids.len());
    Some(Violation { invariant: "R1", what, story: told.into_iter().collect() })
}
