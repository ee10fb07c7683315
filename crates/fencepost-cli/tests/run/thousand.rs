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

use serde_json::{Value, json};

use crate::{
    common::{PATIENCE, Server, Shell, send},
    processes::Running,
};

/// Those who ask over HTTP by themselves.
const PLAIN: usize = 960;
/// Those who ask as `run`.
const RUNS: usize = 40;

/// Sends this on a connection of its own.
fn sent(url: &str, path: &str, secret: &str, body: &Value) -> TcpStream {
    let (address, body) = (url.trim_start_matches("http://"), body.to_string());
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {secret}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let head = if secret.is_empty() { head.replace("authorization: Bearer \r\n", "") } else { head };
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

/// The JSON that comes back.
fn answer(mut stream: TcpStream) -> Value {
    stream.set_read_timeout(Some(5 * PATIENCE)).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    serde_json::from_str(page.split_once("\r\n\r\n").unwrap().1).unwrap_or_else(|error| panic!("{error}: {page:?}"))
}

/// Stands in the queue for ten minutes, under a request id that is the same again for the same number.
fn waits_as(url: &str, number: usize, holder: &str, ttl_ms: u64) -> TcpStream {
    let request = format!("{number:032x}");
    let body = json!({"domain": "d", "request_id": request, "holder": holder, "ttl_ms": ttl_ms, "wait_ms": 600_000});
    sent(url, "/v1/leases", "", &body)
}

/// The same under a TTL that is as long.
fn waits(url: &str, number: usize) -> TcpStream {
    waits_as(url, number, "plain", 600_000)
}

/// Goes away: with a good-bye, or by breaking the connection.
fn leaves(number: usize, stream: TcpStream) {
    if number.is_multiple_of(2) {
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
    drop(stream);
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
        leaves(number, stream);
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

/// Those who have left before their coordinator was killed.
const EARLY: usize = 250;
/// Those who leave with it.
const WITH_IT: usize = 100;
/// Those who ask again, by the same request ids, and leave then: good-bye.
const GONE: usize = 50;
/// Those who ask again, and leave in the moment in which the domain is given back.
const LATE: usize = 100;
/// Those who ask again and stay.
const ALIVE: usize = 20;
/// Those who stay and ask as `run`.
const RUNS_ALIVE: usize = 4;

/// The queue is in memory: after a restart whoever asks again stands in it anew, and nobody else does. Whose good-bye is read
/// has no turn. Those who leave right before the domain is given back cost one TTL (a second here) at most, all together:
/// while the first of them has a lease that nobody claims, the good-byes of the others are read.
///
/// Mutants: a place without a connection is granted; the coordinator goes on without a look at who has left.
#[test]
fn of_a_crowd_at_a_restart_the_living_ask_again_and_get_it_and_the_dead_take_no_turns() {
    may_open_many_files();
    let mut server = Server::start();
    let url = server.url.clone();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "1h"]).exits(0);
    let plain = |range: std::ops::Range<usize>, holder: &str, ttl_ms: u64| -> Vec<TcpStream> {
        range.map(|number| waits_as(&url, number, holder, ttl_ms)).collect()
    };
    let gone = EARLY + WITH_IT..EARLY + WITH_IT + GONE;
    let late = gone.end..gone.end + LATE;
    let alive = late.end..late.end + ALIVE;
    let mut before = plain(0..gone.start, "dead", 1_000);
    before.extend(plain(gone.clone(), "gone", 600_000));
    before.extend(plain(late.clone(), "late", 1_000));
    before.extend(plain(alive.clone(), "alive", 600_000));
    let start = |script: &str| Running::start(&shell, &["d", "--ttl", "6s", "--wait", "9m", "--", "sh", "-c", script]);
    let doomed: Vec<Running> = (0..RUNS_ALIVE).map(|_| start("echo >>dead")).collect();
    let mut living: Vec<Running> = (0..RUNS_ALIVE).map(|_| start("echo >>living")).collect();
    until("all stand in the queue", || connected(&url) == alive.end + 2 * RUNS_ALIVE);

    for (number, stream) in before.drain(..EARLY).enumerate() {
        leaves(number, stream);
    }
    server.kill();
    for running in &doomed {
        send("KILL", running.pid());
    }
    drop(before);
    server.restart();
    // Those who will leave are the first in line.
    let leaving = plain(gone, "gone", 600_000);
    let leaving_late = plain(late, "late", 1_000);
    until("they ask again", || connected(&url) >= GONE + LATE);
    let staying = plain(alive.clone(), "alive", 600_000);
    until("nobody else asks again", || connected(&url) == GONE + LATE + ALIVE + RUNS_ALIVE);
    assert_eq!(queue(&shell), (GONE + LATE + ALIVE + RUNS_ALIVE) as u64);

    leaving.into_iter().enumerate().for_each(|(number, stream)| leaves(number, stream));
    until("their good-byes are read", || connected(&url) == LATE + ALIVE + RUNS_ALIVE);
    assert_eq!(queue(&shell), (GONE + LATE + ALIVE + RUNS_ALIVE) as u64, "their places are kept");
    leaving_late.into_iter().enumerate().for_each(|(number, stream)| leaves(number, stream));
    shell.run(&["release"]).exits(0);
    // They may have come to stand in the queue in another order than they were sent.
    thread::scope(|scope| {
        for (number, stream) in alive.zip(staying) {
            let url = &url;
            scope.spawn(move || {
                let granted = answer(stream);
                let body = json!({"lease": granted["lease"], "request_id": format!("{number:032x}")});
                let released = answer(sent(url, "/v1/leases/release", granted["secret"].as_str().unwrap(), &body));
                assert_eq!(released["ended"], "released", "{granted}");
            });
        }
    });
    for running in &mut living {
        until("it has had its turn", || running.has_ended());
        running.ends_with(0);
    }
    assert_eq!(fs::read_to_string(shell.path("living")).unwrap().lines().count(), RUNS_ALIVE);
    assert!(!shell.path("dead").exists());
    until("nobody is counted as waiting any more", || connected(&url) == 0);
    let history = shell.run(&["history", "d", "--limit", "1000", "--json"]).exits(0).json();
    let granted = |holder: &str| {
        let items = history["items"].as_array().unwrap().iter();
        items.filter(|item| item["event"] == "granted" && item["holder"] == holder).count()
    };
    assert_eq!((granted("alive"), granted("gone"), granted("dead")), (ALIVE, 0, 0), "{history}");
    // More than one only where the coordinator does not get to read for a second.
    assert!(granted("late") <= 3, "{history}");
}
