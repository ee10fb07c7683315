//! A fencing receiver inside the user's own SQLite database, on the user's own [`rusqlite::Connection`].
//!
//! A [`guard`] on a table refuses every change, from whatever client, whose transaction has not entered the row's
//! domain; [`SqliteReceiver`] enters it for whoever presents a grant that is not stale, runs the mutation, records the
//! operation and commits, all of it in one transaction or none of it.
//!
//! What it is not: it asks nobody whether a lease is still held, and it does not make a right command of a wrong one.
//! What a guard cannot cover (`DROP TABLE`, edits of the file, triggers switched off) [`audit`] lists as far as it can
//! be seen; the rest stands in `docs/receivers/sqlite.md`.
//!
//! A refusal is a [`Verdict`]; a [`WriteError`] means that nothing was decided, and says whether the write can have
//! happened and whether it may be repeated.
//!
//! ```
//! use fencepost_core::fence::{Operation, RecordedResult, Rejection, Verdict};
//! use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId};
//! use fencepost_receiver::ReceiverSeed;
//! use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, guard};
//! use rusqlite::Connection;
//!
//! let mut connection = Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE invoice (month TEXT, total INTEGER)")?;
//! let issuer = Issuer::new("prod")?;
//! let seed = ReceiverSeed::new(issuer.clone(), Epoch::ZERO);
//! guard(&mut connection, "invoice", &DomainExpression::new("'invoices/' || month")?, Mode::Enforce, Some(&seed))?;
//!
//! // Code that knows nothing of Fencepost cannot write past it.
//! assert!(connection.execute("INSERT INTO invoice VALUES ('2026-11', 5)", []).is_err());
//!
//! let grant = |token: &str| -> Result<Grant, fencepost_core::Invalid> {
//!     let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
//!     let domain = Domain::new("invoices/2026-11")?;
//!     Ok(Grant { issuer: issuer.clone(), domain, token: token.parse()?, lease, session })
//! };
//! let receiver = SqliteReceiver::new();
//! let insert = |tx: &rusqlite::Transaction<'_>| -> rusqlite::Result<RecordedResult> {
//!     tx.execute("INSERT INTO invoice VALUES ('2026-11', 5)", [])?;
//!     Ok(RecordedResult::default())
//! };
//! let first = Operation::new(OperationId::new("close-november")?, b"5");
//! let verdict = receiver.write(&mut connection, &grant("0.8")?, &first, insert)?;
//! assert!(matches!(verdict, Verdict::Applied(_)));
//!
//! let late = Operation::new(OperationId::new("another")?, b"5");
//! let verdict = receiver.write(&mut connection, &grant("0.7")?, &late, insert)?;
//! assert!(matches!(verdict, Verdict::Rejected(Rejection::Stale { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audit;
mod collect;
mod describe;
mod entered;
mod file;
mod guard;
mod maintenance;
mod place;
mod receiver;
mod recover;
mod status;
mod transaction;

pub use audit::{AuditScope, audit};
pub use collect::{Collected, collect};
pub use entered::{Entered, Entry};
pub use fencepost_core::fence::Verdict;
pub use fencepost_receiver::{Audit, Finding, ReceiverSeed, Seen, Severity, WriteError};
pub use fencepost_sql::sqlite::{DomainExpression, Identity, Mode, Unguardable};
pub use file::SqliteFile;
pub use guard::{Guarded, guard, unguard};
pub use maintenance::MaintenanceError;
pub use receiver::SqliteReceiver;
pub use recover::{Incarnation, Recovered, incarnation, recover};
pub use status::{Fence, GuardedTable, Observation, Status, fence_of, fences, observations, status};
