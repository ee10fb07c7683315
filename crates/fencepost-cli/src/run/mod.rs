//! `fencepost run`: a command that runs only while its leases are held.
//!
//! Three processes: `run` itself keeps the leases; the [warden] starts and stops the command; the command is the
//! warden's child, and so becomes every orphan below it. `run` decides about leases and never about processes, the
//! warden about processes and never about leases ([`plan`] has its rules).
//!
//! What it is not: protection of a resource. Where none of these processes gets to run in time, nobody stops the
//! command, and the receiver refuses its writes.

mod ask;
mod carry;
mod cgroup;
mod environment;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod held;
mod link;
mod plan;
mod resource;
mod signals;
mod status;
mod tree;
mod warden;

use std::{
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use fencepost_client::Session;
use fencepost_coordinator::Coordinator;
use fencepost_core::{Domain, lease::Filter};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use self::{
    ask::Ask,
    carry::{Carried, carry},
    held::{Acquired, Held, acquire, beside, open},
    link::End,
    signals::{Arrived, Signals},
    status::{Status, guarantee},
};
pub(crate) use self::{
    ask::{RunArgs, without_dashes},
    warden::{BecomeArgs, WardenArgs, become_command, run as run_warden},
};
use crate::{
    duration::readable,
    exit::Exit,
    failure::Failure,
    output::{Output, aside},
};

/// How long giving back may take. After that the leases end by themselves.
const GIVING_BACK: Duration = Duration::from_secs(5);
/// The same where somebody has asked this process to end.
const LEAVING: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: RunArgs, output: Output) -> Result<Exit, Failure> {
    let mut status = Status::new(args.status_fd, output.json)?;
    let result = run_told(args, output, &mut status).await.map_err(|failure| failure.in_command("run"));
    status.tell(&result);
    result
}

async fn run_told(args: RunArgs, output: Output, status: &mut Status) -> Result<Exit, Failure> {
    let mut ask = Ask::parse(args)?;
    for resource in &mut ask.resources {
        resource.look(&ask.domains)?;
    }
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(Exit::Bug, format!("the system takes no signal handlers: {error}")))?;
    let session = tokio::select! {
        biased;
        session = open(&ask) => session?,
        arrived = signals.next() => return Ok(left_by(arrived)),
    };
    let (wanted, waits_for) = watch::channel(None);
    let acquiring = acquire(&session, &ask, |domain| drop(wanted.send(Some(domain.clone()))));
    let acquired = tokio::select! {
        biased;
        acquired = beside(acquiring, tell_what_is_waited_for(&ask, waits_for, output)) => acquired,
        arrived = signals.next() => {
            // The acquire was dropped with its place in the queue; ending the session ends it at the coordinator too.
            let _ = timeout(LEAVING, session.close()).await;
            return Ok(left_by(arrived));
        }
    };
    let leases = match acquired {
        Ok(Acquired::All(leases)) => leases,
        Ok(Acquired::Skipped(domain)) => {
            status.skipped(domain.as_str());
            give_back(session, output).await;
            if io::stderr().is_terminal() && !output.json {
                aside(&format!("fencepost: {} is held by another: skipped", domain.as_str()));
            }
            return Ok(Exit::Done);
        }
        Err(failure) => {
            let _ = timeout(GIVING_BACK, session.close()).await;
            return Err(failure);
        }
    };
    status.holds(&leases);
    tell_what_is_held(&leases, output);
    let carried = carry(&ask, &leases, &mut signals, status).await;
    if matches!(&carried, Ok(Carried { stopped: Some(_), .. })) {
        status.stopped();
    }
    status.released(give_back(session, output).await);
    match carried? {
        Carried { stopped: Some(why), .. } => {
            Err(Failure::new(Exit::Lost, format!("the lease is lost, and the command was stopped: {why}"))
                .then("see what it has done; then run the same command again"))
        }
        Carried { end: End::Exited(code), .. } => Ok(Exit::Command(code)),
        Carried { end: End::Killed(signal), .. } => Ok(Exit::Signal(signal)),
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

/// On a terminal, every ten seconds.
async fn tell_what_is_waited_for(ask: &Ask, waits_for: watch::Receiver<Option<Domain>>, output: Output) {
    if !io::stderr().is_terminal() || output.json {
        return pending().await;
    }
    let Ok(coordinator) = ask.url.connect() else { return };
    let mut waited_ms = 0;
    loop {
        sleep(Duration::from_secs(10)).await;
        waited_ms += 10_000;
        let Some(domain) = waits_for.borrow().clone() else { continue };
        let page = coordinator.list(Filter::Domain(domain.clone()), None, 1).await;
        let by = page.ok().and_then(|page| page.rows.first().map(|row| format!(", held by {}", row.holder)));
        aside(&format!("fencepost: waiting for {domain}{} ({})", by.unwrap_or_default(), readable(waited_ms)));
    }
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
