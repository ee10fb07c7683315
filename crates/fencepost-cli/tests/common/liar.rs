//! A server between the command and the real coordinator that answers some calls with whatever a test says.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Act {
    /// The coordinator answers.
    Pass,
    /// The coordinator gets it, and its answer is thrown away with the connection.
    LoseAnswer,
    /// The coordinator never gets it, and nobody ever answers.
    Hang,
    /// The coordinator never gets it; this is the answer.
    Say(String),
    /// The coordinator gets it, and the body of its answer has this replaced.
    Replace(&'static str, &'static str),
}

impl Act {
    /// An answer with this status and JSON body.
    pub fn json(status: u16, body: &str) -> Self {
        Self::Say(http(&format!("{status} Said"), body))
    }
}

fn http(status: &str, body: &str) -> String {
    let head = "content-type: application/json\r\nconnection: close\r\ncontent-length:";
    format!("HTTP/1.1 {status}\r\n{head} {}\r\n\r\n{body}", body.len())
}

/// Somebody who takes every connection and answers nothing.
pub fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    (listener, url)
}

/// A running liar. Its thread lives as long as the test process.
#[derive(Debug)]
pub struct Liar {
    pub url: String,
}

impl Liar {
    /// Stands before `server` (`http://HOST:PORT`) and does to each POST whose path ends in `path` what `act` says of
    /// its number, counted from 1. Other calls pass.
    pub fn before(server: &str, path: &'static str, act: impl Fn(u64) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let server = server.trim_start_matches("http://").to_owned();
        let shared = Arc::new((server, act, AtomicU64::new(0)));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (server, act, seen) = &*shared;
                    // A broken connection is what the test wanted, or shows as a failed command.
                    let _ = carry(client, server, path, || act(seen.fetch_add(1, Ordering::SeqCst) + 1));
                });
            }
        });
        Self { url }
    }
}

fn carry(mut client: TcpStream, server: &str, path: &str, act: impl Fn() -> Act) -> io::Result<()> {
    let request = read_request(&mut client)?;
    let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    let called = line.split(' ').nth(1).unwrap_or_default();
    let act = if line.starts_with("POST") && called.ends_with(path) { act() } else { Act::Pass };
    if let Act::Say(answer) = act {
        return client.write_all(answer.as_bytes());
    }
    if let Act::Hang = act {
        // Until the client has had enough.
        return client.read(&mut [0]).map(drop);
    }
    let answer = ask(server, &request)?;
    match act {
        Act::Pass | Act::Say(_) | Act::Hang => client.write_all(&answer),
        Act::LoseAnswer => Ok(()),
        Act::Replace(from, to) => {
            let text = String::from_utf8_lossy(&answer);
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let status = text.split(' ').nth(1).unwrap_or("500");
            client.write_all(http(&format!("{status} Said"), &body.replace(from, to)).as_bytes())
        }
    }
}

fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |digits| digits.parse().unwrap_or(0))];
    client.read_exact(&mut body)?;
    request.extend(body);
    Ok(request)
}

/// The whole answer to one request, on a connection of its own.
fn ask(server: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(server)?;
    let at = request.windows(2).position(|pair| pair == b"\r\n").unwrap_or_default();
    let (line, rest) = request.split_at(at);
    upstream.write_all(&[line, b"\r\nconnection: close", rest].concat())?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}
