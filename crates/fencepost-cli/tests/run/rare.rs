//! Ends that come rarely: each is told as what is known of it, and none keeps `run` from ending.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fencepost_testkit::torture::skip;
use serde_json::Value;

use crate::{
    common::{
        Server, Shell,
        liar::{Act, Liar},
        send, until,
    },
    processes::{Running, last_beat, now_ms, stops_wholly},
    standby::own_group,
};

/// What `run` has written to the file of its status.
#[track_caller]
fn status(shell: &Shell) -> Value {
    let line = fs::read_to_string(shell.path("status")).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

/// `run` with its status in a file, begun by `prefix`.
fn noted(shell: &Shell, prefix: &[&str], arguments: &[&str]) -> Running {
    let template = shell.command(&[] as &[&str]);
    let words = [prefix, &[env!("CARGO_BIN_EXE_fencepost"), "run", "--status-fd", "3"], arguments].concat();
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3>status; exec \"$@\"", "sh"]).args(words).current_dir(shell.folder.path());
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Running::of_quiet(command)
}

/// A `run` that stands in the queue with everything ready, and who holds the domain.
fn waiting(server: &Server, prefix: &[&str], options: &[&str]) -> (Shell, Shell, Running) {
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "d", "--ttl", "60s", "--holder", "earlier"]).exits(0);
    let running = noted(&shell, prefix, &[&["d", "--wait", "5m"], options, &["--", "touch", "ran"]].concat());
    running.first();
    until("it stands in the queue", || item(&holder)["queue"] == 1);
    (holder, shell, running)
}

fn item(shell: &Shell) -> Value {
    shell.run(&["show", "d", "--json"]).exits(0).json()["items"][0].clone()
}

/// How often a process has written anything; `None` where the system does not say.
fn writes(pid: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("syscw: ")).and_then(|number| number.trim().parse().ok())
}

/// Mutant: a warden that says nothing more once it has opened the gate is taken to have started nothing.
#[test]
fn a_warden_that_is_killed_at_the_open_gate_leaves_it_unknown_whether_the_command_ran() {
    let server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &[], &[]);
    let warden = running.warden();
    let Some(before) = writes(warden) else { return skip("a warden killed at the gate", "no /proc/PID/io") };
    send("STOP", running.first());
    holder.run(&["release"]).exits(0);
    until("it has said so, and opened the gate", || writes(warden).is_some_and(|now| now >= before + 2));
    send("KILL", warden);
    running.ends_with(82);
    running.is_gone();
    assert!(running.told().contains("not known whether the command was started"), "{}", running.told());
    assert!(running.told().contains("fencepost "), "{}", running.told());
    let status = status(&shell);
    assert_eq!((&status["outcome"], &status["exit_code"]), (&"unknown".into(), &82.into()), "{status}");
    assert_eq!(status["problem"]["may_have_happened"], true, "{status}");
    assert_eq!(status["problem"]["retryable"], false, "a program would run it a second time: {status}");
    assert_eq!(status["released"], true, "{status}");
}

/// Mutant: a process that was never the command is told as a command that was stopped.
#[test]
fn a_process_that_is_stopped_at_the_gate_until_the_lease_ends_is_told_as_no_start() {
    let mut server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &[], &["--ttl", "2s"]);
    send("STOP", running.first());
    holder.run(&["release"]).exits(0);
    until("it has the lease", || item(&holder)["holder"] != "earlier");
    server.kill();
    running.ends_with(80);
    running.is_gone();
    let status = status(&shell);
    assert_eq!(status["outcome"], "not_started", "{status}");
    assert!(running.told().contains("was not started") && !shell.path("ran").exists(), "{}", running.told());
}

/// The end of the lease is not its end by time, so there would be time enough to start something.
/// Mutant: TERM, and CONT for who is stopped, also to a process that waits at the gate and ignores TERM.
#[test]
fn a_lease_that_is_broken_while_a_process_is_stopped_at_the_gate_starts_nothing() {
    let server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &["env", "--ignore-signal=TERM"], &["--ttl", "9s"]);
    send("STOP", running.first());
    holder.run(&["release"]).exits(0);
    until("it has the lease", || item(&holder)["holder"] != "earlier");
    let lease = item(&holder)["lease"].clone();
    holder.run(&["break", "d", "--lease", lease.as_str().unwrap(), "--reason", "stuck"]).exits(0);
    running.ends_with(80);
    running.is_gone();
    assert!(running.told().contains("was not started") && !shell.path("ran").exists(), "{}", running.told());
    assert_eq!(status(&shell)["outcome"], "not_started");
}

/// Mutant: what the first process ends with is told as the end of the command.
#[test]
fn a_process_at_the_gate_that_ignores_term_ends_with_the_lease_and_is_told_as_no_start() {
    let mut server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &["env", "--ignore-signal=TERM"], &["--ttl", "2s"]);
    send("STOP", running.first());
    holder.run(&["release"]).exits(0);
    until("it has the lease", || item(&holder)["holder"] != "earlier");
    server.kill();
    running.ends_with(80);
    running.is_gone();
    let status = status(&shell);
    assert_eq!((&status["outcome"], &status["command_exit_code"]), (&"not_started".into(), &Value::Null), "{status}");
    assert!(running.told().contains("was lost before the command came to run"), "{}", running.told());
    assert!(!shell.path("ran").exists());
}

#[test]
fn whoever_waits_with_term_ignored_ends_by_int_and_leaves_nothing() {
    let server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &["env", "--ignore-signal=TERM"], &[]);
    send("TERM", running.first());
    send("TERM", running.warden());
    send("TERM", running.pid());
    assert_eq!(item(&holder)["queue"], 1, "nobody minds it");
    send("INT", running.pid());
    running.ends_with(130);
    running.is_gone();
    assert!(!shell.path("ran").exists());
}

#[test]
fn a_process_that_is_killed_just_before_the_start_is_told_as_that() {
    let server = Server::start();
    let (holder, shell, mut running) = waiting(&server, &[], &[]);
    // Neither hears of the other before both have happened.
    send("STOP", running.warden());
    send("KILL", running.first());
    holder.run(&["release"]).exits(0);
    until("it has the lease", || item(&holder)["holder"] != "earlier");
    send("CONT", running.warden());
    running.ends_with(137);
    assert!(running.told().contains("was ended by signal 9"), "{}", running.told());
    assert_eq!(status(&shell)["outcome"], "not_started");
    assert!(!shell.path("ran").exists());
}

/// A program that cannot be run is no program that ran.
#[test]
fn a_command_that_cannot_be_run_is_told_as_no_start() {
    let server = Server::start();
    let shell = server.shell();
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let mut running = noted(&shell, &[], &["d", "--", program]);
        running.ends_with(code);
        let status = status(&shell);
        assert_eq!((&status["outcome"], &status["exit_code"]), (&"not_started".into(), &code.into()), "{status}");
        assert_eq!(status["pid"], Value::Null, "{status}");
        assert!(running.told().contains("cannot be run"), "{}", running.told());
    }
}

/// Nobody stopped it, and nobody says so.
/// Mutants: an end after that of the lease is told as a stop; the warden looks at the clock after it has looked at its
/// children (now and then).
#[test]
fn a_command_that_ends_by_itself_after_the_lease_is_told_as_that() {
    let server = Server::start();
    let shell = server.shell();
    let script = "echo >up; until test -e go; do sleep 0.02; done; exit 0";
    let mut running = noted(&shell, &[], &["d", "--ttl", "2s", "--", "sh", "-c", script]);
    until("it runs", || shell.path("up").exists());
    let warden = running.warden();
    send("STOP", running.pid());
    send("STOP", warden);
    until("another gets the domain", || shell.run(&["run", "d", "--", "true"]).code == Some(0));
    fs::write(shell.path("go"), "").unwrap();
    until("the command has ended", || running.members().is_empty());
    send("CONT", warden);
    // Else `run` may find its warden too late, and nobody could know.
    until("the warden has told", || !running.all().contains(&warden));
    send("CONT", running.pid());
    running.ends_with(80);
    let told = running.told();
    assert!(told.contains("ended only after that, with exit code 0") && !told.contains("was stopped:"), "{told}");
    let status = status(&shell);
    assert_eq!((&status["outcome"], &status["command_exit_code"]), (&"lease_lost".into(), &0.into()), "{status}");
    assert_eq!(status["problem"]["may_have_happened"], true, "{status}");
}

/// Mutants: a message is waited for without an end; each event puts off the look at the leases.
#[test]
fn a_warden_that_takes_no_more_messages_keeps_run_from_nothing() {
    let mut server = Server::start();
    let shell = server.shell();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "9s"]);
    send("STOP", running.warden());
    // Many more than the connection has room for, and they do not end before `run` does.
    let storm =
        format!("while kill -HUP {pid} && kill -INT {pid} && kill -TERM {pid}; do :; done", pid = running.pid());
    let mut storm = Command::new("sh").args(["-c", &storm]).stderr(Stdio::null()).spawn().unwrap();
    server.kill();
    let killed = now_ms();
    running.ends_with(80);
    running.is_gone();
    let last = last_beat(&shell);
    assert!(last <= killed + 9_000 * 9 / 10, "it ran {} ms after the last renewal", last - killed);
    storm.wait().unwrap();
}

/// Every process of it is gone before anybody can have looked at it, and has begun the next.
const COMET: &str = "#!/bin/sh\n: >>beat; \"$0\" & exit 0\n";

#[test]
fn a_command_that_multiplies_faster_than_it_can_be_looked_at_is_killed_in_one_step() {
    if own_group().is_none() {
        return skip("a command that multiplies", "no rights to make a control group");
    }
    let server = Server::start();
    let shell = server.shell();
    fs::write(shell.path("comet"), COMET).unwrap();
    let script = "chmod +x comet; trap '' TERM; for n in 1 2 3 4 5 6 7 8; do ./comet & done; echo >up; sleep 1000";
    let options = ["d", "--ttl", "9s", "--stop-after", "100ms", "--", "sh", "-c", script];
    let mut running = Running::start(&shell, &options);
    until("it multiplies", || shell.path("beat").exists() && shell.path("up").exists());
    let lease = item(&shell)["lease"].clone();
    shell.run(&["break", "d", "--lease", lease.as_str().unwrap(), "--reason", "a bomb"]).exits(0);
    running.ends_with(80);
    running.is_gone();
}

/// Somebody who takes every connection and answers nothing.
fn silent() -> (TcpListener, Shell) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shell = Shell::at(&format!("http://{}", listener.local_addr().unwrap()));
    (listener, shell)
}

/// Mutant: signals are not listened to while the session is opened.
#[test]
fn a_coordinator_that_hangs_starts_nothing_and_keeps_nobody() {
    let (_listener, shell) = silent();
    for wait in [&[][..], &["--if-held", "wait"]] {
        let mut running = Running::start(&shell, &[&["d"], wait, &["--", "touch", "ran"]].concat());
        running.first();
        let sent = Instant::now();
        send("TERM", running.pid());
        running.ends_with(143);
        running.is_gone();
        assert!(sent.elapsed() < Duration::from_secs(10) && !shell.path("ran").exists());
    }
    let mut running = Running::start(&shell, &["d", "--", "touch", "ran"]);
    running.ends_with(69);
    assert!(running.told().contains("did not answer") && !shell.path("ran").exists(), "{}", running.told());
}

#[test]
fn a_grant_that_never_comes_starts_nothing() {
    let server = Server::start();
    let shell = Shell::at(&Liar::before(&server.url, "/v1/leases", |_| Act::Hang).url);
    let mut running = Running::start(&shell, &["d", "--ttl", "2s", "--", "touch", "ran"]);
    running.ends_with(69);
    running.is_gone();
    assert!(!shell.path("ran").exists());
    server.shell().run(&["run", "d", "--wait", "30s", "--", "true"]).exits(0);
}

/// Heartbeats are sent, and nothing comes back.
#[test]
fn a_coordinator_that_hangs_while_the_command_runs_has_it_stopped_in_time() {
    let server = Server::start();
    let shell = Shell::at(&Liar::before(&server.url, "/heartbeat", |_| Act::Hang).url);
    let begun = now_ms();
    let mut running = Running::stubborn(&shell, &["d", "--ttl", "5s"]);
    let runs = now_ms();
    running.ends_with(80);
    running.is_gone();
    let last = last_beat(&shell);
    assert!(last <= runs + 5_000 * 9 / 10, "it ran {} ms", last - begun);
}

/// Mutant: giving back is waited for without an end.
#[test]
fn a_coordinator_that_hangs_at_the_end_does_not_change_how_the_command_ended() {
    let server = Server::start();
    let shell = server.shell();
    let script = format!("{}; exit 3", stops_wholly(server.pid()));
    let mut running = Running::start(&shell, &["d", "--ttl", "60s", "--", "sh", "-c", &script]);
    running.ends_with(3);
    running.is_gone();
    assert!(running.told().contains("has not confirmed the release"), "{}", running.told());
    send("CONT", server.pid());
}

/// The end of a part is no reason to hang either.
#[test]
fn a_run_whose_parts_are_all_stopped_and_killed_in_any_order_ends() {
    let server = Server::start();
    for order in [["warden", "first"], ["first", "warden"]] {
        let (holder, shell, mut running) = waiting(&server, &[], &["--ttl", "2s"]);
        let (warden, first) = (running.warden(), running.first());
        for part in order {
            send("STOP", if part == "warden" { warden } else { first });
        }
        for part in order {
            // The end of the warden may have been that of the other already.
            let pid = if part == "warden" { warden } else { first }.to_string();
            Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status().unwrap();
            // bounded: a moment for the end of one to be seen before that of the other
            thread::sleep(Duration::from_millis(20));
        }
        let ended = running.end();
        assert_eq!(ended.code(), Some(137), "{order:?}: {:?}", ended.signal());
        assert!(!shell.path("ran").exists());
        holder.run(&["release"]).exits(0);
    }
}
