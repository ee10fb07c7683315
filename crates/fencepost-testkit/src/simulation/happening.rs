//! Everything that can happen at a moment.

use std::{fmt::Write as _, io, sync::Arc};

use fencepost_core::{Token, fence::Verdict, lease::LiveSnapshot};
use tokio::sync::oneshot;

use super::{
    digest::Digest,
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
    /// A collection arrives at the resource, with what it read from the coordinator a while ago. Operation records born
    /// below the horizon go too.
    Collect {
        snapshot: Box<LiveSnapshot>,
        horizon: Option<Token>,
    },
    /// Something goes wrong.
    Fault,
}

impl Who {
    /// What tells one from another.
    fn numbers(self) -> [u64; 2] {
        match self {
            Self::Worker(Address { worker, life }) => [worker as u64, life],
            Self::Coordinator => [u64::MAX; 2],
        }
    }
}

impl Happening {
    /// All that it says, for the digest of a run. What happens most often is not turned into text for it.
    pub(super) fn tell(&self, digest: &mut Digest) {
        let told = match self {
            Self::Look { who } => {
                let [worker, life] = who.numbers();
                return digest.add(&[1, worker, life]);
            }
            Self::Bytes { connection, to, bytes } => {
                digest.add(&[2, *connection, *to as u64]);
                return digest.add_bytes(bytes);
            }
            Self::Synced { start } => return digest.add(&[3, *start]),
            Self::Tick { start } => return digest.add(&[4, *start]),
            Self::End { connection, to, end } => return digest.add(&[5, *connection, *to as u64, *end as u64]),
            Self::ToResource { from: Address { worker, life }, call, request, answer } => {
                digest.add(&[6, *worker as u64, *life, *call, u64::from(answer.is_some())]);
                return request.tell(digest);
            }
            Self::FromResource { to: Address { worker, life }, answered: (verdict, value), answer: _ } => {
                digest.add(&[7, *worker as u64, *life]);
                digest.add_bytes(value.as_bytes());
                match verdict {
                    Verdict::Applied(result) => digest.add_bytes(result.as_bytes()),
                    Verdict::Replayed(_) | Verdict::Rejected(_) => {
                        write!(digest, "{verdict:?}").expect("a digest takes everything");
                    }
                }
                return;
            }
            Self::Connect { from: Address { worker, life }, made: _ } => {
                return digest.add(&[8, *worker as u64, *life]);
            }
            Self::GoOn { who, suspended_us } => write!(digest, "go on {who:?} {suspended_us}"),
            Self::Connected { to, made: _, result } => {
                write!(digest, "connected {to:?} {:?}", result.as_ref().map(|_| ()).map_err(io::Error::kind))
            }
            Self::Copy { link, bytes } => {
                digest.add_bytes(bytes);
                write!(digest, "copy {link:?}")
            }
            Self::Crash { start } => write!(digest, "crash {start}"),
            Self::Start => digest.write_str("start"),
            Self::Collect { snapshot, horizon } => write!(digest, "collect {snapshot:?} {horizon:?}"),
            Self::Fault => digest.write_str("fault"),
        };
        told.expect("a digest takes everything");
    }
}
