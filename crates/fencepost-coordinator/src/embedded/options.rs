use std::{fmt, sync::Arc};

use fencepost_core::{Epoch, Issuer};

use super::{Clock, Observer, SystemWallClock, WallClock};

/// How a new store is made.
#[derive(Clone, Default)]
pub struct InitOptions {
    /// The coordinator, as receivers will know it. Without one a name is drawn that nobody else has.
    pub issuer: Option<Issuer>,
    /// The generation of its identity. Without one it is the hours since the beginning of 2026, because nobody can
    /// know whether an empty directory is really the first: tokens of an earlier life must stay behind. Only tests
    /// and demonstrations start at [`Epoch::ZERO`].
    pub epoch: Option<Epoch>,
    /// The wall clock; the machine's where none is given.
    pub wall_clock: Option<Arc<dyn WallClock>>,
}

/// How a store is opened.
pub struct Options {
    /// The clock that leases end by; the machine's where none is given.
    pub clock: Option<Arc<dyn Clock>>,
    /// The wall clock; the machine's where none is given.
    pub wall_clock: Option<Arc<dyn WallClock>>,
    /// Is told what the writer does, on the writer's thread.
    pub observer: Option<Box<dyn Observer>>,
    /// Follow the wall clock however far it pushes the sequence; see [`Embedded::withheld_push`](super::Embedded::withheld_push).
    pub push_far: bool,
    /// Most calls decided together.
    pub batch_most: usize,
    /// How many commits a slow watcher may lie behind before it misses some.
    pub event_buffer: usize,
    /// A snapshot is taken when the log has this many bytes and is as large as the state it stands for.
    pub snapshot_log_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            wall_clock: None,
            observer: None,
            push_far: false,
            batch_most: 512,
            event_buffer: 4_096,
            snapshot_log_bytes: 16 * 1024 * 1024,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("push_far", &self.push_far)
            .field("batch_most", &self.batch_most)
            .field("event_buffer", &self.event_buffer)
            .field("snapshot_log_bytes", &self.snapshot_log_bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for InitOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitOptions").field("issuer", &self.issuer).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// The machine's wall clock where none is given.
pub(super) fn wall_clock(given: Option<Arc<dyn WallClock>>) -> Arc<dyn WallClock> {
    given.unwrap_or_else(|| Arc::new(SystemWallClock))
}
