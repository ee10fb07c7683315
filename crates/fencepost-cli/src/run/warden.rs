//! The process between `run` and its command: it starts the command, stops it in time, and outlives neither.
//!
//! It is a process of its own because `run` may be killed or stopped. The command is its child and every orphan of the
//! command becomes one, so the moment without children is the moment when no member lives. It knows nothing of
//! coordinators: `run` tells it until when the lease may be believed in, and it stops the command before that,
//! whether or not it hears from `run` again. Where the connection ends, `run` is gone, and the command is killed.
//!
//! It stands by before there is a lease, with the first process of the command behind its [gate](super::gate). Nothing
//! but a start, with time enough, opens that.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Socket, process::ExitStatusExt},
    },
    process,
    time::Duration,
};

use fencepost_client::{BootClock, Clock};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper,
        set_parent_process_death_signal, wait, waitpid,
    },
};
use tokio::{
    signal::unix::{Signal as Arrivals, SignalKind, signal},
    time::sleep,
};

use super::{
    cgroup::Cgroup,
    gate::Gate,
    link::{End, Link, NoCommand, Order, Report, Said, Start, take_over},
    plan::{Limits, Plan, Step, Why},
    signals, tree,
};
use crate::{
    exit::Exit,
    failure::{Failure, REPORT},
};

/// How often it looks at the clock: timers stand still while the machine sleeps.
const GLANCE: Duration = Duration::from_millis(100);
/// How soon it looks again at members that were killed, and at most how late.
const AGAIN: Duration = Duration::from_millis(2);

/// The word by which this program is a warden.
pub(crate) const WARDEN: &str = "run-warden";

/// What a warden is started with.
#[derive(Debug)]
pub(crate) struct WardenArgs {
    limits: Limits,
    command: Vec<OsString>,
}

impl WardenArgs {
    /// Reads what `run` has written.
    pub(crate) fn parse(arguments: &[OsString]) -> Option<Self> {
        let [stop_after, margin, dashes, command @ ..] = arguments else { return None };
        let ms = |typed: &OsString| typed.to_str()?.parse().ok();
        let limits = Limits { stop_after_ms: ms(stop_after)?, margin_ms: ms(margin)? };
        (dashes == "--" && !command.is_empty()).then(|| Self { limits, command: command.to_vec() })
    }
}

/// Carries one command from before its start until no member lives.
///
/// # Errors
/// When the other end is not `run`.
pub(crate) async fn run(args: WardenArgs) -> Result<Exit, Failure> {
    let outcome = carry(args).await;
    outcome
        .map(|()| Exit::Done)
        .map_err(|error| Failure::new(Exit::Bug, format!("the warden of a command: {error}")).then(REPORT))
}

async fn carry(args: WardenArgs) -> io::Result<()> {
    // It was executed by the name /proc/self/exe, which would say nothing to people who list processes.
    rustix::thread::set_name(c"fencepost")?;
    let socket = Socket::from(rustix::stdio::stdin().try_clone_to_owned()?);
    let stdin = take_over(&socket)?;
    let mut link = Link::new(socket)?;
    let mut ended = signal(SignalKind::child())?;
    let (gate, cgroup) = match set_gate(&args.command, &stdin) {
        Ok(set) => set,
        Err(error) => return link.say(Report::None(NoCommand::System(error.to_string()))).await,
    };
    // The command alone reads it from here on.
    drop(stdin);
    let first = gate.pid();
    let start = stand_by(first, &mut link, &mut ended).await?;
    let opened = match start.and_then(|start| in_time(start, args.limits)) {
        Ok((start, plan)) => open(gate, start, &mut link).await.map(|gate| (gate, plan)),
        Err(none) => Err(none),
    };
    match opened {
        Ok((gate, plan)) => {
            let first = First { pid: first, gate: Some(gate), becomes: false };
            Warden { link: Some(link), plan, first: Some(first), cgroup, ended }.watch().await
        }
        Err(none) => {
            end_all(cgroup.as_ref())?;
            match none {
                NoStart::Told(report) => link.say(report).await,
                NoStart::Alone => Ok(()),
            }
        }
    }
}

/// Why the gate stays shut.
enum NoStart {
    /// `run` has to hear of it.
    Told(Report),
    /// `run` is gone, or wants no start.
    Alone,
}

fn set_gate(command: &[OsString], stdin: &OwnedFd) -> io::Result<(Gate, Option<Cgroup>)> {
    signals::survive()?;
    // A warden that somebody has stopped has to hear that `run` is gone.
    set_parent_process_death_signal(Some(Signal::CONT))?;
    set_child_subreaper(Some(getpid()))?;
    let cgroup = Cgroup::create();
    let gate = Gate::set(command, stdin)?;
    // Without a group the members are found one by one.
    let cgroup = cgroup.filter(|cgroup| cgroup.take_in(gate.pid()).is_ok());
    Ok((gate, cgroup))
}

/// Waits for the start, or for a reason why there will be none.
async fn stand_by(first: Pid, link: &mut Link, ended: &mut Arrivals) -> io::Result<Result<Start, NoStart>> {
    loop {
        tokio::select! {
            biased;
            _ = ended.recv() => if let Some((_, status)) = waitpid(Some(first), WaitOptions::NOHANG)? {
                return Ok(Err(NoStart::Told(Report::Ended(end(status)))));
            },
            order = link.hear() => return Ok(match order {
                Ok(Some(Order::Start(start))) => Ok(start),
                Ok(Some(Order::Until(_) | Order::Forward(_) | Order::Stop) | None) | Err(_) => Err(NoStart::Alone),
            }),
        }
    }
}

fn in_time(start: Start, limits: Limits) -> Result<(Start, Plan), NoStart> {
    let plan = Plan::new(limits, start.until);
    if plan.may_start(BootClock.now()) {
        Ok((Start { until: plan.term_at(), ..start }, plan))
    } else {
        Err(NoStart::Told(Report::None(NoCommand::TooLate)))
    }
}

/// Tells `run` first: should this process be killed in between, nobody may say that nothing was started.
async fn open(gate: Gate, start: Start, link: &mut Link) -> Result<Link, NoStart> {
    let first = gate.pid();
    let announced = link.announce(first).await.map_err(|_| NoStart::Alone)?;
    gate.open(start, announced).map_err(|error| match error.kind() {
        // It has ended before it could be told anything.
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            match waitpid(Some(first), WaitOptions::empty()) {
                Ok(Some((_, status))) => NoStart::Told(Report::Ended(end(status))),
                Ok(None) | Err(_) => NoStart::Told(Report::Ended(End::Killed(9))),
            }
        }
        _ => NoStart::Told(Report::None(NoCommand::System(error.to_string()))),
    })
}

/// Ends the first process, which has started nothing.
fn end_all(cgroup: Option<&Cgroup>) -> io::Result<()> {
    kill(cgroup)?;
    while !matches!(wait(WaitOptions::empty()), Err(Errno::CHILD)) {}
    Ok(())
}

/// Kills every member. Whether it worked shows in who is left.
fn kill(cgroup: Option<&Cgroup>) -> io::Result<()> {
    if let Some(cgroup) = cgroup {
        cgroup.kill();
    }
    tree::signal_all(getpid(), &[], &[Signal::KILL]).map(drop)
}

struct Warden {
    /// `None` once `run` is gone.
    link: Option<Link>,
    plan: Plan,
    /// The command itself, until it has ended.
    first: Option<First>,
    cgroup: Option<Cgroup>,
    ended: Arrivals,
}

/// The first process behind its open gate, and the command that it becomes.
struct First {
    pid: Pid,
    /// Until it has become something else.
    gate: Option<Link>,
    /// It has said that it becomes the command next.
    becomes: bool,
}

impl First {
    /// What it has to say, once it has, or has become the command; for ever nothing after that. Safe to drop and to call
    /// again.
    async fn news(&mut self) -> Option<Report> {
        let Some(gate) = &mut self.gate else { return std::future::pending().await };
        match gate.hear().await {
            Ok(Some(Said::Becoming)) => {
                self.becomes = true;
                None
            }
            Ok(Some(Said::Not(none))) => {
                self.gate = None;
                Some(Report::None(none))
            }
            // Its end of the connection is closed by becoming the command, or by its own end.
            Ok(None) | Err(_) => {
                self.gate = None;
                self.becomes.then_some(Report::Started)
            }
        }
    }
}

impl Warden {
    async fn watch(&mut self) -> io::Result<()> {
        let mut again = AGAIN;
        loop {
            // The clock first: who had ended by then was not stopped, whenever this process gets to look.
            let now = BootClock.now();
            if !self.reap().await? {
                break;
            }
            let step = if self.link.is_none() { Step::Kill } else { self.plan.step(now) };
            let pause = match step {
                Step::Wait(until) => until.since(now).min(GLANCE),
                // Woken, it would still become the command.
                Step::Term if self.is_at_the_gate() => {
                    kill(self.cgroup.as_ref())?;
                    continue;
                }
                Step::Term => {
                    // A stopped member could not act on it.
                    tree::signal_all(getpid(), &[], &[Signal::TERM, Signal::CONT])?;
                    continue;
                }
                Step::Kill => {
                    kill(self.cgroup.as_ref())?;
                    again = (again * 2).min(GLANCE);
                    again
                }
            };
            tokio::select! {
                _ = self.ended.recv() => {}
                order = hear(self.link.as_mut()) => {
                    // What has ended before an order to stop was not stopped by it.
                    self.reap().await?;
                    self.follow(order);
                }
                news = news(self.first.as_mut()) => self.pass_on(news).await,
                () = sleep(pause) => {}
            }
        }
        self.say(Report::Gone(self.plan.stopping().unwrap_or(Why::Leftovers))).await;
        Ok(())
    }

    /// Whether nothing is known of the first process but that it waits.
    fn is_at_the_gate(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.gate.is_some() && !first.becomes)
    }

    async fn pass_on(&mut self, news: Option<Report>) {
        if let Some(news) = news {
            self.say(news).await;
        }
    }

    /// Takes note of what has ended, and says whether any member lives.
    async fn reap(&mut self) -> io::Result<bool> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.first.as_ref().is_some_and(|first| first.pid == pid) => {
                    self.plan.ended(BootClock.now());
                    // What it has said before its end comes before that.
                    while let Some(first) = self.first.as_mut().filter(|first| first.gate.is_some()) {
                        let news = first.news().await;
                        self.pass_on(news).await;
                    }
                    self.first = None;
                    self.say(Report::Ended(end(status))).await;
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return Ok(true),
                Err(Errno::CHILD) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn follow(&mut self, order: Option<Order>) {
        match order {
            // A second start, or none: whoever says that is not the `run` that this belongs to.
            Some(Order::Start(_)) | None => self.link = None,
            Some(Order::Until(until)) => self.plan.believed_until(until),
            Some(Order::Stop) => self.plan.stop(Why::Lost, BootClock.now()),
            Some(Order::Forward(number)) => {
                if let (Some(first), Some(signal)) = (&self.first, Signal::from_named_raw(number)) {
                    // It is our child and not reaped, so the number is still its own.
                    let _ = kill_process(first.pid, signal);
                }
            }
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

async fn news(first: Option<&mut First>) -> Option<Report> {
    match first {
        Some(first) => first.news().await,
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
