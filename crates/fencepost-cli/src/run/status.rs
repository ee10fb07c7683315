//! The line that says what `run` came to, for programs: on a descriptor of their own, or beside other JSON.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::AsFd,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{FileType, OFlags, fcntl_getfl, fstat},
    io::Errno,
    process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open},
};
use serde_json::{Value, json};

use super::{held::Held, link::End};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    path,
};

/// What is known so far. It is told once, at the end.
#[derive(Debug)]
pub(crate) struct Status {
    descriptor: Option<(u32, File)>,
    on_stderr: bool,
    line: Value,
}

impl Status {
    /// # Errors
    /// When there is no such descriptor.
    pub(crate) fn new(descriptor: Option<u32>, on_stderr: bool) -> Result<Self, Failure> {
        let descriptor = descriptor.map(|number| open(number).map(|file| (number, file))).transpose()?;
        Ok(Self { descriptor, on_stderr, line: json!({"outcome": "not_started"}) })
    }

    /// The leases that the command runs under.
    pub(crate) fn holds(&mut self, leases: &[Held]) {
        let rows: Vec<Value> = leases.iter().map(row).collect();
        self.line["leases"] = rows.into();
        if let Some(guarantee) = guarantee(leases) {
            self.line["guarantee"] = guarantee.into();
        }
    }

    /// The command runs, or may have run, as this process.
    pub(crate) fn started(&mut self, pid: u32) {
        self.line["pid"] = pid.into();
    }

    /// The command has run until this end.
    pub(crate) fn ended(&mut self, end: End) {
        let (outcome, member, number) = match end {
            End::Exited(code) => ("exited", "command_exit_code", code),
            End::Killed(signal) => ("killed", "command_signal", signal),
        };
        self.line["outcome"] = outcome.into();
        self.line[member] = number.into();
    }

    /// The command has run until this end, and the lease did not last as long.
    pub(crate) fn stopped(&mut self, end: End) {
        self.ended(end);
        self.line["outcome"] = "lease_lost".into();
    }

    /// Nobody knows whether the command has run.
    pub(crate) fn unknown(&mut self) {
        self.line["outcome"] = "unknown".into();
    }

    /// Another has the domain, and that is no failure.
    pub(crate) fn skipped(&mut self, domain: &str) {
        self.line["outcome"] = "skipped".into();
        self.line["held_domain"] = domain.into();
    }

    /// Whether the coordinator has confirmed that the leases were given back.
    pub(crate) fn released(&mut self, confirmed: bool) {
        self.line["released"] = confirmed.into();
    }

    /// Tells it. What is returned is why it could not be told: whoever asked for the line is waiting for it.
    #[must_use]
    pub(crate) fn tell(mut self, result: &Result<Exit, Failure>) -> Option<Failure> {
        match result {
            Ok(exit) => self.line["exit_code"] = exit.code().into(),
            Err(failure) => {
                self.line["exit_code"] = failure.code().into();
                self.line["problem"] = failure.json();
            }
        }
        let line = format!("{}\n", self.line);
        if let Some((number, mut descriptor)) = self.descriptor {
            return match write_all(&mut descriptor, line.as_bytes()) {
                Ok(()) => None,
                // Whoever does not listen any more still gets the exit code.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
                Err(error) => Some(not_told(number, &error)),
            };
        }
        if self.on_stderr && result.is_ok() {
            let _ = io::stderr().write_all(line.as_bytes());
        }
        None
    }
}

/// When older tokens stop working, under contract `safety`.
pub(crate) fn guarantee(leases: &[Held]) -> Option<&'static str> {
    let is_advanced = leases.iter().all(|lease| !lease.advanced().is_empty());
    let has_tokens = leases.iter().all(|lease| lease.grant().is_some());
    has_tokens.then_some(if is_advanced { "FencedOnAcquire" } else { "FencedOnFirstWrite" })
}

fn row(lease: &Held) -> Value {
    let mut row = json!({"domain": lease.domain(), "lease": lease.id()});
    if let Some(grant) = lease.grant() {
        row["token"] = json!(grant.token);
        row["advanced"] = json!(lease.advanced());
    }
    if let Some(correlation) = lease.correlation() {
        row["correlation"] = json!(correlation.as_str());
    }
    row
}

/// Waits for a reader where whoever opened it would not.
fn write_all(descriptor: &mut File, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match descriptor.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(descriptor, PollFlags::OUT)], None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn not_told(number: u32, error: &io::Error) -> Failure {
    let name = format!("/proc/self/fd/{number}");
    let place = fs::read_link(&name).unwrap_or_else(|_| name.into());
    Failure::new(Exit::CannotWrite, format!("status-fd: the line cannot be written to descriptor {number}: {error}"))
        .detail("what became of the command is told by the exit code alone, where that is the command's own")
        .then(path::advice(&place, error).replace(AGAIN, "look what the command has done before it is run again"))
}

/// The same open file, which shares its position with whoever writes there next. A bare number may not be taken over, but
/// asked for like another process's.
fn duplicate(number: u32) -> Result<File, Errno> {
    let number = i32::try_from(number).map_err(|_| Errno::BADF)?;
    let this = pidfd_open(getpid(), PidfdFlags::empty())?;
    let opened = pidfd_getfd(this, number, PidfdGetfdFlags::empty())?;
    // What this process itself has under such numbers is of other kinds.
    let kind = FileType::from_raw_mode(fstat(&opened)?.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::CharacterDevice) {
        return Err(Errno::NXIO);
    }
    if fcntl_getfl(&opened)? & OFlags::ACCMODE == OFlags::RDONLY {
        return Err(Errno::BADF);
    }
    Ok(File::from(opened))
}

/// A descriptor that whoever started this process has left open for it.
fn open(number: u32) -> Result<File, Failure> {
    let opened = match number {
        1 => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        2 => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => match duplicate(number) {
            // Older kernels, and some sandboxes, have no such call. Appending, because a file may have content.
            Err(Errno::NOSYS | Errno::PERM) => File::options().append(true).open(format!("/proc/self/fd/{number}")),
            duplicated => duplicated.map_err(io::Error::from),
        },
    };
    opened.map_err(|error| {
        let what = format!("status-fd: descriptor {number} cannot be written to: {error}");
        Failure::new(path::exit(&error, Exit::Usage), what).then(format!("--status-fd {number} {number}>FILE"))
    })
}
