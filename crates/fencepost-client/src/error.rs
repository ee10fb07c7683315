use std::io;

use fencepost_coordinator::CallError;
use fencepost_core::{
    holder::Loss,
    lease::{AcquireRefusal, HeldBy, LimitReached, ReleaseRefusal, SessionRefusal},
};

/// Why a session was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The coordinator did not open it. A session that was opened all the same ends by itself after one TTL, so
    /// opening again is safe.
    #[error(transparent)]
    Call(#[from] CallError<LimitReached>),
    /// The thread that would keep it alive could not be started.
    #[error("the thread that keeps the session alive could not be started: {0}")]
    Thread(#[source] io::Error),
}

impl OpenError {
    /// Whether opening again may succeed.
    #[must_use]
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            Self::Call(CallError::Refused(LimitReached { .. })) => true,
            Self::Call(error) => error.is_worth_repeating(),
            Self::Thread(_) => false,
        }
    }
}

/// Why an acquire gave no lease. Whatever it was, nothing may be done under the domain.
///
/// The call has been repeated already for as long as it was [patient](crate::Acquire::patience). Where it may have
/// been granted all the same, the session gives that grant back by itself and never claims it.
///
/// ```
/// use fencepost_client::{AcquireError, Session};
/// use fencepost_core::Domain;
///
/// async fn try_it(session: &Session, domain: Domain) -> String {
///     match session.acquire(domain).await {
///         Ok(lease) => format!("mine, under {}", lease.token()),
///         Err(error) => match error.held_by() {
///             Some(held) => format!("{}'s for at least {} ms more", held.holder, held.remaining_ms),
///             None if error.is_worth_repeating() => format!("not now: {error}"),
///             None => format!("not in this session: {error}"),
///         },
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// The coordinator's refusal, or no answer that could be understood.
    #[error(transparent)]
    Call(#[from] CallError<Box<AcquireRefusal>>),
    /// It was granted, and lost before it could be handed over. Acquire again.
    #[error("the grant was lost before it could be used: {0}; acquire again")]
    Lost(Loss),
    /// The session is over. Open a new one and acquire there.
    #[error("the session is over: {0}; open a new one")]
    SessionOver(Loss),
}

impl AcquireError {
    /// Who holds the domain, where that is the reason.
    #[must_use]
    pub fn held_by(&self) -> Option<&HeldBy> {
        match self {
            Self::Call(CallError::Refused(refusal)) => match refusal.as_ref() {
                AcquireRefusal::Held(held) => Some(held),
                _ => None,
            },
            Self::Call(_) | Self::Lost(_) | Self::SessionOver(_) => None,
        }
    }

    /// Whether a new acquire may succeed in this session: the domain may become free, the coordinator may come back.
    #[must_use]
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            Self::Call(CallError::Refused(refusal)) => match refusal.as_ref() {
                AcquireRefusal::Held(_)
                | AcquireRefusal::Reserved(_)
                | AcquireRefusal::HoldEnded
                | AcquireRefusal::ReentrancyLimit { .. }
                | AcquireRefusal::LimitReached { .. } => true,
                AcquireRefusal::Session(_)
                | AcquireRefusal::RequestConflict
                | AcquireRefusal::LeaseMismatch
                | AcquireRefusal::Superseded
                | AcquireRefusal::TokenSpaceExhausted => false,
            },
            Self::Call(error) => error.is_worth_repeating(),
            Self::Lost(_) => true,
            Self::SessionOver(_) => false,
        }
    }
}

/// Why it is not known that a release took effect.
///
/// The lease is not renewed any more in any case, so it ends by itself within one TTL.
///
/// ```
/// use fencepost_client::{Lease, ReleaseError};
///
/// async fn done(lease: Lease) {
///     match lease.release().await {
///         Ok(released) => println!("ended: {:?}", released.ended),
///         Err(ReleaseError::SessionOver) => println!("it was gone already"),
///         Err(error @ ReleaseError::Call(_)) => eprintln!("{error}"),
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// The coordinator's refusal, or no answer. The call has been repeated already.
    #[error("{0}; the lease is not renewed any more and ends by itself within one TTL")]
    Call(#[from] CallError<ReleaseRefusal>),
    /// The session is over, and every lease with it.
    #[error("the session is over, and the lease with it")]
    SessionOver,
}

/// Why it is not known that a session was ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}; the session is not renewed any more and ends by itself within one TTL")]
pub struct CloseError(#[from] pub CallError<SessionRefusal>);
