//! The coordinator contract and its drivers.
//!
//! [`Coordinator`] is what issues grants, wherever it runs: in this process (feature `embedded`), or behind HTTP
//! (`fencepost-client`). Its calls are those of [`fencepost_core::lease`]; answers carry times relative to the
//! coordinator's decision, and [`Answered`] says how long the call took until then.
//!
//! Every call is safe to repeat: an acquire by its request id, a release by lease and request id, an end by the
//! session, a heartbeat by nature. A [`CallError`] says whether the call may have happened all the same.

mod call;
mod error;
mod explain;

#[cfg(feature = "embedded")]
pub mod embedded;

pub use call::{
    AcquireRequest, Answered, Coordinator, Granted, Opened, RequestCaller, SessionKey, Watch, WatchedEvents,
};
pub use error::{CallError, Refused};
pub use explain::{Explain, HistoryEntry, HistoryNumber, HistoryPage, HistoryQuery};
