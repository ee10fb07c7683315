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
    link::{Announced, Link, NoCommand, Order, Said, Start, hand_over, room_for_a_start, take_over},
    signals,
};
use crate::{
    exit::Exit,
    failure::{Failure, REPORT},
};

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
        room_for_a_start(&socket)?;
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

    /// Opens it: from here on the first process becomes the command, and says so. `run` knows of it before.
    ///
    /// # Errors
    /// When the system does not take the message. The gate is shut for ever then.
    pub(crate) fn open(mut self, start: Start, _: Announced) -> io::Result<Link> {
        // A process that is stopped must not stop the warden with it.
        self.socket.set_nonblocking(true)?;
        // Nothing may fail any more once it is open.
        let link = Link::new(self.socket.try_clone()?)?;
        self.socket.write_all(format!("{}\n", Order::Start(start)).as_bytes())?;
        Ok(link)
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

/// Waits at the gate, and becomes the command once it is open. Why it does not, it tells the warden, and what it returns
/// is what nobody but the warden looks at.
///
/// # Errors
/// When it is not what the warden has started.
pub(crate) fn become_command(args: &BecomeArgs) -> Result<Exit, Failure> {
    let bug = |what: String| Failure::new(Exit::Bug, what).then(REPORT);
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Err(bug(format!("the command cannot be tied to its parent: {error}")));
    }
    // A parent that died before that line sends no signal.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != i32::try_from(args.parent).ok() {
        return Ok(Exit::Bug);
    }
    signals::end_without_a_trace().map_err(|error| bug(format!("at the gate of a command: {error}")))?;
    // It was executed by the name /proc/self/exe, which would say nothing to people who list processes.
    let _ = rustix::thread::set_name(c"fencepost");
    let (line, stdin, mut warden) = wait().map_err(|error| bug(format!("at the gate of a command: {error}")))?;
    let Some(start) = opened(&line) else { return Ok(Exit::Bug) };
    rustix::stdio::dup2_stdin(&stdin)
        .map_err(|error| bug(format!("the command cannot have its standard input: {error}")))?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(bug("there is no command".to_owned()));
    };
    let mut command = process::Command::new(program);
    environment::set(command.args(arguments), start.variables);
    let mut say = |said: Said| writeln!(warden, "{said}");
    if !is_in_time(start.until, BootClock.now()) {
        // Where nobody listens, nobody has to be told.
        let _ = say(Said::Not(NoCommand::TooLate));
        return Ok(Exit::Lost);
    }
    // The warden is to know of it whatever happens next.
    say(Said::Becoming).map_err(|error| bug(format!("the warden of a command is gone: {error}")))?;
    let error = command.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    let _ = say(Said::Not(NoCommand::Unusable { code, why: error.to_string() }));
    Ok(Exit::Command(code))
}

/// What was said at the gate, as far as it came; the standard input of the command; and the way back to the warden, which
/// is closed in whatever this process becomes.
fn wait() -> io::Result<(String, OwnedFd, Socket)> {
    let socket = Socket::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let stdin = take_over(&socket)?;
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line)?;
    Ok((line, stdin, socket))
}

/// Whether the gate is open. A line that was cut is no start.
pub(super) fn opened(line: &str) -> Option<Start> {
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
