//! Waiting for a domain: who gets it, who gives up, and what the dead leave behind.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    common::{PATIENCE, Server, Shell, send, until},
    processes::{Running, stops_wholly},
};

fn queue(shell: &Shell) -> u64 {
    let items = shell.run(&["show", "d", "--json"]).exits(0).json()["items"].clone();
    items[0]["queue"].as_u64().unwrap_or(0)
}

fn waits(shell: &Shell, queued: u64) {
    until("it stands in the queue", || queue(shell) == queued);
}

/// The same for a crowd, whose many processes are slow to start on a busy machine.
fn crowd_waits(shell: &Shell, queued: u64) {
    let started = Instant::now();
    while queue(shell) != queued {
        assert!(started.elapsed() < 4 * PATIENCE, "{} of {queued} stand in the queue", queue(shell));
        // bounded: by four times PATIENCE
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn held_by_another_it_is_skipped_waited_for_or_a_failure() {
    let server = Server::start();
    let (a, b) = (server.shell(), server.shell());
    a.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let run = |options: &[&str], code| b.run(&[&["run", "d"], options, &["--", "touch", "ran"]].concat()).exits(code);
    run(&[], 75);
    run(&["--if-held", "fail"], 75);
    run(&["--if-held", "skip"], 0);
    run(&["--if-held", "fail", "--wait", "200ms"], 75);
    run(&["--if-held", "skip", "--wait", "200ms"], 0);
    // Longer than a busy machine takes to open a session: what is left is waited for in the queue.
    let told = run(&["--wait", "12s"], 75).stderr;
    assert!(told.contains("after a wait of") && !b.path("ran").exists(), "{told}");
    let mut waiting = Running::start(&b, &["d", "--if-held", "wait", "--", "touch", "ran"]);
    waits(&a, 1);
    a.run(&["release"]).exits(0);
    waiting.ends_with(0);
    assert!(b.path("ran").exists());
}

/// Mutant: signals are not listened to while the acquire waits.
#[test]
fn a_signal_while_it_waits_ends_it_at_once_and_leaves_the_queue() {
    let server = Server::start();
    let (a, b) = (server.shell(), server.shell());
    a.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129), ("QUIT", 131)] {
        let mut waiting = Running::start(&b, &["d", "--ttl", "60s", "--wait", "10m", "--", "touch", "ran"]);
        waits(&a, 1);
        let sent = Instant::now();
        send(signal, waiting.pid());
        waiting.ends_with(code);
        assert!(sent.elapsed() < Duration::from_secs(3), "{signal}: {:?}", sent.elapsed());
        waits(&a, 0);
    }
    assert!(!b.path("ran").exists());
}

#[test]
fn a_signal_ends_it_while_the_coordinator_does_not_answer() {
    let server = Server::start();
    let shell = server.shell();
    shell.sh(&stops_wholly(server.pid())).exits(0);
    let mut waiting = Running::start(&shell, &["d", "--wait", "10m", "--", "touch", "ran"]);
    // bounded: a short look again and again, or time that has to pass for the story
    thread::sleep(Duration::from_millis(300));
    let sent = Instant::now();
    send("TERM", waiting.pid());
    waiting.ends_with(143);
    assert!(sent.elapsed() < Duration::from_secs(5));
    send("CONT", server.pid());
}

/// Its wait, a third of its TTL for the answer, and a moment to say good-bye to nobody.
///
/// Mutant: it gives back for as long as it would to a coordinator that answers.
#[test]
fn a_coordinator_that_hangs_while_it_stands_in_the_queue_is_given_up_soon_after_the_wait() {
    let server = Server::start();
    let (a, b) = (server.shell(), server.shell());
    a.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let mut waiting = Running::start(&b, &["d", "--wait", "6s", "--", "touch", "ran"]);
    waits(&a, 1);
    let stopped = Instant::now();
    b.sh(&stops_wholly(server.pid())).exits(0);
    waiting.ends_with(69);
    assert!(stopped.elapsed() < Duration::from_secs(14), "{:?}", stopped.elapsed());
    assert!(!b.path("ran").exists());
    send("CONT", server.pid());
}

#[test]
fn of_fifty_that_wait_the_living_get_it_whatever_became_of_the_others() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "10m"]).exits(0);
    // A TTL that fifty of them can keep on a machine that is busy with something else as well.
    let start = |script: &str| Running::start(&shell, &["d", "--ttl", "6s", "--wait", "5m", "--", "sh", "-c", script]);
    let doomed: Vec<Running> = (0..46).map(|_| start("echo >>dead")).collect();
    crowd_waits(&shell, 46);
    let mut alive: Vec<Running> = (0..4).map(|_| start("echo >>alive")).collect();
    crowd_waits(&shell, 50);
    for (number, running) in doomed.iter().enumerate() {
        // A stopped one keeps its connection, a killed one loses it, one that is asked to end says good-bye.
        send(["KILL", "STOP", "TERM"][number % 3], running.pid());
    }
    until("those that could leave have left", || queue(&shell) <= 4 + 16);
    let released = Instant::now();
    shell.run(&["release"]).exits(0);
    for running in &mut alive {
        running.ends_with(0);
    }
    // Sixteen stopped ones would make it a minute and a half if each had its TTL in turn.
    assert!(released.elapsed() < Duration::from_secs(60), "{:?}", released.elapsed());
    assert_eq!(fs::read_to_string(shell.path("alive")).unwrap().lines().count(), 4);
    assert!(!shell.path("dead").exists());
}

#[test]
fn twenty_at_once_run_one_after_the_other() {
    let server = Server::start();
    let shell = server.shell();
    fs::write(shell.path("counter"), "0\n").unwrap();
    // Reading and writing are far apart, so that any two that overlap lose one.
    let script = "n=$(cat counter); sleep 0.05; echo $((n + 1)) >counter; echo $FENCEPOST_TOKEN >>tokens";
    let mut all: Vec<Running> =
        (0..20).map(|_| Running::start(&shell, &["d", "--wait", "5m", "--", "sh", "-c", script])).collect();
    for running in &mut all {
        running.ends_with(0);
    }
    assert_eq!(fs::read_to_string(shell.path("counter")).unwrap(), "20\n");
    let tokens = fs::read_to_string(shell.path("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[test]
fn a_waiting_one_survives_a_restart_of_its_coordinator() {
    let mut server = Server::start();
    let (a, b) = (server.shell(), server.shell());
    a.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let mut waiting = Running::start(&b, &["d", "--ttl", "60s", "--wait", "5m", "--", "touch", "ran"]);
    waits(&a, 1);
    server.kill();
    server.restart();
    waits(&a, 1);
    a.run(&["release"]).exits(0);
    waiting.ends_with(0);
    assert!(b.path("ran").exists());
}
