//! Carrying a command while the leases are kept: renewals and signals go to the warden, its reports come back.

use std::{io, time::Duration};

use fencepost_client::{BootClock, Clock, Loss};
use fencepost_core::{Moment, sabotage};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    ask::Ask,
    environment,
    held::Held,
    link::{End, NoCommand, Order, Report, Start},
    outcome::{Heard, NotRun, Outcome, Silence, outcome},
    signals::Signals,
    standby::{Standby, cannot_start, ended_before, half_told, warden_ended},
    status::Status,
    waiting::WaitsFor,
};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    shell,
};

/// How long a warden may take to make room for a message.
const SAYING: Duration = Duration::from_millis(100);
/// How long what a warden has left unread may take to come.
const DRAINING: Duration = Duration::from_secs(1);

/// What has become of the command. No member of it lives.
#[derive(Debug)]
pub(crate) enum Carried {
    /// It has run until this end.
    Ended(End),
    /// It has run, and was stopped because of the lease, for this reason.
    Stopped(String),
    /// It has run until this end of its own, after that of the lease.
    Outlived(End, String),
    /// It is nothing that can be run, which is its own fault.
    Unusable(Failure),
}

/// Has the command started and stays until no member of it lives.
///
/// # Errors
/// When it has not run, or when nobody knows whether it has.
pub(crate) async fn carry(
    ask: &Ask,
    leases: &[Held],
    standby: &mut Standby,
    signals: &mut Signals,
    status: &mut Status,
    waits: &watch::Sender<WaitsFor>,
) -> Result<Carried, Failure> {
    let mut carrier = Carrier::start(ask, leases, standby, waits).await;
    // Half a start is none, and nobody sends the rest: nothing has been started, and the warden goes at once. Watched, it
    // would be waited for as long as the leases are renewed.
    let silence = if carrier.is_deaf { Silence::HalfTold } else { carrier.watch(signals).await };
    if carrier.heard.gone.is_none() {
        let until = if silence == Silence::HalfTold { BootClock.now() } else { carrier.last_line() };
        carrier.standby.see_it_gone(until).await;
        // A warden that was killed may have said more than was heard of it by then.
        let _ = timeout(DRAINING, carrier.drain()).await;
    }
    carrier.told(silence, status)
}

struct Carrier<'a> {
    ask: &'a Ask,
    leases: &'a [Held],
    standby: &'a mut Standby,
    waits: &'a watch::Sender<WaitsFor>,
    losses: mpsc::UnboundedReceiver<String>,
    loss: Option<String>,
    until: Moment,
    heard: Heard,
    /// The warden has taken no message for a while.
    is_deaf: bool,
}

impl<'a> Carrier<'a> {
    async fn start(
        ask: &'a Ask,
        leases: &'a [Held],
        standby: &'a mut Standby,
        waits: &'a watch::Sender<WaitsFor>,
    ) -> Self {
        let until = until(leases);
        let (sender, losses) = mpsc::unbounded_channel();
        for lease in leases {
            let (sender, domain, lost) = (sender.clone(), lease.domain().clone(), lease.lost());
            tokio::spawn(async move { drop(sender.send(told(domain.as_str(), lost.await))) });
        }
        let (loss, heard, is_deaf) = (None, Heard::default(), false);
        let mut carrier = Self { ask, leases, standby, waits, losses, loss, until, heard, is_deaf };
        carrier.say(Order::Start(Start { until, variables: environment::of(leases, &ask.url.url, until) })).await;
        carrier
    }

    async fn watch(&mut self, signals: &mut Signals) -> Silence {
        let glance = (self.ask.ttl.get() / 20).min(Duration::from_millis(500));
        let mut is_told = false;
        // Not from one event to the next: a storm of them must not put the look off for ever.
        let mut next_look = Instant::now();
        loop {
            if self.loss.is_some() && !is_told {
                is_told = true;
                self.waits.send_replace(WaitsFor::Told("the command to end, because its lease is lost"));
                self.say(Order::Stop).await;
            }
            tokio::select! {
                report = self.standby.link.hear() => match report {
                    Ok(Some(report)) => {
                        self.take(report);
                        if self.heard.gone.is_some() {
                            return Silence::Ended;
                        }
                    }
                    // The warden is gone, and so is the command, which was tied to it.
                    Ok(None) | Err(_) => return Silence::Ended,
                },
                arrived = signals.next() => {
                    if !arrived.is_from_terminal {
                        self.say(Order::Forward(arrived.number)).await;
                    }
                }
                Some(loss) = self.losses.recv() => self.loss = Some(loss),
                () = sleep_until(next_look) => {
                    if self.look_at_the_leases().await {
                        return Silence::LastLine;
                    }
                    // A look that came after the last line would be of no use.
                    let left = self.last_line().since(BootClock.now());
                    next_look = Instant::now() + left.clamp(Duration::from_millis(1), glance);
                }
            }
        }
    }

    fn take(&mut self, report: Report) {
        if sabotage::active("run_panics") && matches!(report, Report::Started) {
            panic!("as a defect");
        }
        if matches!(report, Report::Ended(_)) && self.loss.is_none() {
            self.waits.send_replace(WaitsFor::Told("what the command has left behind to end"));
        }
        self.heard.take(report);
    }

    /// Hears whatever a warden that is gone has said.
    async fn drain(&mut self) {
        while let Ok(Some(report)) = self.standby.link.hear().await {
            self.heard.take(report);
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

    /// A warden that is gone shows when it is listened to. One that is stopped reads nothing, and is not waited for, nor
    /// spoken to again: what it gets half of is no message, and by that it kills the command as soon as it goes on.
    async fn say(&mut self, order: Order) {
        if !self.is_deaf {
            self.is_deaf = timeout(SAYING, self.standby.link.say(order)).await.is_err();
        }
    }

    fn told(&self, silence: Silence, status: &mut Status) -> Result<Carried, Failure> {
        let outcome = outcome(&self.heard, silence, self.loss.is_some());
        if let (Some(pid), true) = (self.heard.opening, !matches!(outcome, Outcome::NotRun(_))) {
            status.started(pid);
        }
        let why = match (self.is_deaf, self.ask.terms.max_hold) {
            (true, _) => "its warden took no message",
            (false, Some(_)) => "its --max-hold is over, or no heartbeat was confirmed in time",
            (false, None) => "no heartbeat was confirmed in time",
        };
        let near = || format!("{}: {why}", self.names());
        let loss = || self.loss.clone().unwrap_or_else(near);
        match outcome {
            Outcome::Ended(end) => {
                status.ended(end);
                Ok(Carried::Ended(end))
            }
            Outcome::Stopped(end) => {
                status.stopped(end);
                Ok(Carried::Stopped(loss()))
            }
            Outcome::Outlived(end) => {
                status.stopped(end);
                Ok(Carried::Outlived(end, loss()))
            }
            Outcome::NotRun(NotRun::Found(NoCommand::Unusable { code, why })) => {
                Ok(Carried::Unusable(self.unusable(code, &why)))
            }
            Outcome::NotRun(NotRun::Found(NoCommand::TooLate)) => Err(self.too_late()),
            Outcome::NotRun(NotRun::Found(NoCommand::System(why))) => Err(cannot_start(io::Error::other(why))),
            Outcome::NotRun(NotRun::FirstEnded(end)) => Err(ended_before(end)),
            Outcome::NotRun(NotRun::WardenEnded) => Err(warden_ended()),
            Outcome::NotRun(NotRun::HalfTold) => Err(half_told()),
            Outcome::NotRun(NotRun::Lost) => Err(self.lost_before()),
            Outcome::Unknown => {
                status.unknown();
                Err(self.not_known())
            }
        }
    }

    fn lost_before(&self) -> Failure {
        let what = self.loss.clone().unwrap_or_else(|| self.names());
        Failure::new(Exit::Lost, format!("the lease was lost before the command came to run: {what}"))
            .detail("the command was not started")
            .then(AGAIN)
    }

    fn not_known(&self) -> Failure {
        let what = format!("{}: it is not known whether the command was started", self.names());
        Failure::new(Exit::Unknown, what)
            .detail("the process that was to start it was ended at that moment; no process of the command lives")
            .then(format!("see whether it has done anything; if not, {AGAIN}"))
            .begun()
    }

    fn unusable(&self, code: u8, why: &str) -> Failure {
        let program = self.ask.command.first().map_or_else(String::new, |word| word.to_string_lossy().into_owned());
        Failure::new(Exit::Command(code), format!("{program:?} cannot be run: {why}")).then(shell::line(
            "command -v",
            &[&program],
            "",
        ))
    }

    fn names(&self) -> String {
        self.leases.iter().map(|lease| lease.domain().as_str()).collect::<Vec<_>>().join(", ")
    }

    fn too_late(&self) -> Failure {
        let what = format!("{}: too little of the lease was left to start the command", self.names());
        Failure::new(Exit::Lost, what)
            .detail("the command was not started")
            .then(format!("{AGAIN}, with a longer --ttl or --max-hold, or a shorter --stop-after"))
    }
}

fn until(leases: &[Held]) -> Moment {
    leases.iter().map(Held::until).min().unwrap_or_else(|| BootClock.now())
}

fn told(domain: &str, loss: Loss) -> String {
    format!("{domain}: {loss}")
}
