//! Carrying a command while the leases are kept: renewals and signals go to the warden, its reports come back.

use std::{io, time::Duration};

use fencepost_client::{BootClock, Clock, Loss};
use fencepost_core::Moment;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    ask::Ask,
    environment,
    held::Held,
    link::{End, Order, Report, Start},
    signals::Signals,
    standby::{Standby, cannot_start, ended_before},
    status::Status,
};
use crate::{exit::Exit, failure::Failure};

/// How long a warden may take to make room for a message.
const SAYING: Duration = Duration::from_millis(100);

/// A command that is over: no member of it lives.
#[derive(Debug)]
pub(crate) struct Carried {
    /// How the command itself ended.
    pub(crate) end: End,
    /// Why it was stopped, where a lease was the reason.
    pub(crate) stopped: Option<String>,
}

/// Has the command started and stays until no member of it lives.
///
/// # Errors
/// When it could not be started.
pub(crate) async fn carry(
    ask: &Ask,
    leases: &[Held],
    standby: &mut Standby,
    signals: &mut Signals,
    status: &mut Status,
) -> Result<Carried, Failure> {
    let mut carrier = Carrier::start(ask, leases, standby).await;
    let outcome = carrier.watch(signals, status).await;
    if !carrier.is_gone {
        let last_line = carrier.last_line();
        carrier.standby.see_it_gone(last_line).await;
    }
    outcome
}

struct Carrier<'a> {
    ask: &'a Ask,
    leases: &'a [Held],
    standby: &'a mut Standby,
    losses: mpsc::UnboundedReceiver<String>,
    loss: Option<String>,
    until: Moment,
    was_started: bool,
    end: Option<End>,
    /// The warden has said that no member lives. It starts none after that.
    is_gone: bool,
}

impl<'a> Carrier<'a> {
    async fn start(ask: &'a Ask, leases: &'a [Held], standby: &'a mut Standby) -> Self {
        let until = until(leases);
        let (sender, losses) = mpsc::unbounded_channel();
        for lease in leases {
            let (sender, domain, lost) = (sender.clone(), lease.domain().clone(), lease.lost());
            tokio::spawn(async move { drop(sender.send(told(domain.as_str(), lost.await))) });
        }
        let (loss, was_started, end, is_gone) = (None, false, None, false);
        let mut carrier = Self { ask, leases, standby, losses, loss, until, was_started, end, is_gone };
        carrier.say(Order::Start(Start { until, variables: environment::of(leases, &ask.url.url, until) })).await;
        carrier
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
                report = self.standby.link.hear() => match report {
                    Ok(Some(Report::Started(pid))) => {
                        self.was_started = true;
                        status.started(pid);
                    }
                    Ok(Some(Report::TooLate)) => return Err(self.too_late()),
                    Ok(Some(Report::NotStarted(why))) => return Err(cannot_start(io::Error::other(why))),
                    Ok(Some(Report::Ended(end))) if !self.was_started => return Err(ended_before(end)),
                    Ok(Some(Report::Ended(end))) => {
                        status.ended(end);
                        self.end = Some(end);
                    }
                    Ok(Some(Report::Gone { was_stopped })) => {
                        self.is_gone = true;
                        return Ok(self.carried(was_stopped));
                    }
                    // The warden is gone before its time, and so is the command, which was tied to it.
                    Ok(None) | Err(_) if self.was_started => return Ok(self.carried(self.loss.is_some())),
                    Ok(None) | Err(_) => return Err(ended_before(End::Killed(9))),
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

    /// A warden that is gone shows when it is listened to. One that is stopped reads nothing, and is not waited for: what
    /// it gets half of is no message, and by that it kills the command as soon as it goes on.
    async fn say(&mut self, order: Order) {
        let _ = timeout(SAYING, self.standby.link.say(order)).await;
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
}

fn until(leases: &[Held]) -> Moment {
    leases.iter().map(Held::until).min().unwrap_or_else(|| BootClock.now())
}

fn told(domain: &str, loss: Loss) -> String {
    format!("{domain}: {loss}")
}
