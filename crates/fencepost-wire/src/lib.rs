//! What travels between a client and `fencepost serve`: bodies, answers, errors and their codes.
//!
//! Requests are read into plain fields and then [parsed](AcquireBody::parse) into the calls of
//! [`fencepost_coordinator`], with errors that name field, rule and limit and read the same as from the library.
//! Answers go the other way and are checked by the client before it believes them: a grant for another domain,
//! without a token or with token 0 is [`Malformed`] and never a permission. Unknown request fields are refused;
//! unknown answer fields are ignored, because more may be added.
//!
//! It is not a client and not a server: nothing here does IO.
//!
//! ```
//! use fencepost_wire::{AcquireBody, Problem, decode};
//!
//! let sent = br#"{"domain":"invoices/2026-11","request_id":"00112233445566778899aabbccddeeff","holder":"w","ttl_ms":1}"#;
//! let refused = decode::<AcquireBody>(sent)?.parse(None).unwrap_err();
//! let problem = Problem::from(refused);
//! assert_eq!(problem.status, 400);
//! assert_eq!(problem.detail, "ttl_ms: must be 1000 to 86400000 ms, found 1");
//! # Ok::<(), fencepost_wire::Malformed>(())
//! ```

mod acquire;
mod code;
mod decode;
mod event;
mod grant;
mod history;
mod instant;
mod list;
mod problem;
mod query;
mod queue;
mod refusal;
mod release;
mod report;
mod secret;
mod session;
mod snapshot;

pub use fencepost_receiver::{VerdictCode, header};

pub use acquire::{AcquireAnswer, AcquireBody, SentMetadata};
pub use code::{ErrorCode, UnknownCode};
pub use decode::{Malformed, decode};
pub use event::{EventData, LeaseData, RejectedData, event_data};
pub use grant::GrantJson;
pub use history::{HistoryItem, HistoryList, HistoryListQuery, parse_history_cursor};
pub use instant::rfc3339;
pub use list::{LeaseItem, LeaseList, ListQuery, PrefixQuery};
pub use problem::{EndReason, Problem};
pub use queue::{QueueItem, QueueList, QueueQuery};
pub use refusal::Refusal;
pub use release::{BreakAnswer, BreakBody, CheckAnswer, CheckBody, ReleaseAnswer, ReleaseBody};
pub use report::{RejectedReport, WorkFailedReport};
pub use secret::SentSecret;
pub use session::{
    EndedRow, HeartbeatAnswer, HeartbeatBody, LeaseRow, OpenSessionBody, SessionAnswer, SessionOpenedAnswer,
};
pub use snapshot::{parse_snapshot, snapshot_lines};

/// Whole milliseconds, rounded down: a holder that reckons with less than has passed gives up earlier, never later.
fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
