use std::fmt;

use serde::{Serialize, Serializer};

/// What is tried on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The owner writes, twice, and the next one after it.
    FirstWrite,
    /// A late request after the new owner's first write.
    LateAfter,
    /// A late request before it.
    LateBefore,
    /// A late request whose head came before the new owner's write, and whose body after it.
    HalfSent,
    /// Old and new owners at one time.
    Concurrent,
    /// A late request of a process that was really stopped.
    Paused,
    /// The owner repeats its operation.
    RetrySameOwner,
    /// The next owner repeats it.
    RetryNextOwner,
    /// The owner repeats it after it has lost the lease.
    RetryLate,
    /// An operation id comes with another request.
    ReusedId,
    /// No token.
    MissingToken,
    /// Something that is no token.
    MalformedToken,
    /// The token of another domain.
    OtherDomain,
    /// A further way to change the resource.
    Also,
    /// The coordinator is restarted between two owners.
    CoordinatorRestart,
    /// The service is restarted after the new owner's write.
    ServiceRestart,
    /// The service's data is restored from before the new owner's write.
    Restore,
    /// A token of an epoch that nobody knows.
    AbsurdToken,
    /// Whether every answer names its verdict.
    Verdicts,
}

impl Scenario {
    /// Its name, for programs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstWrite => "first_write",
            Self::LateAfter => "late_after",
            Self::LateBefore => "late_before",
            Self::HalfSent => "half_sent",
            Self::Concurrent => "concurrent",
            Self::Paused => "paused",
            Self::RetrySameOwner => "retry_same_owner",
            Self::RetryNextOwner => "retry_next_owner",
            Self::RetryLate => "retry_late",
            Self::ReusedId => "reused_id",
            Self::MissingToken => "missing_token",
            Self::MalformedToken => "malformed_token",
            Self::OtherDomain => "other_domain",
            Self::Also => "also",
            Self::CoordinatorRestart => "coordinator_restart",
            Self::ServiceRestart => "service_restart",
            Self::Restore => "restore",
            Self::AbsurdToken => "absurd_token",
            Self::Verdicts => "verdicts",
        }
    }

    /// What it tries, for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::FirstWrite => "the owner writes twice, then the next owner",
            Self::LateAfter => "a late request after the new owner's first write",
            Self::LateBefore => "a late request before the new owner's first write",
            Self::HalfSent => "a late request whose body comes after the new owner's write",
            Self::Concurrent => "old and new owner at one time",
            Self::Paused => "a late request of a process that was stopped",
            Self::RetrySameOwner => "an operation repeated by its owner",
            Self::RetryNextOwner => "an operation repeated by the next owner",
            Self::RetryLate => "an operation repeated after the lease was lost",
            Self::ReusedId => "an operation id with another request",
            Self::MissingToken => "no token",
            Self::MalformedToken => "what is no token",
            Self::OtherDomain => "the token of another domain",
            Self::Also => "another way to change the resource",
            Self::CoordinatorRestart => "the coordinator restarted",
            Self::ServiceRestart => "the service restarted",
            Self::Restore => "the service's data restored",
            Self::AbsurdToken => "a token of an epoch that nobody knows",
            Self::Verdicts => "every answer names its verdict",
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Scenario {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
