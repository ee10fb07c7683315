//! Acquiring what was asked for: one domain after the other, each with its receivers, in one session.

use std::{
    error::Error,
    future::Future,
    pin::{Pin, pin},
    thread,
    time::Duration,
};

use fencepost::{Advance, AdvancingError, FencedLease};
use fencepost_client::{
    Acquire, AcquireError, BootClock, Clock, Lease, LeaseState, Loss, OpenError, Permitted, Session,
};
use fencepost_coordinator::{CallError, Coordinator};
use fencepost_core::{Contract, Correlation, Domain, Grant, Issuer, LeaseId, Moment, lease::AcquireRefusal};
use fencepost_receiver::{AdvanceError, Receiver};
use fencepost_wire::{ErrorCode, Problem};
use tokio::time::{Instant, sleep, timeout};

use super::{
    ask::{Ask, Patience, one_wait},
    resource::Resource,
};
use crate::{
    coordinator::{ANSWER, Call, failed, held, no_threads, patiently},
    exit::Exit,
    failure::{AGAIN, Failure},
};

/// A lease under one of the contracts.
#[derive(Debug)]
pub(crate) enum Held {
    Fenced(FencedLease),
    Safety(Lease),
    Admission(Lease<Correlation>),
    Advisory(Lease<fencepost_client::Advisory>),
}

impl Held {
    pub(crate) fn domain(&self) -> &Domain {
        match self {
            Self::Fenced(lease) => lease.domain(),
            Self::Safety(lease) => lease.domain(),
            Self::Admission(lease) => lease.domain(),
            Self::Advisory(lease) => lease.domain(),
        }
    }

    pub(crate) fn id(&self) -> LeaseId {
        match self {
            Self::Fenced(lease) => lease.id(),
            Self::Safety(lease) => lease.id(),
            Self::Admission(lease) => lease.id(),
            Self::Advisory(lease) => lease.id(),
        }
    }

    pub(crate) fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Fenced(lease) => Some(lease.grant()),
            Self::Safety(lease) => Some(lease.grant()),
            Self::Admission(_) | Self::Advisory(_) => None,
        }
    }

    pub(crate) fn correlation(&self) -> Option<&Correlation> {
        match self {
            Self::Admission(lease) => Some(lease.correlation()),
            Self::Fenced(_) | Self::Safety(_) | Self::Advisory(_) => None,
        }
    }

    /// The receivers that know the token already.
    pub(crate) fn advanced(&self) -> &[String] {
        match self {
            Self::Fenced(lease) => lease.advanced(),
            Self::Safety(_) | Self::Admission(_) | Self::Advisory(_) => &[],
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        let state = match self {
            Self::Fenced(lease) => lease.state(),
            Self::Safety(lease) => lease.state(),
            Self::Admission(lease) => lease.state(),
            Self::Advisory(lease) => lease.state(),
        };
        match state {
            LeaseState::Lost(loss) => Some(loss),
            LeaseState::Held | LeaseState::InDoubt { .. } => None,
        }
    }

    /// Until when it may be believed in; never later than the truth.
    pub(crate) fn until(&self) -> Moment {
        let now = BootClock.now();
        let remaining = match self {
            Self::Fenced(lease) => lease.remaining(),
            Self::Safety(lease) => lease.remaining(),
            Self::Admission(lease) => lease.remaining(),
            Self::Advisory(lease) => lease.remaining(),
        };
        now.after(remaining)
    }

    /// Completes when it is lost.
    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = Loss> + Send>> {
        match self {
            Self::Fenced(lease) => Box::pin(lease.lost()),
            Self::Safety(lease) => Box::pin(lease.lost()),
            Self::Admission(lease) => Box::pin(lease.lost()),
            Self::Advisory(lease) => Box::pin(lease.lost()),
        }
    }

    fn leave_to_expire(self) {
        match self {
            Self::Fenced(lease) => lease.leave_to_expire(),
            Self::Safety(lease) => lease.leave_to_expire(),
            Self::Admission(lease) => lease.leave_to_expire(),
            Self::Advisory(lease) => lease.leave_to_expire(),
        }
    }
}

/// The leases while a command may live under them. A panic on the way out of this process gives none of them back: the
/// command lives until its warden has heard of it, and they end by themselves.
#[derive(Debug)]
pub(crate) struct Leases(pub(crate) Vec<Held>);

impl Drop for Leases {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.drain(..).for_each(Held::leave_to_expire);
        }
    }
}

/// Opens the session, for as long as whoever asks has been willing to wait since they `started`.
///
/// # Errors
/// When it cannot be opened. Nothing is left behind.
pub(crate) async fn open(ask: &Ask, started: Instant, watch: impl Fn(&dyn Error)) -> Result<Session, Failure> {
    let mut pause = Duration::from_millis(50);
    loop {
        let opening = Session::open(ask.url.connect()?, ask.holder.clone(), ask.ttl);
        // A session that is opened after all ends by itself: nobody keeps it alive, and nothing hangs on it.
        let limit = left(ask.patience, started).saturating_add(ANSWER);
        let error = match timeout(limit, opening).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => error,
            Err(_) => no_answer(limit),
        };
        watch(&error);
        let left = left(ask.patience, started);
        if !error.is_worth_repeating() || left.is_zero() {
            return Err(match error {
                OpenError::Call(error) => failed(Call::Read, &ask.url.url, error),
                OpenError::Thread(_) => no_threads(&error),
            });
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Whose grants there will be, asked for as long as [`open`] would.
///
/// # Errors
/// When nobody says.
pub(crate) async fn issuer(ask: &Ask, started: Instant, watch: impl Fn(&dyn Error)) -> Result<Issuer, Failure> {
    let coordinator = ask.url.connect_to_wait()?;
    // The leases of one domain of many, beside what is asked for.
    let prefix = ask.domains.first().map_or_else(String::new, ToString::to_string);
    let snapshot = patiently(left(ask.patience, started), Duration::ZERO, async |_| {
        coordinator.snapshot(prefix.clone()).await.inspect_err(|error| watch(error))
    });
    let snapshot = snapshot.await.map_err(|(error, _)| failed(Call::Read, &ask.url.url, error))?;
    Ok(snapshot.issuer)
}

fn no_answer(limit: Duration) -> OpenError {
    let why = format!("no answer in {} ms", limit.as_millis());
    OpenError::Call(CallError::Unreachable { why, may_have_happened: true })
}

/// What an acquire came to.
pub(crate) enum Acquired {
    All(Vec<Held>),
    /// Another has one of the domains, and the command is to be skipped then.
    Skipped(Domain),
}

/// Acquires every domain in byte order. What had been acquired before a failure is given back with the session.
///
/// # Errors
/// Why the command must not be started.
pub(crate) async fn acquire(
    session: &Session,
    ask: &Ask,
    started: Instant,
    watch: impl Fn(&Domain),
) -> Result<Acquired, Failure> {
    let mut all = Vec::with_capacity(ask.domains.len());
    for domain in &ask.domains {
        watch(domain);
        match one(session, ask, domain, started).await? {
            Some(held) => all.push(held),
            None => return Ok(Acquired::Skipped(domain.clone())),
        }
    }
    Ok(Acquired::All(all))
}

async fn one(session: &Session, ask: &Ask, domain: &Domain, started: Instant) -> Result<Option<Held>, Failure> {
    loop {
        let left = left(ask.patience, started);
        let error = match attempt(session, ask, domain, left).await {
            Ok(held) => return Ok(Some(held)),
            Err(error) => error,
        };
        let is_held = matches!(
            &error,
            AdvancingError::Acquire(AcquireError::Call(CallError::Refused(refusal)))
                if matches!(refusal.as_ref(), AcquireRefusal::Held(_) | AcquireRefusal::Reserved(_))
        );
        let waits_on = is_held && ask.patience == Patience::Endless;
        if !waits_on {
            return if is_held && ask.is_skipped_when_held { Ok(None) } else { Err(refused(ask, domain, error)) };
        }
    }
}

async fn attempt(session: &Session, ask: &Ask, domain: &Domain, left: Duration) -> Result<Held, AdvancingError> {
    let domain = domain.clone();
    match ask.contract {
        Contract::Safety => {
            let mut receivers = ask.resources.iter().filter(|resource| resource.is_of(&domain));
            let acquire = on_terms(session.acquire(domain.clone()), ask, left);
            match receivers.next() {
                None => Ok(Held::Safety(acquire.await?)),
                Some(first) => {
                    let advancing = receivers.fold(acquire.advance(first), |all, next| all.advance(next));
                    advancing.await.map(Held::Fenced)
                }
            }
        }
        Contract::Admission => Ok(Held::Admission(on_terms(session.acquire_admission(domain), ask, left).await?)),
        Contract::Advisory => Ok(Held::Advisory(on_terms(session.acquire_advisory(domain), ask, left).await?)),
    }
}

fn on_terms<P: Permitted>(mut acquire: Acquire<P>, ask: &Ask, left: Duration) -> Acquire<P> {
    // Nothing is started on a doubt, so there is no use in settling one for longer than a moment.
    let patience = (ask.ttl.get() / 3).min(ANSWER);
    acquire = acquire.wait(one_wait(left)).patience(patience);
    if let Some(max_hold) = ask.terms.max_hold {
        acquire = acquire.max_hold(max_hold);
    }
    if let Some(min_hold) = ask.terms.min_hold {
        acquire = acquire.min_hold(min_hold);
    }
    if let Some(lock_delay) = ask.terms.lock_delay {
        acquire = acquire.lock_delay(lock_delay);
    }
    acquire
}

fn left(patience: Patience, started: Instant) -> Duration {
    patience.longest().saturating_sub(started.elapsed())
}

/// Every failure is a reason not to start the command, so an unknown outcome counts as none: the session that the
/// grant would hang on is ended.
fn refused(ask: &Ask, domain: &Domain, error: AdvancingError) -> Failure {
    let again = AGAIN;
    let what = error.to_string();
    let failure = match error {
        AdvancingError::Acquire(AcquireError::Call(error)) => {
            let told = match &error {
                CallError::Refused(refusal) => {
                    held(domain, refusal, &ask.url.option(), ask.held_exit_code, |wait| ask.again(wait))
                }
                CallError::Invalid(_)
                | CallError::Unavailable { .. }
                | CallError::Unreachable { .. }
                | CallError::Protocol { .. } => None,
            };
            told.unwrap_or_else(|| failed(Call::Read, &ask.url.url, error))
        }
        AdvancingError::Acquire(AcquireError::SessionOver(_)) => {
            let problem = Problem::new(ErrorCode::SessionEnded, what.clone());
            Failure::new(Exit::Unreachable, format!("{}: {what}", domain.as_str())).then(again).with_problem(problem)
        }
        AdvancingError::Acquire(AcquireError::Lost(_)) | AdvancingError::Lost(_) => {
            Failure::new(Exit::Lost, format!("{}: {what}", domain.as_str())).then(again)
        }
        AdvancingError::Incapable { .. } => Failure::new(Exit::Configuration, what).then("leave out that --advance"),
        AdvancingError::Rejected { receiver, rejection, .. } => named(ask, &receiver).map_or_else(
            || Failure::new(Exit::Rejected, what.clone()).then(again),
            |resource| resource.refused(&rejection).detail(what.clone()),
        ),
        AdvancingError::NotAdvanced { error: Some(AdvanceError::Invalid(invalid)), .. } => invalid.into(),
        AdvancingError::NotAdvanced { receiver, error: Some(AdvanceError::Unavailable(cause)), .. } => {
            let failure = named(ask, &receiver).map(|resource| resource.unavailable(&cause).detail(what.clone()));
            failure.unwrap_or_else(|| Failure::new(Exit::CannotWrite, what).then(again))
        }
        AdvancingError::NotAdvanced { error: Some(AdvanceError::Unknown(_)) | None, .. } => {
            Failure::new(Exit::CannotWrite, what).then(again)
        }
    };
    failure.detail("the command was not started")
}

/// The receiver of that name.
fn named<'a>(ask: &'a Ask, receiver: &str) -> Option<&'a Resource> {
    ask.resources.iter().find(|resource| resource.name() == receiver)
}

/// Does the work while something else goes on beside it, and stops that with it.
pub(crate) async fn beside<T>(work: impl Future<Output = T>, other: impl Future<Output = ()>) -> T {
    let mut other = pin!(other);
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = &mut other => {}
    }
    work.await
}
