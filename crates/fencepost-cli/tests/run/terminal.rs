//! On a terminal: what is said there, and what its keys do.

use std::{fs::File, io::Write, path::Path, thread, time::Duration};

use fencepost_testkit::torture::skip;
use signal_hook::iterator::{SignalsInfo, exfiltrator::WithOrigin};

use crate::{
    common::{Server, Shell, send, terminal::Terminal, until},
    processes::{Running, stops_wholly},
};

/// Starts `fencepost run` at a terminal.
fn run(shell: &Shell, arguments: &[&str]) -> (Terminal, Running) {
    start(shell, &[&[env!("CARGO_BIN_EXE_fencepost"), "run"], arguments].concat())
}

/// Starts a command at a terminal.
fn start(shell: &Shell, words: &[&str]) -> (Terminal, Running) {
    let (terminal, command) = Terminal::with(shell, words);
    (terminal, Running::of(command))
}

/// Mutant: what comes from the terminal is passed on as well.
#[test]
fn control_c_reaches_the_command_once_and_run_stays_for_its_answer() {
    let server = Server::start();
    let shell = server.shell();
    let program = std::env::current_exe().unwrap();
    let words = [program.to_str().unwrap(), "--exact", "terminal::a_program_that_counts_interrupts", "--nocapture"];
    let command = ["env", "COUNTS_INTERRUPTS=yes"];
    let (mut terminal, mut running) = run(&shell, &[&["d", "--"], &command[..], &words[..]].concat());
    until("it runs", || shell.path("up").exists());
    // Two at once are one: the command is to have its own before `run` hears of it.
    send("STOP", running.pid());
    terminal.types(b"\x03");
    until("the command has it", || shell.path("got").exists());
    send("CONT", running.pid());
    std::fs::write(shell.path("go"), "").unwrap();
    running.ends_with(6);
    assert_eq!(std::fs::read_to_string(shell.path("got")).unwrap(), "x");
}

/// Not a test by itself: a command that sees every signal, where a shell may merge two.
#[test]
fn a_program_that_counts_interrupts() {
    if std::env::var_os("COUNTS_INTERRUPTS").is_none() {
        return;
    }
    let mut interrupts = SignalsInfo::<WithOrigin>::new([2]).unwrap();
    let mut got = None;
    File::create("up").unwrap();
    let mut rounds_left = 500;
    while rounds_left > 0 {
        for _ in interrupts.pending() {
            got.get_or_insert_with(|| File::create("got").unwrap()).write_all(b"x").unwrap();
        }
        // Once the test goes on, a second one has as long as this to arrive.
        rounds_left -= i32::from(Path::new("go").exists());
        // bounded: a short look again and again, or time that has to pass for the story
        thread::sleep(Duration::from_millis(1));
    }
    std::process::exit(6);
}

#[test]
fn control_c_ends_a_command_that_takes_it() {
    let server = Server::start();
    let shell = server.shell();
    let (mut terminal, mut running) = run(&shell, &["d", "--", "sleep", "1000"]);
    running.becomes("sleep");
    terminal.types(b"\x03");
    running.ends_with(130);
}

#[test]
fn the_command_reads_what_is_typed() {
    let server = Server::start();
    let shell = server.shell();
    let (mut terminal, mut running) = run(&shell, &["d", "--", "sh", "-c", "read line; echo $line >typed"]);
    terminal.types(b"hello\n");
    running.ends_with(0);
    assert_eq!(std::fs::read_to_string(shell.path("typed")).unwrap(), "hello\n");
}

/// Mutant: the warden does not survive TSTP.
#[test]
fn control_z_stops_the_command_and_the_end_of_the_lease_still_ends_it() {
    let server = Server::start();
    let shell = server.shell();
    // The key stops a group only where a shell of the same session is there to continue it.
    let script = format!(
        "set -m; {} run d --ttl 2s -- sh -c 'echo $$ >up; while :; do sleep 0.05; done'; echo $? >stopped; \
         while ! test -e go; do sleep 0.05; done; fg >/dev/null; echo $? >code",
        env!("CARGO_BIN_EXE_fencepost")
    );
    let (mut terminal, mut running) = start(&shell, &["bash", "-c", &script]);
    let kept = |name: &str| std::fs::read_to_string(shell.path(name)).unwrap_or_default().trim().to_owned();
    until("it runs", || !kept("up").is_empty());
    terminal.types(b"\x1a");
    until("it is stopped", || kept("stopped") == "148");
    until("the lease has ended, and the command with it", || !Path::new("/proc").join(kept("up")).exists());
    std::fs::write(shell.path("go"), "").unwrap();
    running.ends_with(0);
    assert_eq!(kept("code"), "80");
}

#[test]
fn it_says_what_it_holds_and_what_that_promises() {
    let server = Server::start();
    let shell = server.shell();
    let (terminal, mut running) = run(&shell, &["d", "--", "true"]);
    running.ends_with(0);
    until("it is told", || terminal.shows("holding d with token 0.") && terminal.shows("FencedOnFirstWrite"));
}

#[test]
fn it_says_what_it_waits_for_and_who_has_it() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "60s", "--holder", "somebody else"]).exits(0);
    let (terminal, mut running) = run(&shell, &["d", "--ttl", "60s", "--wait", "60s", "--", "true"]);
    until("ten seconds are over", || terminal.shows("waiting for d, held by somebody else (10 s)"));
    shell.run(&["release"]).exits(0);
    running.ends_with(0);
}

/// As a job finds it that ran too short a time ago. Mutant: only holders are looked for.
#[test]
fn it_says_until_when_nobody_gets_the_domain() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["run", "d", "--min-hold", "1h", "--", "true"]).exits(0);
    let (terminal, mut running) = run(&shell, &["d", "--wait", "60s", "--", "true"]);
    until("a second is over", || terminal.shows("waiting for d, reserved (min_hold) for "));
    send("TERM", running.pid());
    running.ends_with(143);
}

/// Mutant: the session is opened in silence.
#[test]
fn it_says_that_it_waits_for_a_coordinator_that_is_away() {
    let shell = Shell::at("http://127.0.0.1:1");
    let (terminal, mut running) = run(&shell, &["d", "--if-held", "wait", "--", "true"]);
    until("a second is over", || terminal.shows("waiting for the coordinator at http://127.0.0.1:1: "));
    assert!(terminal.shows("Connection refused") && terminal.shows(" (1 s)"), "{}", terminal.shown());
    until("ten seconds are over", || terminal.shows(" (10 s)"));
    send("TERM", running.pid());
    running.ends_with(143);
}

/// Nothing is known of it but that it is silent.
#[test]
fn it_says_that_it_waits_for_a_coordinator_that_hangs() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (terminal, mut running) = run(&Shell::at(&url), &["d", "--", "true"]);
    until("a second is over", || terminal.shows(&format!("waiting for the coordinator at {url} (1 s)")));
    send("TERM", running.pid());
    running.ends_with(143);
}

#[test]
fn it_says_within_a_second_or_so_what_it_waits_for() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "60s", "--holder", "somebody else"]).exits(0);
    let (terminal, mut running) = run(&shell, &["d", "--ttl", "60s", "--wait", "60s", "--", "true"]);
    until("a second is over", || terminal.shows("waiting for d, held by somebody else (1 s)"));
    shell.run(&["release"]).exits(0);
    running.ends_with(0);
}

#[test]
fn it_says_what_it_waits_for_when_the_command_has_ended() {
    let server = Server::start();
    let shell = server.shell();
    let script = format!("trap '' TERM; (sleep 3 &); {}; exit 3", stops_wholly(server.pid()));
    let (terminal, mut running) = run(&shell, &["d", "--ttl", "60s", "--", "sh", "-c", &script]);
    until("what is left is told", || terminal.shows("waiting for what the command has left behind to end (1 s)"));
    until("the release is told", || terminal.shows("waiting for the coordinator to confirm the release (1 s)"));
    running.ends_with(3);
    send("CONT", server.pid());
}

fn catches_quit(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & (1 << 2) != 0)
}

/// A terminal sends QUIT to the whole group, also to those of us that only wait, and nobody wants an image of those.
/// Mutant: the process at the gate takes QUIT as it comes.
#[test]
fn control_backslash_ends_a_wait_and_leaves_no_image_of_ours() {
    let server = Server::start();
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    if shell.sh("ulimit -c unlimited").code != Some(0) {
        return skip("images of processes that QUIT ends", "this process may have none");
    }
    let line = format!("ulimit -c unlimited; exec {} run d --wait 5m -- true", env!("CARGO_BIN_EXE_fencepost"));
    let (mut terminal, mut running) = start(&shell, &["sh", "-c", &line]);
    for part in [running.pid(), running.warden(), running.first()] {
        until("it is there, and minds the signal", || catches_quit(part));
    }
    terminal.types(b"\x1c");
    running.ends_with(131);
    let left: Vec<_> =
        std::fs::read_dir(shell.folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn control_backslash_reaches_the_command_and_its_answer_comes_back() {
    let server = Server::start();
    let shell = server.shell();
    let script = "trap 'exit 7' QUIT; echo >up; while :; do sleep 0.02; done";
    let line = format!("ulimit -c unlimited; exec {} run d -- sh -c \"$0\"", env!("CARGO_BIN_EXE_fencepost"));
    let (mut terminal, mut running) = start(&shell, &["sh", "-c", &line, script]);
    until("it runs", || shell.path("up").exists());
    terminal.types(b"\x1c");
    running.ends_with(7);
    let (mut terminal, mut running) = run(&shell, &["d", "--", "sleep", "1000"]);
    running.becomes("sleep");
    terminal.types(b"\x1c");
    running.ends_with(131);
}

/// Mutant: the receivers are looked at by whoever also tells of it.
#[test]
fn it_says_that_it_waits_for_a_receiver_that_is_locked() {
    let server = Server::start();
    let shell = server.shell();
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    let blocker = rusqlite::Connection::open(shell.path("x.db")).unwrap();
    blocker.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let (terminal, mut running) = run(&shell, &["d", "--advance", &database, "--", "touch", "ran"]);
    until("a second is over", || terminal.shows("waiting for the receivers to be looked at (1 s)"));
    drop(blocker);
    running.end();
}
