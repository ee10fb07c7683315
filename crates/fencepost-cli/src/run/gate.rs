//! The first process of the command: it is started while the leases are still being acquired, and waits at a gate.
//!
//! The gate is the process' standard input. A start that can be read whole, in time, opens it; the end of the connection,
//! or anything else, ends the process with nothing started. What the command shall have as standard input comes first,
//! the way it came to the warden.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Socket, process::CommandExt},
    },
    process::{self, Stdio},
};

use fencepost_client::{BootClock, Clock};
use fencepost_core::Moment;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::{
    environment,
    link::{Order, Start, hand_over, take_over},
};
use crate::{exit::Exit, failure::Failure, shell};

/// The word by which this program is the first process.
pub(crate) const BECOME: &str = "run-become";

/// What the warden has of the first process.
#[derive(Debug)]
pub(crate) struct Gate {
    socket: Socket,
    pid: Pid,
}

impl Gate {
    /// Starts the first process of this command. It waits.
    ///
    /// # Errors
    /// What the system says. No process is left behind the gate then.
    pub(crate) fn set(command: &[OsString], stdin: &OwnedFd) -> io::Result<Self> {
        let (socket, theirs) = Socket::pair()?;
        // Handed over before anybody could be late to take it.
        hand_over(&socket, stdin)?;
        let mut first = process::Command::new("/proc/self/exe");
        first.arg0("fencepost").args([BECOME, &process::id().to_string(), "--"]).args(command);
        let child = first.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok(Self { socket, pid: Pid::from_child(&child) })
    }

    /// Who waits there.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Opens it: from here on the command runs.
    ///
    /// # Errors
    /// When the system does not take the message. The gate is shut for ever then.
    pub(crate) fn open(mut self, start: Start) -> io::Result<()> {
        // A process that is stopped must not stop the warden with it.
        self.socket.set_nonblocking(true)?;
        self.socket.write_all(format!("{}\n", Order::Start(start)).as_bytes())
    }
}

/// What the first process is started with.
#[derive(Debug)]
pub(crate) struct BecomeArgs {
    parent: u32,
    command: Vec<OsString>,
}

impl BecomeArgs {
    /// Reads what [`Gate::set`] has written.
    pub(crate) fn parse(arguments: &[OsString]) -> Option<Self> {
        let [parent, dashes, command @ ..] = arguments else { return None };
        let is_whole = dashes == "--" && !command.is_empty();
        is_whole.then_some(Self { parent: parent.to_str()?.parse().ok()?, command: command.to_vec() })
    }
}

/// Waits at the gate, and becomes the command once it is open.
///
/// # Errors
/// Why it did not become the command, where somebody is there to be told.
pub(crate) fn become_command(args: &BecomeArgs) -> Result<Exit, Failure> {
    let bug = |what: String| Failure::new(Exit::Bug, what);
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Err(bug(format!("the command cannot be tied to its parent: {error}")));
    }
    // A parent that died before that line sends no signal.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != i32::try_from(args.parent).ok() {
        return Ok(Exit::Bug);
    }
    // It was executed by the name /proc/self/exe, which would say nothing to people who list processes.
    let _ = rustix::thread::set_name(c"fencepost");
    let (line, stdin) = wait().map_err(|error| bug(format!("at the gate of a command: {error}")))?;
    let Some(start) = opened(&line) else { return Ok(Exit::Bug) };
    rustix::stdio::dup2_stdin(&stdin)
        .map_err(|error| bug(format!("the command cannot have its standard input: {error}")))?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(bug("there is no command".to_owned()));
    };
    let mut command = process::Command::new(program);
    environment::set(command.args(arguments), start.variables);
    if !is_in_time(start.until, BootClock.now()) {
        return Err(Failure::new(Exit::Lost, "too little of the lease was left when the command came to run")
            .detail("it was not started"));
    }
    let error = command.exec();
    let shown = program.to_string_lossy();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Err(Failure::new(Exit::Command(code), format!("{shown:?} cannot be run: {error}"))
        .then(format!("command -v {}", shell::word(&shown))))
}

/// What was said at the gate, as far as it came, and the standard input of the command.
fn wait() -> io::Result<(String, OwnedFd)> {
    let socket = Socket::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let stdin = take_over(&socket)?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    Ok((line, stdin))
}

/// Whether the gate is open. A line that was cut is no start.
fn opened(line: &str) -> Option<Start> {
    match line.strip_suffix('\n')?.parse() {
        Ok(Order::Start(start)) => Some(start),
        Ok(Order::Until(_) | Order::Forward(_) | Order::Stop) | Err(_) => None,
    }
}

/// The warden has looked already; but this process may have been kept waiting since.
fn is_in_time(until: Moment, now: Moment) -> bool {
    now < until
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutants: a line without its end is taken; another order is taken.
    #[test]
    fn only_a_start_that_came_whole_opens_the_gate() {
        let start = Start { until: Moment::from_millis(7), variables: vec![("A".to_owned(), "b c\nd".to_owned())] };
        let line = format!("{}\n", Order::Start(start.clone()));
        assert_eq!(opened(&line), Some(start));
        for cut in 0..line.len() {
            assert_eq!(opened(&line[..cut]), None, "{:?}", &line[..cut]);
        }
        for other in ["\n", "start\n", "start {}\n", "until 9\n", "stop\n", "forward 15\n", "go\n"] {
            assert_eq!(opened(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_start_is_of_no_use_once_it_would_have_to_be_stopped() {
        let at = Moment::from_millis;
        assert!(is_in_time(at(8), at(7)));
        assert!(!is_in_time(at(8), at(8)));
    }
}
