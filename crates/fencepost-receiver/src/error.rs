use std::{convert::Infallible, error::Error};

use fencepost_core::{Invalid, OperationId};

/// What the storage said, in its own type.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a write has no verdict. `E` is the error of the mutation itself.
///
/// | variant | can it have happened? | is a retry safe? | what to do |
/// |---|---|---|---|
/// | `Invalid` | no | yes, with the same answer | correct the input |
/// | `Mutation` | no, it was rolled back | yes | whatever the application's own error asks for |
/// | `Unavailable` | no | yes | try again, within the lease's remaining time |
/// | `Misused` | no | yes, with the same answer | correct the program |
/// | `Unknown` | **yes** | yes for an operation, else no | retry the same operation: it is replayed or applied once |
#[derive(Debug, thiserror::Error)]
pub enum WriteError<E> {
    /// The input breaks a rule. Nothing was changed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The mutation failed. Everything was rolled back, the raise of the fence included.
    #[error("the mutation failed and was rolled back: {0}")]
    Mutation(E),
    /// The storage could not be used (busy, full, read-only, unreadable). Nothing was changed.
    #[error("nothing was changed, the storage cannot be used now: {0}")]
    Unavailable(#[source] Cause),
    /// The call breaks the adapter's contract, e.g. a transaction that does not hold the write lock. Nothing was changed.
    #[error("nothing was changed: {0}")]
    Misused(&'static str),
    /// The answer to the commit was lost: the write may have happened.
    #[error("the write may have happened: {source}; {}", settle(.operation.as_ref()))]
    Unknown {
        /// The operation to retry, where the write named one.
        operation: Option<OperationId>,
        /// What the storage said.
        source: Cause,
    },
}

fn settle(operation: Option<&OperationId>) -> String {
    match operation {
        Some(id) => format!("retry operation {id}, which settles it"),
        None => "it named no operation, so read the protected state to find out".to_owned(),
    }
}

impl<E> WriteError<E> {
    /// Whether the write may have taken effect.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        match self {
            Self::Unknown { .. } => true,
            Self::Invalid(_) | Self::Mutation(_) | Self::Unavailable(_) | Self::Misused(_) => false,
        }
    }

    /// Whether the same call may be made again with a chance of another answer and without a second effect. Whether
    /// a failed mutation is worth repeating only the application knows; here it counts as not.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Unknown { operation, .. } => operation.is_some(),
            Self::Invalid(_) | Self::Mutation(_) | Self::Misused(_) => false,
        }
    }

    /// The same error with another form of the mutation's error.
    pub fn map_mutation<F>(self, f: impl FnOnce(E) -> F) -> WriteError<F> {
        match self {
            Self::Invalid(invalid) => WriteError::Invalid(invalid),
            Self::Mutation(error) => WriteError::Mutation(f(error)),
            Self::Unavailable(cause) => WriteError::Unavailable(cause),
            Self::Misused(rule) => WriteError::Misused(rule),
            Self::Unknown { operation, source } => WriteError::Unknown { operation, source },
        }
    }
}

/// Why an advance has no verdict. An advance is idempotent, so every one may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum AdvanceError {
    /// The input breaks a rule. Repeating it gives the same answer.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The storage could not be used; the fence was not raised.
    #[error("the fence was not raised, the receiver cannot be used now: {0}")]
    Unavailable(#[source] Cause),
    /// The answer was lost: the fence may have been raised. Repeat it.
    #[error("the fence may have been raised, the answer was lost: {0}")]
    Unknown(#[source] Cause),
}

impl AdvanceError {
    /// Whether the fence may have been raised.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::Invalid(_) | Self::Unavailable(_) => false,
        }
    }

    /// Whether repeating it may give another answer.
    #[must_use]
    pub const fn retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Unknown(_) => true,
            Self::Invalid(_) => false,
        }
    }
}

impl From<WriteError<Infallible>> for AdvanceError {
    fn from(error: WriteError<Infallible>) -> Self {
        match error {
            WriteError::Invalid(invalid) => Self::Invalid(invalid),
            WriteError::Mutation(never) => match never {},
            WriteError::Unavailable(cause) => Self::Unavailable(cause),
            WriteError::Misused(rule) => Self::Unavailable(rule.into()),
            WriteError::Unknown { source, .. } => Self::Unknown(source),
        }
    }
}
