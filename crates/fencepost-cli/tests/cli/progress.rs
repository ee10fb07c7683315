//! Whatever takes longer than a second says so on a terminal, and only there.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use fencepost_testkit::torture::skip;

use crate::common::{Ran, Server, Shell, liar::silent, terminal::AtTerminal, until};

/// What takes a shown line away again.
const TAKEN_AWAY: &str = "\r\u{1b}[K";
const ID: &str = "0123456789abcdef0123456789abcdef";

/// A history that is not at its end before somebody says so.
fn endless(shell: &Shell) -> File {
    let made = Command::new("mkfifo").arg(shell.path("history")).status().unwrap();
    assert!(made.success());
    // For both ends, so that neither waits for the other.
    OpenOptions::new().read(true).write(true).open(shell.path("history")).unwrap()
}

const CALLS: &str = "{\"call\":1,\"who\":\"A\",\"do\":\"write\",\"domain\":\"d\",\"token\":\"0.8\",\"value\":\"x\"}\n\
                     {\"answer\":1,\"got\":\"applied\"}\n";

/// Mutants: nothing is drawn; the line stays when the work is done.
#[test]
fn a_long_check_says_that_it_reads_and_takes_that_back() {
    let shell = Shell::at("http://127.0.0.1:1");
    let mut history = endless(&shell);
    let mut checking = AtTerminal::start(&shell, &["check", "history"]);
    checking.shows("fencepost: reading history (1 s)");
    history.write_all(CALLS.as_bytes()).unwrap();
    drop(history);
    assert_eq!(checking.end().code(), Some(0));
    until("the line is taken away", || checking.terminal.shown().ends_with(TAKEN_AWAY));
}

/// Mutant: the line is written as it is.
#[test]
fn a_name_that_is_waited_for_is_not_shown_as_another() {
    let server = Server::start();
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "a\u{202e}b", "--ttl", "10m"]).exits(0);
    let waiting = AtTerminal::start(&shell, &["acquire", "a\u{202e}b", "--wait", "3s"]);
    waiting.shows("a\\u{202e}b");
    assert!(!waiting.terminal.shown().contains('\u{202e}'), "{}", waiting.terminal.shown());
}

/// A prompt comes at the beginning of a line. Mutants: nobody listens for signals; whoever listens does not end.
#[test]
fn a_key_that_ends_the_work_takes_its_line_away() {
    let shell = Shell::at("http://127.0.0.1:1");
    for (key, signal) in [(b"\x03", 2), (b"\x1c", 3)] {
        let _ = fs::remove_file(shell.path("history"));
        let _history = endless(&shell);
        let mut checking = AtTerminal::start(&shell, &["check", "history"]);
        checking.shows("fencepost: reading history (1 s)");
        checking.terminal.types(key);
        assert_eq!(checking.end().signal(), Some(signal));
        until("the line is taken away", || checking.terminal.shown().ends_with(TAKEN_AWAY));
    }
}

/// Mutant: the signal ends it, and its place in the queue is left behind.
#[test]
fn what_ends_a_wait_by_itself_takes_its_line_away_too() {
    let server = Server::start();
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let mut waiting = AtTerminal::start(&shell, &["acquire", "d", "--wait", "60s"]);
    waiting.shows("fencepost: waiting for d");
    waiting.terminal.types(b"\x03");
    assert_eq!(waiting.end().code(), Some(130));
    until("it says that it gave up", || waiting.terminal.shows("gave up waiting for d"));
    let shown = waiting.terminal.shown();
    let (before, _) = shown.rsplit_once("gave up").unwrap();
    assert!(before.contains(TAKEN_AWAY) && !before.rsplit_once(TAKEN_AWAY).unwrap().1.contains("waiting"), "{shown:?}");
    let queue = holder.run(&["show", "d", "--json"]).exits(0).json()["items"][0]["queue"].clone();
    assert_eq!(queue, 0, "it has left the queue");
}

#[test]
fn a_history_that_is_a_file_is_read_with_how_far_it_is() {
    let shell = Shell::at("http://127.0.0.1:1");
    // More than is read and checked in a second; where it is not, there is nothing to be told.
    let history: String = (0..200_000).map(|number| CALLS.replace('1', &number.to_string())).collect();
    fs::write(shell.path("history"), history).unwrap();
    let started = Instant::now();
    let mut checking = AtTerminal::start(&shell, &["check", "history"]);
    assert_eq!(checking.end().code(), Some(0));
    let shown = checking.terminal.shown();
    let is_told = shown.contains("fencepost: reading history, ") && shown.contains(" % (");
    let is_told = is_told || shown.contains("fencepost: checking 200000 calls");
    assert!(is_told || started.elapsed() < Duration::from_secs(2), "{shown:?}");
}

/// Mutant: it is told without a terminal, or beside JSON.
#[test]
fn without_a_terminal_and_for_programs_nothing_is_said() {
    let shell = Shell::at("http://127.0.0.1:1");
    let mut history = endless(&shell);
    let quiet = shell.command(&["check", "history"]).spawn().unwrap();
    let mut json = AtTerminal::start(&shell, &["check", "history", "--json"]);
    let mut loud = AtTerminal::start(&shell, &["check", "history"]);
    loud.shows("fencepost: reading history (2 s)");
    history.write_all(CALLS.as_bytes()).unwrap();
    // Each of them may have got a part of it; what counts is what was said until here.
    drop(history);
    json.end();
    loud.end();
    let said = json.terminal.shown();
    assert!(!said.contains("reading"), "{said:?}");
    let ran = Ran::of(quiet.wait_with_output().unwrap());
    assert!(!ran.stderr.contains("reading"), "{ran:?}");
}

/// Mutants: what was done for an answer is said while its reader takes its time.
#[test]
fn an_answer_whose_reader_is_slow_is_not_told_as_work() {
    let server = Server::start();
    let shell = server.shell();
    fs::write(shell.path("f"), "x".repeat(1_000_000)).unwrap();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let grant = fs::read_to_string(shell.path("grant")).unwrap();
    let script = "\"$0\" read file:f --grant \"$1\" | (sleep 2; wc -c) >read";
    let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_fencepost"), &grant];
    let (terminal, mut command) = crate::common::terminal::Terminal::with(&shell, &words);
    assert_eq!(command.stdout(Stdio::null()).status().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(shell.path("read")).unwrap().trim(), "1000000");
    assert_eq!(terminal.shown(), "");
}

/// Mutant: the work waits for the terminal.
#[test]
fn a_terminal_that_is_stopped_stops_no_work() {
    let shell = Shell::at("http://127.0.0.1:1");
    let mut history = endless(&shell);
    let mut checking = AtTerminal::start(&shell, &["check", "history"]);
    checking.shows("fencepost: reading history (1 s)");
    checking.terminal.types(b"\x13");
    // bounded: by then the next second is to be drawn
    thread::sleep(Duration::from_millis(1_500));
    history.write_all(CALLS.as_bytes()).unwrap();
    drop(history);
    assert_eq!(checking.end().code(), Some(0));
}

/// A job in the background writes to nobody's terminal. Mutant: it is not asked whether it is in the foreground.
#[test]
fn a_command_in_the_background_says_nothing() {
    let shell = Shell::at("http://127.0.0.1:1");
    let mut history = endless(&shell);
    let script = "set -m; \"$0\" check history </dev/null & wait";
    let (terminal, mut command) =
        crate::common::terminal::Terminal::with(&shell, &["sh", "-c", script, env!("CARGO_BIN_EXE_fencepost")]);
    let mut background = command.stdout(Stdio::null()).spawn().unwrap();
    let mut loud = AtTerminal::start(&shell, &["check", "history"]);
    loud.shows("fencepost: reading history (2 s)");
    history.write_all(CALLS.as_bytes()).unwrap();
    drop(history);
    loud.end();
    background.wait().unwrap();
    assert!(!terminal.shows("reading"), "{:?}", terminal.shown());
}

/// A terminal that knows no codes gets lines, and no code.
#[test]
fn a_terminal_that_can_take_nothing_back_gets_lines() {
    let shell = Shell::at("http://127.0.0.1:1");
    let history = endless(&shell);
    let mut checking = AtTerminal::start_in(&shell, &["check", "history"], &[("TERM", "dumb")]);
    checking.shows("fencepost: reading history (1 s)\r\n");
    drop(history);
    assert_eq!(checking.end().code(), Some(64));
    assert!(!checking.terminal.shows("\u{1b}"), "{:?}", checking.terminal.shown());
}

/// Mutant: the lock is not looked at.
#[test]
fn a_write_that_waits_for_a_lock_says_who_has_it() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let grant = fs::read_to_string(shell.path("grant")).unwrap();
    let lock = File::open(shell.path(".f.lock")).unwrap();
    lock.lock().unwrap();
    fs::write(shell.path("input"), "x").unwrap();
    let script = "exec \"$0\" write file:f --grant \"$1\" <input";
    let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_fencepost"), &grant];
    let (terminal, mut command) = crate::common::terminal::Terminal::with(&shell, &words);
    let mut writing = command.stdout(Stdio::null()).spawn().unwrap();
    let told = format!("fencepost: waiting for file:f, which process {} has locked (", std::process::id());
    until("it says who has the lock", || terminal.shows(&told));
    lock.unlock().unwrap();
    assert_eq!(writing.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(shell.path("f")).unwrap(), "x");
}

#[test]
fn a_pipe_that_is_slow_is_told_as_that() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let grant = fs::read_to_string(shell.path("grant")).unwrap();
    let script = "(until test -e go; do sleep 0.05; done; echo x) | \"$0\" write file:f --grant \"$1\"";
    let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_fencepost"), &grant];
    let (terminal, mut command) = crate::common::terminal::Terminal::with(&shell, &words);
    let mut writing = command.stdout(Stdio::null()).spawn().unwrap();
    until("it says what it waits for", || terminal.shows("fencepost: reading standard input, to its end ("));
    fs::write(shell.path("go"), "").unwrap();
    assert_eq!(writing.wait().unwrap().code(), Some(0));
}

/// Mutant: any of them asks without a word.
#[test]
fn every_command_that_asks_the_coordinator_says_so() {
    let (_listener, url) = silent();
    let server = Server::start();
    let guarded = server.shell();
    let database = guarded.database("x.db", "CREATE TABLE t (d TEXT)");
    guarded.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    guarded.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    guarded.run(&["acquire", "d"]).exits(0);
    // The session file says which coordinator it is.
    let kept = fs::read_to_string(guarded.session_file()).unwrap().replace(&server.url, &url);
    fs::write(guarded.session_file(), kept).unwrap();
    let asking = format!("fencepost: asking the coordinator at {url} (");
    let all: Vec<(Shell, AtTerminal)> = [
        &["ls"][..],
        &["show", "d"],
        &["history", "d"],
        &["watch"],
        &["explain", "d"],
        &["explain", "--token", "0.1"],
        &["guard", "file:new", "--domain", "new"],
        &["collect", &database],
        &["collect", "file:f"],
        &["recover", &database],
        &["recover", "file:f"],
        &["break", "d", "--lease", ID, "--reason", "r"],
        &["renew"],
        &["release"],
    ]
    .iter()
    .map(|words| {
        let shell = Shell { folder: linked(&guarded), url: url.clone() };
        let asking = AtTerminal::start(&shell, words);
        (shell, asking)
    })
    .collect();
    for (_, one) in &all {
        one.shows(&asking);
    }
    let shell = Shell::at(&url);
    let acquiring = AtTerminal::start(&shell, &["acquire", "d"]);
    acquiring.shows(&asking);
}

/// A folder in which the same files are.
fn linked(shell: &Shell) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(shell.folder.path()).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

#[test]
fn an_acquire_that_stands_in_the_queue_says_for_what_and_who_has_it() {
    let server = Server::start();
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "d", "--ttl", "60s", "--holder", "somebody else"]).exits(0);
    let mut waiting = AtTerminal::start(&shell, &["acquire", "d", "--wait", "60s"]);
    waiting.shows("fencepost: waiting for d, held by somebody else (");
    holder.run(&["release"]).exits(0);
    assert_eq!(waiting.end().code(), Some(0));
}

/// Mutant: any of them works on in silence.
#[test]
fn whoever_waits_for_a_database_says_so() {
    let server = Server::start();
    let shell = server.shell();
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    shell.run(&["run", "d", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let grant = fs::read_to_string(shell.path("grant")).unwrap();
    let blocker = rusqlite::Connection::open(shell.path("x.db")).unwrap();
    blocker.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let all = [
        (&["guard", &database, "t", "--domain", "d"][..], format!("fencepost: guarding t in {database} (")),
        (&["advance", &database, "--grant", &grant], format!("fencepost: raising the fence in {database} (")),
        (&["unguard", &database, "t"], format!("fencepost: taking the guards out of {database} (")),
    ];
    let all: Vec<_> = all.iter().map(|(words, told)| (AtTerminal::start(&shell, words), told)).collect();
    for (one, told) in &all {
        one.shows(told);
    }
}

/// Keeps whoever opens a file for writing waiting for as long as it is not told to let go.
const LEASE: &str = "
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print('held', flush=True)
sys.stdin.read()
";

#[test]
fn a_store_that_takes_long_to_open_is_told() {
    let mut server = Server::start();
    server.kill();
    let shell = server.shell();
    let lock = server.data().join("lock");
    let mut command = Command::new("python3");
    let held = command.args(["-c", LEASE]).arg(lock).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut held) = held.spawn() else { return skip("a store that takes long to open", "no python3") };
    let mut word = [0; 5];
    if held.stdout.take().unwrap().read_exact(&mut word).is_err() {
        return skip("a store that takes long to open", "this file system gives no leases");
    }
    let data = server.data().to_str().unwrap().to_owned();
    let opening = AtTerminal::start(&shell, &["serve", "--data", &data, "--listen", "127.0.0.1:0"]);
    opening.shows(&format!("fencepost: opening the store in {data}, 1 MB ("));
    drop(held.stdin.take());
    held.wait().unwrap();
    opening.shows("listening");
    let shown = opening.terminal.shown();
    let (_, after) = shown.rsplit_once("opening the store").unwrap();
    assert!(after.contains(TAKEN_AWAY), "the line is taken away before the log goes on: {shown:?}");
}
