//! What a process wants of the world around it.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use fencepost_core::{
    Grant,
    fence::{Operation, RecordedResult, Verdict},
};
use tokio::sync::oneshot;

use super::{
    digest::Digest,
    pipe::{Pipe, Side},
};
use crate::history::Line;

/// What a process has sent and the world has not taken yet.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<Vec<Outgoing>>>);

impl Outbox {
    pub(super) fn push(&self, what: Outgoing) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Which connections the system closes for a process that is gone, in an order that follows from nothing else.
    /// Whatever else it was about to send stays unsent.
    pub(super) fn closed(&self) -> Vec<(u64, Side)> {
        let mut closed: Vec<(u64, Side)> = Vec::new();
        for outgoing in self.take() {
            if let Outgoing::Closed { connection, from } = outgoing {
                closed.push((connection, from));
            }
        }
        closed.sort_unstable();
        closed
    }

    pub(super) fn take(&self) -> Vec<Outgoing> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) enum Outgoing {
    /// A connection to the coordinator, please.
    Connect {
        made: oneshot::Sender<io::Result<Pipe>>,
    },
    Bytes {
        connection: u64,
        from: Side,
        bytes: Vec<u8>,
    },
    Closed {
        connection: u64,
        from: Side,
    },
    /// A request to the resource, with its line in the history, for the copies that the network may make.
    Ask {
        request: Arc<ToResource>,
        line: Box<Line>,
        answer: oneshot::Sender<Answered>,
    },
    /// The process is to stand still from now on: the gap between reading and writing is where that does most harm.
    StandStill {
        for_us: u64,
    },
}

/// What the resource says: its verdict, and the value.
pub(super) type Answered = (Verdict<RecordedResult>, String);

#[derive(Debug)]
pub(super) struct ToResource {
    pub(super) grant: Grant,
    pub(super) wish: Wish,
}

/// What a worker wants of the resource.
#[derive(Debug)]
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

impl ToResource {
    /// All that it says, for the digest of a run.
    pub(super) fn tell(&self, digest: &mut Digest) {
        let Self { grant: Grant { issuer, domain, token, lease, session }, wish } = self;
        [issuer.as_str(), domain.as_str()].iter().for_each(|name| digest.add_bytes(name.as_bytes()));
        digest.add(&[token.as_u64()]);
        [lease.as_bytes(), session.as_bytes()].iter().for_each(|id| digest.add_bytes(*id));
        match wish {
            Wish::Advance => digest.add(&[1]),
            Wish::Read { fenced } => digest.add(&[2, u64::from(*fenced)]),
            Wish::Write { operation: Operation { id, fingerprint, born }, value, based_on } => {
                digest.add(&[3, born.map_or(0, |born| born.as_u64())]);
                [id.as_str(), value, based_on].iter().for_each(|text| digest.add_bytes(text.as_bytes()));
                digest.add_bytes(fingerprint.as_bytes());
            }
        }
    }
}
