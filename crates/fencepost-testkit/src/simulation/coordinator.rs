//! The coordinator: the real lease machine behind a disk that keeps only what was synced.
//!
//! The driver around the machine is written after the embedded one, whose writer is a thread: it decides all that
//! waits as one batch, has the records synced, and only then answers.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use fencepost_core::{
    BootId, Domain, Epoch, Issuer, LeaseId, Moment, RequestId, Sequence,
    lease::{Answer, Command, Event, EventKind, LeaseEnd, Leases, Output, Query, Record, Spoken, Start, Ticket},
};
use tokio::sync::oneshot;

use super::{
    deeds::{Deed, Deeds},
    settings::Mistake,
};

pub(super) struct Coordinator {
    issuer: Issuer,
    mistake: Option<Mistake>,
    disk: Vec<Record>,
    /// `None` while it is down.
    leases: Option<Leases>,
    pub(super) start: u64,
    boot: u8,
    /// What is on its way to the disk, and what may be said once it is there.
    syncing: Option<(Vec<Record>, Output)>,
    decided: Moment,
    waiting: VecDeque<(Ticket, Command)>,
    callers: BTreeMap<Ticket, Caller>,
    next_ticket: u64,
    drawn: u64,
    /// The request ids that each acquire has come under, by what its [`CALL`] says.
    pub(super) requests: BTreeMap<String, BTreeSet<RequestId>>,
    /// Breaks that have reached the disk since they were last asked for.
    broken: Vec<(Domain, LeaseId)>,
    pub(super) deeds: Deeds,
}

/// The metadata by which a worker's acquire says which one it is, however often it comes and under whatever request id.
pub(super) const CALL: &str = "call";

struct Caller {
    /// The reading of the coordinator's clock when the call came.
    received_us: u64,
    told: oneshot::Sender<Told>,
}

/// What a call is told.
pub(super) struct Told {
    pub(super) answer: Answer,
    pub(super) elapsed: Duration,
}

impl Coordinator {
    pub(super) fn new(issuer: Issuer, mistake: Option<Mistake>) -> Self {
        Self {
            issuer,
            mistake,
            disk: Vec::new(),
            leases: None,
            start: 0,
            boot: 1,
            syncing: None,
            decided: Moment::from_millis(0),
            waiting: VecDeque::new(),
            callers: BTreeMap::new(),
            next_ticket: 0,
            drawn: 0,
            requests: BTreeMap::new(),
            broken: Vec::new(),
            deeds: Deeds::default(),
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.leases.is_none()
    }

    pub(super) fn boot(&self) -> BootId {
        BootId::from_bytes([self.boot; 16])
    }

    /// The process is gone. What was being synced has reached the disk or has not.
    pub(super) fn crash(&mut self, synced_after_all: bool) {
        if let Some((records, _)) = self.syncing.take() {
            self.deeds.count(if synced_after_all { Deed::CommitKept } else { Deed::CommitLost });
            match synced_after_all {
                true => self.store(records),
                false => count_breaks(&records, Deed::BreakLost, &mut self.deeds),
            }
        }
        (self.leases, self.waiting, self.callers) = (None, VecDeque::new(), BTreeMap::new());
    }

    /// Another one starts on the disk, and has its start synced before it takes a call. `least` is what its wall clock
    /// pushes the sequence to.
    pub(super) fn start(&mut self, local_us: u64, rebooted: bool, least: Sequence) {
        let mut leases = Leases::new(self.issuer.clone(), Epoch::ZERO);
        self.disk.iter().for_each(|record| leases.replay(record));
        self.start += 1;
        self.boot += u8::from(rebooted);
        let output = leases.start(Start { number: self.start, boot: self.boot(), at: moment(local_us), least });
        self.disk.extend(output.records().iter().cloned());
        self.leases = Some(leases);
    }

    /// A call has come. It is decided when nothing is being synced; a coordinator that is down says nothing.
    pub(super) fn receive(&mut self, local_us: u64, command: Command) -> (Ticket, oneshot::Receiver<Told>) {
        let (told, telling) = oneshot::channel();
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        if let Command::Acquire(acquire) = &command {
            let call = acquire.metadata.entries().get(CALL).cloned().unwrap_or_default();
            if !self.requests.entry(call).or_default().insert(acquire.request) {
                self.deeds.count(Deed::AcquireRepeated);
            }
        }
        if self.leases.is_some() {
            self.callers.insert(ticket, Caller { received_us: local_us, told });
            self.waiting.push_back((ticket, command));
        }
        (ticket, telling)
    }

    /// Bytes that nobody has drawn before: ids and secrets.
    pub(super) fn draw<const N: usize>(&mut self) -> [u8; N] {
        self.drawn += 1;
        let mut bytes = [0; N];
        bytes[..8].copy_from_slice(&self.drawn.to_be_bytes());
        bytes
    }

    /// The caller who waited for this has gone.
    pub(super) fn disconnect(&mut self, local_us: u64, ticket: Ticket) {
        let waited = self.callers.remove(&ticket).is_some();
        if let Some(leases) = self.leases.as_mut().filter(|_| waited) {
            leases.disconnect(ticket, moment(local_us));
        }
    }

    /// Whether there is something to decide.
    pub(super) fn is_due(&self, local_us: u64) -> bool {
        let wakes = |leases: &Leases| leases.next_wakeup().is_some_and(|at| at <= moment(local_us));
        self.syncing.is_none() && self.leases.as_ref().is_some_and(|leases| !self.waiting.is_empty() || wakes(leases))
    }

    /// Decides all that waits, as one batch. Whether that has to become durable before anybody is told.
    pub(super) fn decide(&mut self, local_us: u64) -> bool {
        let now = moment(local_us);
        let Some(leases) = self.leases.as_mut() else { return false };
        let mut output = leases.tick(now);
        for (ticket, command) in self.waiting.drain(..) {
            output = leases.step_after(output, ticket, command, now);
        }
        self.decided = now;
        if output.records().is_empty() {
            self.speak(output.committed());
            return false;
        }
        let records = output.records().to_vec();
        let output = match self.mistake == Some(Mistake::AnswerBeforeSync) {
            true => {
                self.speak(output.committed());
                Output::default()
            }
            false => output,
        };
        self.syncing = Some((records, output));
        true
    }

    /// Whether a grant or a break is on its way to the disk: the worst moment for a crash.
    pub(super) fn is_changing_hands(&self) -> bool {
        let syncing = self.syncing.as_ref().map(|(records, _)| records.as_slice()).unwrap_or_default();
        syncing.iter().any(|record| matches!(record, Record::Granted { .. } | Record::LeaseBroken { .. }))
    }

    /// What is being synced is synced: the answers may go.
    pub(super) fn synced(&mut self) {
        if let Some((records, output)) = self.syncing.take() {
            self.store(records);
            self.speak(output.committed());
        }
    }

    fn store(&mut self, records: Vec<Record>) {
        count_breaks(&records, Deed::Broken, &mut self.deeds);
        self.disk.extend(records.iter().cloned());
        for record in records {
            if let Record::LeaseBroken { lease, .. } = record {
                let granted = self.disk.iter().rev().find_map(|record| match record {
                    Record::Granted { lease: of, domain, .. } if *of == lease => Some(domain.clone()),
                    _ => None,
                });
                self.broken.push((granted.expect("what is broken was granted"), lease));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn disk(&self) -> &[Record] {
        &self.disk
    }

    /// Breaks that nothing can take back any more. From that moment, and not before, the holder may not rely on the lease.
    pub(super) fn broken(&mut self) -> Vec<(Domain, LeaseId)> {
        std::mem::take(&mut self.broken)
    }

    fn speak(&mut self, spoken: Spoken) {
        let expired = |event: &&Event| matches!(event.kind, EventKind::Ended { end: LeaseEnd::Expired, .. });
        spoken.events.iter().filter(expired).for_each(|_| self.deeds.count(Deed::Expired));
        for (ticket, answer) in spoken.answers {
            if let Some(Caller { received_us, told }) = self.callers.remove(&ticket) {
                let elapsed = match self.mistake {
                    Some(Mistake::CountFromArrival) => Duration::from_secs(3_600),
                    _ => Duration::from_millis(self.decided.as_millis())
                        .saturating_sub(Duration::from_micros(received_us)),
                };
                // Whoever dropped the call does not want the answer; the effect stands.
                let _ = told.send(Told { answer, elapsed });
            }
        }
    }

    /// A consistent read of what is durable, as collection makes it.
    pub(super) fn read(&self, local_us: u64, query: Query) -> Option<Answer> {
        if self.syncing.is_some() {
            return None;
        }
        let mut copy = self.leases.clone()?;
        let output = copy.step(Ticket(0), Command::Query(query), moment(local_us));
        output.committed().answers.pop().map(|(_, answer)| answer)
    }

    /// When it has something to do by itself, by its clock in microseconds. Not while it syncs.
    pub(super) fn wakeup_us(&self) -> Option<u64> {
        let at = self.leases.as_ref().filter(|_| self.syncing.is_none())?.next_wakeup()?;
        Some(at.as_millis() * 1_000)
    }
}

fn count_breaks(records: &[Record], deed: Deed, deeds: &mut Deeds) {
    let is_break = |record: &&Record| matches!(record, Record::LeaseBroken { .. });
    records.iter().filter(is_break).for_each(|_| deeds.count(deed));
}

fn moment(local_us: u64) -> Moment {
    Moment::from_millis(local_us / 1_000)
}
