//! The world: one queue of what happens when, and what each happening leads to at the coordinator, on the network and
//! at the resource. What workers do about it stands in `life`, what goes wrong in `faults`.

use std::{cmp::Ordering, cmp::Reverse, collections::BinaryHeap};

use fencepost_core::Issuer;

use super::{
    Run,
    coordinator::{Coordinator, Decided, Reply},
    network::{Link, Network},
    random::Random,
    record::Record,
    resource::Resource,
    settings::{Mistake, Settings},
    wishes::{Address, Happening, ToCoordinator, ToResource, ToWorker},
    worker::Worker,
};
use crate::history::{self, Answer as Got, Doing};

pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) random: Random,
    pub(super) now_us: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    pub(super) network: Network,
    pub(super) coordinator: Coordinator,
    pub(super) resource: Resource,
    pub(super) workers: Vec<Worker>,
    pub(super) record: Record,
    pub(super) stalled_until_us: u64,
    /// Whether the coordinator that is down comes back under another boot.
    pub(super) rebooting: bool,
    pub(super) crash_in_next_commit: bool,
    decided_us: u64,
    tick_us: Option<u64>,
    pub(super) stale: usize,
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

impl World {
    pub(super) fn new(seed: u64, settings: Settings) -> Self {
        let mut random = Random::new(seed);
        let issuer = Issuer::new("simulated").expect("a valid name");
        let workers = (0..settings.workers).map(|number| Worker::new(number, 0, &mut random)).collect();
        Self {
            resource: Resource::new(issuer.clone(), settings.mistake),
            coordinator: Coordinator::new(issuer),
            network: Network::default(),
            queue: BinaryHeap::new(),
            sequence: 0,
            record: Record::default(),
            now_us: 0,
            stalled_until_us: 0,
            rebooting: false,
            crash_in_next_commit: false,
            decided_us: 0,
            tick_us: None,
            stale: 0,
            settings,
            random,
            workers,
        }
    }

    pub(super) fn run(mut self) -> Run {
        for worker in 0..self.workers.len() {
            let delay_us = self.random.between(1_000, 100_000);
            self.wake(worker, delay_us);
        }
        if !self.settings.faults.is_empty() {
            self.after(500_000, Happening::Fault);
        }
        let end_us = self.settings.length_ms * 1_000;
        while let Some(Reverse(entry)) = self.queue.pop() {
            if entry.at_us > end_us {
                break;
            }
            self.now_us = entry.at_us;
            self.happen(entry.happening);
        }
        self.finish()
    }

    fn finish(self) -> Run {
        let text: String =
            self.record.lines.iter().map(|line| serde_json::to_string(line).expect("a line") + "\n").collect();
        let history = history::read(text.as_bytes()).expect("a history of our own is well formed");
        let report = history::check(&history);
        Run {
            trace: self.record.trace,
            calls: report.calls,
            applied: self.resource.applied.len(),
            stale: self.stale,
            lost_updates: self.resource.lost_updates(),
            violations: report.violations,
        }
    }

    pub(super) fn at(&mut self, at_us: u64, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse(Entry { at_us, sequence: self.sequence, happening }));
    }

    pub(super) fn after(&mut self, delay_us: u64, happening: Happening) {
        self.at(self.now_us + delay_us, happening);
    }

    pub(super) fn address(&self, worker: usize) -> Address {
        Address { worker, life: self.workers[worker].life }
    }

    pub(super) fn wake(&mut self, worker: usize, delay_us: u64) {
        let (who, serial) = (self.address(worker), self.workers[worker].serial);
        self.after(delay_us, Happening::Wake { who, serial });
    }

    /// Whether an address is somebody's who is alive.
    fn lives(&self, address: Address) -> bool {
        self.workers.get(address.worker).is_some_and(|worker| worker.life == address.life)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToCoordinator(call) => match self.stalled_until_us > self.now_us {
                true => self.at(self.stalled_until_us, Happening::ToCoordinator(call)),
                false => {
                    self.coordinator.receive(self.now_us, *call);
                    self.decide();
                }
            },
            Happening::Synced { start } if start != self.coordinator.start => {}
            Happening::Synced { start } => match self.stalled_until_us > self.now_us {
                true => self.at(self.stalled_until_us, Happening::Synced { start }),
                false => {
                    let replies = self.coordinator.synced(self.decided_us);
                    self.reply(replies);
                    self.decide();
                }
            },
            Happening::Tick { start } if start != self.coordinator.start => {}
            Happening::Tick { start } => match self.stalled_until_us > self.now_us {
                true => self.at(self.stalled_until_us, Happening::Tick { start }),
                false => {
                    self.tick_us = None;
                    self.decide();
                }
            },
            Happening::Crash { start } if start != self.coordinator.start => {}
            Happening::Crash { .. } => self.crash_coordinator(),
            Happening::Start => self.start_coordinator(),
            Happening::ToResource(request) => {
                let verdict = self.resource.handle(&request);
                let value = self.resource.value(&request.grant.domain);
                let answer = ToWorker::Resource { attempt: request.attempt, verdict, value };
                self.send_to_worker(Link::Resource(request.from.worker), request.from, answer);
            }
            Happening::Collect(snapshot) => {
                self.record.note(self.now_us, format!("the resource is collected up to {:?}", snapshot.next_token));
                self.resource.collect(&snapshot);
                // Live leases got their fence by the ordinary decision: to the history, advances by the collector.
                for lease in
                    snapshot.leases.iter().filter(|lease| self.resource.fence(&lease.domain) == Some(lease.token))
                {
                    let domain = lease.domain.as_str();
                    let (call, line) = self.record.call(self.now_us, "the collector", Doing::Advance, domain);
                    line.token = Some(lease.token.to_decimal());
                    self.record.answer(self.now_us, call, Got::Applied);
                }
            }
            Happening::ToWorker(to, _) | Happening::Wake { who: to, .. } | Happening::Beat { who: to }
                if !self.lives(to) => {}
            Happening::ToWorker(to, answer) => match self.paused(to) {
                Some(until) => self.at(until, Happening::ToWorker(to, answer)),
                None => self.answered(to.worker, *answer),
            },
            Happening::Wake { who, serial } => match self.paused(who) {
                Some(until) => self.at(until, Happening::Wake { who, serial }),
                None if serial == self.workers[who.worker].serial => self.woken(who.worker),
                None => {}
            },
            Happening::Beat { who } => match self.paused(who) {
                Some(until) => self.at(until, Happening::Beat { who }),
                None => self.beat(who.worker),
            },
            Happening::Fault => self.go_wrong(),
        }
    }

    fn paused(&self, address: Address) -> Option<u64> {
        Some(self.workers[address.worker].paused_until_us).filter(|until| *until > self.now_us)
    }

    /// Lets the coordinator decide what waits, and sends it to the disk.
    pub(super) fn decide(&mut self) {
        match self.coordinator.decide(self.now_us) {
            Decided::Nothing => return self.schedule_tick(),
            Decided::Speak(replies) => {
                self.reply(replies);
                return self.schedule_tick();
            }
            Decided::Sync => self.decided_us = self.now_us,
        }
        if self.settings.mistake == Some(Mistake::AnswerBeforeSync) {
            let replies = self.coordinator.blurt(self.now_us);
            self.reply(replies);
        }
        let (start, sync_us) = (self.coordinator.start, self.random.between(200, 15_000));
        self.after(sync_us, Happening::Synced { start });
        if self.crash_in_next_commit && (self.coordinator.is_syncing_a_grant() || self.random.chance(5)) {
            self.crash_in_next_commit = false;
            let until_us = self.random.between(0, sync_us - 1);
            self.after(until_us, Happening::Crash { start });
        }
    }

    fn schedule_tick(&mut self) {
        let Some(at_us) = self.coordinator.wakeup_us() else { return };
        let at_us = at_us.max(self.now_us + 1);
        if self.tick_us.is_none_or(|scheduled| at_us < scheduled) {
            self.tick_us = Some(at_us);
            let start = self.coordinator.start;
            self.at(at_us, Happening::Tick { start });
        }
    }

    pub(super) fn forget_tick(&mut self) {
        self.tick_us = None;
    }

    fn reply(&mut self, replies: Vec<Reply>) {
        for Reply { to, attempt, answer, elapsed_ms, secret } in replies {
            if to != Address::OPERATOR {
                let answer = ToWorker::Coordinator { attempt, answer, elapsed_ms, secret };
                self.send_to_worker(Link::Coordinator(to.worker), to, answer);
            }
        }
    }

    fn send_to_worker(&mut self, link: Link, to: Address, answer: ToWorker) {
        for at_us in self.network.arrivals(self.now_us, link, &mut self.random, &self.settings) {
            self.at(at_us, Happening::ToWorker(to, Box::new(answer.clone())));
        }
    }

    pub(super) fn send_to_coordinator(&mut self, call: ToCoordinator) {
        let link = Link::Coordinator(call.from.worker);
        for at_us in self.network.arrivals(self.now_us, link, &mut self.random, &self.settings) {
            self.at(at_us, Happening::ToCoordinator(Box::new(call.clone())));
        }
    }

    /// Sends a request, and says how often it will arrive.
    pub(super) fn send_to_resource(&mut self, request: ToResource) -> usize {
        let link = Link::Resource(request.from.worker);
        let arrivals = self.network.arrivals(self.now_us, link, &mut self.random, &self.settings);
        for at_us in &arrivals {
            self.at(*at_us, Happening::ToResource(Box::new(request.clone())));
        }
        arrivals.len()
    }
}
