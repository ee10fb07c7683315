//! One end of a connection, as its process sees it. What is written goes to the process's outbox, and from there over
//! the network; what arrives waits here, also while the process stands still.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::outbox::{Outbox, Outgoing};

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Client,
    Server,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What has arrived at one side.
#[derive(Default)]
pub(super) struct Arrived(Mutex<State>);

#[derive(Default)]
struct State {
    bytes: VecDeque<u8>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The other side has closed it.
    Closed,
    /// It is broken.
    Reset,
}

impl Arrived {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.bytes.extend(bytes);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(super) fn end(&self, end: End) {
        let mut state = self.state();
        state.end = Some(state.end.map_or(end, |before| if before == End::Reset { before } else { end }));
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

pub(super) struct Pipe {
    connection: u64,
    side: Side,
    arrived: Arc<Arrived>,
    outbox: Outbox,
}

impl Pipe {
    pub(super) fn new(connection: u64, side: Side, arrived: Arc<Arrived>, outbox: Outbox) -> Self {
        Self { connection, side, arrived, outbox }
    }

    fn send(&self, what: Outgoing) {
        self.outbox.push(what);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.arrived.state();
        match state.end {
            Some(End::Reset) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(End::Closed) if state.bytes.is_empty() => return Poll::Ready(Ok(())),
            Some(End::Closed) | None => {}
        }
        if state.bytes.is_empty() {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        while into.remaining() > 0 && !state.bytes.is_empty() {
            let (front, _) = state.bytes.as_slices();
            let taken = front.len().min(into.remaining());
            into.put_slice(&front[..taken]);
            state.bytes.drain(..taken);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.arrived.state().end == Some(End::Reset) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.send(Outgoing::Bytes { connection: self.connection, from: self.side, bytes: bytes.to_vec() });
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send(Outgoing::Closed { connection: self.connection, from: self.side });
        Poll::Ready(Ok(()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.send(Outgoing::Closed { connection: self.connection, from: self.side });
    }
}
