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

/// Reads until the answer is whole. An interim answer (1xx) is passed over.
async fn read(stream: &mut TcpStream) -> Result<Answer, NoAnswer> {
    let mut bytes = Vec::new();
    let mut is_over = false;
    loop {
        if let Some(answer) = parse(&bytes, is_over)? {
            return Ok(answer);
        }
        if is_over {
            return Err(NoAnswer::Cut("it is not whole".to_owned()));
        }
        if bytes.len() > ANSWER_BYTES {
            return Err(not_http("an answer of more than 1 MiB"));
        }
        is_over = stream.read_buf(&mut bytes).await.map_err(cut)? == 0;
    }
}

/// An answer, once it is whole; `is_over` where no more bytes will come.
fn parse(bytes: &[u8], is_over: bool) -> Result<Option<Answer>, NoAnswer> {
    let begins = b"HTTP/1.";
    if !bytes.iter().zip(begins).all(|(found, expected)| found == expected) {
        return Err(not_http("it does not begin with HTTP/1."));
    }
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let (head, rest) = (String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 4..]);
    let status = head.split(' ').nth(1).and_then(|text| text.get(..3)?.parse::<u16>().ok());
    let status = status.filter(|status| (100..600).contains(status)).ok_or_else(|| not_http("it has no status"))?;
    if status < 200 {
        return parse(rest, is_over);
    }
    let find = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let body = match (find("transfer-encoding"), find("content-length")) {
        _ if matches!(status, 204 | 304) => Some(Vec::new()),
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => chunks(rest)?,
        (_, Some(length)) => {
            let length: usize = length.parse().map_err(|_| not_http("its length is no number"))?;
            rest.get(..length).map(<[u8]>::to_vec)
        }
        (_, None) => is_over.then(|| rest.to_vec()),
    };
    Ok(body.map(|body| Answer { status, verdict: find(header::VERDICT), body }))
}

/// The body, once its last chunk is there.
fn chunks(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, NoAnswer> {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|window| window == b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&bytes[..end]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text.split(';').next()?.trim(), 16).ok());
        let size = size.filter(|size| *size <= ANSWER_BYTES).ok_or_else(|| not_http("a chunk without its size"))?;
        let Some(chunk) = bytes.get(end + 2..end + 2 + size) else { return Ok(None) };
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(chunk);
        bytes = bytes.get(end + 4 + size..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
