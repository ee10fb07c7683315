//! Messages between the parts of the world.

use fencepost_core::{
    Grant, SecretHash,
    fence::{Operation, RecordedResult, Verdict},
    lease::{Answer, Command, LiveSnapshot},
};

impl Address {
    /// An operator, who waits for no answer.
    pub(super) const OPERATOR: Self = Self { worker: usize::MAX, life: 0 };
}

/// Which life of which worker: an answer to an earlier life is nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) worker: usize,
    pub(super) life: u64,
}

/// A worker's call on its way to the coordinator.
#[derive(Clone, Debug)]
pub(super) struct ToCoordinator {
    pub(super) from: Address,
    /// The worker's own number of this attempt.
    pub(super) attempt: u64,
    pub(super) command: Command,
}

/// What a worker wants of the resource.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Advance,
    /// A read; fenced where workers raise the fence before they read.
    Read {
        fenced: bool,
    },
    Write {
        operation: Operation,
        value: String,
        based_on: String,
    },
}

#[derive(Clone, Debug)]
pub(super) struct ToResource {
    pub(super) from: Address,
    pub(super) attempt: u64,
    pub(super) grant: Grant,
    pub(super) wish: Wish,
}

#[derive(Clone, Debug)]
pub(super) enum ToWorker {
    Coordinator { attempt: u64, answer: Answer, elapsed_ms: u64, secret: Option<SecretHash> },
    Resource { attempt: u64, verdict: Verdict<RecordedResult>, value: String },
}

/// Everything that can happen at a moment.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    ToCoordinator(Box<ToCoordinator>),
    ToResource(Box<ToResource>),
    ToWorker(Address, Box<ToWorker>),
    /// A worker's timer: it looks whether the attempt it waited for was answered, or goes on.
    Wake {
        who: Address,
        serial: u64,
    },
    /// A worker's heartbeat is due.
    Beat {
        who: Address,
    },
    /// The coordinator's commit is synced.
    Synced {
        start: u64,
    },
    /// The coordinator looks at its timers.
    Tick {
        start: u64,
    },
    /// The coordinator is gone, in the middle of a commit if it can be.
    Crash {
        start: u64,
    },
    /// Another coordinator starts on the disk.
    Start,
    /// A collection arrives at the resource, with what it read from the coordinator a while ago.
    Collect(Box<LiveSnapshot>),
    /// Something goes wrong.
    Fault,
}
