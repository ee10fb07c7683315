//! What goes wrong, and when.

use std::sync::Arc;

use fencepost_core::{
    Reason, Sequence, Token,
    lease::{Answer, Command, Filter, LiveSnapshot, Query},
};

use super::{
    deeds::Deed,
    happening::{Happening, Who},
    network::Link,
    process::LocalClock,
    settings::Fault,
    worker::Worker,
    world::World,
};
use crate::history::{Answer as Got, Doing};

impl World {
    /// One fault of a kind that is allowed, and a date for the next.
    pub(super) fn go_wrong(&mut self) {
        let kinds: Vec<Fault> = self.settings.faults.iter().copied().collect();
        let kind = kinds[self.random.between(0, kinds.len() as u64 - 1) as usize];
        self.fault(kind);
        let ttl_us = self.settings.ttl_ms * 1_000;
        let next_us = self.random.between(ttl_us / 20, ttl_us * 4 / 5);
        self.after(next_us, Happening::Fault);
    }

    fn fault(&mut self, kind: Fault) {
        let worker = self.random.between(0, self.workers.len() as u64 - 1) as usize;
        let long_us = self.random.between(10_000, 3 * self.settings.ttl_ms * 1_000);
        let name = self.workers[worker].name.clone();
        match kind {
            // These are the network's own and the clocks'.
            Fault::Delay | Fault::Drop | Fault::Repeat | Fault::Drift | Fault::WallStep => {}
            Fault::Partition => {
                let to_resource = self.random.chance(50);
                let link = if to_resource { Link::Resource(worker) } else { Link::Coordinator(worker) };
                self.common.note(format!("{name} is cut off ({link:?}) for {} ms", long_us / 1_000));
                self.network.cut(link, self.now_us() + long_us);
            }
            Fault::Pause => self.stand_still(worker, long_us, false),
            Fault::Suspend => self.stand_still(worker, long_us, true),
            Fault::WorkerCrash => self.replace_worker(worker),
            Fault::CoordinatorCrash | Fault::Reboot => {
                self.rebooting = kind == Fault::Reboot;
                self.crash_in_next_commit = true;
            }
            Fault::Stall => {
                if self.stalled_until_us > self.now_us() {
                    return;
                }
                self.common.note(format!("the coordinator stands still for {} ms", long_us / 1_000));
                self.common.count(Deed::Stalled);
                self.stalled_until_us = self.now_us() + long_us;
                self.after(long_us, Happening::GoOn { who: Who::Coordinator, suspended_us: 0 });
            }
            Fault::Break => self.break_one(),
            Fault::Collect => {
                let query = Query::Snapshot { prefix: String::new() };
                let read = self.machine().read(self.clock.local_us(self.now_us()), query);
                if let Some(Answer::Snapshot(snapshot)) = read {
                    // As an operator would: what is older than the collection before; now and then whatever there is.
                    let before = std::mem::replace(&mut self.collected_up_to, snapshot.next_token);
                    let horizon = if self.random.chance(25) { snapshot.next_token } else { before };
                    self.after(long_us, Happening::Collect { snapshot: Box::new(snapshot), horizon });
                }
            }
        }
    }

    /// A worker's process stands still, or its whole machine.
    pub(super) fn stand_still(&mut self, number: usize, for_us: u64, is_suspended: bool) {
        let who = Who::Worker(self.address(number));
        let worker = &mut self.workers[number];
        if std::mem::replace(&mut worker.stands_still, true) {
            return;
        }
        self.common.count(if is_suspended { Deed::Suspended } else { Deed::Paused });
        let what = if is_suspended { "is suspended" } else { "stands still" };
        self.common.note(format!("{} {what} for {} ms", worker.name, for_us / 1_000));
        let suspended_us = if is_suspended { for_us } else { 0 };
        self.after(for_us, Happening::GoOn { who, suspended_us });
    }

    pub(super) fn go_on(&mut self, who: Who, suspended_us: u64) {
        match who {
            Who::Worker(address) if self.lives(address) => {
                self.workers[address.worker].stands_still = false;
                self.workers[address.worker].process.resume(suspended_us);
                self.run(who);
            }
            Who::Worker(_) => {}
            Who::Coordinator => self.run(who),
        }
    }

    fn replace_worker(&mut self, number: usize) {
        let now_us = self.now_us();
        for lease in self.workers[number].holds() {
            // Its belief is gone with it.
            let name = &self.workers[number].name;
            let mut record = self.common.record();
            let (_, line) = record.call(now_us, name, Doing::Release, lease.domain().as_str());
            line.lease = Some(lease.id().to_string());
        }
        let life = self.workers[number].life + 1;
        let next = Worker::new(number, life, &self.settings, &self.common, &mut self.random);
        let gone = std::mem::replace(&mut self.workers[number], next);
        let (outbox, name) = (gone.outbox.clone(), gone.name.clone());
        drop(gone.held);
        gone.process.kill();
        for (connection, from) in outbox.closed() {
            self.close(connection, from);
        }
        self.common.count(Deed::WorkerCrashed);
        self.common.note(format!("{name} is gone, and another takes its place"));
        self.begin(number);
    }

    pub(super) fn crash_coordinator(&mut self) {
        let Some(server) = self.server.take() else { return };
        let synced = self.random.chance(50);
        self.machine().crash(synced);
        self.note_broken();
        let outbox = server.outbox.clone();
        server.process.kill();
        // A machine that reboots says nothing to anybody.
        let closed = if self.rebooting { Vec::new() } else { outbox.closed() };
        for (connection, from) in closed {
            self.close(connection, from);
        }
        self.common.note(format!("the coordinator is gone; its last sync {}", if synced { "held" } else { "did not" }));
        let most_us = if self.random.chance(50) { 100_000 } else { self.settings.ttl_ms * 1_500 };
        let down_us = self.random.between(1_000, most_us);
        self.after(down_us, Happening::Start);
    }

    pub(super) fn start_coordinator(&mut self) {
        if !self.machine().is_down() {
            return;
        }
        let (rebooted, now_us) = (std::mem::take(&mut self.rebooting), self.now_us());
        if rebooted {
            let rate = self.settings.coordinators_rate(&mut self.random);
            self.clock = Arc::new(LocalClock::new(now_us, self.random.between(0, 1_000_000), rate));
        }
        let wall = if self.settings.has(Fault::WallStep) { self.random.between(1, 1_000_000_000) } else { 1 };
        let least = Sequence::new(wall).unwrap_or(Sequence::FIRST);
        let local_us = self.clock.local_us(now_us);
        self.machine().start(local_us, rebooted, least);
        if rebooted {
            self.common.count(Deed::Rebooted);
        }
        if wall > 1 {
            self.common.count(Deed::WallStepped);
        }
        let boot = if rebooted { " under another boot" } else { "" };
        let start = self.machine().start;
        self.common.note(format!("the coordinator starts for the {start}th time{boot}, its wall clock at {wall}"));
        self.serve();
    }

    fn break_one(&mut self) {
        let query = Query::List { filter: Filter::Prefix(String::new()), after: None, limit: 10 };
        let local_us = self.clock.local_us(self.now_us());
        let read = self.machine().read(local_us, query);
        let Some(Answer::Page(page)) = read else { return };
        let Some(row) = page.rows.first() else { return };
        self.common.count(Deed::BreakSent);
        self.common.note(format!("an operator asks to break the lease on {}", row.domain));
        let command = Command::Break { lease: row.lease, reason: Reason::new("simulated").expect("a reason") };
        if self.settings.has(Fault::CoordinatorCrash) && self.random.chance(25) {
            self.crash_in_next_commit = true;
        }
        // The operator waits for no answer.
        drop(self.machine().receive(local_us, command));
        self.run(Who::Coordinator);
    }

    /// Writes down which leases have been broken. A break that is only asked for changes nothing, and a crash may take it
    /// back: until it is durable its holder is right to believe, and nobody else may be granted the domain.
    pub(super) fn note_broken(&mut self) {
        let (now_us, broken) = (self.common.now_us(), self.machine().broken());
        for (domain, lease) in broken {
            let mut record = self.common.record();
            let (call, line) = record.call(now_us, "operator", Doing::Release, domain.as_str());
            line.lease = Some(lease.to_string());
            record.answer(now_us, call, Got::Released);
            record.note(now_us, format!("the lease on {domain} is broken"));
        }
    }

    /// A collection arrives at the resource.
    pub(super) fn collect(&mut self, snapshot: &LiveSnapshot, horizon: Option<Token>) {
        self.common
            .note(format!("the resource is collected up to {:?}, records up to {horizon:?}", snapshot.next_token));
        self.common.count(Deed::FencesCollected);
        if self.resource.collect(snapshot, horizon) {
            self.common.count(Deed::RecordsCollected);
        }
        let (now_us, mut record) = (self.common.now_us(), self.common.record());
        // Live leases got their fence by the ordinary decision: to the history, advances by the collector.
        for lease in snapshot.leases.iter().filter(|lease| self.resource.fence(&lease.domain) == Some(lease.token)) {
            let (call, line) = record.call(now_us, "the collector", Doing::Advance, lease.domain.as_str());
            line.token = Some(lease.token.to_decimal());
            record.answer(now_us, call, Got::Applied);
        }
    }
}
