//! What goes wrong, and when.

use fencepost_core::{
    Reason,
    lease::{Answer, Command, Filter, Query},
};

use super::{
    network::Link,
    settings::Fault,
    wishes::{Address, Happening, ToCoordinator},
    worker::Worker,
    world::World,
};
use crate::history::Doing;

impl World {
    /// One fault of a kind that is allowed, and a date for the next.
    pub(super) fn go_wrong(&mut self) {
        let kinds: Vec<Fault> = self.settings.faults.iter().copied().collect();
        let kind = kinds[self.random.between(0, kinds.len() as u64 - 1) as usize];
        self.fault(kind);
        let next_us = self.random.between(50_000, 800_000);
        self.after(next_us, Happening::Fault);
    }

    fn fault(&mut self, kind: Fault) {
        let worker = self.random.between(0, self.workers.len() as u64 - 1) as usize;
        let long_us = self.random.between(10_000, 3 * self.settings.ttl_ms * 1_000);
        let name = self.workers[worker].name.clone();
        match kind {
            // These three are the network's own.
            Fault::Delay | Fault::Drop | Fault::Repeat => {}
            Fault::Partition => {
                let to_resource = self.random.chance(50);
                let link = if to_resource { Link::Resource(worker) } else { Link::Coordinator(worker) };
                self.record.note(self.now_us, format!("{name} is cut off ({link:?}) for {} ms", long_us / 1_000));
                self.network.cut(link, self.now_us + long_us);
            }
            Fault::Pause => {
                self.record.note(self.now_us, format!("{name} stands still for {} ms", long_us / 1_000));
                self.workers[worker].paused_until_us = self.now_us + long_us;
            }
            Fault::WorkerCrash => self.replace_worker(worker),
            Fault::CoordinatorCrash | Fault::Reboot => {
                self.rebooting = kind == Fault::Reboot;
                self.crash_in_next_commit = true;
            }
            Fault::Stall => {
                self.record.note(self.now_us, format!("the coordinator stands still for {} ms", long_us / 1_000));
                self.stalled_until_us = self.now_us + long_us;
            }
            Fault::Break => self.break_one(),
            Fault::Collect => {
                let query = Query::Snapshot { prefix: String::new() };
                if let Some(Answer::Snapshot(snapshot)) = self.coordinator.read(self.now_us, query) {
                    self.after(long_us, Happening::Collect(Box::new(snapshot)));
                }
                let nth = self.random.between(0, 9) as usize;
                self.coordinator.disconnect(self.now_us, nth);
            }
        }
    }

    fn replace_worker(&mut self, worker: usize) {
        self.give_up_belief(worker);
        let life = self.workers[worker].life + 1;
        self.workers[worker] = Worker::new(worker, life, &mut self.random);
        let name = self.workers[worker].name.clone();
        self.record.note(self.now_us, format!("{name} takes the place of one that is gone"));
        self.wake(worker, 50_000);
    }

    pub(super) fn crash_coordinator(&mut self) {
        if self.coordinator.leases.is_none() {
            return;
        }
        let synced = self.random.chance(50);
        self.coordinator.crash(synced);
        self.record.note(
            self.now_us,
            format!("the coordinator is gone; its last sync {}", if synced { "held" } else { "did not" }),
        );
        let most_us = if self.random.chance(50) { 100_000 } else { 1_500_000 };
        let down_us = self.random.between(1_000, most_us);
        self.after(down_us, Happening::Start);
    }

    pub(super) fn start_coordinator(&mut self) {
        if self.coordinator.leases.is_some() {
            return;
        }
        self.coordinator.start(self.now_us, self.rebooting);
        let boot = if self.rebooting { " under another boot" } else { "" };
        self.record
            .note(self.now_us, format!("the coordinator starts for the {}th time{boot}", self.coordinator.start));
        self.forget_tick();
        self.decide();
    }

    fn break_one(&mut self) {
        let query = Query::List { filter: Filter::Prefix(String::new()), after: None, limit: 10 };
        let Some(Answer::Page(page)) = self.coordinator.read(self.now_us, query) else { return };
        let Some(row) = page.rows.first() else { return };
        let (_, line) = self.record.call(self.now_us, "operator", Doing::Release, row.domain.as_str());
        line.lease = Some(row.lease.to_string());
        self.record.note(self.now_us, format!("an operator breaks the lease on {}", row.domain));
        let command = Command::Break { lease: row.lease, reason: Reason::new("simulated").expect("a reason") };
        self.coordinator.receive(self.now_us, ToCoordinator { from: Address::OPERATOR, attempt: 0, command });
        self.decide();
    }
}
