use std::fmt;

use fencepost_core::fence::{Rejection, Verdict};
use serde::{Deserialize, Serialize};

/// A verdict as the header `Fencepost-Verdict` names it, each with its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictCode {
    /// The write took effect now.
    Applied,
    /// The write had taken effect before.
    Replayed,
    /// No token came along.
    MissingToken,
    /// A header cannot be read, or token and grant differ.
    Malformed,
    /// The grant does not verify.
    Unverified,
    /// The grant is for another domain.
    WrongDomain,
    /// The lease is not of contract `safety`.
    WrongContract,
    /// The domain belongs to another issuer here.
    WrongIssuer,
    /// The token is older than one that has been here.
    StaleToken,
    /// The operation id was used for another request.
    OperationConflict,
    /// The operation is still running.
    OperationInProgress,
    /// The operation is older than the records that are kept.
    OperationTooOld,
    /// The token's epoch was never told to this receiver.
    UnknownEpoch,
    /// The receiver accepts nothing at present.
    ReceiverClosed,
}

impl VerdictCode {
    /// Every code.
    pub const ALL: [Self; 14] = [
        Self::Applied,
        Self::Replayed,
        Self::MissingToken,
        Self::Malformed,
        Self::Unverified,
        Self::WrongDomain,
        Self::WrongContract,
        Self::WrongIssuer,
        Self::StaleToken,
        Self::OperationConflict,
        Self::OperationInProgress,
        Self::OperationTooOld,
        Self::UnknownEpoch,
        Self::ReceiverClosed,
    ];

    /// The code of a verdict. A grant that is no longer current is stale to whoever sent it.
    #[must_use]
    pub fn of<T>(verdict: &Verdict<T>) -> Self {
        match verdict {
            Verdict::Applied(_) => Self::Applied,
            Verdict::Replayed(_) => Self::Replayed,
            Verdict::Rejected(rejection) => match rejection {
                Rejection::Closed(_) => Self::ReceiverClosed,
                Rejection::Missing => Self::MissingToken,
                Rejection::WrongDomain => Self::WrongDomain,
                Rejection::WrongContract => Self::WrongContract,
                Rejection::WrongIssuer => Self::WrongIssuer,
                Rejection::Unverified => Self::Unverified,
                Rejection::OperationConflict => Self::OperationConflict,
                Rejection::OperationInProgress => Self::OperationInProgress,
                Rejection::OperationTooOld => Self::OperationTooOld,
                Rejection::UnknownEpoch { .. } => Self::UnknownEpoch,
                Rejection::Stale { .. } | Rejection::NotCurrent => Self::StaleToken,
            },
        }
    }

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Replayed => "replayed",
            Self::MissingToken => "missing_token",
            Self::Malformed => "malformed",
            Self::Unverified => "unverified",
            Self::WrongDomain => "wrong_domain",
            Self::WrongContract => "wrong_contract",
            Self::WrongIssuer => "wrong_issuer",
            Self::StaleToken => "stale_token",
            Self::OperationConflict => "operation_conflict",
            Self::OperationInProgress => "operation_in_progress",
            Self::OperationTooOld => "operation_too_old",
            Self::UnknownEpoch => "unknown_epoch",
            Self::ReceiverClosed => "receiver_closed",
        }
    }

    /// The HTTP status it is answered with; 200 where the write took effect.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Applied | Self::Replayed => 200,
            Self::MissingToken => 428,
            Self::Malformed => 400,
            Self::Unverified => 401,
            Self::WrongDomain | Self::WrongContract | Self::WrongIssuer => 403,
            Self::StaleToken => 412,
            Self::OperationConflict => 422,
            Self::OperationInProgress => 409,
            Self::OperationTooOld => 410,
            Self::UnknownEpoch | Self::ReceiverClosed => 503,
        }
    }
}

impl fmt::Display for VerdictCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_one_name_on_the_wire_and_in_json() {
        for code in VerdictCode::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{code}\""));
        }
    }

    #[test]
    fn only_what_took_effect_is_a_success() {
        for code in VerdictCode::ALL {
            let success = matches!(code, VerdictCode::Applied | VerdictCode::Replayed);
            assert_eq!(code.status() == 200, success, "{code}");
        }
        let replayed: Verdict<()> = Verdict::Replayed(());
        assert_eq!(VerdictCode::of(&replayed), VerdictCode::Replayed);
        let missing: Verdict<()> = Verdict::Rejected(Rejection::Missing);
        assert_eq!(VerdictCode::of(&missing).status(), 428);
    }
}
