use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A commit that takes longer than this makes the coordinator not ready while it lasts.
const STALL: Duration = Duration::from_secs(2);

/// Is told what the writer does. Called on the writer's thread, between decision and answer: it must be quick and must
/// not call the coordinator.
pub trait Observer: Send + 'static {
    /// A batch became durable, or needed nothing durable (then `records` is zero and `took` is the time of the check
    /// that this start is still the latest).
    fn committed(&mut self, calls: usize, records: usize, took: Duration) {
        let _ = (calls, records, took);
    }

    /// A commit failed. Reported once for an outage.
    fn failed(&mut self, why: &str) {
        let _ = why;
    }

    /// Commits work again, this long after the failure.
    fn resumed(&mut self, after: Duration) {
        let _ = after;
    }

    /// A later start has taken the store over: this coordinator will not answer any more.
    fn deposed(&mut self, by: u64) {
        let _ = by;
    }

    /// A snapshot is in force.
    fn snapshot(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

/// What an absent observer does: nothing.
pub(super) struct Unobserved;

impl Observer for Unobserved {}

/// What has been done since the start, and what is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls taken.
    pub calls: u64,
    /// Calls that have been made and not been taken into a batch yet.
    pub queued: u64,
    /// Batches decided.
    pub batches: u64,
    /// Commits that became durable.
    pub commits: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Records made durable.
    pub records: u64,
    /// Bytes of log written.
    pub log_bytes: u64,
    /// Snapshots put in force.
    pub snapshots: u64,
}

/// Why the coordinator does not grant at present.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// A commit failed; commits are tried again until they work.
    #[error("the store does not take commits: {why}")]
    Storage {
        /// What the store says.
        why: String,
    },
    /// A commit has been running for long and has neither failed nor succeeded.
    #[error("a commit has been running for {} ms", for_.as_millis())]
    Stalled {
        /// For how long.
        for_: Duration,
    },
    /// Another process has taken the store over; this one will not grant again.
    #[error("start {by} has taken over the store; stop this process")]
    Deposed {
        /// The later start.
        by: u64,
    },
    /// It has been shut down, or a defect of ours has stopped it.
    #[error("the coordinator has stopped")]
    Stopped,
}

/// What the writer lets others see.
pub(super) struct Facts {
    zero: Instant,
    /// When the present commit began, in microseconds after `zero`; zero when there is none.
    commit_since: AtomicU64,
    hindered: Mutex<Option<NotReady>>,
    pub(super) calls: AtomicU64,
    pub(super) queued: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) failed_commits: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) log_bytes: AtomicU64,
    pub(super) snapshots: AtomicU64,
}

impl Facts {
    pub(super) fn new() -> Self {
        Self {
            zero: Instant::now(),
            commit_since: AtomicU64::new(0),
            hindered: Mutex::new(None),
            calls: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            failed_commits: AtomicU64::new(0),
            records: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            snapshots: AtomicU64::new(0),
        }
    }

    pub(super) fn ready(&self) -> Result<(), NotReady> {
        if let Some(why) = self.hindered.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(why);
        }
        match self.commit_since.load(Relaxed) {
            0 => Ok(()),
            since => match self.zero.elapsed().saturating_sub(Duration::from_micros(since)) {
                short if short < STALL => Ok(()),
                for_ => Err(NotReady::Stalled { for_ }),
            },
        }
    }

    pub(super) fn hinder(&self, why: Option<NotReady>) {
        *self.hindered.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Runs a store call, visible to others while it lasts, and says how long it took.
    pub(super) fn timed<T>(&self, store_call: impl FnOnce() -> T) -> (T, Duration) {
        let began = Instant::now();
        let since = began.saturating_duration_since(self.zero).as_micros();
        self.commit_since.store(u64::try_from(since).unwrap_or(u64::MAX).max(1), Relaxed);
        let result = store_call();
        self.commit_since.store(0, Relaxed);
        (result, began.elapsed())
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            calls: self.calls.load(Relaxed),
            queued: self.queued.load(Relaxed),
            batches: self.batches.load(Relaxed),
            commits: self.commits.load(Relaxed),
            failed_commits: self.failed_commits.load(Relaxed),
            records: self.records.load(Relaxed),
            log_bytes: self.log_bytes.load(Relaxed),
            snapshots: self.snapshots.load(Relaxed),
        }
    }
}

/// Marks the coordinator as stopped when the writer's thread ends, in whatever way.
pub(super) struct StopMark(pub(super) std::sync::Arc<Facts>);

impl Drop for StopMark {
    fn drop(&mut self) {
        self.0.hinder(Some(NotReady::Stopped));
    }
}
