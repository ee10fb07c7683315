//! Everything that can happen at a moment.

use std::{io, sync::Arc};

use fencepost_core::lease::LiveSnapshot;
use tokio::sync::oneshot;

use super::{
    network::Link,
    outbox::{Answered, ToResource},
    pipe::{End, Pipe, Side},
};

/// Which life of which worker: what is for an earlier life is for nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) worker: usize,
    pub(super) life: u64,
}

/// Whose process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Worker(Address),
    Coordinator,
}

pub(super) enum Happening {
    /// A process looks at its timers.
    Look {
        who: Who,
    },
    /// A process that stood still goes on; so long its machine was suspended.
    GoOn {
        who: Who,
        suspended_us: u64,
    },
    /// A wish for a connection has come to the coordinator's machine.
    Connect {
        from: Address,
        made: oneshot::Sender<io::Result<Pipe>>,
    },
    /// What came of that wish has come back.
    Connected {
        to: Address,
        made: oneshot::Sender<io::Result<Pipe>>,
        result: io::Result<Pipe>,
    },
    Bytes {
        connection: u64,
        to: Side,
        bytes: Vec<u8>,
    },
    End {
        connection: u64,
        to: Side,
        end: End,
    },
    /// The copy of a request arrives at the coordinator's machine.
    Copy {
        link: Link,
        bytes: Vec<u8>,
    },
    /// A request has come to the resource. A copy has nobody who waits for its answer.
    ToResource {
        from: Address,
        call: u64,
        request: Arc<ToResource>,
        answer: Option<oneshot::Sender<Answered>>,
    },
    FromResource {
        to: Address,
        answered: Answered,
        answer: oneshot::Sender<Answered>,
    },
    /// The coordinator's commit is synced.
    Synced {
        start: u64,
    },
    /// The coordinator has something to do by itself.
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

impl Happening {
    /// Its kind, for the digest of a run.
    pub(super) fn kind(&self) -> u64 {
        match self {
            Self::Look { .. } => 1,
            Self::GoOn { .. } => 2,
            Self::Connect { .. } => 3,
            Self::Connected { .. } => 4,
            Self::Bytes { .. } => 5,
            Self::End { .. } => 6,
            Self::Copy { .. } => 7,
            Self::ToResource { .. } => 8,
            Self::FromResource { .. } => 9,
            Self::Synced { .. } => 10,
            Self::Tick { .. } => 11,
            Self::Crash { .. } => 12,
            Self::Start => 13,
            Self::Collect(_) => 14,
            Self::Fault => 15,
        }
    }
}
