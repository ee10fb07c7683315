//! Carrying a command while the leases are kept: renewals and signals go to the warden, its reports come back.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Socket, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use fencepost_client::{BootClock, Clock, Loss};
use fencepost_core::Moment;
use rustix::process::{Signal, WaitOptions, getpid, set_child_subreaper, wait};
use tokio::{sync::mpsc, time::sleep};

use super::{
    ask::Ask,
    cgroup::Cgroup,
    environment,
    held::Held,
    link::{End, Link, Order, Report, hand_over},
    signals::Signals,
    status::Status,
    tree::{self, Member},
};
use crate::{exit::Exit, failure::Failure};

/// A command that is over: no member of it lives.
#[derive(Debug)]
pub(crate) struct Carried {
    /// How the command itself ended.
    pub(crate) end: End,
    /// Why it was stopped, where a lease was the reason.
    pub(crate) stopped: Option<String>,
}

/// Starts the command and stays until no member of it lives.
///
/// # Errors
/// When it could not be started.
pub(crate) async fn carry(
    ask: &Ask,
    leases: &[Held],
    signals: &mut Signals,
    status: &mut Status,
) -> Result<Carried, Failure> {
    let not_started = |error: io::Error| {
        Failure::new(Exit::Configuration, format!("the command cannot be started: {error}"))
            .then("see that /proc is mounted and that processes may be started")
    };
    let mut carrier = Carrier::start(ask, leases).await.map_err(not_started)?;
    let outcome = carrier.watch(signals, status).await;
    carrier.see_it_gone(outcome.is_ok()).await.map_err(not_started)?;
    outcome
}

struct Carrier<'a> {
    ask: &'a Ask,
    leases: &'a [Held],
    link: Link,
    warden: Child,
    /// Children from before the command: whoever became this process may have had some.
    earlier: Vec<Member>,
    losses: mpsc::UnboundedReceiver<String>,
    loss: Option<String>,
    until: Moment,
    end: Option<End>,
}

impl<'a> Carrier<'a> {
    async fn start(ask: &'a Ask, leases: &'a [Held]) -> io::Result<Self> {
        let me = getpid();
        let earlier = tree::members(me, &[])?;
        // Should the warden be killed, its orphans come here.
        set_child_subreaper(Some(me))?;
        let until = until(leases);
        let (ours, theirs) = Socket::pair()?;
        let warden = {
            let mut command = Command::new("/proc/self/exe");
            command.arg0("fencepost").arg("run-warden");
            command.arg("--stop-after-ms").arg(ask.limits.stop_after_ms.to_string());
            command.arg("--margin-ms").arg(ask.limits.margin_ms.to_string());
            command.arg("--").args(&ask.command).stdin(Stdio::from(OwnedFd::from(theirs)));
            environment::prepare(&mut command, leases, &ask.url.url, until);
            command.spawn()?
        };
        hand_over(&ours, rustix::stdio::stdin())?;
        let mut link = Link::new(ours)?;
        link.say(Order::Until(until)).await?;
        let (sender, losses) = mpsc::unbounded_channel();
        for lease in leases {
            let (sender, domain) = (sender.clone(), lease.domain().clone());
            lease.on_lost(move |loss| drop(sender.send(told(domain.as_str(), loss))));
        }
        Ok(Self { ask, leases, link, warden, earlier, losses, loss: None, until, end: None })
    }

    async fn watch(&mut self, signals: &mut Signals, status: &mut Status) -> Result<Carried, Failure> {
        let glance = (self.ask.ttl.get() / 20).min(Duration::from_millis(500));
        let mut is_told = false;
        loop {
            if self.loss.is_some() && !is_told {
                is_told = true;
                self.say(Order::Stop).await;
            }
            // A look that came after the last line would be of no use.
            let pause = self.last_line().since(BootClock.now()).clamp(Duration::from_millis(1), glance);
            tokio::select! {
                report = self.link.hear() => match report {
                    Ok(Some(Report::Started(pid))) => status.started(pid),
                    Ok(Some(Report::TooLate)) => return Err(self.too_late()),
                    Ok(Some(Report::NotStarted(why))) => {
                        return Err(Failure::new(Exit::Configuration, format!("the command cannot be started: {why}")));
                    }
                    Ok(Some(Report::Ended(end))) => {
                        status.ended(end);
                        self.end = Some(end);
                    }
                    Ok(Some(Report::Gone { was_stopped })) => return Ok(self.carried(was_stopped)),
                    // The warden is gone before its time, and so is the command, which was tied to it.
                    Ok(None) | Err(_) => return Ok(self.carried(self.loss.is_some())),
                },
                arrived = signals.next() => {
                    if !arrived.is_from_terminal {
                        self.say(Order::Forward(arrived.number)).await;
                    }
                }
                Some(loss) = self.losses.recv() => self.loss = Some(loss),
                () = sleep(pause) => {
                    if self.look_at_the_leases().await {
                        return Ok(self.carried(true));
                    }
                }
            }
        }
    }

    /// Tells the warden of renewals. Whether the end has come so near that the warden must have failed.
    async fn look_at_the_leases(&mut self) -> bool {
        match self.leases.iter().find_map(|lease| lease.loss().map(|loss| (lease, loss))) {
            Some((lease, loss)) => {
                if self.loss.is_none() {
                    self.loss = Some(told(lease.domain().as_str(), loss));
                }
            }
            None => {
                let until = until(self.leases);
                // Reading the same deadline again may come out a few milliseconds earlier.
                if until > self.until {
                    self.until = until;
                    self.say(Order::Until(until)).await;
                }
            }
        }
        BootClock.now() >= self.last_line()
    }

    /// When this process kills what the warden should have killed by then.
    fn last_line(&self) -> Moment {
        self.until.before_millis(self.ask.limits.margin_ms / 2)
    }

    /// A warden that is gone shows when it is listened to.
    async fn say(&mut self, order: Order) {
        let _ = self.link.say(order).await;
    }

    fn carried(&self, was_stopped: bool) -> Carried {
        let near = || format!("{}: no heartbeat was confirmed in time", self.names());
        let stopped = was_stopped.then(|| self.loss.clone().unwrap_or_else(near));
        Carried { end: self.end.unwrap_or(End::Killed(9)), stopped }
    }

    fn names(&self) -> String {
        self.leases.iter().map(|lease| lease.domain().as_str()).collect::<Vec<_>>().join(", ")
    }

    fn too_late(&self) -> Failure {
        let what = format!("{}: too little of the lease was left to start the command", self.names());
        Failure::new(Exit::Lost, what)
            .then("run the same command again, with a longer --ttl or --max-hold, or a shorter --stop-after")
    }

    /// Waits for the warden, and makes sure of what it may have left: nothing is given back while a member lives.
    async fn see_it_gone(&mut self, was_started: bool) -> io::Result<()> {
        let mut pause = Duration::from_millis(1);
        loop {
            let is_done = self.warden.try_wait()?.is_some();
            if is_done || (was_started && BootClock.now() >= self.last_line()) {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        while tree::signal_all(getpid(), &self.earlier, &[Signal::KILL])? > 0 {
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        // Orphans that came here have no other parent to take note of their end.
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        Cgroup::remove_left_by(self.warden.id());
        Ok(())
    }
}

fn until(leases: &[Held]) -> Moment {
    leases.iter().map(Held::until).min().unwrap_or_else(|| BootClock.now())
}

fn told(domain: &str, loss: Loss) -> String {
    format!("{domain}: {loss}")
}
