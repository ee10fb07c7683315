//! A command never outlives its lease, nor `run`: whatever it does, and whatever happens to `run`.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{Server, Shell, send, until},
    processes::{Running, last_beat, now_ms},
};

/// The greatest part of a TTL that a holder may believe in.
fn believed(ttl_ms: u64) -> u64 {
    ttl_ms * 9 / 10
}

/// Whether another gets the domain at once.
fn is_free(shell: &Shell) -> bool {
    shell.run(&["run", "d", "--", "true"]).code == Some(0)
}

#[test]
fn a_command_that_ignores_term_is_killed_before_the_deadline_when_the_coordinator_is_gone() {
    let mut server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "3s"]);
    server.kill();
    let killed = now_ms();
    running.ends_with(80);
    running.is_gone();
    let last = last_beat(&shell);
    assert!(last <= killed + believed(3_000), "it ran {} ms after the last renewal", last - killed);
}

/// Mutant: TERM is never sent, only KILL.
#[test]
fn a_command_that_heeds_term_ends_in_its_own_way() {
    let mut server = Server::start();
    let shell = server.shell();
    let script = "trap 'echo tidy >tidied; exit 0' TERM; echo >up; while :; do sleep 0.05; done";
    let mut running = Running::start(&shell, &["d", "--ttl", "2s", "--", "sh", "-c", script]);
    until("it runs", || shell.path("up").exists());
    server.kill();
    running.ends_with(80);
    running.is_gone();
    assert!(shell.path("tidied").exists());
    let told = running.told();
    assert!(told.contains("the lease is lost, and the command was stopped") && told.contains("next: "), "{told}");
}

#[test]
fn a_coordinator_that_is_back_in_time_keeps_the_command_running() {
    let mut server = Server::start();
    let shell = server.shell();
    let script = "echo >up; while ! test -e go; do sleep 0.05; done; exit 5";
    let mut running = Running::start(&shell, &["d", "--ttl", "6s", "--", "sh", "-c", script]);
    until("it runs", || shell.path("up").exists());
    server.kill();
    server.restart();
    let restarted = Instant::now();
    until("more than a TTL has passed", || restarted.elapsed() > Duration::from_secs(7));
    assert!(!running.members().is_empty());
    std::fs::write(shell.path("go"), "").unwrap();
    running.ends_with(5);
}

#[test]
fn a_broken_lease_stops_the_command_without_waiting_for_the_deadline() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "9s", "--stop-after", "200ms"]);
    let lease = shell.run(&["show", "d", "--json"]).exits(0).json()["items"][0]["lease"].clone();
    shell.run(&["break", "d", "--lease", lease.as_str().unwrap(), "--reason", "stuck"]).exits(0);
    running.ends_with(80);
    running.is_gone();
    assert!(running.told().contains("revoked"));
}

#[test]
fn a_greatest_holding_time_stops_the_command() {
    let server = Server::start();
    let shell = server.shell();
    let before = now_ms();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "2s", "--max-hold", "3s"]);
    running.ends_with(80);
    running.is_gone();
    assert!(last_beat(&shell) < before + 3_000 + 3_000);
    assert!(running.told().contains("--max-hold is over"), "{}", running.told());
    assert!(is_free(&shell));
}

/// Mutants: the warden does not kill when the connection to `run` ends; its `kill` does nothing.
#[test]
fn killing_run_kills_the_tree() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "60s"]);
    send("KILL", running.pid());
    assert!(running.end().code().is_none());
    until("nothing of it lives", || running.all().is_empty());
}

/// Mutants: `run` is no subreaper; `see_it_gone` kills nothing.
#[test]
fn killing_the_warden_kills_the_tree_and_only_then_is_the_lease_given_back() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "60s"]);
    send("KILL", running.warden());
    running.ends_with(137);
    running.is_gone();
    assert!(is_free(&shell));
}

/// Mutants: the warden waits for `run` and not for the deadline; its `kill` does nothing.
#[test]
fn a_run_that_is_stopped_past_its_ttl_has_no_command_left() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "2s"]);
    send("STOP", running.pid());
    let stopped = now_ms();
    until("the command is gone", || running.members().is_empty());
    let last = last_beat(&shell);
    assert!(last <= stopped + believed(2_000), "it ran {} ms after the last renewal", last - stopped);
    until("another gets the domain", || is_free(&shell));
    send("CONT", running.pid());
    running.ends_with(80);
}

/// Mutant: `look_at_the_leases` never says that the warden must have failed.
#[test]
fn a_warden_that_is_stopped_does_not_keep_the_command_alive() {
    let mut server = Server::start();
    let shell = server.shell();
    // What `run` has left for it is half of the margin, which grows with the TTL: a busy machine needs it.
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "9s"]);
    send("STOP", running.warden());
    server.kill();
    let killed = now_ms();
    running.ends_with(80);
    running.is_gone();
    let last = last_beat(&shell);
    assert!(last <= killed + believed(9_000), "it ran {} ms after the last renewal", last - killed);
}

/// A stopped warden reads nothing, so the end of the connection alone would tell it nothing.
/// Mutant: no parent-death signal for the warden.
#[test]
fn killing_run_while_its_warden_is_stopped_kills_the_tree() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "60s"]);
    send("STOP", running.warden());
    send("KILL", running.pid());
    assert!(running.end().code().is_none());
    until("nothing of it lives", || running.all().is_empty());
}

/// A terminal stops the whole group of a job that reads from the background, `run` and its warden too.
/// Mutant: any of the three taken out of `SURVIVED`.
#[test]
fn a_terminal_stops_run_and_not_its_warden() {
    let server = Server::start();
    for signal in ["TSTP", "TTIN", "TTOU"] {
        let shell = server.shell();
        let mut running = Running::stubborn(&shell, &["d", "--ttl", "2s"]);
        send(signal, running.warden());
        send("STOP", running.pid());
        let stopped = now_ms();
        until("the command is gone", || running.members().is_empty());
        let last = last_beat(&shell);
        assert!(last <= stopped + believed(2_000), "{signal}: it ran {} ms after the last renewal", last - stopped);
        until("another gets the domain", || is_free(&shell));
        send("CONT", running.pid());
        running.ends_with(80);
    }
}

/// Some daemons ignore the ends of their children, and what they start inherits that: the system keeps none then.
/// Mutant: `see_it_gone` does not take a warden that is no child any more for one that has ended.
#[test]
fn where_ends_of_children_are_ignored_the_tree_is_killed_before_the_lease_is_given_back() {
    let server = Server::start();
    let shell = server.shell();
    let template = shell.command(&["run", "d", "--ttl", "60s", "--", "sh", "-c", &crate::processes::stubborn()]);
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD").arg(template.get_program()).args(template.get_args());
    command.current_dir(shell.folder.path()).stdin(Stdio::null()).stderr(Stdio::piped());
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut running = Running::of(command);
    until("all of the command runs", || running.members().len() >= 6);
    send("KILL", running.warden());
    running.ends_with(137);
    running.is_gone();
    assert!(is_free(&shell));
}

/// Mutant: `run` gives back as soon as the command itself has ended.
#[test]
fn what_a_command_leaves_behind_is_gone_before_the_lease_is_given_back() {
    let server = Server::start();
    let shell = server.shell();
    let script = "trap '' TERM; (setsid sleep 1000 &); sleep 1000 & exit 3";
    let options = ["d", "--ttl", "30s", "--stop-after", "1s", "--", "sh", "-c", script];
    let mut running = Running::start(&shell, &options);
    until("only what is left behind lives", || {
        let members = running.members();
        members.len() == 2 && members.iter().all(|pid| name(*pid) == "sleep")
    });
    // As long as a member lives the domain is not free; which of the two is seen first depends on the machine.
    let was_held = shell.run(&["run", "d", "--", "true"]).code == Some(75);
    assert!(was_held || running.members().is_empty());
    running.ends_with(3);
    running.is_gone();
    assert!(is_free(&shell));
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

#[test]
fn what_heeds_term_after_the_command_is_not_waited_for_any_longer() {
    let server = Server::start();
    let shell = server.shell();
    let started = Instant::now();
    shell.run(&["run", "d", "--ttl", "60s", "--", "sh", "-c", "sleep 1000 & exit 0"]).exits(0);
    assert!(started.elapsed() < Duration::from_secs(5), "the grace is for those who need it");
}

/// What `exec fencepost run` finds as its children belongs to whoever was there before.
#[test]
fn earlier_children_of_the_same_process_are_left_alone() {
    let server = Server::start();
    let shell = server.shell();
    let script = "sleep 1000 >/dev/null 2>&1 & echo $! >earlier; exec fencepost run d --ttl 2s -- true";
    shell.sh(script).exits(0);
    let earlier = std::fs::read_to_string(shell.path("earlier")).unwrap();
    send("TERM", earlier.trim().parse().unwrap());
}

/// `run` gets the orphans of whoever was there before, as it gets those of the command when its warden is killed.
///
/// Mutant: a warden that has ended by itself is not trusted to have had every orphan of the command.
#[test]
fn an_orphan_of_an_earlier_child_is_left_alone_at_an_ordinary_end() {
    let server = Server::start();
    let shell = server.shell();
    let script = "(until test -e here; do sleep 0.05; done; sleep 1000 & echo $! >late) >/dev/null 2>&1 &
        exec fencepost run d -- sh -c 'echo >here; until test -s late; do sleep 0.05; done'";
    shell.sh(script).exits(0);
    let late = std::fs::read_to_string(shell.path("late")).unwrap();
    shell.sh(&format!("kill {late}")).exits(0);
}

/// Nobody is left to kill the rest then: docs/run.md says so, and the receiver protects. Mutant: no parent-death signal.
#[test]
fn the_command_itself_dies_even_with_run_and_warden_killed_in_one_moment() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::start(&shell, &["d", "--ttl", "60s", "--", "sleep", "1000"]);
    running.becomes("sleep");
    let warden = running.warden();
    let both = format!("kill -9 {} {warden}", running.pid());
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    running.end();
    until("nothing of it lives", || running.all().is_empty());
}
