//! Services that answer with nonsense, late, or not at all, and hooks that fail.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::Child,
    thread,
};

use crate::{
    bank::{Bank, command, of, prove, with},
    common::{Ran, until},
};

/// A server that gives every connection to `serve`. Its threads live as long as the test process.
fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/accounts/7", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    url
}

/// Reads until the whole request, which fits one read or a few, is there.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut some) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&some[..count]),
            _ => return text,
        }
    }
}

fn says(answer: &'static str) -> String {
    server(move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(answer.as_bytes());
    })
}

/// Carries a request, as it comes, to a service, and back what is kept of the head of its answer.
fn carry(mut stream: TcpStream, address: &str, keep: impl Fn(&str) -> bool) {
    let Ok(mut service) = TcpStream::connect(address) else { return };
    let (mut there, mut here) = (service.try_clone().unwrap(), stream.try_clone().unwrap());
    thread::spawn(move || {
        let _ = io::copy(&mut here, &mut there);
        let _ = there.shutdown(Shutdown::Write);
    });
    let mut answer = Vec::new();
    let _ = service.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let kept: Vec<&str> = text.split("\r\n").filter(|line| keep(line)).collect();
    let _ = stream.write_all(kept.join("\r\n").as_bytes());
    let _ = stream.shutdown(Shutdown::Both);
}

#[test]
fn a_service_that_takes_one_request_after_the_other_lets_the_new_owner_wait_and_passes() {
    let bank = Bank::start("correct");
    let address = bank.address().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/accounts/7", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| carry(stream, &address, |_| true)));
    let report = prove(&url, &["--rounds", "2"]).exits(0).json();
    assert_eq!(with(&report, "failed"), [] as [&str; 0], "{report:#}");
    assert_eq!(of(&report, "half_sent")["note"], "the new owner waits until the late body is there");
}

#[test]
fn nobody_who_answers_is_69_and_says_why() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/accounts/7", listener.local_addr().unwrap())
    };
    for (url, why) in [
        (nobody, "no connection"),
        (says(""), "ended before the answer"),
        (says("SSH-2.0-x\r\n"), "not HTTP"),
        (says("HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"), "not HTTP"),
    ] {
        let ran = prove(&url, &[]).exits(69);
        assert!(ran.stderr.contains(why), "{why}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_service_that_hangs_is_given_up_after_the_timeout() {
    let silent = server(|mut stream| {
        request(&mut stream);
        // It ends when the other side has given up.
        let _ = stream.read(&mut [0]);
    });
    let ran = prove(&silent, &["--timeout", "300ms"]).exits(69);
    assert!(ran.stderr.contains("no answer within 300 ms"), "{}", ran.stderr);
    let endless = server(|mut stream| while stream.write_all(b"HTTP/1.1 200 OK\r\nx: y\r\n").is_ok() {});
    let ran = prove(&endless, &["--timeout", "10s"]).exits(69);
    assert!(ran.stderr.contains("more than 1 MiB"), "{}", ran.stderr);
}

#[test]
fn a_write_that_hangs_is_a_silence_and_the_rest_is_not_tried() {
    let url = server(|mut stream| {
        if request(&mut stream).starts_with("GET ") {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
        } else {
            let _ = stream.read(&mut [0]);
        }
    });
    let report = prove(&url, &["--timeout", "3s"]).exits(1).json();
    assert_eq!(with(&report, "failed"), ["first_write"], "{report:#}");
    assert_eq!(of(&report, "first_write")["kind"], "silence");
    assert_eq!(with(&report, "not_tried").len(), 17, "{report:#}");
}

#[test]
fn a_service_that_answers_500_fails_its_first_write() {
    let url = says("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n");
    let report = prove(&url, &[]).exits(1).json();
    assert_eq!(with(&report, "failed"), ["first_write"], "{report:#}");
    assert_eq!(of(&report, "first_write")["kind"], "refusal");
    let story = of(&report, "first_write")["story"].to_string();
    assert!(story.contains("answered 500"), "{story}");
}

#[test]
fn a_redirect_is_an_answer_and_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        elsewhere.local_addr().unwrap()
    );
    let url = server(move |mut stream| {
        request(&mut stream);
        let _ = stream.write_all(answer.as_bytes());
    });
    let report = prove(&url, &[]).exits(1).json();
    assert_eq!(of(&report, "first_write")["found"], "answered 307");
    assert!(elsewhere.accept().is_err(), "nobody has come");
}

/// Killed when this is dropped: a test that fails while it waits leaves nothing behind.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_service_killed_in_mid_run_is_a_silence_and_the_rest_is_not_tried() {
    let bank = Bank::start("correct");
    let mut running = Running(Some(command(&bank.url(), &["--rounds", "1000"]).spawn().unwrap()));
    until("many operations have taken effect", || bank.operations() > 60);
    bank.kill();
    let report = Ran::of(running.0.take().unwrap().wait_with_output().unwrap()).exits(1).json();
    assert_eq!(with(&report, "failed"), ["concurrent"], "{report:#}");
    assert_eq!(of(&report, "concurrent")["kind"], "silence");
    assert_eq!(with(&report, "passed"), ["first_write", "late_after", "half_sent"], "{report:#}");
    assert_eq!(of(&report, "retry_late")["why"], "the service does not answer any more");
}

#[test]
fn answers_without_a_verdict_are_found_and_everything_else_is_still_judged() {
    let bank = Bank::start("correct");
    let address = bank.address().to_owned();
    let without = |line: &str| !line.starts_with("fencepost-verdict");
    let url = server(move |stream| carry(stream, &address, without));
    let report = prove(&url, &["--rounds", "2", "--also", "DELETE:/accounts/7"]).exits(1).json();
    assert_eq!(with(&report, "failed"), ["verdicts"], "{report:#}");
    assert_eq!(of(&report, "verdicts")["kind"], "answer");
}

#[test]
fn a_hook_that_fails_says_so_and_is_no_success() {
    let bank = Bank::start("correct");
    let hook = "echo first >&2; echo no such unit >&2; exit 3";
    let report = prove(&bank.url(), &["--rounds", "1", "--restart-hook", hook]).exits(1).json();
    assert_eq!(with(&report, "failed"), [] as [&str; 0], "{report:#}");
    let why = of(&report, "service_restart")["why"].as_str().unwrap().to_owned();
    assert_eq!(why, "the restart hook ended with exit status: 3: no such unit");
}
