//! Snapshots and tidying, in steps small enough that no commit waits long behind one.
//!
//! A snapshot is copied out of the state by the writer, encoded by a thread of its own, written in parts between
//! commits, and put in force by one more; then the rows that it covers go, a few at a time. A snapshot stays good
//! whatever happens meanwhile: it is of a state that was durable, and says up to which log row.

use std::{
    sync::{atomic::Ordering::Relaxed, mpsc::Sender},
    thread,
    time::{Duration, Instant},
};

use super::{
    journal::EncodedSnapshot,
    message::Message,
    store::{StoreError, Upkeep},
    writer::Writer,
};

/// Nothing has been called for this long: that is idle.
const IDLE: Duration = Duration::from_millis(50);
/// Under load, one step at most in this time.
const BETWEEN_STEPS: Duration = Duration::from_millis(5);
/// After a step that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

pub(super) struct Upkeeper {
    to_writer: Sender<Message>,
    snapshot_log_bytes: u64,
    /// Size of the snapshot in force: a log smaller than that is not worth a new one.
    snapshot_bytes: u64,
    work: Work,
    idle_from: Instant,
    next_step: Instant,
}

/// Where the next snapshot stands.
enum Work {
    /// The log is not long enough for one.
    Rest,
    /// A thread encodes it.
    Encoding,
    /// Parts before `next` are written, those of the history first.
    Writing { encoded: EncodedSnapshot, next: usize },
    /// It is in force; rows that it covers are being removed.
    Trimming,
}

impl Upkeeper {
    pub(super) fn new(to_writer: Sender<Message>, snapshot_log_bytes: u64, snapshot_bytes: u64) -> Self {
        let now = Instant::now();
        // A start begins by removing what an earlier one may have left.
        let work = Work::Trimming;
        Self { to_writer, snapshot_log_bytes, snapshot_bytes, work, idle_from: now, next_step: now }
    }

    /// Calls have been served just now.
    pub(super) fn served(&mut self) {
        self.idle_from = Instant::now() + IDLE;
    }

    pub(super) fn encoded(&mut self, encoded: EncodedSnapshot) {
        if let Work::Encoding = self.work {
            self.work = Work::Writing { encoded, next: 0 };
        }
    }
}

impl Writer {
    /// When idle, does one step of upkeep. Returns how long to wait for calls before the next one, if there is one.
    pub(super) fn upkeep_when_idle(&mut self) -> Option<Duration> {
        if !self.upkeep_is_due(true) {
            return None;
        }
        let at = self.upkeep.idle_from.max(self.upkeep.next_step);
        let wait = at.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            self.upkeep_step(true);
        }
        Some(wait)
    }

    /// Between two batches, does one step of upkeep now and then.
    pub(super) fn upkeep_under_load(&mut self) {
        if self.upkeep_is_due(false) && self.upkeep.next_step <= Instant::now() {
            self.upkeep_step(false);
            self.upkeep.next_step = self.upkeep.next_step.max(Instant::now() + BETWEEN_STEPS);
        }
    }

    fn upkeep_is_due(&self, idle: bool) -> bool {
        let snapshot = match self.upkeep.work {
            Work::Rest => self.journal.log_bytes() >= self.upkeep.snapshot_log_bytes.max(self.upkeep.snapshot_bytes),
            Work::Encoding => false,
            Work::Writing { .. } | Work::Trimming => true,
        };
        snapshot || self.tidying_is_due(idle)
    }

    fn tidying_is_due(&self, idle: bool) -> bool {
        match self.journal.upkeep() {
            Upkeep::NotNeeded => false,
            Upkeep::WhenIdle => idle,
            Upkeep::Now => true,
        }
    }

    fn upkeep_step(&mut self, idle: bool) {
        let tidied = if self.tidying_is_due(idle) { self.journal.tidy() } else { Ok(()) };
        match tidied.and_then(|()| self.snapshot_step()) {
            Ok(()) => {}
            Err(StoreError::Deposed { by }) => self.depose(by),
            // Commits find out for themselves whether the store still works; upkeep begins anew later.
            Err(StoreError::Failed(_) | StoreError::Damaged(_)) => {
                self.upkeep.work = Work::Trimming;
                self.upkeep.next_step = Instant::now() + AFTER_FAILURE;
            }
        }
    }

    fn snapshot_step(&mut self) -> Result<(), StoreError> {
        match &mut self.upkeep.work {
            Work::Encoding => {}
            Work::Rest => self.begin_snapshot(),
            Work::Writing { encoded, next } if *next < encoded.history.len() => {
                self.journal.put_history(encoded.covers, *next as u64, &encoded.history[*next])?;
                *next += 1;
            }
            Work::Writing { encoded, next } if *next - encoded.history.len() < encoded.parts() => {
                let part = *next - encoded.history.len();
                self.journal.put_part(encoded.covers, part as u64, encoded.part(part))?;
                *next += 1;
            }
            Work::Writing { encoded, .. } => {
                self.journal.adopt(encoded)?;
                self.upkeep.snapshot_bytes = encoded.bytes() as u64;
                self.observer.snapshot(encoded.bytes());
                self.facts.snapshots.fetch_add(1, Relaxed);
                self.upkeep.work = Work::Trimming;
            }
            Work::Trimming => {
                if !self.journal.trim()? {
                    self.upkeep.work = Work::Rest;
                }
            }
        }
        Ok(())
    }

    /// Copies the state, every record of which is durable here, and has the copy encoded.
    fn begin_snapshot(&mut self) {
        if self.journal.log_bytes() < self.upkeep.snapshot_log_bytes.max(self.upkeep.snapshot_bytes) {
            return;
        }
        let (covers, covered_bytes) = (self.journal.last(), self.journal.log_bytes());
        let (snapshot, to_writer) = (self.leases.snapshot(), self.upkeep.to_writer.clone());
        let history = self.journal.history().not_stored();
        let encode = move || {
            // The writer may have stopped meanwhile; then nobody needs it.
            let _ = to_writer.send(Message::Snapshot(EncodedSnapshot::new(&snapshot, &history, covers, covered_bytes)));
        };
        match thread::Builder::new().name("fencepost-snapshot".to_owned()).spawn(encode) {
            Ok(_) => self.upkeep.work = Work::Encoding,
            Err(_) => self.upkeep.next_step = Instant::now() + AFTER_FAILURE,
        }
    }
}
