//! Refusals as problems, and problems back as the errors of the call they answer.

use fencepost_coordinator::{CallError, Refused};
use fencepost_core::{
    Domain,
    lease::{
        AcquireRefusal, BreakRefusal, HeartbeatRefusal, HeldBy, LimitReached, ReleaseRefusal, Reserved, SessionRefusal,
    },
};

use crate::{ErrorCode, Problem};

/// How long to leave a coordinator alone that cannot commit.
const STORAGE_RETRY_MS: u64 = 1_000;

/// A refusal that has a place in the API: one problem, and the way back from it.
pub trait Refusal: Sized {
    /// The problem to answer with.
    fn to_problem(&self) -> Problem;

    /// The refusal that a problem stands for; `None` where it is no answer to this call.
    fn from_problem(problem: &Problem) -> Option<Self>;
}

impl Refusal for Refused {
    fn to_problem(&self) -> Problem {
        match *self {}
    }

    fn from_problem(_: &Problem) -> Option<Self> {
        None
    }
}

impl Refusal for LimitReached {
    fn to_problem(&self) -> Problem {
        Problem { limit: Some(self.limit.to_owned()), ..Problem::new(ErrorCode::LimitReached, self.to_string()) }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::LimitReached => Some(Self { limit: limit_name(problem.limit.as_deref()?) }),
            _ => None,
        }
    }
}

impl Refusal for SessionRefusal {
    fn to_problem(&self) -> Problem {
        let problem = |code| Problem::new(code, self.to_string());
        match self {
            Self::Unauthenticated => problem(ErrorCode::Unauthenticated),
            Self::NotYours => problem(ErrorCode::NotYours),
            Self::UnknownSession => problem(ErrorCode::UnknownSession),
            Self::SessionEnded(end) => Problem { reason: Some((*end).into()), ..problem(ErrorCode::SessionEnded) },
        }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::Unauthenticated => Some(Self::Unauthenticated),
            ErrorCode::NotYours => Some(Self::NotYours),
            ErrorCode::UnknownSession => Some(Self::UnknownSession),
            ErrorCode::SessionEnded => problem.reason?.of_session().map(Self::SessionEnded),
            _ => None,
        }
    }
}

impl Refusal for HeartbeatRefusal {
    fn to_problem(&self) -> Problem {
        match self {
            Self::Session(refusal) => refusal.to_problem(),
            Self::VersionUnknown => Problem::new(ErrorCode::VersionUnknown, self.to_string()),
        }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::VersionUnknown => Some(Self::VersionUnknown),
            _ => SessionRefusal::from_problem(problem).map(Self::Session),
        }
    }
}

impl Refusal for AcquireRefusal {
    fn to_problem(&self) -> Problem {
        let problem = |code| Problem::new(code, self.to_string());
        match self {
            Self::Session(refusal) => refusal.to_problem(),
            Self::Held(held) => held_problem(problem(ErrorCode::Held), held),
            Self::Reserved(reserved) => Problem {
                retry_after_ms: Some(reserved.remaining_ms),
                remaining_ms: Some(reserved.remaining_ms),
                queue: Some(reserved.queue),
                waited_ms: Some(reserved.waited_ms),
                reserved: Some(reserved.kind),
                ..problem(ErrorCode::Held)
            },
            Self::HoldEnded => problem(ErrorCode::HoldEnded),
            Self::RequestConflict => problem(ErrorCode::RequestConflict),
            Self::LeaseMismatch => problem(ErrorCode::LeaseMismatch),
            Self::ReentrancyLimit { limit } => {
                Problem { reentrancy_limit: Some(*limit), ..problem(ErrorCode::ReentrancyLimit) }
            }
            Self::Superseded => problem(ErrorCode::Superseded),
            Self::LimitReached(reached) => reached.to_problem(),
            Self::TokenSpaceExhausted => problem(ErrorCode::TokenSpaceExhausted),
        }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::Held => held_from(problem),
            ErrorCode::HoldEnded => Some(Self::HoldEnded),
            ErrorCode::RequestConflict => Some(Self::RequestConflict),
            ErrorCode::LeaseMismatch => Some(Self::LeaseMismatch),
            ErrorCode::ReentrancyLimit => Some(Self::ReentrancyLimit { limit: problem.reentrancy_limit? }),
            ErrorCode::Superseded => Some(Self::Superseded),
            ErrorCode::LimitReached => LimitReached::from_problem(problem).map(Self::LimitReached),
            ErrorCode::TokenSpaceExhausted => Some(Self::TokenSpaceExhausted),
            _ => SessionRefusal::from_problem(problem).map(Self::Session),
        }
    }
}

fn held_problem(problem: Problem, held: &HeldBy) -> Problem {
    Problem {
        retry_after_ms: Some(held.remaining_ms),
        holder: Some(held.holder.clone()),
        lease: Some(held.lease),
        token: held.token,
        held_ms: Some(held.held_ms),
        remaining_ms: Some(held.remaining_ms),
        queue: Some(held.queue),
        waited_ms: Some(held.waited_ms),
        ..problem
    }
}

fn held_from(problem: &Problem) -> Option<AcquireRefusal> {
    let (remaining_ms, queue, waited_ms) = (problem.remaining_ms?, problem.queue?, problem.waited_ms?);
    if let Some(kind) = problem.reserved {
        return Some(AcquireRefusal::Reserved(Reserved { kind, remaining_ms, queue, waited_ms }));
    }
    let held = HeldBy {
        holder: problem.holder.clone()?,
        lease: problem.lease?,
        token: problem.token,
        held_ms: problem.held_ms?,
        remaining_ms,
        queue,
        waited_ms,
    };
    Some(AcquireRefusal::Held(Box::new(held)))
}

/// The limits that a coordinator names. A later version may have more; their name is lost, not the refusal.
fn limit_name(name: &str) -> &'static str {
    ["sessions", "domains", "session_leases", "opening_waiters", "ended_holds"]
        .into_iter()
        .find(|known| *known == name)
        .unwrap_or("one that this version does not know")
}

impl<R: Refusal> Refusal for Box<R> {
    fn to_problem(&self) -> Problem {
        (**self).to_problem()
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        R::from_problem(problem).map(Self::new)
    }
}

impl Refusal for ReleaseRefusal {
    fn to_problem(&self) -> Problem {
        let problem = |code| Problem::new(code, self.to_string());
        match self {
            Self::Session(refusal) => refusal.to_problem(),
            Self::NotYours => problem(ErrorCode::NotYours),
            Self::UnknownLease => problem(ErrorCode::UnknownLease),
            Self::NeverHeld => problem(ErrorCode::NeverHeld),
        }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::NotYours => Some(Self::NotYours),
            ErrorCode::UnknownLease => Some(Self::UnknownLease),
            ErrorCode::NeverHeld => Some(Self::NeverHeld),
            _ => SessionRefusal::from_problem(problem).map(Self::Session),
        }
    }
}

impl Refusal for BreakRefusal {
    fn to_problem(&self) -> Problem {
        let problem = |code| Problem::new(code, self.to_string());
        match self {
            Self::UnknownLease => problem(ErrorCode::UnknownLease),
            Self::LeaseEnded(end) => Problem { reason: Some((*end).into()), ..problem(ErrorCode::LeaseEnded) },
            Self::TokenSpaceExhausted => problem(ErrorCode::TokenSpaceExhausted),
        }
    }

    fn from_problem(problem: &Problem) -> Option<Self> {
        match problem.code {
            ErrorCode::UnknownLease => Some(Self::UnknownLease),
            ErrorCode::LeaseEnded => problem.reason?.of_lease().map(Self::LeaseEnded),
            ErrorCode::TokenSpaceExhausted => Some(Self::TokenSpaceExhausted),
            _ => None,
        }
    }
}

impl Problem {
    /// The problem that answers a call which ended in this error.
    #[must_use]
    pub fn of_call<R: Refusal>(error: CallError<R>) -> Self {
        match error {
            CallError::Refused(refusal) => refusal.to_problem(),
            CallError::Invalid(invalid) => invalid.into(),
            CallError::Unavailable { why, may_have_happened } => {
                Self::new(ErrorCode::StorageUnavailable, why).happened(may_have_happened).after_ms(STORAGE_RETRY_MS)
            }
            CallError::Unreachable { why, may_have_happened } => {
                Self::new(ErrorCode::CoordinatorUnreachable, why).happened(may_have_happened).after_ms(STORAGE_RETRY_MS)
            }
            CallError::Protocol { why } => Self::new(ErrorCode::CoordinatorProtocol, why),
        }
    }

    /// The error of the call that this problem answers.
    ///
    /// A problem that is no answer to the call becomes [`CallError::Protocol`]: it is never taken for a permission,
    /// and the call may have happened.
    #[must_use]
    pub fn into_call_error<R: Refusal>(self) -> CallError<R> {
        if let Some(refusal) = R::from_problem(&self) {
            return CallError::Refused(refusal);
        }
        let why = format!("{}: {} ({})", self.code, self.detail, self.fix);
        if self.retryable && self.status >= 500 {
            CallError::Unavailable { why, may_have_happened: self.may_have_happened }
        } else {
            CallError::Protocol { why }
        }
    }

    /// The same with the exact command that breaks the lease on `domain`, where there is a lease to break.
    #[must_use]
    pub fn with_break_command(self, domain: &Domain) -> Self {
        let Some(lease) = self.lease else { return self };
        let fix = format!(
            "wait with `wait_ms`, try again later, or take it away: fencepost break {} --lease {lease} --reason TEXT",
            shell_quoted(domain.as_str())
        );
        self.fixed_by(fix)
    }
}

/// The text as one word for a shell. Domains may contain anything that is not a control character.
fn shell_quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if text.chars().all(plain) && !text.starts_with('-') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
