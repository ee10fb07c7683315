//! A thousand that wait for one domain, most of whom are dead when it becomes free.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    net::sockopt::set_socket_linger,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{
    common::{PATIENCE, Server, Shell, send},
    processes::Running,
};

/// Those who ask over HTTP by themselves.
const PLAIN: usize = 960;
/// Those who ask as `run`.
const RUNS: usize = 40;

/// Stands in the queue for ten minutes, on a connection of its own, under a TTL that is as long.
fn waits(url: &str, number: usize) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let body = serde_json::json!({
        "domain": "d", "request_id": format!("{number:032x}"), "holder": "plain", "ttl_ms": 600_000, "wait_ms": 600_000,
    })
    .to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

fn queue(shell: &Shell) -> u64 {
    let items = shell.run(&["show", "d", "--json"]).exits(0).json()["items"].clone();
    items[0]["queue"].as_u64().unwrap_or(0)
}

/// As many as that machine needs: there are a hundred processes to be started.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < 5 * PATIENCE, "still waiting: {what}");
        // bounded: by five times PATIENCE
        thread::sleep(Duration::from_millis(100));
    }
}

/// The gauge of those who wait on an open connection.
fn connected(url: &str) -> usize {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let gauge = page.lines().find_map(|line| line.strip_prefix("fencepost_waiting "));
    gauge.and_then(|number| number.parse().ok()).unwrap()
}

/// This process and the coordinator that it starts.
fn may_open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let many = limit.maximum.map_or(4_096, |most| most.min(4_096));
    let current = limit.current.map(|current| current.max(many));
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

/// Each of the dead had ten minutes, or six seconds, of a place in the queue: one after the other that would be a week.
#[test]
fn of_a_thousand_that_wait_the_living_get_it_and_nobody_waits_for_the_dead() {
    may_open_many_files();
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "1h"]).exits(0);
    let plain: Vec<TcpStream> = (0..PLAIN).map(|number| waits(&server.url, number)).collect();
    until("the plain ones stand in the queue", || queue(&shell) == PLAIN as u64);
    let start = |script: &str| Running::start(&shell, &["d", "--ttl", "6s", "--wait", "9m", "--", "sh", "-c", script]);
    let dead: Vec<Running> = (4..RUNS).map(|_| start("echo >>dead")).collect();
    let mut living: Vec<Running> = (0..4).map(|_| start("echo >>living")).collect();
    until("all stand in the queue", || queue(&shell) == (PLAIN + RUNS) as u64);
    for (number, stream) in plain.into_iter().enumerate() {
        // A good-bye, and a connection that breaks.
        if number % 2 == 0 {
            set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
        drop(stream);
    }
    for (number, running) in dead.iter().enumerate() {
        send(["KILL", "STOP", "TERM"][number % 3], running.pid());
    }
    // Whoever has its turn before the coordinator has read its good-bye has its one TTL, which is ten minutes here.
    until("their good-byes are read", || connected(&server.url) <= RUNS);
    shell.run(&["release"]).exits(0);
    for running in &mut living {
        until("it has had its turn", || running.has_ended());
        running.ends_with(0);
    }
    assert_eq!(fs::read_to_string(shell.path("living")).unwrap().lines().count(), 4);
    assert!(!shell.path("dead").exists());
    drop(dead);
    shell.run(&["run", "d", "--wait", "1m", "--", "true"]).exits(0);
    until("nobody is counted as waiting any more", || connected(&server.url) == 0);
}
