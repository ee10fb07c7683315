//! Just enough of an HTTP/1.1 client: one connection for each request, so that a request can stop half-way, and every
//! byte of it is the scenario's. Redirects are answers, and nothing but the one address is spoken to.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::message::{Answer, NoAnswer, Request};
use fencepost_receiver::header;

/// Most bytes of an answer; what comes after them has no end that anybody waits for.
const ANSWER_BYTES: usize = 1024 * 1024;
/// Most bytes that are taken off the connection at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// Interim answers before the one that counts; a service that sends more of them has no answer to give.
const INTERIMS: usize = 8;
/// What a service has to look at a head before the rest goes on. Longer finds no more than it does.
const GLANCE: Duration = Duration::from_millis(60);

/// How to reach one service.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is called in `Host`.
    pub host: String,
    /// Headers of every request: who is calling, for example. They replace a scenario's own of the same name.
    pub headers: Vec<(String, String)>,
    /// How long an answer may take, from the connection to its last byte.
    pub patience: Duration,
}

/// A request that is on its way in half.
#[derive(Debug)]
pub struct Begun {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Line {
    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// When there is none. Except without a connection, the request may have taken effect.
    pub async fn send(&self, request: &Request) -> Result<Answer, NoAnswer> {
        self.within(async {
            let mut stream = self.connect().await?;
            stream.write_all(&self.bytes(request)).await.map_err(cut)?;
            read(&mut stream).await
        })
        .await
    }

    /// Sends the head and half of the body, and waits for a moment in which the service can look at them.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub async fn begin(&self, request: &Request) -> Result<Begun, NoAnswer> {
        self.within(async {
            let mut stream = self.connect().await?;
            let mut first = self.bytes(request);
            let rest = first.split_off(first.len() - request.body.len().div_ceil(2));
            stream.write_all(&first).await.map_err(cut)?;
            sleep(GLANCE).await;
            Ok(Begun { stream, rest })
        })
        .await
    }

    /// Sends the rest and reads the answer.
    ///
    /// # Errors
    /// When there is none; the request may have taken effect.
    pub async fn finish(&self, begun: Begun) -> Result<Answer, NoAnswer> {
        let Begun { mut stream, rest } = begun;
        self.within(async {
            // A service that has refused by the head alone may have closed its end, and its answer still counts.
            let sent = stream.write_all(&rest).await;
            let answer = read(&mut stream).await;
            match (answer, sent) {
                (Ok(answer), _) => Ok(answer),
                (Err(_), Err(error)) => Err(cut(error)),
                (Err(none), Ok(())) => Err(none),
            }
        })
        .await
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, NoAnswer>>) -> Result<T, NoAnswer> {
        let late = NoAnswer::Late(u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX));
        timeout(self.patience, work).await.unwrap_or(Err(late))
    }

    async fn connect(&self) -> Result<TcpStream, NoAnswer> {
        let stream =
            TcpStream::connect(self.address).await.map_err(|error| NoAnswer::NoConnection(error.to_string()))?;
        // Half a body must leave at once.
        stream.set_nodelay(true).map_err(cut)?;
        Ok(stream)
    }

    fn bytes(&self, request: &Request) -> Vec<u8> {
        let Request { method, target, headers, body } = request;
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.host);
        let replaced = |name: &str| self.headers.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name));
        let kept = headers.iter().filter(|(name, _)| !replaced(name));
        for (name, value) in kept.chain(&self.headers) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

fn cut(error: std::io::Error) -> NoAnswer {
    NoAnswer::Cut(error.to_string())
}

fn not_http(what: &str) -> NoAnswer {
    NoAnswer::NotHttp(what.to_owned())
}

/// Reads until the answer is whole.
async fn read(stream: &mut TcpStream) -> Result<Answer, NoAnswer> {
    let (mut incoming, mut piece) = (Incoming::default(), Vec::with_capacity(PIECE_BYTES));
    loop {
        piece.clear();
        let is_over = stream.read_buf(&mut piece).await.map_err(cut)? == 0;
        incoming.bytes.extend_from_slice(&piece);
        if let Some(answer) = incoming.go_on(is_over)? {
            return Ok(answer);
        }
        if is_over {
            return Err(NoAnswer::Cut("it is not whole".to_owned()));
        }
    }
}

/// An answer on its way. What was understood of it is not looked at again, however small the pieces are in which it
/// comes, and nothing of it decides how deep the stack gets.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
    /// Where that begins which is not understood yet.
    at: usize,
    /// Up to where the end of a line, or of a head, was looked for.
    searched: usize,
    interims: usize,
    head: Option<Head>,
    /// What its chunks have come to so far.
    body: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Head {
    status: u16,
    verdict: Option<String>,
    retry_after: Option<u64>,
    extent: Extent,
}

#[derive(Clone, Copy, Debug)]
enum Extent {
    Length(usize),
    Chunks,
    ToTheEnd,
}

impl Incoming {
    /// The answer, once it is whole; `is_over` where no more bytes will come. An interim answer (1xx) is passed over.
    fn go_on(&mut self, is_over: bool) -> Result<Option<Answer>, NoAnswer> {
        if self.bytes.len() > ANSWER_BYTES {
            return Err(not_http("an answer of more than 1 MiB"));
        }
        while self.head.is_none() {
            let Some(head) = self.next_head()? else { return Ok(None) };
            if head.status >= 200 {
                self.head = Some(head);
            } else {
                self.interims += 1;
                if self.interims > INTERIMS {
                    return Err(not_http("one interim answer after the other"));
                }
            }
        }
        let Some(Head { status, verdict, retry_after, extent }) = self.head.clone() else { return Ok(None) };
        let rest = &self.bytes[self.at..];
        let body = match extent {
            Extent::Length(length) => rest.get(..length).map(<[u8]>::to_vec),
            Extent::Chunks => self.chunks()?,
            Extent::ToTheEnd => is_over.then(|| rest.to_vec()),
        };
        Ok(body.map(|body| Answer { status, verdict, retry_after, body }))
    }

    fn next_head(&mut self) -> Result<Option<Head>, NoAnswer> {
        if !self.bytes[self.at..].iter().zip(b"HTTP/1.").all(|(found, expected)| found == expected) {
            return Err(not_http("it does not begin with HTTP/1."));
        }
        let Some(end) = self.find(b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&self.bytes[self.at..end]);
        let head = Head::read(&text)?;
        self.understood(end + 4);
        Ok(Some(head))
    }

    /// The body, once its last chunk is there.
    fn chunks(&mut self) -> Result<Option<Vec<u8>>, NoAnswer> {
        loop {
            let Some(end) = self.find(b"\r\n") else { return Ok(None) };
            let size = std::str::from_utf8(&self.bytes[self.at..end]).ok();
            let size = size.and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok());
            let size = size.filter(|size| *size <= ANSWER_BYTES).ok_or_else(|| not_http("a chunk without its size"))?;
            if size == 0 {
                return Ok(Some(std::mem::take(&mut self.body)));
            }
            // With the line's end behind it.
            let Some(chunk) = self.bytes.get(end + 2..end + 4 + size) else { return Ok(None) };
            let Some(chunk) = chunk.strip_suffix(b"\r\n") else { return Err(not_http("a chunk without its end")) };
            self.body.extend_from_slice(chunk);
            self.understood(end + 4 + size);
        }
    }

    /// Where these bytes stand next.
    fn find(&mut self, wanted: &[u8]) -> Option<usize> {
        let from = self.searched.saturating_sub(wanted.len() - 1).max(self.at);
        let found = self.bytes[from..].windows(wanted.len()).position(|window| window == wanted);
        // Found again from there, where what is behind it has not come yet.
        self.searched = found.map_or(self.bytes.len(), |found| from + found);
        found.map(|found| from + found)
    }

    fn understood(&mut self, to: usize) {
        (self.at, self.searched) = (to, to);
    }
}

impl Head {
    fn read(head: &str) -> Result<Self, NoAnswer> {
        let status = head.split(' ').nth(1).and_then(|text| text.get(..3)?.parse::<u16>().ok());
        let status = status.filter(|status| (100..600).contains(status)).ok_or_else(|| not_http("it has no status"))?;
        let find = |name: &str| {
            head.lines().skip(1).find_map(|line| {
                let (found, value) = line.split_once(':')?;
                found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let extent = match (find("transfer-encoding"), find("content-length")) {
            _ if matches!(status, 100..=199 | 204 | 304) => Extent::Length(0),
            (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => Extent::Chunks,
            (_, Some(length)) => Extent::Length(length.parse().map_err(|_| not_http("its length is no number"))?),
            (_, None) => Extent::ToTheEnd,
        };
        let retry_after = find("retry-after").and_then(|text| text.parse().ok());
        Ok(Self { status, verdict: find(header::VERDICT), retry_after, extent })
    }
}

impl Answer {
    /// Reads an answer from the pieces in which a connection brought it; with the last of them the connection ended.
    /// In which pieces the bytes come makes no difference.
    ///
    /// # Errors
    /// [`NoAnswer::NotHttp`] when it is none, or has no end; [`NoAnswer::Cut`] when it is not whole.
    pub fn from_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, NoAnswer> {
        let mut incoming = Incoming::default();
        for piece in pieces {
            incoming.bytes.extend_from_slice(piece);
            if let Some(answer) = incoming.go_on(false)? {
                return Ok(answer);
            }
        }
        incoming.go_on(true)?.ok_or_else(|| NoAnswer::Cut("it is not whole".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], is_over: bool) -> Result<Option<Answer>, NoAnswer> {
        Incoming { bytes: bytes.to_vec(), ..Incoming::default() }.go_on(is_over)
    }

    fn body(text: &str, is_over: bool) -> Option<String> {
        let answer = parse(text.as_bytes(), is_over).unwrap()?;
        Some(format!("{answer} {}", String::from_utf8(answer.body.clone()).unwrap()))
    }

    #[test]
    fn an_answer_is_whole_by_its_length_its_last_chunk_or_the_end() {
        let head = "HTTP/1.1 412 Precondition Failed\r\nFencepost-Verdict: stale_token\r\n";
        assert_eq!(body(&format!("{head}Content-Length: 2\r\n\r\na"), false), None);
        assert_eq!(body(&format!("{head}Content-Length: 2\r\n\r\nab"), false).unwrap(), "412 stale_token ab");
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n");
        assert_eq!(body(&chunked, false), None);
        assert_eq!(body(&format!("{chunked}0\r\n\r\n"), false).unwrap(), "412 stale_token abc");
        assert_eq!(body(&format!("{head}\r\nabc"), false), None);
        assert_eq!(body(&format!("{head}\r\nabc"), true).unwrap(), "412 stale_token abc");
    }

    #[test]
    fn an_interim_answer_is_passed_over_and_no_content_has_none() {
        assert_eq!(body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 204 No Content\r\n\r\n", false).unwrap(), "204 ");
        assert_eq!(body("HTTP/1.1 100 Continue\r\n\r\n", false), None);
    }

    /// Mutant: without the count of interim answers this one is read to its end.
    #[test]
    fn a_service_that_sends_nothing_but_interim_answers_has_no_answer() {
        let interim = "HTTP/1.1 100 Continue\r\n\r\n";
        let few = interim.repeat(INTERIMS) + "HTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(body(&few, false).unwrap(), "204 ");
        let many = interim.repeat(ANSWER_BYTES / interim.len());
        assert!(matches!(parse(many.as_bytes(), false), Err(NoAnswer::NotHttp(_))));
    }

    #[test]
    fn the_pieces_in_which_an_answer_comes_make_no_difference() {
        let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 412 x\r\nFencepost-Verdict: stale_token\r\n";
        for text in [
            format!("{head}Content-Length: 2\r\n\r\nab"),
            format!("{head}Transfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"),
            format!("{head}\r\nto the end"),
            format!("{head}Content-Length: 3\r\n\r\nab"),
            format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\nabc"),
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/2".to_owned(),
        ] {
            let whole = Answer::from_pieces([text.as_bytes()]);
            for size in 1..text.len() {
                assert_eq!(Answer::from_pieces(text.as_bytes().chunks(size)), whole, "{text:?} in pieces of {size}");
            }
        }
    }

    /// Mutant: looking for the end from the beginning each time takes minutes here.
    #[test]
    fn an_answer_that_comes_byte_by_byte_is_read_in_the_time_of_its_bytes() {
        let text = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(ANSWER_BYTES / 2));
        assert_eq!(Answer::from_pieces(text.as_bytes().chunks(1)).unwrap().status, 200);
    }

    #[test]
    fn what_is_not_http_is_said_to_be_so_at_its_first_byte() {
        for text in [
            "x",
            "HTTP/2",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 999 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        ] {
            assert!(matches!(parse(text.as_bytes(), false), Err(NoAnswer::NotHttp(_))), "{text:?}");
        }
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false).is_err());
    }

    #[test]
    fn a_header_of_every_request_replaces_the_scenario_s_own() {
        let line = Line {
            address: "127.0.0.1:1".parse().unwrap(),
            host: "h".to_owned(),
            headers: vec![("Content-Type".to_owned(), "text/plain".to_owned())],
            patience: Duration::from_secs(1),
        };
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let request = Request { method: "PUT".to_owned(), target: "/a".to_owned(), headers, body: b"xyz".to_vec() };
        let text = String::from_utf8(line.bytes(&request)).unwrap();
        assert_eq!(
            text,
            "PUT /a HTTP/1.1\r\nhost: h\r\nconnection: close\r\nContent-Type: text/plain\r\ncontent-length: 3\r\n\r\nxyz"
        );
    }
}
