use fencepost_core::Invalid;

/// A call that was not answered as hoped.
#[derive(Debug, thiserror::Error)]
pub enum CallError<R> {
    /// The coordinator decided against it. Nothing has changed; the refusal says what helps.
    #[error("{0}")]
    Refused(R),
    /// The input breaks a rule. Nothing has changed; sending it again gives the same answer.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// The coordinator is there and cannot commit at present. Retry the same call.
    #[error("the coordinator cannot commit at present: {why}")]
    Unavailable {
        /// What hinders it.
        why: String,
        /// Whether the call may have taken effect all the same.
        may_have_happened: bool,
    },
    /// No answer came. Retry the same call.
    #[error("the coordinator did not answer: {why}")]
    Unreachable {
        /// What happened.
        why: String,
        /// Whether the call may have taken effect all the same.
        may_have_happened: bool,
    },
    /// An answer came that is not understood. It is never taken for a permission.
    #[error("the coordinator's answer is not understood: {why}")]
    Protocol {
        /// What is wrong with it.
        why: String,
    },
}

/// The refusal type of calls that the coordinator never refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {}

impl<R> CallError<R> {
    /// Whether the call may have taken effect although this error came back.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Invalid(_) => false,
            Self::Unavailable { may_have_happened, .. } | Self::Unreachable { may_have_happened, .. } => {
                *may_have_happened
            }
            Self::Protocol { .. } => true,
        }
    }

    /// Whether the same call may succeed when it is made again.
    #[must_use]
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Invalid(_) | Self::Protocol { .. } => false,
            Self::Unavailable { .. } | Self::Unreachable { .. } => true,
        }
    }
}
