//! On a terminal: what is said there, and what its keys do.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use signal_hook::iterator::{SignalsInfo, exfiltrator::WithOrigin};

use crate::{
    common::{Server, Shell, until},
    processes::Running,
};

/// A terminal with somebody at it.
struct Terminal {
    keys: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts `fencepost run` there.
    fn run(shell: &Shell, arguments: &[&str]) -> (Self, Running) {
        Self::start(shell, &[&[env!("CARGO_BIN_EXE_fencepost"), "run"], arguments].concat())
    }

    /// Starts a command with this terminal as its own, leading a session there as a login shell does.
    fn start(shell: &Shell, words: &[&str]) -> (Self, Running) {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(words).current_dir(shell.folder.path());
        command.env("FENCEPOST_URL", &shell.url).env_remove("NO_COLOR");
        command.stdin(theirs.try_clone().unwrap()).stderr(theirs);
        let running = Running::of(command);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut screen, kept) = (File::from(ours.try_clone().unwrap()), shown.clone());
        thread::spawn(move || {
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                kept.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        (Self { keys: File::from(ours), shown }, running)
    }

    fn shows(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).contains(text)
    }
}

/// Mutant: what comes from the terminal is passed on as well.
#[test]
fn control_c_reaches_the_command_once_and_run_stays_for_its_answer() {
    let server = Server::start();
    let shell = server.shell();
    let program = std::env::current_exe().unwrap();
    let words = [program.to_str().unwrap(), "--exact", "terminal::a_program_that_counts_interrupts", "--nocapture"];
    let command = ["env", "COUNTS_INTERRUPTS=yes"];
    let (mut terminal, mut running) = Terminal::run(&shell, &[&["d", "--"], &command[..], &words[..]].concat());
    until("it runs", || shell.path("up").exists());
    terminal.keys.write_all(b"\x03").unwrap();
    until("the command has it", || shell.path("got").exists());
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
    let mut rounds_left = 200;
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
    let (mut terminal, mut running) = Terminal::run(&shell, &["d", "--", "sleep", "1000"]);
    running.becomes("sleep");
    terminal.keys.write_all(b"\x03").unwrap();
    running.ends_with(130);
}

#[test]
fn the_command_reads_what_is_typed() {
    let server = Server::start();
    let shell = server.shell();
    let (mut terminal, mut running) = Terminal::run(&shell, &["d", "--", "sh", "-c", "read line; echo $line >typed"]);
    terminal.keys.write_all(b"hello\n").unwrap();
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
    let (mut terminal, mut running) = Terminal::start(&shell, &["bash", "-c", &script]);
    let kept = |name: &str| std::fs::read_to_string(shell.path(name)).unwrap_or_default().trim().to_owned();
    until("it runs", || !kept("up").is_empty());
    terminal.keys.write_all(b"\x1a").unwrap();
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
    let (terminal, mut running) = Terminal::run(&shell, &["d", "--", "true"]);
    running.ends_with(0);
    until("it is told", || terminal.shows("holding d with token 0.") && terminal.shows("FencedOnFirstWrite"));
}

#[test]
fn it_says_what_it_waits_for_and_who_has_it() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "60s", "--holder", "somebody else"]).exits(0);
    let (terminal, mut running) = Terminal::run(&shell, &["d", "--ttl", "60s", "--wait", "60s", "--", "true"]);
    until("ten seconds are over", || terminal.shows("waiting for d, held by somebody else (10 s)"));
    shell.run(&["release"]).exits(0);
    running.ends_with(0);
}
