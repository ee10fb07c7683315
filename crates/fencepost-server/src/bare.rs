//! What is refused before there is a request, answered as a problem like everything else.
//!
//! The HTTP library writes such an answer by itself, as a head with nothing behind it. It is seen on its way out and a
//! whole one is written in its place.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use fencepost_wire::{ErrorCode, Problem};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::time::{Sleep, sleep};

use crate::{metrics::Metrics, reply};

/// The greatest request line with its headers, in bytes.
pub(crate) const HEAD_BYTES: usize = 128 * 1024;
/// The greatest path with its query, in bytes, and the most headers: the library's own.
const PATH_BYTES: usize = 65_534;
const HEADERS: usize = 100;

/// For how long what still comes is read and dropped. Closing with it unread would reset the connection and could take
/// the answer away.
const LINGER: Duration = Duration::from_millis(500);

/// A connection whose bare refusals are told in full.
pub(crate) struct Explained<Io> {
    io: Io,
    metrics: Metrics,
    /// What is written in place of a bare refusal, and how much of it is out.
    told: Option<(Vec<u8>, usize)>,
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<Io: Read + Write + Unpin> Explained<Io> {
    pub(crate) fn new(io: Io, metrics: Metrics) -> Self {
        Self { io, metrics, told: None, lingering: None }
    }

    fn poll_tell(&mut self, context: &mut Context<'_>, bare: usize) -> Poll<io::Result<usize>> {
        while let Some((answer, written)) = &mut self.told {
            match ready!(Pin::new(&mut self.io).poll_write(context, &answer[*written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *written += more,
            }
            if *written == answer.len() {
                self.told = None;
                self.lingering = Some(Box::pin(sleep(LINGER)));
            }
        }
        Poll::Ready(Ok(bare))
    }

    /// Ready when the other side has ended, or has had its time.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(patience) = &mut self.lingering else { return Poll::Ready(()) };
        let mut space = [0; 16 * 1024];
        while patience.as_mut().poll(context).is_pending() {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.io).poll_read(context, buffer.unfilled())) {
                Ok(()) if !buffer.filled().is_empty() => {}
                Ok(()) | Err(_) => break,
            }
        }
        self.lingering = None;
        Poll::Ready(())
    }
}

impl<Io: Read + Unpin> Read for Explained<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<Io: Read + Write + Unpin> Write for Explained<Io> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.told.is_none() {
            let Some(problem) = explain(bytes) else { return Pin::new(&mut self.io).poll_write(context, bytes) };
            self.metrics.answered("refused", problem.status);
            self.told = Some((reply::raw(&problem), 0));
        }
        self.poll_tell(context, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match pieces {
            [only] => self.poll_write(context, only),
            several => Pin::new(&mut self.io).poll_write_vectored(context, several),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_shutdown(context))?;
        self.poll_linger(context).map(Ok)
    }
}

/// What a bare refusal of the library means; `None` for an answer of ours, which is never empty with such a status.
fn explain(head: &[u8]) -> Option<Problem> {
    let status = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    let (status, field, rule) = match status {
        b"400" => {
            (400, "request", "must be HTTP/1.1 with a method, a path and headers as RFC 9112 has them".to_owned())
        }
        b"414" => (414, "path", format!("must be at most {PATH_BYTES} bytes with its query")),
        b"431" => {
            (431, "headers", format!("must be at most {HEADERS}, and at most {HEAD_BYTES} bytes with the request line"))
        }
        _ => return None,
    };
    let is_bare = head.ends_with(b"\r\n\r\n") && head.windows(EMPTY.len()).any(|line| line == EMPTY);
    let problem = Problem::new(ErrorCode::InvalidInput, format!("{field}: {rule}"));
    is_bare.then(|| Problem { status, field: Some(field.to_owned()), ..problem })
}

const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";
