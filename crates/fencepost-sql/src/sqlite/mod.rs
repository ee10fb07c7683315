//! SQLite: a receiver inside the database that holds the protected tables.
//!
//! The layout is [`SCHEMA`], one screen. Everything is qualified with `main`, because a temporary table of the same
//! name would otherwise be read instead.

mod expression;
mod guard;
mod outcome;
pub mod statement;
mod table;

pub use expression::DomainExpression;
pub use guard::{Mode, Trigger, guard_triggers};
pub use outcome::{DomainRow, Identity, ReceiverRow, condition_of, standing};
pub use table::{Column, RowId, TableShape, Unguardable, UniqueIndex, quoted, quoted_text};

/// Tables and triggers of a receiver, to be run as a script. Running it again changes nothing.
pub const SCHEMA: &str = include_str!("schema.sql");

/// The tables of [`SCHEMA`]. Where some are there and others are not, records were removed.
pub const TABLES: [&str; 6] = [
    "fencepost_receiver",
    "fencepost_fence",
    "fencepost_operation",
    "fencepost_entry",
    "fencepost_guard",
    "fencepost_observation",
];

/// The first SQLite, as `sqlite3_libversion_number()` gives it, without the defect that can corrupt a database in WAL
/// mode when two connections checkpoint at the same moment.
pub const FIRST_SOUND_VERSION: i32 = 3_051_003;

/// What there is to say against the SQLite of this version number, if anything.
///
/// ```
/// use fencepost_sql::sqlite::{FIRST_SOUND_VERSION, fault_of_version};
///
/// assert!(fault_of_version(3_051_002).is_some());
/// assert!(fault_of_version(FIRST_SOUND_VERSION).is_none());
/// ```
#[must_use]
pub fn fault_of_version(version: i32) -> Option<&'static str> {
    let is_sound = version >= FIRST_SOUND_VERSION;
    (!is_sound).then_some("it can corrupt a database in WAL mode when two connections checkpoint at once")
}

/// The first SQLite that reads the layout: strict tables.
pub const FIRST_USABLE_VERSION: i32 = 3_037_000;
