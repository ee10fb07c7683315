use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $retryable:literal, $may:literal, $title:literal;)*) => {
        /// The stable name of an error. Programs compare it; everything else in a problem is for people.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of its status.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name in JSON, metrics and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The HTTP status that goes with it.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// Whether the same call may succeed when it is made again, unchanged.
            #[must_use]
            pub const fn is_retryable(self) -> bool {
                match self {
                    $(Self::$name => $retryable,)*
                }
            }

            /// Whether the call may have taken effect all the same. A problem may say `false` where its sender
            /// knows better, and `true` where it knows that the call was under way.
            #[must_use]
            pub const fn may_have_happened(self) -> bool {
                match self {
                    $(Self::$name => $may,)*
                }
            }

            /// One line for people.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }
        }
    };
}

codes! {
    /// A field breaks a rule; `field` names it.
    InvalidInput = "invalid_input", 400, false, false, "A field breaks a rule";
    /// No secret, or one that nobody has.
    Unauthenticated = "unauthenticated", 401, false, false, "The call carries no known secret";
    /// The secret is another session's, or the lease is.
    NotYours = "not_yours", 403, false, false, "It belongs to another session";
    /// The page that sent the request is not this server's.
    OriginRefused = "origin_refused", 403, false, false, "The request comes from a foreign page";
    /// No such session, or a long forgotten one.
    UnknownSession = "unknown_session", 404, false, false, "There is no such session";
    /// No such lease, or a long forgotten one.
    UnknownLease = "unknown_lease", 404, false, false, "There is no such lease";
    /// No such path.
    NotFound = "not_found", 404, false, false, "There is no such path";
    /// The path does not know the method.
    MethodNotAllowed = "method_not_allowed", 405, false, false, "The path does not know this method";
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout", 408, true, false, "The request did not arrive in time";
    /// Another session holds the domain, or it is reserved.
    Held = "held", 409, true, false, "The domain is not free";
    /// The hold of this request id has ended.
    HoldEnded = "hold_ended", 409, false, false, "The hold of this request id has ended";
    /// The session holds the domain on other terms.
    LeaseMismatch = "lease_mismatch", 409, false, false, "The session holds the domain on other terms";
    /// The lease has all the holds it may have.
    ReentrancyLimit = "reentrancy_limit", 409, false, false, "The lease has all the holds it may have";
    /// A newer connection has taken over this request; its answer goes there.
    Superseded = "superseded", 409, false, true, "A newer connection has taken over this request";
    /// The heartbeat's version is not the current one.
    VersionUnknown = "version_unknown", 409, false, false, "The version is not the current one";
    /// The session never held the lease under this request id.
    NeverHeld = "never_held", 409, false, false, "The session never held this";
    /// The lease ended otherwise; nothing was broken.
    LeaseEnded = "lease_ended", 409, false, false, "The lease has ended";
    /// The session has ended.
    SessionEnded = "session_ended", 410, false, false, "The session has ended";
    /// The body is larger than the call may send.
    BodyTooLarge = "body_too_large", 413, false, false, "The body is too large";
    /// The body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type", 415, false, false, "The body is not JSON";
    /// The request names another host than this server.
    HostRefused = "host_refused", 421, false, false, "The request is for another host";
    /// The request id was used with other parameters.
    RequestConflict = "request_conflict", 422, false, false, "The request id was used with other parameters";
    /// A limit of the coordinator is reached.
    LimitReached = "limit_reached", 429, true, false, "A limit is reached";
    /// A bug of the server.
    Internal = "internal", 500, true, true, "The server has a bug";
    /// The server stands before another coordinator, whose answer it does not understand.
    CoordinatorProtocol = "coordinator_protocol", 502, false, true, "The coordinator's answer is not understood";
    /// The coordinator cannot commit at present.
    StorageUnavailable = "storage_unavailable", 503, true, true, "The coordinator cannot commit at present";
    /// The server stands before another coordinator, which does not answer.
    CoordinatorUnreachable = "coordinator_unreachable", 503, true, true, "The coordinator does not answer";
    /// The server is stopping.
    ShuttingDown = "shutting_down", 503, true, true, "The server is stopping";
    /// The coordinator did not decide in time.
    CallTimeout = "call_timeout", 504, true, true, "The coordinator did not decide in time";
    /// Every token of the epoch has been issued.
    TokenSpaceExhausted = "token_space_exhausted", 507, false, false, "Every token of the epoch has been issued";
}

impl ErrorCode {
    /// What to do about it, where the problem does not know better.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::InvalidInput => "correct the field that `detail` names and send the call again",
            Self::Unauthenticated => "send the session's secret as `Authorization: Bearer SECRET`",
            Self::NotYours => "use the secret of the session that owns it",
            Self::OriginRefused => "call the API from this server's own page, or from a program that sends no Origin",
            Self::UnknownSession => "open a session with `POST /v1/sessions`",
            Self::UnknownLease => "list the leases with `GET /v1/leases` and use the id shown there",
            Self::NotFound => "see `GET /` for the paths of this server",
            Self::MethodNotAllowed => "use a method that the `Allow` header names",
            Self::RequestTimeout => "send the whole request at once",
            Self::Held => "wait with `wait_ms`, or try again later",
            Self::HoldEnded => "acquire anew with a fresh request_id",
            Self::LeaseMismatch => "release the lease first, or ask for the contract and limits it has",
            Self::ReentrancyLimit => "release a hold first, or acquire with a greater reentrancy_limit from the start",
            Self::Superseded => "take the answer of the newer connection",
            Self::VersionUnknown => "send the heartbeat again with `held`",
            Self::NeverHeld => "name the lease and the request_id of an acquire that this session made",
            Self::LeaseEnded => "nothing is left to break; `GET /v1/leases?domain=` shows who holds the domain now",
            Self::SessionEnded => "open a new session and acquire anew; the old leases are gone",
            Self::BodyTooLarge => "send a smaller body",
            Self::UnsupportedMediaType => "send `Content-Type: application/json`, with curl: `curl --json '{…}' URL`",
            Self::HostRefused => "address the server by the name it listens on, or by a loopback name",
            Self::RequestConflict => "use a fresh request_id for another request, or repeat the first one exactly",
            Self::LimitReached => "release what is no longer needed, then try again",
            Self::Internal => "make the same call again; report the bug if it stays",
            Self::CoordinatorProtocol => "compare the versions of this server and of its coordinator",
            Self::StorageUnavailable => "make the same call again; `GET /readyz` says when the storage is back",
            Self::CoordinatorUnreachable => "make the same call again; see that the coordinator runs",
            Self::ShuttingDown => "make the same call again, with the same ids, once the server is back",
            Self::CallTimeout => "make the same call again, with the same ids",
            Self::TokenSpaceExhausted => {
                "once its leases have ended, initialise a new store with the same issuer and a greater epoch \
                 (`Embedded::init`), then guard the receivers again; the command line cannot keep the issuer yet"
            }
        }
    }

    /// The path of the page about it, which the server serves itself.
    #[must_use]
    pub fn page(self) -> String {
        format!("/errors/{}", self.as_str())
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A code that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the error code {0:?} is not known")]
pub struct UnknownCode(String);

impl FromStr for ErrorCode {
    type Err = UnknownCode;

    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text).ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
