//! Signals are passed on, and the exit code is the command's.

use std::{fs, os::unix::process::CommandExt, process::Command};

use fencepost_testkit::torture::skip;

use crate::{
    common::{Server, send, until},
    processes::Running,
};

#[test]
fn every_signal_reaches_the_command_and_its_own_answer_comes_back() {
    let server = Server::start();
    for (signal, code) in [("TERM", 41), ("INT", 42), ("HUP", 43), ("QUIT", 44)] {
        let shell = server.shell();
        let script = format!("trap 'echo x >>got; exit {code}' {signal}; echo >up; while :; do sleep 0.05; done");
        let mut running = Running::start(&shell, &[signal, "--", "sh", "-c", &script]);
        until("it runs", || shell.path("up").exists());
        send(signal, running.pid());
        running.ends_with(code);
        running.is_gone();
        assert_eq!(fs::read_to_string(shell.path("got")).unwrap(), "x\n", "{signal} comes once");
    }
}

#[test]
fn a_command_killed_by_a_signal_is_told_as_128_and_its_number() {
    let server = Server::start();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let shell = server.shell();
        let mut running = Running::start(&shell, &[signal, "--", "sleep", "1000"]);
        running.becomes("sleep");
        send(signal, running.pid());
        running.ends_with(code);
        running.is_gone();
    }
}

/// `run` does not make an ignored signal deadly, and goes on until the command has ended.
#[test]
fn a_command_that_ignores_a_signal_goes_on() {
    let server = Server::start();
    let shell = server.shell();
    let script = "trap '' TERM INT; echo >up; while ! test -e go; do sleep 0.05; done; exit 9";
    let mut running = Running::start(&shell, &["d", "--", "sh", "-c", script]);
    until("it runs", || shell.path("up").exists());
    send("TERM", running.pid());
    send("INT", running.pid());
    fs::write(shell.path("go"), "").unwrap();
    running.ends_with(9);
}

#[test]
fn what_is_ignored_when_run_is_called_stays_ignored_in_the_command() {
    let server = Server::start();
    let shell = server.shell();
    let script = "nohup fencepost run d -- sh -c 'grep SigIgn /proc/self/status' 2>/dev/null";
    let ran = shell.sh(script).exits(0).stdout;
    let mask = u64::from_str_radix(ran.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(mask & 1, 1, "HUP: {ran}");
    let plain = shell.run(&["run", "d", "--", "grep", "SigIgn", "/proc/self/status"]).exits(0).stdout;
    let mask = u64::from_str_radix(plain.trim().trim_start_matches("SigIgn:").trim(), 16).unwrap();
    let of_ours = [1, 2, 3, 13, 15, 17, 20].map(|number| 1_u64 << (number - 1)).iter().sum::<u64>();
    assert_eq!(mask & of_ours, 0, "a command gets the defaults: {plain}");
}

/// In a container the session may have begun outside of what its processes see, and its number is then zero.
/// Mutant: `getsid` of a library that takes zero for impossible.
#[test]
fn a_session_that_began_in_another_namespace_hinders_nothing() {
    let server = Server::start();
    let shell = server.shell();
    let inside = ["--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c"];
    let session = Command::new("unshare").args(inside).arg("cut -d' ' -f6 /proc/self/stat").output();
    if !session.is_ok_and(|output| output.stdout == b"0\n") {
        return skip("a session that began in another namespace", "no rights for a process namespace of its own");
    }
    let words = inside.join(" ");
    let quiet = shell.sh(&format!("unshare {words} 'fencepost run d -- sh -c \"exit 7\"; exit $?'")).exits(7);
    assert_eq!(quiet.stdout, "");
    let inside =
        "fencepost run d -- sh -c \"echo >up; exec sleep 1000\" & until test -e up; do :; done; kill -HUP $!; wait $!";
    let script = format!("unshare {words} '{inside}'");
    shell.sh(&script).exits(129);
}

#[test]
fn a_signal_to_the_whole_group_ends_it_all() {
    let server = Server::start();
    let shell = server.shell();
    let mut command = shell.command(&["run", "d", "--", "sh", "-c", "echo >up; sleep 1000 & wait"]);
    command.process_group(0);
    let mut running = Running::of(command);
    until("it runs", || shell.path("up").exists());
    let group = format!("-{}", running.pid());
    assert!(Command::new("kill").args(["-s", "TERM", "--", &group]).status().unwrap().success());
    running.ends_with(143);
    running.is_gone();
}

#[test]
fn the_exit_code_is_the_commands() {
    let server = Server::start();
    let shell = server.shell();
    for code in [0, 1, 75, 80, 255] {
        shell.run(&["run", "d", "--", "sh", "-c", &format!("exit {code}")]).exits(code);
    }
    let ran = shell.run(&["run", "d", "--", "/no/such/program"]).exits(127);
    assert!(ran.stderr.contains("cannot be run") && ran.stderr.contains("next: command -v"), "{}", ran.stderr);
    shell.run(&["run", "d", "--", "/etc/passwd"]).exits(126);
}

#[test]
fn standard_streams_are_the_commands() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.sh("printf in | fencepost run d -- sh -c 'cat; printf err >&2'").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("in", "err"));
}

/// A terminal that is gone says so to the leader of the session alone, as under `ssh -t` or in a container.
/// Mutant: `is_mine_alone` left out, so that the command is taken to have heard of it.
#[test]
fn a_leader_of_a_session_passes_on_that_its_terminal_is_gone() {
    let server = Server::start();
    let shell = server.shell();
    let job = "trap \"echo hup >hup; exit 3\" HUP; echo here >up; while :; do sleep 0.02; done";
    let line = format!("exec fencepost run d -- sh -c '{job}'");
    fs::write(shell.path("line"), line).unwrap();
    let started = shell.sh("script -qc '. ./line' /dev/null >/dev/null 2>&1 & echo $!").exits(0);
    until("the command runs", || shell.path("up").exists());
    send("KILL", started.stdout.trim().parse().unwrap());
    until("the command hears of it", || shell.path("hup").exists());
}
