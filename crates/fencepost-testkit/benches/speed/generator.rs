//! A lean load generator: kept-open sockets, requests that are ready-made but for a few digits, answers that are
//! looked at no closer than needed. All clients share one thread, so that the server has the other core.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::round::{Turn, timed};

/// A connection with one request under way at most.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends bytes and reads until `whole` finds where an answer ends.
    pub(crate) async fn exchange(
        &mut self,
        request: &[u8],
        whole: impl Fn(&[u8]) -> Result<Option<usize>>,
    ) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            if let Some(length) = whole(&self.buffer)? {
                return Ok(&self.buffer[..length]);
            }
        }
    }

    /// Gets a page and hands back its body.
    pub(crate) async fn get(&mut self, path: &str) -> Result<&[u8]> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.answered(path, &request).await
    }

    /// Posts a JSON body and hands back the answer's body.
    pub(crate) async fn post(&mut self, path: &str, secret: &str, body: &str) -> Result<&[u8]> {
        let authorization =
            if secret.is_empty() { String::new() } else { format!("authorization: Bearer {secret}\r\n") };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{authorization}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.answered(path, &request).await
    }

    async fn answered(&mut self, path: &str, request: &str) -> Result<&[u8]> {
        let answer = self.exchange(request.as_bytes(), http_end).await?;
        let text = std::str::from_utf8(answer)?;
        if !text.starts_with("HTTP/1.1 2") {
            bail!("{path}: {text}");
        }
        let start = text.find("\r\n\r\n").context("no end of head")? + 4;
        Ok(&answer[start..])
    }
}

/// Where an HTTP answer ends, once all of it is there.
fn http_end(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&bytes[..head])?;
    let mut length = None;
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse::<usize>()?);
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                // The only peer that answers in chunks ends each answer with an empty one.
                let end = bytes.windows(5).rposition(|five| five == b"0\r\n\r\n");
                return Ok(end.map(|at| at + 5));
            }
        }
    }
    let end = head + 4 + length.unwrap_or(0);
    Ok((bytes.len() >= end).then_some(end))
}

/// The text between `before` and the next quotation mark.
pub(crate) fn field<'a>(body: &'a [u8], before: &str) -> Result<&'a str> {
    let text = std::str::from_utf8(body)?;
    let start = text.find(before).with_context(|| format!("no {before} in {text}"))? + before.len();
    let end = text[start..].find('"').context("no end of the field")?;
    Ok(&text[start..start + end])
}

/// One client: connects once and is then asked for one operation after the other.
pub(crate) trait Client: Sized {
    /// Connects client number `number`.
    async fn connect(address: SocketAddr, number: usize) -> Result<Self>;
    /// Does one operation; the part of it that is timed.
    async fn operate(&mut self) -> Result<Duration>;
}

/// Clients that stay connected from turn to turn.
pub(crate) struct Load<C> {
    clients: Vec<C>,
}

impl<C: Client> Load<C> {
    pub(crate) async fn connect(address: SocketAddr, clients: usize) -> Result<Self> {
        let mut connected = Vec::with_capacity(clients);
        for number in 0..clients {
            connected.push(C::connect(address, number).await?);
        }
        Ok(Self { clients: connected })
    }

    pub(crate) async fn turn(&mut self, turn: Duration) -> Result<Turn> {
        let start = Instant::now();
        let working = self.clients.iter_mut().map(|client| async move {
            let mut times = Vec::new();
            while start.elapsed() < turn {
                times.push(client.operate().await?);
            }
            Ok::<_, anyhow::Error>(times)
        });
        let times = futures_util::future::try_join_all(working).await?;
        Ok(timed(start.elapsed(), times.into_iter().flatten().collect()))
    }
}
