//! The coordinator: the real lease machine behind a disk that keeps only what was synced.

use std::collections::{BTreeMap, VecDeque};

use fencepost_core::{
    BootId, Epoch, Issuer, LeaseId, Moment, Secret, SecretHash, Sequence, SessionId,
    lease::{Answer, Command, Fresh, Leases, Output, Query, Record, Spoken, Start, Ticket},
};

use super::wishes::{Address, ToCoordinator};

pub(super) struct Coordinator {
    issuer: Issuer,
    disk: Vec<Record>,
    /// `None` while it is down.
    pub(super) leases: Option<Leases>,
    pub(super) start: u64,
    boot: u8,
    /// Where its clock stood at zero of virtual time, in milliseconds: a boot begins a clock.
    zero_ms: u64,
    /// What is on its way to the disk, and what may be said once it is there.
    syncing: Option<(Vec<Record>, Output)>,
    waiting: VecDeque<(u64, ToCoordinator)>,
    callers: BTreeMap<Ticket, Caller>,
    next_ticket: u64,
    drawn: u64,
}

#[derive(Clone, Copy)]
struct Caller {
    from: Address,
    attempt: u64,
    received_ms: u64,
    secret: Option<SecretHash>,
}

/// What came of a look at what waits.
pub(super) enum Decided {
    Nothing,
    /// Nothing has to become durable: the answers may go.
    Speak(Vec<Reply>),
    /// The answers wait for the disk.
    Sync,
}

/// An answer for a worker.
pub(super) struct Reply {
    pub(super) to: Address,
    pub(super) attempt: u64,
    pub(super) answer: Answer,
    pub(super) elapsed_ms: u64,
    /// The secret of a session that was opened.
    pub(super) secret: Option<SecretHash>,
}

impl Coordinator {
    pub(super) fn new(issuer: Issuer) -> Self {
        let (disk, waiting, callers) = (Vec::new(), VecDeque::new(), BTreeMap::new());
        let mut coordinator = Self {
            issuer,
            disk,
            leases: None,
            start: 0,
            boot: 1,
            zero_ms: 0,
            syncing: None,
            waiting,
            callers,
            next_ticket: 0,
            drawn: 0,
        };
        coordinator.start(0, false);
        coordinator
    }

    fn moment(&self, now_us: u64) -> Moment {
        Moment::from_millis(now_us / 1_000 - self.zero_ms)
    }

    /// The process is gone. What was being synced has reached the disk or has not.
    pub(super) fn crash(&mut self, synced_after_all: bool) {
        if let Some((records, _)) = self.syncing.take().filter(|_| synced_after_all) {
            self.disk.extend(records);
        }
        (self.leases, self.waiting, self.callers) = (None, VecDeque::new(), BTreeMap::new());
    }

    /// Another one starts on the disk, and has its start synced before it takes a call.
    pub(super) fn start(&mut self, now_us: u64, rebooted: bool) {
        let mut leases = Leases::new(self.issuer.clone(), Epoch::ZERO);
        self.disk.iter().for_each(|record| leases.replay(record));
        self.start += 1;
        if rebooted {
            self.boot += 1;
            self.zero_ms = now_us / 1_000;
        }
        let (boot, at) = (BootId::from_bytes([self.boot; 16]), self.moment(now_us));
        let output = leases.start(Start { number: self.start, boot, at, least: Sequence::FIRST });
        self.disk.extend(output.records().iter().cloned());
        self.leases = Some(leases);
    }

    /// A call has come. It is decided when nothing is being synced.
    pub(super) fn receive(&mut self, now_us: u64, mut call: ToCoordinator) {
        if self.leases.is_some() {
            self.draw(&mut call.command);
            self.waiting.push_back((now_us, call));
        }
    }

    /// Ids and secrets are drawn where a call arrives, so that a repeated one gets its own.
    fn draw(&mut self, command: &mut Command) {
        self.drawn += 1;
        let id = u128::from(self.drawn).to_be_bytes();
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&id);
        let drawn = Secret::from_bytes(bytes).hash();
        match command {
            Command::OpenSession { session, secret, .. } => {
                (*session, *secret) = (SessionId::from_bytes(id), drawn);
            }
            Command::Acquire(acquire) => {
                let (lease, session) = (LeaseId::from_bytes(id), SessionId::from_bytes(id));
                acquire.fresh = Fresh { lease, session, secret: drawn };
            }
            Command::Heartbeat { .. }
            | Command::ReadSession { .. }
            | Command::EndSession { .. }
            | Command::Release { .. }
            | Command::Break { .. }
            | Command::Query(_) => {}
        }
    }

    /// Decides all that waits, as one batch, when nothing is being synced.
    pub(super) fn decide(&mut self, now_us: u64) -> Decided {
        if self.syncing.is_some() || self.waiting.is_empty() && self.wakeup_us().is_none_or(|due| due > now_us) {
            return Decided::Nothing;
        }
        let now = self.moment(now_us);
        let Some(leases) = &mut self.leases else { return Decided::Nothing };
        let mut output = leases.tick(now);
        for (received_us, call) in self.waiting.drain(..) {
            self.next_ticket += 1;
            let ticket = Ticket(self.next_ticket);
            let secret = match &call.command {
                Command::OpenSession { secret, .. } => Some(*secret),
                _ => None,
            };
            let (from, attempt, received_ms) = (call.from, call.attempt, received_us / 1_000);
            let caller = Caller { from, attempt, received_ms, secret };
            self.callers.insert(ticket, caller);
            output.join(leases.step(ticket, call.command, now));
        }
        if output.records().is_empty() {
            return Decided::Speak(self.speak(output.committed(), now_us));
        }
        self.syncing = Some((output.records().to_vec(), output));
        Decided::Sync
    }

    /// Whether a grant is on its way to the disk: the worst moment for a crash.
    pub(super) fn is_syncing_a_grant(&self) -> bool {
        let syncing = self.syncing.as_ref().map(|(records, _)| records.as_slice()).unwrap_or_default();
        syncing.iter().any(|record| matches!(record, Record::Granted { .. }))
    }

    /// What is being synced is synced: the answers may go.
    pub(super) fn synced(&mut self, decided_us: u64) -> Vec<Reply> {
        let Some((records, output)) = self.syncing.take() else { return Vec::new() };
        self.disk.extend(records);
        self.speak(output.committed(), decided_us)
    }

    /// The deliberate mistake: the answers go although nothing is synced yet.
    pub(super) fn blurt(&mut self, decided_us: u64) -> Vec<Reply> {
        let Some((_, output)) = &mut self.syncing else { return Vec::new() };
        let spoken = std::mem::take(output).committed();
        self.speak(spoken, decided_us)
    }

    fn speak(&mut self, spoken: Spoken, decided_us: u64) -> Vec<Reply> {
        let mut replies = Vec::new();
        for (ticket, answer) in spoken.answers {
            if let Some(Caller { from, attempt, received_ms, secret }) = self.callers.remove(&ticket) {
                let elapsed_ms = (decided_us / 1_000).saturating_sub(received_ms);
                replies.push(Reply { to: from, attempt, answer, elapsed_ms, secret });
            }
        }
        replies
    }

    /// Some connection on which a call waits is found broken.
    pub(super) fn disconnect(&mut self, now_us: u64, nth: usize) {
        let now = self.moment(now_us);
        let Some(leases) = &mut self.leases else { return };
        let mut waiting: Vec<Ticket> = leases.waiting().collect();
        waiting.sort_unstable();
        if let Some(ticket) = waiting.get(nth % waiting.len().max(1)) {
            leases.disconnect(*ticket, now);
            self.callers.remove(ticket);
        }
    }

    /// A consistent read of what is durable, as collection makes it.
    pub(super) fn read(&mut self, now_us: u64, query: Query) -> Option<Answer> {
        if self.syncing.is_some() {
            return None;
        }
        let now = self.moment(now_us);
        let mut copy = self.leases.clone()?;
        let output = copy.step(Ticket(0), Command::Query(query), now);
        output.committed().answers.pop().map(|(_, answer)| answer)
    }

    /// When it has something to do by itself, in microseconds of virtual time. Not while it syncs.
    pub(super) fn wakeup_us(&self) -> Option<u64> {
        let at = self.leases.as_ref().filter(|_| self.syncing.is_none())?.next_wakeup()?;
        Some((at.as_millis() + self.zero_ms) * 1_000)
    }
}
