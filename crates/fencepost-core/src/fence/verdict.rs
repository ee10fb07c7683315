use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Epoch, Token};

/// A receiver's answer to a write. A lost answer is an error of the adapter, never a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a rejected write changed nothing"]
pub enum Verdict<T> {
    /// The mutation, the raise and the operation record are committed.
    Applied(T),
    /// The operation had taken effect before; this is the result recorded then. Nothing was changed now.
    Replayed(T),
    /// Nothing was changed.
    Rejected(Rejection),
}

impl<T> Verdict<T> {
    /// The result of an applied or replayed write.
    pub fn result(self) -> Option<T> {
        match self {
            Self::Applied(result) | Self::Replayed(result) => Some(result),
            Self::Rejected(_) => None,
        }
    }

    /// The rejection, where there is one.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Applied(_) | Self::Replayed(_) => None,
            Self::Rejected(rejection) => Some(rejection),
        }
    }

    /// The same verdict with another form of result.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Self::Applied(result) => Verdict::Applied(f(result)),
            Self::Replayed(result) => Verdict::Replayed(f(result)),
            Self::Rejected(rejection) => Verdict::Rejected(rejection),
        }
    }
}

/// Why a receiver refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The receiver accepts nothing at present.
    #[error("the receiver is closed: {0}")]
    Closed(Closure),
    /// No token was presented.
    #[error("no token was presented")]
    Missing,
    /// The grant names another domain than the one written to.
    #[error("the grant is for another domain")]
    WrongDomain,
    /// The lease was not acquired under the contract `safety`.
    #[error("the lease was not acquired under the contract safety")]
    WrongContract,
    /// The domain belongs to another issuer at this receiver.
    #[error("the domain belongs to another issuer at this receiver")]
    WrongIssuer,
    /// The signature is wrong, or missing where one is required.
    #[error("the grant does not verify")]
    Unverified,
    /// The operation id was used for another request.
    #[error("the operation id was used for another request")]
    OperationConflict,
    /// The operation is running at this moment.
    #[error("the operation is still running")]
    OperationInProgress,
    /// The operation is older than the records that are kept: whether it took effect is not known here.
    #[error("the operation is older than the records that are kept")]
    OperationTooOld,
    /// The token's epoch was never told to this receiver.
    #[error("token {presented} is of an epoch unknown here, the greatest known is {known}")]
    UnknownEpoch {
        /// What was presented.
        presented: Token,
        /// The greatest epoch accepted.
        known: Epoch,
    },
    /// A greater token has been here, or a recovery has ruled this one out.
    #[error("token {presented} is stale, the least accepted is {least_accepted} (by {by})")]
    Stale {
        /// What was presented.
        presented: Token,
        /// The least token that would have been accepted.
        least_accepted: Token,
        /// What rules it out.
        by: RejectedBy,
    },
    /// The grant is no longer the current one of its domain (receivers that share the coordinator's database).
    #[error("the grant is no longer the current one of its domain")]
    NotCurrent,
}

/// What there is to tell of a token that came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What was presented.
    pub presented: Token,
    /// The least token that would have been accepted.
    pub least_accepted: Token,
    /// What rules it out.
    pub by: RejectedBy,
}

impl Rejection {
    /// Every [`code`](Self::code) there is.
    pub const CODES: [&'static str; 12] = [
        "closed",
        "missing",
        "wrong_domain",
        "wrong_contract",
        "wrong_issuer",
        "unverified",
        "operation_conflict",
        "operation_in_progress",
        "operation_too_old",
        "unknown_epoch",
        "stale",
        "not_current",
    ];

    /// What was presented and what would have been accepted, where the token is stale.
    #[must_use]
    pub const fn stale(&self) -> Option<Stale> {
        match *self {
            Self::Stale { presented, least_accepted, by } => Some(Stale { presented, least_accepted, by }),
            Self::Closed(_)
            | Self::Missing
            | Self::WrongDomain
            | Self::WrongContract
            | Self::WrongIssuer
            | Self::Unverified
            | Self::OperationConflict
            | Self::OperationInProgress
            | Self::OperationTooOld
            | Self::UnknownEpoch { .. }
            | Self::NotCurrent => None,
        }
    }

    /// What was presented, where its place in the order of tokens was the reason.
    #[must_use]
    pub fn presented(&self) -> Option<Token> {
        match *self {
            Self::UnknownEpoch { presented, known: _ } | Self::Stale { presented, least_accepted: _, by: _ } => {
                Some(presented)
            }
            Self::Closed(_)
            | Self::Missing
            | Self::WrongDomain
            | Self::WrongContract
            | Self::WrongIssuer
            | Self::Unverified
            | Self::OperationConflict
            | Self::OperationInProgress
            | Self::OperationTooOld
            | Self::NotCurrent => None,
        }
    }

    /// The reason's name in JSON, metrics and logs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Missing => "missing",
            Self::WrongDomain => "wrong_domain",
            Self::WrongContract => "wrong_contract",
            Self::WrongIssuer => "wrong_issuer",
            Self::Unverified => "unverified",
            Self::OperationConflict => "operation_conflict",
            Self::OperationInProgress => "operation_in_progress",
            Self::OperationTooOld => "operation_too_old",
            Self::UnknownEpoch { .. } => "unknown_epoch",
            Self::Stale { .. } => "stale",
            Self::NotCurrent => "not_current",
        }
    }
}

/// Which bound a stale token lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectedBy {
    /// The domain's own fence.
    Fence,
    /// The floor of all domains, which recovery raises.
    Floor,
    /// The floor of domains without a fence, which collection and receiver recovery raise.
    UnfencedFloor,
}

impl RejectedBy {
    /// The name in JSON, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::Floor => "floor",
            Self::UnfencedFloor => "unfenced_floor",
        }
    }
}

impl fmt::Display for RejectedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a receiver accepts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closure {
    /// The resource was never guarded: the receiver knows nothing and must not guess.
    NotGuarded,
    /// The receiver's own records are missing or damaged.
    MetadataMissing,
    /// A fence that was recorded is gone.
    FenceMissing,
    /// The storage is another than the one the records were made on: a restore, a copy or a failover.
    OtherIncarnation,
    /// The storage has gone back behind a state that a caller has seen.
    WentBack,
    /// A recovery is under way.
    Recovering,
    /// An operator closed it.
    ByOperator,
}

impl Closure {
    /// The name in JSON, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotGuarded => "not_guarded",
            Self::MetadataMissing => "metadata_missing",
            Self::FenceMissing => "fence_missing",
            Self::OtherIncarnation => "other_incarnation",
            Self::WentBack => "went_back",
            Self::Recovering => "recovering",
            Self::ByOperator => "by_operator",
        }
    }
}

impl fmt::Display for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
