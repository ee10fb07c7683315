//! Just enough of HTTP/1.1 to know where a message ends.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// What has been read from a peer and not been used yet.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

/// The head of a message, as it came.
pub(super) struct Head(Vec<u8>);

/// How a body is delimited.
enum Framing {
    None,
    Length(usize),
    Chunked,
    UntilEnd,
}

impl Buffer {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    async fn fill(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        from.read_buf(&mut self.0).await
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.0.split_off(length);
        std::mem::replace(&mut self.0, rest)
    }

    async fn until(&mut self, from: &mut (impl AsyncRead + Unpin), mark: &[u8]) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(at) = self.0.windows(mark.len()).position(|window| window == mark) {
                return Ok(Some(self.take(at + mark.len())));
            }
            if self.fill(from).await? == 0 {
                return if self.0.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    async fn exactly(&mut self, from: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
        while self.0.len() < length {
            if self.fill(from).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.take(length))
    }

    /// The next head; `None` when the peer has ended the connection between two messages.
    pub(super) async fn head(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Head>> {
        Ok(self.until(from, b"\r\n\r\n").await?.map(Head))
    }

    /// Copies the body that belongs to `head`, piece by piece as it comes.
    pub(super) async fn body(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        head: &Head,
    ) -> io::Result<()> {
        match head.framing() {
            Framing::None => Ok(()),
            Framing::Length(length) => to.write_all(&self.exactly(from, length).await?).await,
            Framing::Chunked => self.chunks(from, to).await,
            Framing::UntilEnd => loop {
                let piece = self.take(self.0.len());
                to.write_all(&piece).await?;
                if self.fill(from).await? == 0 {
                    return Ok(());
                }
            },
        }
    }

    async fn chunks(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        loop {
            let line = self.until(from, b"\r\n").await?.ok_or(ErrorKind::UnexpectedEof)?;
            let size = std::str::from_utf8(&line)
                .ok()
                .and_then(|line| usize::from_str_radix(line.trim_end().split(';').next()?, 16).ok());
            let size = size.ok_or(ErrorKind::InvalidData)?;
            let with_its_end = size.checked_add(2).ok_or(ErrorKind::InvalidData)?;
            to.write_all(&line).await?;
            to.write_all(&self.exactly(from, with_its_end).await?).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    fn header(&self, name: &str) -> Option<String> {
        self.text().lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    fn is_reply(&self) -> bool {
        self.0.starts_with(b"HTTP/")
    }

    /// The path of a request, without its query.
    pub(super) fn path(&self) -> String {
        let text = self.text();
        let target = text.split(' ').nth(1).unwrap_or_default();
        target.split('?').next().unwrap_or_default().to_owned()
    }

    /// The status of a reply.
    pub(super) fn status(&self) -> Option<u16> {
        self.text().split(' ').nth(1)?.parse().ok()
    }

    fn framing(&self) -> Framing {
        let bodiless = self.is_reply() && matches!(self.status(), Some(100..=199 | 204 | 304));
        if bodiless {
            Framing::None
        } else if self.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            Framing::Chunked
        } else if let Some(length) = self.header("content-length").and_then(|length| length.parse().ok()) {
            Framing::Length(length)
        } else if self.is_reply() {
            Framing::UntilEnd
        } else {
            Framing::None
        }
    }
}
