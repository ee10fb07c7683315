//! The process between `run` and its command: it starts the command, stops it in time, and outlives neither.
//!
//! It is a process of its own because `run` may be killed or stopped. The command is its child and every orphan of the
//! command becomes one, so the moment without children is the moment when no member lives. It knows nothing of
//! coordinators: `run` tells it until when the lease may be believed in, and it stops the command before that,
//! whether or not it hears from `run` again. Where the connection ends, `run` is gone, and the command is killed.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream as Socket,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{self, Stdio},
    time::Duration,
};

use clap::Args;
use fencepost_client::{BootClock, Clock};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
        set_parent_process_death_signal, wait,
    },
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::{
    cgroup::Cgroup,
    link::{End, Link, Order, Report, take_over},
    plan::{Limits, Plan, Step, Why},
    signals, tree,
};
use crate::{exit::Exit, failure::Failure, shell};

/// How often it looks at the clock: timers stand still while the machine sleeps.
const GLANCE: Duration = Duration::from_millis(100);
/// How soon it looks again at members that were killed, and at most how late.
const AGAIN: Duration = Duration::from_millis(2);

/// Start and stop a command for `run`
#[derive(Args, Debug)]
pub(crate) struct WardenArgs {
    #[arg(long)]
    stop_after_ms: u64,
    #[arg(long)]
    margin_ms: u64,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Become a command that dies with its parent
#[derive(Args, Debug)]
pub(crate) struct BecomeArgs {
    #[arg(long)]
    parent: u32,
    #[arg(long)]
    cgroup: Option<OsString>,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The last step before the command: this process is it from then on.
pub(crate) fn become_command(args: &BecomeArgs) -> Failure {
    let bug = |what: String| Failure::new(Exit::Bug, what);
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return bug(format!("the command cannot be tied to its parent: {error}"));
    }
    // A parent that died before that line sends no signal.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != i32::try_from(args.parent).ok() {
        return bug("the parent of the command is gone; it was not started".to_owned());
    }
    if let Some(folder) = &args.cgroup {
        // Without it the members are found one by one.
        let _ = Cgroup::join(folder);
    }
    let Some((program, arguments)) = args.command.split_first() else { return bug("there is no command".to_owned()) };
    let error = process::Command::new(program).args(arguments).exec();
    let shown = program.to_string_lossy();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure::new(Exit::Command(code), format!("{shown:?} cannot be run: {error}"))
        .then(format!("command -v {}", shell::word(&shown)))
}

/// Carries one command from its start until no member lives.
///
/// # Errors
/// When the other end is not `run`.
pub(crate) async fn run(args: WardenArgs) -> Result<Exit, Failure> {
    let outcome = carry(args).await;
    outcome.map(|()| Exit::Done).map_err(|error| Failure::new(Exit::Bug, format!("the warden of a command: {error}")))
}

async fn carry(args: WardenArgs) -> io::Result<()> {
    // It was executed by the name /proc/self/exe, which would say nothing to people who list processes.
    rustix::thread::set_name(c"fencepost")?;
    let socket = Socket::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let stdin = take_over(&socket)?;
    let mut link = Link::new(socket)?;
    let limits = Limits { stop_after_ms: args.stop_after_ms, margin_ms: args.margin_ms };
    let Some(Order::Until(until)) = link.hear().await? else { return Ok(()) };
    let plan = Plan::new(limits, until);
    if !plan.may_start(BootClock.now()) {
        return link.say(Report::TooLate).await;
    }
    let cgroup = Cgroup::create();
    let main = match start(&args.command, stdin, cgroup.as_ref()) {
        Ok(main) => main,
        Err(error) => return link.say(Report::NotStarted(error.to_string())).await,
    };
    let mut warden = Warden { link: Some(link), plan, main: Some(main), cgroup };
    warden.say(Report::Started(main.as_raw_nonzero().get().unsigned_abs())).await;
    warden.watch().await
}

fn start(command: &[OsString], stdin: OwnedFd, cgroup: Option<&Cgroup>) -> io::Result<Pid> {
    signals::survive()?;
    set_child_subreaper(Some(getpid()))?;
    tree::is_shown()?;
    let mut child = process::Command::new("/proc/self/exe");
    child.arg0("fencepost").args(["run-become", "--parent"]).arg(process::id().to_string());
    if let Some(cgroup) = cgroup {
        child.arg("--cgroup").arg(cgroup.folder());
    }
    let child = child.arg("--").args(command).stdin(Stdio::from(stdin)).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the system gave the command no number"))
}

struct Warden {
    /// `None` once `run` is gone.
    link: Option<Link>,
    plan: Plan,
    /// The command itself, until it has ended.
    main: Option<Pid>,
    cgroup: Option<Cgroup>,
}

impl Warden {
    async fn watch(&mut self) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        let mut again = AGAIN;
        while self.reap().await? {
            let now = BootClock.now();
            let step = if self.link.is_none() { Step::Kill } else { self.plan.step(now) };
            let pause = match step {
                Step::Wait(until) => until.since(now).min(GLANCE),
                Step::Term => {
                    // A stopped member could not act on it.
                    tree::signal_all(getpid(), &[], &[Signal::TERM, Signal::CONT])?;
                    continue;
                }
                Step::Kill => {
                    self.kill()?;
                    again = (again * 2).min(GLANCE);
                    again
                }
            };
            tokio::select! {
                _ = ended.recv() => {}
                order = hear(self.link.as_mut()) => self.follow(order),
                () = sleep(pause) => {}
            }
        }
        let was_stopped = self.plan.stopping() == Some(Why::Lost);
        self.say(Report::Gone { was_stopped }).await;
        Ok(())
    }

    /// Takes note of what has ended, and says whether any member lives.
    async fn reap(&mut self) -> io::Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.main => {
                    self.main = None;
                    self.plan.stop(Why::Leftovers, BootClock.now());
                    self.say(Report::Ended(end(status))).await;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn kill(&self) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        tree::signal_all(getpid(), &[], &[Signal::KILL])?;
        Ok(())
    }

    fn follow(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Until(until)) => self.plan.believed_until(until),
            Some(Order::Stop) => self.plan.stop(Why::Lost, BootClock.now()),
            Some(Order::Forward(number)) => {
                if let (Some(main), Some(signal)) = (self.main, Signal::from_named_raw(number)) {
                    // It is our child and not reaped, so the number is still its own.
                    let _ = kill_process(main, signal);
                }
            }
            None => self.link = None,
        }
    }

    async fn say(&mut self, report: Report) {
        if let Some(link) = &mut self.link
            && link.say(report).await.is_err()
        {
            self.link = None;
        }
    }
}

/// The next order; `None` when `run` is gone, or is not what it should be.
async fn hear(link: Option<&mut Link>) -> Option<Order> {
    match link {
        Some(link) => link.hear().await.ok().flatten(),
        None => std::future::pending().await,
    }
}

fn end(status: WaitStatus) -> End {
    let byte = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    let status = process::ExitStatus::from_raw(status.as_raw());
    match status.signal() {
        Some(signal) => End::Killed(byte(signal)),
        None => End::Exited(byte(status.code().unwrap_or(i32::from(u8::MAX)))),
    }
}
