//! The coordinator's side: who holds which domain, under which token, until when.
//!
//! [`Leases`] is a state machine without IO. A driver gives it [commands](Command) with the present
//! [`Moment`](crate::Moment); it answers with an [`Output`]: [records](Record) to make durable and, once they are,
//! answers to send. State changes in one place only, where a record is applied; replaying the records after a crash
//! runs the same code.
//!
//! What it is not: a store, a clock, a server. Fresh ids, secrets' digests and time come from the driver, and
//! heartbeats leave no record (but for a session's first after a start), so a restart gives every session one grace.
//!
//! ```
//! use fencepost_core::lease::{Acquire, Answer, Caller, Command, Fresh, Leases, Start, Terms, Ticket};
//! use fencepost_core::*;
//!
//! let mut leases = Leases::new(Issuer::new("prod")?, Epoch::ZERO);
//! let start = Start { number: 1, boot: BootId::from_bytes([1; 16]), at: Moment::from_millis(0), least: Sequence::FIRST };
//! let _ = leases.start(start).committed();
//!
//! let acquire = Acquire {
//!     caller: Caller::Opening { holder: Holder::new("worker-a")?, ttl: Ttl::from_millis(15_000)? },
//!     domain: Domain::new("invoices/2026-11")?,
//!     request: RequestId::from_bytes([7; 16]),
//!     contract: Contract::Safety,
//!     terms: Terms::default(),
//!     metadata: Metadata::default(),
//!     renew: false,
//!     wait: Wait::from_millis(0)?,
//!     fresh: Fresh {
//!         lease: LeaseId::from_bytes([1; 16]),
//!         session: SessionId::from_bytes([2; 16]),
//!         secret: Secret::from_bytes([3; 32]).hash(),
//!     },
//! };
//! let output = leases.step(Ticket(1), Command::Acquire(Box::new(acquire)), Moment::from_millis(10));
//! assert!(!output.records().is_empty()); // the driver makes these durable, and only then
//! let spoken = output.committed();
//! let Some((Ticket(1), Answer::Acquired(Ok(acquired)))) = spoken.answers.into_iter().next() else { panic!() };
//! assert_eq!(acquired.permission.grant().unwrap().token.to_string(), "0.1");
//! # Ok::<(), Invalid>(())
//! ```

mod acquire;
mod answer;
mod apply;
mod breaking;
mod command;
mod expire;
mod heartbeat;
mod machine;
mod output;
mod query;
mod queue;
mod record;
mod release;
mod session;
mod state;
mod telling;

pub use answer::{
    AcquireRefusal, Acquired, Answer, BreakRefusal, Broken, ConfirmedLease, Counts, EndedLease, Heartbeat,
    HeartbeatRefusal, HeldBy, LeaseEnd, LeaseView, LimitReached, LiveSnapshot, Page, QueueView, ReleaseRefusal,
    Released, Reserved, ReservedKind, SessionEnd, SessionRefusal, SessionView, WaiterView,
};
pub use command::{Acquire, Caller, Claim, Command, Credential, Filter, Fresh, Query, Terms, Ticket, Version};
pub use machine::{Leases, Start};
pub use output::{Event, EventKind, Output, Spoken};
pub use record::{Hold, Record};
pub use state::Snapshot;

#[cfg(test)]
mod queue_tests;
