//! The columns `flock` and `fencepost run` of `docs/peers.md`: the same job, and what comes of it when something goes
//! wrong. (`flock` is of util-linux, like the `setsid` that other tests use; etcd is not needed to run the tests.)

use std::{fs, process::Command};

use crate::{
    common::{Ran, Server, Shell, send, until},
    processes::Running,
};

/// The two ways to run a command while nobody else does.
fn both(shell: &Shell, script: &str) -> [Ran; 2] {
    let flock = Command::new("flock").args(["f", "sh", "-c", script]).current_dir(shell.folder.path()).output();
    [Ran::of(flock.expect("util-linux has flock")), shell.run(&["run", "d", "--", "sh", "-c", script])]
}

#[test]
fn the_exit_code_of_the_command_is_that_of_both() {
    let server = Server::start();
    let shell = server.shell();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        for ran in both(&shell, script) {
            assert_eq!(ran.code, Some(code), "{script}: {ran:?}");
        }
    }
    let none = Command::new("flock").args(["f", "./none"]).current_dir(shell.folder.path()).output().unwrap();
    assert_eq!(none.status.code(), Some(69));
    shell.run(&["run", "d", "--", "./none"]).exits(127);
}

#[test]
fn only_one_of_them_tells_the_command_about_its_turn() {
    let server = Server::start();
    let shell = server.shell();
    let [flock, run] = both(&shell, "env | grep -c '^FENCEPOST_TOKEN=[1-9]' ; true");
    assert_eq!((flock.stdout.trim(), run.stdout.trim()), ("0", "1"));
}

#[test]
fn where_another_has_it_one_exits_1_and_the_other_75_with_who_it_is() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "10m", "--holder", "somebody"]).exits(0);
    let held = shell.run(&["run", "d", "--", "true"]).exits(75);
    assert!(held.stderr.contains("d is held by somebody"), "{}", held.stderr);
    let mut holder = Command::new("flock");
    holder.args(["f", "sh", "-c", "echo >up; sleep 1000"]).current_dir(shell.folder.path());
    let holder = Running::of(holder);
    until("it is held", || shell.path("up").exists());
    let refused = Command::new("flock").args(["-n", "f", "true"]).current_dir(shell.folder.path()).status().unwrap();
    assert_eq!(refused.code(), Some(1));
    drop(holder);
}

#[test]
fn without_its_coordinator_nothing_is_started() {
    let shell = Shell::at("http://127.0.0.1:1");
    shell.run(&["run", "d", "--", "touch", "ran"]).exits(69);
    assert!(!shell.path("ran").exists());
}

#[test]
fn a_coordinator_that_goes_away_ends_the_command_with_its_lease() {
    let mut server = Server::start();
    let shell = server.shell();
    let mut running =
        Running::start(&shell, &["d", "--ttl", "2s", "--", "sh", "-c", "echo >up; sleep 1000; echo >late"]);
    until("it runs", || shell.path("up").exists());
    server.kill();
    running.ends_with(80);
    assert!(!shell.path("late").exists());
}

/// `flock` keeps others out for as long as its holder is stopped. `run` lets the next one in when the lease is over, and
/// by then the stopped one's command is no more: the two are never there at once.
#[test]
fn a_wrapper_that_is_stopped_past_its_ttl_has_no_command_left_when_the_next_one_starts() {
    let server = Server::start();
    let shell = server.shell();
    let count = "echo >up; while :; do echo A >>log; sleep 0.05; done";
    let mut stopped = Running::start(&shell, &["d", "--ttl", "2s", "--", "sh", "-c", count]);
    until("it runs", || shell.path("log").exists());
    send("STOP", stopped.pid());
    shell
        .run(&["run", "d", "--ttl", "2s", "--wait", "30s", "--", "sh", "-c", "echo B >>log; sleep 0.5; echo B >>log"])
        .exits(0);
    send("CONT", stopped.pid());
    stopped.ends_with(80);
    let log = fs::read_to_string(shell.path("log")).unwrap();
    assert!(log.trim_end().ends_with("A\nB\nB"), "two at once: {log}");

    let mut holder = Command::new("flock");
    holder.args(["f", "sh", "-c", "echo >locked; sleep 1000"]).current_dir(shell.folder.path());
    let holder = Running::of(holder);
    until("it is held", || shell.path("locked").exists());
    send("STOP", holder.pid());
    let refused =
        Command::new("flock").args(["-w", "1", "f", "true"]).current_dir(shell.folder.path()).status().unwrap();
    assert_eq!(refused.code(), Some(1), "the kernel keeps it for the one that stands still");
}

#[test]
fn a_wrapper_that_is_killed_leaves_no_command_behind_the_next_one() {
    let server = Server::start();
    let shell = server.shell();
    let count = "while :; do echo A >>log; sleep 0.05; done";
    let mut killed = Running::start(&shell, &["d", "--ttl", "2s", "--", "sh", "-c", count]);
    until("it runs", || shell.path("log").exists());
    send("KILL", killed.pid());
    shell.run(&["run", "d", "--wait", "30s", "--", "sh", "-c", "echo B >>log; sleep 0.5; echo B >>log"]).exits(0);
    killed.end();
    killed.is_gone();
    let log = fs::read_to_string(shell.path("log")).unwrap();
    assert!(log.trim_end().ends_with("A\nB\nB"), "two at once: {log}");

    // With `flock` the command inherits the lock, so it lives on and keeps it.
    let mut holder = Command::new("flock");
    holder.args(["f", "sh", "-c", "echo >locked; sleep 1000"]).current_dir(shell.folder.path());
    let mut holder = Running::of(holder);
    until("it is held", || shell.path("locked").exists());
    send("KILL", holder.pid());
    holder.end();
    assert!(!holder.members().is_empty());
    let refused = Command::new("flock").args(["-n", "f", "true"]).current_dir(shell.folder.path()).status().unwrap();
    assert_eq!(refused.code(), Some(1));
}
