//! Where the coordinator's records become durable.
//!
//! A [`Store`] keeps rows it does not understand: one log row for every group commit, and from time to time a snapshot
//! that makes the rows before it superfluous. What the bytes mean, and whether they are whole, is the
//! [`Journal`](super::journal::Journal)'s business, the same over every store.
//!
//! Whoever opens a store takes a start number greater than all before; from then on everything that an earlier opener
//! tries is refused with [`StoreError::Deposed`], in the same step in which it would have taken effect.

mod layout;
pub(super) mod sqlite;
mod whereabouts;

use fencepost_core::{Epoch, Issuer};

pub(super) use whereabouts::FileId;

/// Keeps the coordinator's rows. Every method that changes something is durable when it returns, or its error says
/// that nobody knows.
pub(super) trait Store: Send + 'static {
    /// What the store says about itself.
    ///
    /// # Errors
    /// When it cannot be read, or holds what no coordinator wrote.
    fn header(&mut self) -> Result<Header, StoreError>;

    /// Takes the next start number and thereby deposes whoever had one.
    ///
    /// # Errors
    /// When it cannot be made durable.
    fn take_start(&mut self) -> Result<u64, StoreError>;

    /// Appends a log row, in one step with the check that `row.start` is the latest start number.
    ///
    /// # Errors
    /// After [`StoreError::Failed`] the row may be there or not: read the log before the next append.
    fn append(&mut self, row: Row<'_>) -> Result<(), StoreError>;

    /// Checks that `start` is the latest start number. Cheap: it is asked before every answer that needs no commit.
    ///
    /// # Errors
    /// When it is not, or nobody can tell.
    fn confirm(&mut self, start: u64) -> Result<(), StoreError>;

    /// Makes something durable that means nothing, to find out whether commits work again.
    ///
    /// # Errors
    /// When they do not.
    fn probe(&mut self, start: u64) -> Result<(), StoreError>;

    /// Hands every log row after `after` to `each`, in order.
    ///
    /// # Errors
    /// When the rows cannot be read, or `each` finds one damaged.
    fn read_log(&mut self, after: u64, each: &mut EachRow<'_>) -> Result<(), StoreError>;

    /// Writes one part of a snapshot that covers the log rows up to `covers`. Parts count from zero; `part.id` is the
    /// part's number. Nothing reads them before [`adopt_snapshot`](Self::adopt_snapshot).
    ///
    /// # Errors
    /// As for [`append`](Self::append); the same part may be written again.
    fn put_snapshot_part(&mut self, covers: u64, part: Row<'_>) -> Result<(), StoreError>;

    /// Makes the snapshot of `parts` parts that covers the rows up to `covers` the one to start from.
    ///
    /// # Errors
    /// As for [`append`](Self::append); it may be repeated.
    fn adopt_snapshot(&mut self, covers: u64, parts: u64, start: u64) -> Result<(), StoreError>;

    /// Hands every part of the adopted snapshot to `each`, in order.
    ///
    /// # Errors
    /// When the parts cannot be read, or `each` finds one damaged.
    fn read_snapshot(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError>;

    /// Writes one part of the history of what the log rows up to `covers` tell; `part.id` counts from zero.
    ///
    /// # Errors
    /// As for [`append`](Self::append); the same part may be written again.
    fn put_history_part(&mut self, covers: u64, entries: u64, part: Row<'_>) -> Result<(), StoreError>;

    /// Hands every part of the history to `each`, in order.
    ///
    /// # Errors
    /// When the parts cannot be read.
    fn read_history(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError>;

    /// Notes how the wall clock stands at a start.
    ///
    /// # Errors
    /// As for [`append`](Self::append); it may be repeated.
    fn note_start(&mut self, start: u64, at_ms: u64, unix_ms: u64) -> Result<(), StoreError>;

    /// The noted starts: their numbers, moments, and wall clocks.
    ///
    /// # Errors
    /// When they cannot be read.
    fn noted_starts(&mut self) -> Result<Vec<[u64; 3]>, StoreError>;

    /// Removes some of the rows that the adopted snapshot has made superfluous, and parts of the history that newer
    /// ones of `history` entries follow, little enough not to hold up commits. Returns whether there is more to remove.
    ///
    /// # Errors
    /// When it cannot be done now; it may be repeated.
    fn trim(&mut self, start: u64, history: u64) -> Result<bool, StoreError>;

    /// Tidies up what commits leave behind, when [`upkeep`](Self::upkeep) says so.
    ///
    /// # Errors
    /// When it cannot be done now; it may be repeated.
    fn tidy(&mut self) -> Result<(), StoreError>;

    /// Whether [`tidy`](Self::tidy) should be called.
    fn upkeep(&self) -> Upkeep;
}

/// Takes one row; its error says what is wrong with it.
pub(super) type EachRow<'a> = dyn FnMut(Row<'_>) -> Result<(), String> + 'a;

/// What a store says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The coordinator, as receivers know it.
    pub(super) issuer: Issuer,
    /// The generation of its identity.
    pub(super) epoch: Epoch,
    /// When the store was created, in milliseconds since 1970.
    pub(super) created_unix_ms: u64,
    /// The latest start number.
    pub(super) start: u64,
    /// The last log row that the adopted snapshot covers; zero without a snapshot.
    pub(super) snapshot_covers: u64,
    /// How many parts the adopted snapshot has; zero without a snapshot.
    pub(super) snapshot_parts: u64,
}

/// One row, of the log or of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// Counts up by one from row to row.
    pub(super) id: u64,
    /// The start number of its writer.
    pub(super) start: u64,
    /// Of everything else in the row.
    pub(super) checksum: u32,
    /// The content.
    pub(super) bytes: &'a [u8],
}

/// Whether a store needs tidying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upkeep {
    /// No.
    NotNeeded,
    /// When nothing else is to be done.
    WhenIdle,
    /// Now, although it delays what waits.
    Now,
}

/// Why a store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    /// A later start has taken the store over. Nothing was changed, and nothing will be for this start any more.
    #[error("start {by} has taken over the store")]
    Deposed {
        /// The latest start number.
        by: u64,
    },
    /// It failed; a change may have been made all the same. It may be tried again.
    #[error("{0}")]
    Failed(String),
    /// The store holds what no coordinator wrote. Trying again does not help.
    #[error("{0}")]
    Damaged(String),
}
