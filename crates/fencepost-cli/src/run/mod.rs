//! `fencepost run`: a command that runs only while its leases are held.
//!
//! Three processes. `run` itself keeps the leases; the [warden] starts and stops the command; its child, behind a
//! [gate], becomes the command. `run` decides about leases and never about processes, the warden about processes and
//! never about leases ([`plan`] has its rules). All are started at once, and who waits for whom is this:
//!
//! ```text
//! run                        warden                          the first process
//! starts the warden ───────▶ starts the first process ─────▶ ties itself to the warden
//! asks for the leases        puts it into a control group    waits at the gate
//! has them: «start» ───────▶ is there time? opens ─────────▶ is there time? becomes the command
//! renews them: «until» ────▶ TERM and KILL in time ────────▶ ends, and everything below it
//!      «opening, started, ended, gone» ◀┘ once it has no child
//! after «gone» gives them back
//! Whoever waits and sees the other end go, or hears anything else, ends with nothing started.
//! ```
//!
//! What it is not: protection of a resource. Where none of these processes gets to run in time, nobody stops the
//! command, and the receiver refuses its writes.

mod ask;
mod carry;
mod cgroup;
mod environment;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod gate;
mod held;
mod link;
mod outcome;
mod plan;
mod resource;
mod signals;
mod standby;
mod status;
mod tree;
mod waiting;
mod warden;

use std::{
    error::Error,
    io::{self, IsTerminal},
    pin::pin,
    time::Duration,
};

use fencepost_client::Session;
use fencepost_core::Domain;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use self::{
    ask::{Ask, Fits},
    carry::{Carried, carry},
    held::{Acquired, Held, Leases, acquire, beside, issuer, open},
    link::End,
    signals::{Arrived, Signals},
    standby::Standby,
    status::{Status, guarantee},
    waiting::WaitsFor,
};
pub(crate) use self::{
    ask::{RunArgs, one_wait, taking_dashed_domains, with_dashed_domains, without_dashes},
    gate::{BECOME, BecomeArgs, become_command},
    signals::unless_ignored,
    tree::is_in_foreground,
    warden::{WARDEN, WardenArgs, run as run_warden},
};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
    output::{Output, aside},
    report,
};

/// How long giving back may take. After that the leases end by themselves.
const GIVING_BACK: Duration = Duration::from_secs(5);
/// The same where somebody has asked this process to end, and where the coordinator has just kept it waiting in vain.
const LEAVING: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: RunArgs, output: Output) -> Result<Exit, Failure> {
    let mut status = Status::new(args.status_fd, output.json)?;
    let (waits, waits_for) = watch::channel(WaitsFor::Nothing);
    let url = args.url.clone();
    let running = run_told(args, output, &mut status, &waits);
    let result = beside(running, waiting::tell(&url, waits_for, output)).await;
    let result = result.map_err(|failure| failure.in_command("run"));
    match (status.tell(&result), result) {
        (None, result) => result,
        // No command has run whose exit code this would have to be.
        (Some(untold), Ok(Exit::Done)) => Err(untold),
        // The exit code is the command's, or the signal's that was to end `run`.
        (Some(untold), Ok(exit)) => {
            untold.in_command("run").tell_beside(output.json);
            Ok(exit)
        }
        (Some(untold), Err(failure)) => Err(failure.and(untold)),
    }
}

async fn run_told(
    args: RunArgs,
    output: Output,
    status: &mut Status,
    waits: &watch::Sender<WaitsFor>,
) -> Result<Exit, Failure> {
    let mut ask = Ask::parse(args)?;
    let fits = ask.refuse_too_many()?;
    look_at_receivers(&mut ask, waits).await?;
    let mut signals = Signals::listen().map_err(|error| {
        Failure::new(Exit::Bug, format!("the system takes no signal handlers: {error}")).then(AGAIN)
    })?;
    // It takes longer to be ready than a grant takes to come.
    let mut standby = Standby::start(&ask)?;
    let (session, leases) = match acquired(&ask, fits, &mut standby, &mut signals, status, waits, output).await {
        Ok((session, leases)) => (session, Leases(leases)),
        Err(end) => {
            standby.stand_down().await;
            return end;
        }
    };
    status.holds(&leases.0);
    tell_what_is_held(&leases.0, output);
    waits.send_replace(WaitsFor::Nothing);
    let carried = carry(&ask, &leases.0, &mut standby, &mut signals, status, waits).await;
    waits.send_replace(WaitsFor::Release);
    status.released(give_back(session, output).await);
    standby.stand_down().await;
    let carried = carried?;
    if let (Some(lease), true) = (leases.0.first(), is_failed_work(&carried)) {
        report::work_failed(&ask.url.url, lease.domain(), lease.id()).await;
    }
    ending(carried)
}

/// Whether they are there, before a lease is asked for. A file or a database may be locked for a while.
async fn look_at_receivers(ask: &mut Ask, waits: &watch::Sender<WaitsFor>) -> Result<(), Failure> {
    if ask.resources.is_empty() {
        return Ok(());
    }
    waits.send_replace(WaitsFor::Told("the receivers to be looked at"));
    let (mut resources, domains) = (ask.resources.clone(), ask.domains.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let looked = resources.iter_mut().try_for_each(|resource| resource.look(&domains));
        looked.map(|()| resources)
    });
    let looked = looking.await.map_err(|error| Failure::new(Exit::Bug, error.to_string()).then(REPORT))?;
    ask.resources = looked?;
    Ok(())
}

/// Whether it failed though the lease lasted.
fn is_failed_work(carried: &Carried) -> bool {
    match carried {
        Carried::Ended(end) => *end != End::Exited(0),
        Carried::Unusable(_) => true,
        Carried::Stopped(..) | Carried::Outlived(..) => false,
    }
}

fn ending(carried: Carried) -> Result<Exit, Failure> {
    let look = format!("see what it has done; then {AGAIN}");
    match carried {
        Carried::Ended(End::Exited(code)) => Ok(Exit::Command(code)),
        Carried::Ended(End::Killed(signal)) => Ok(Exit::Signal(signal)),
        Carried::Unusable(failure) => Err(failure),
        Carried::Stopped(why) => {
            let what = format!("the lease is lost, and the command was stopped: {why}");
            Err(Failure::new(Exit::Lost, what).then(look).begun())
        }
        Carried::Outlived(end, why) => {
            let how = match end {
                End::Exited(code) => format!("with exit code {code}"),
                End::Killed(signal) => format!("by signal {signal}"),
            };
            let what = format!("the lease is lost, and the command ended only after that, {how}: {why}");
            Err(Failure::new(Exit::Lost, what)
                .detail("it was not stopped in time: its last work may have overlapped with another's")
                .then(look)
                .begun())
        }
    }
}

/// The leases with the session that they hang on; or what `run` ends with, because it has none.
async fn acquired(
    ask: &Ask,
    fits: Fits,
    standby: &mut Standby,
    signals: &mut Signals,
    status: &mut Status,
    waits: &watch::Sender<WaitsFor>,
    output: Output,
) -> Result<(Session, Vec<Held>), Result<Exit, Failure>> {
    let mut there_is_no_use = pin!(async {
        tokio::select! {
            biased;
            arrived = signals.next() => Ok(left_by(arrived)),
            failure = standby.fails() => Err(failure),
        }
    });
    let started = Instant::now();
    waits.send_replace(WaitsFor::Session { trouble: None });
    let trouble = |error: &dyn Error| {
        waits.send_replace(WaitsFor::Session { trouble: Some(error.to_string()) });
    };
    let opening = async {
        if fits == Fits::WithAShortIssuer {
            ask.refuse_too_many_of(&issuer(ask, started, trouble).await?)?;
        }
        open(ask, started, trouble).await
    };
    let session = tokio::select! {
        biased;
        session = opening => session.map_err(Err)?,
        end = &mut there_is_no_use => return Err(end),
    };
    let wanted = |domain: &Domain| {
        waits.send_replace(WaitsFor::Domain { domain: domain.clone(), session: session.id() });
    };
    let acquired = tokio::select! {
        biased;
        acquired = acquire(&session, ask, started, wanted) => acquired,
        end = &mut there_is_no_use => {
            // The acquire was dropped with its place in the queue; ending the session ends it at the coordinator too.
            let _ = timeout(LEAVING, session.close()).await;
            return Err(end);
        }
    };
    match acquired {
        Ok(Acquired::All(leases)) => Ok((session, leases)),
        Ok(Acquired::Skipped(domain)) => {
            status.skipped(domain.as_str());
            waits.send_replace(WaitsFor::Release);
            give_back(session, output).await;
            if io::stderr().is_terminal() && !output.json {
                aside(&format!("fencepost: {} is held by another: skipped", domain.as_str()));
            }
            Err(Ok(Exit::Done))
        }
        Err(failure) => {
            waits.send_replace(WaitsFor::Release);
            let patience = if failure.is_unanswered() { LEAVING } else { GIVING_BACK };
            let _ = timeout(patience, session.close()).await;
            Err(Err(failure))
        }
    }
}

fn left_by(arrived: Arrived) -> Exit {
    Exit::Signal(u8::try_from(arrived.number).unwrap_or(u8::MAX))
}

/// Ends the session and every lease of it. Whether the coordinator has confirmed that.
async fn give_back(session: Session, output: Output) -> bool {
    let was_over = session.over();
    let is_confirmed = matches!(timeout(GIVING_BACK, session.close()).await, Ok(Ok(())));
    if !is_confirmed && was_over.is_none() && !output.json {
        aside("fencepost: the coordinator has not confirmed the release; the lease ends by itself within one TTL");
    }
    is_confirmed && was_over.is_none()
}

fn tell_what_is_held(leases: &[Held], output: Output) {
    if !io::stderr().is_terminal() || output.json {
        return;
    }
    for lease in leases {
        let domain = lease.domain();
        let with = lease.grant().map_or_else(String::new, |grant| format!(" with token {}", grant.token));
        let promise = match guarantee(std::slice::from_ref(lease)) {
            Some("FencedOnFirstWrite") => {
                ", FencedOnFirstWrite: an older token works until the first write (--advance RESOURCE ends that now)"
                    .to_owned()
            }
            Some(promise) => format!(", {promise} at {}", lease.advanced().join(", ")),
            None => String::new(),
        };
        aside(&format!("fencepost: holding {domain}{with}{promise}"));
    }
}
