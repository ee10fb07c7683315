//! What a history says once its lines are put together.

use fencepost_core::Token;

/// All calls, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The calls.
    pub calls: Vec<Call>,
}

/// A call with its answer. Times are positions in the history: what has the smaller one came first.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who called.
    pub who: String,
    /// The resource written to or read.
    pub resource: String,
    /// The domain.
    pub domain: String,
    /// What was called for.
    pub action: Action,
    /// When it began.
    pub called: usize,
    /// The same by the clock, where the history has one.
    pub called_us: Option<u64>,
    /// When it was answered; `None` where it never was.
    pub answered: Option<usize>,
    /// The same by the clock, where the history has one.
    pub answered_us: Option<u64>,
    /// What came of it.
    pub outcome: Outcome,
    /// The lease it was about.
    pub lease: Option<String>,
    /// Until when the answer lets its holder believe in the lease, by the clock.
    pub until_us: Option<u64>,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To acquire a domain.
    Acquire,
    /// To renew a lease.
    Renew,
    /// To release a lease.
    Release,
    /// To open a session.
    Open,
    /// To renew a session, with the leases that it claims.
    Heartbeat,
    /// To end a session.
    End,
    /// To write a value.
    Write {
        /// The token presented.
        token: Token,
        /// The value written.
        value: String,
        /// The operation, where the write names one.
        operation: Option<String>,
        /// What the operation is to do.
        fingerprint: Option<String>,
    },
    /// To read a value.
    Read {
        /// The token presented, by a fenced read.
        token: Option<Token>,
    },
    /// To raise the fence.
    Advance {
        /// The token presented.
        token: Token,
    },
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A lease was granted.
    Granted {
        /// Its token.
        token: Token,
    },
    /// What is asked of a session or a lease was done.
    Done,
    /// It took effect.
    Applied,
    /// The operation had taken effect before.
    Replayed,
    /// The receiver refused.
    Rejected {
        /// The reason's code.
        reason: String,
    },
    /// A read found this.
    Value(String),
    /// It certainly did not happen.
    Refused,
    /// It may have happened, or may yet.
    Unknown,
}

impl Action {
    /// Whether it is about a session, and so about no domain in particular.
    #[must_use]
    pub fn is_of_a_session(&self) -> bool {
        match self {
            Self::Open | Self::Heartbeat | Self::End => true,
            Self::Acquire
            | Self::Renew
            | Self::Release
            | Self::Write { .. }
            | Self::Read { .. }
            | Self::Advance { .. } => false,
        }
    }

    /// Whether it is about the value and the fence of a domain at a resource.
    #[must_use]
    pub fn is_of_a_register(&self) -> bool {
        match self {
            Self::Write { .. } | Self::Read { .. } | Self::Advance { .. } => true,
            Self::Acquire | Self::Renew | Self::Release | Self::Open | Self::Heartbeat | Self::End => false,
        }
    }

    /// Its name in a history.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Open => "open",
            Self::Heartbeat => "heartbeat",
            Self::End => "end",
            Self::Write { .. } => "write",
            Self::Read { .. } => "read",
            Self::Advance { .. } => "advance",
        }
    }

    pub(super) fn token(&self) -> Option<Token> {
        match self {
            Self::Write { token, .. } | Self::Advance { token } => Some(*token),
            Self::Read { token } => *token,
            Self::Acquire | Self::Renew | Self::Release | Self::Open | Self::Heartbeat | Self::End => None,
        }
    }

    /// Value, operation and fingerprint of a write.
    fn written(&self) -> Option<(&str, Option<&str>, Option<&str>)> {
        match self {
            Self::Write { value, operation, fingerprint, .. } => {
                Some((value, operation.as_deref(), fingerprint.as_deref()))
            }
            Self::Acquire
            | Self::Renew
            | Self::Release
            | Self::Open
            | Self::Heartbeat
            | Self::End
            | Self::Read { .. }
            | Self::Advance { .. } => None,
        }
    }

    /// What it writes, where it is a write.
    pub(super) fn value(&self) -> Option<&str> {
        self.written().map(|(value, ..)| value)
    }

    pub(super) fn fingerprint(&self) -> Option<&str> {
        self.written().and_then(|(.., fingerprint)| fingerprint)
    }

    pub(super) fn operation(&self) -> Option<&str> {
        self.written().and_then(|(_, operation, _)| operation)
    }
}

impl Call {
    /// What it found, where it is a read.
    pub(super) fn read_value(&self) -> Option<&str> {
        if let Outcome::Value(value) = &self.outcome { Some(value) } else { None }
    }

    /// Whether it was over before `other` began.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        self.answered.is_some_and(|answered| answered < other.called)
    }

    /// The token that it certainly raised the fence to.
    pub(super) fn raised_to(&self) -> Option<Token> {
        match self.outcome {
            Outcome::Applied | Outcome::Value(_) => self.action.token(),
            Outcome::Granted { .. }
            | Outcome::Done
            | Outcome::Replayed
            | Outcome::Rejected { .. }
            | Outcome::Refused
            | Outcome::Unknown => None,
        }
    }
}
