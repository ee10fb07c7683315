use std::{
    io,
    ops::Range,
    path::Path,
    time::{Duration, Instant},
};

use fencepost_core::{Epoch, Issuer};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, TransactionBehavior, params};

use super::{
    EachRow, Header, Row, Store, StoreError, Upkeep, layout,
    whereabouts::{FileId, Whereabouts},
};
use crate::embedded::directory::private;

/// The name of the database inside the data directory.
pub(in crate::embedded) const DATABASE_FILE: &str = "coordinator.sqlite";

/// How long another connection (a backup, a person with the `sqlite3` shell) may keep the file locked before a commit
/// counts as failed.
const BUSY: Duration = Duration::from_millis(500);

/// How every SQLite database begins, and where in it stands whose it is.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";
const APPLICATION_ID_AT: Range<usize> = 68..72;

/// Log rows, and parts of old snapshots, removed at one time.
const TRIM_ROWS: u64 = 128;
const TRIM_PARTS: u64 = 4;

/// The write-ahead log is copied back when nothing else is to be done, from this many pages on (1 MiB).
const TIDY_IDLE_PAGES: u64 = 256;
/// And under load from this many on (8 MiB): a log that is written over again syncs faster than one that grows.
const TIDY_NOW_PAGES: u64 = 2_048;

/// A store in one SQLite file: WAL, `synchronous = FULL`, so a commit is on the disk when it returns.
pub(in crate::embedded) struct SqliteStore {
    connection: Connection,
    page_bytes: u64,
    /// About how many pages the write-ahead log has grown by since it was last copied back.
    wal_pages: u64,
    whereabouts: Whereabouts,
}

/// Why a file was not opened.
#[derive(Debug)]
pub(in crate::embedded) enum OpenFailure {
    /// It is some other program's.
    Foreign,
    /// It has a layout this version does not know.
    Layout(i64),
    /// Everything else.
    Store(StoreError),
}

impl From<rusqlite::Error> for OpenFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(StoreError::from(error))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl SqliteStore {
    /// The version of the layout that this program reads and writes.
    pub(in crate::embedded) const LAYOUT: i64 = layout::LAYOUT;

    /// How much of a file [`check_head`](Self::check_head) wants to see.
    pub(in crate::embedded) const HEAD_BYTES: u64 = 100;

    /// Checks by its first bytes that a file is a database of ours, so that nobody else's is opened: opening one changes
    /// it. Says what it is instead.
    pub(in crate::embedded) fn check_head(head: &[u8]) -> Result<(), &'static str> {
        if head.is_empty() {
            return Err("is empty");
        }
        if !head.starts_with(&SQLITE_MAGIC[..head.len().min(SQLITE_MAGIC.len())]) {
            return Err("is not a database");
        }
        match head.get(APPLICATION_ID_AT) {
            None => Err("is cut short"),
            Some(id) if id == (layout::APPLICATION_ID as u32).to_be_bytes() => Ok(()),
            Some(_) => Err("is some other program's database"),
        }
    }

    /// Makes a database at `path`, complete and synced, for its owner only. Nothing may be there before. Killed in
    /// between it leaves what is of no use to anybody; `done` is told of each step.
    pub(in crate::embedded) fn create(
        path: &Path,
        issuer: &Issuer,
        epoch: Epoch,
        created_unix_ms: u64,
        done: &dyn Fn(&str),
    ) -> Result<(), OpenFailure> {
        let failed = |error: io::Error| OpenFailure::Store(StoreError::Failed(format!("{}: {error}", path.display())));
        // SQLite gives what it keeps beside a database the mode of the database.
        let file = private().create_new(true).open(path).map_err(failed)?;
        done("begun");
        let mut connection = connect(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(layout::CREATE)?;
        transaction
            .execute(layout::INSERT_STORE, params![issuer.as_str(), u32::from(epoch), column(created_unix_ms)])?;
        transaction.pragma_update(None, "application_id", layout::APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", layout::LAYOUT)?;
        done("written");
        transaction.commit()?;
        done("committed");
        // Nothing is written in this mode yet, so the one file is all there is when it is closed.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.close().map_err(|(_, error)| error)?;
        file.sync_all().map_err(failed)?;
        done("synced");
        Ok(())
    }

    /// Opens what [`create`](Self::create) made.
    ///
    /// Everything found in the write-ahead log is copied into the database and synced before this returns: after a
    /// failed sync the kernel may show pages that never reached the disk, and nothing may be built upon those.
    ///
    /// `noted` is which file the caller has looked at and locked others out of; any other one is refused. `done` is told
    /// of each step.
    pub(in crate::embedded) fn open(path: &Path, noted: FileId, done: &dyn Fn(&str)) -> Result<Self, OpenFailure> {
        let connection = connect(path)?;
        done("connected");
        let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        if application != layout::APPLICATION_ID {
            return Err(OpenFailure::Foreign);
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        let layout_found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if layout_found != layout::LAYOUT {
            return Err(OpenFailure::Layout(layout_found));
        }
        let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy != 0 {
            let why = "another program reads the store, so its write-ahead log cannot be copied back: end that program";
            return Err(OpenFailure::Store(StoreError::Failed(why.to_owned())));
        }
        let page_bytes: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let whereabouts = Whereabouts::of(path, noted).map_err(StoreError::Failed).map_err(OpenFailure::Store)?;
        Ok(Self { connection, page_bytes: page_bytes.unsigned_abs(), wal_pages: 0, whereabouts })
    }

    /// What a pragma of the connection is set to.
    #[cfg(test)]
    pub(in crate::embedded) fn setting(&self, pragma: &str) -> String {
        let text = format!("SELECT CAST({pragma} AS TEXT) FROM pragma_{pragma}");
        self.connection.query_row(&text, [], |row| row.get(0)).expect("a pragma that SQLite knows")
    }

    /// Lets the file grow to this many pages only.
    #[cfg(test)]
    pub(in crate::embedded) fn limit_pages(&self, pages: u32) -> rusqlite::Result<()> {
        self.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }

    /// Runs one statement that is conditional on the start number; no row changed means that a later start is there.
    fn change(&mut self, sql: &str, bytes: usize, params: impl Params) -> Result<(), StoreError> {
        self.wal_pages += bytes as u64 / self.page_bytes + 2;
        let changed = self.connection.prepare_cached(sql)?.execute(params)?;
        match changed {
            0 => Err(StoreError::Deposed { by: self.latest_start()? }),
            _ => self.still_there(),
        }
    }

    /// Whether what was just read or written is where the next start will look for it.
    fn still_there(&mut self) -> Result<(), StoreError> {
        self.whereabouts.check(Instant::now()).map_err(StoreError::Failed)
    }

    fn latest_start(&self) -> Result<u64, StoreError> {
        let start: i64 = self.connection.prepare_cached(layout::READ_START)?.query_row([], |row| row.get(0))?;
        number(start)
    }

    fn each_row(&self, sql: &str, params: impl Params, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let checksum: i64 = row.get(2)?;
            let row = Row {
                id: number(row.get(0)?)?,
                start: number(row.get(1)?)?,
                checksum: u32::try_from(checksum).map_err(|_| damaged("a checksum", checksum))?,
                bytes: row.get_ref(3)?.as_blob().map_err(|error| StoreError::Damaged(error.to_string()))?,
            };
            each(row).map_err(StoreError::Damaged)?;
        }
        Ok(())
    }
}

impl Store for SqliteStore {
    fn header(&mut self) -> Result<Header, StoreError> {
        let row = self
            .connection
            .query_row(layout::READ_STORE, [], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    [row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?],
                ))
            })
            .optional()?;
        let (issuer, [epoch, created, start, covers, parts]) = row.ok_or_else(nobody)?;
        Ok(Header {
            issuer: Issuer::new(&issuer).map_err(|error| StoreError::Damaged(error.to_string()))?,
            epoch: u32::try_from(epoch)
                .ok()
                .and_then(|epoch| Epoch::new(epoch).ok())
                .ok_or_else(|| damaged("an epoch", epoch))?,
            created_unix_ms: number(created)?,
            start: number(start)?,
            snapshot_covers: number(covers)?,
            snapshot_parts: number(parts)?,
        })
    }

    fn take_start(&mut self) -> Result<u64, StoreError> {
        let start: Option<i64> = self.connection.query_row(layout::TAKE_START, [], |row| row.get(0)).optional()?;
        number(start.ok_or_else(nobody)?)
    }

    fn append(&mut self, row: Row<'_>) -> Result<(), StoreError> {
        self.change(
            layout::APPEND,
            row.bytes.len(),
            params![column(row.id), column(row.start), row.checksum, row.bytes],
        )
    }

    fn confirm(&mut self, start: u64) -> Result<(), StoreError> {
        match self.latest_start()? {
            latest if latest == start => self.still_there(),
            by => Err(StoreError::Deposed { by }),
        }
    }

    fn probe(&mut self, start: u64) -> Result<(), StoreError> {
        self.change(layout::PROBE, 0, params![column(start)])
    }

    fn read_log(&mut self, after: u64, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.each_row(layout::READ_LOG, params![column(after)], each)
    }

    fn put_snapshot_part(&mut self, covers: u64, part: Row<'_>) -> Result<(), StoreError> {
        self.change(
            layout::PUT_PART,
            part.bytes.len(),
            params![column(covers), column(part.id), column(part.start), part.checksum, part.bytes],
        )
    }

    fn adopt_snapshot(&mut self, covers: u64, parts: u64, start: u64) -> Result<(), StoreError> {
        self.change(layout::ADOPT, 0, params![column(covers), column(parts), column(start)])
    }

    fn read_snapshot(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.each_row(layout::READ_SNAPSHOT, [], each)
    }

    fn put_history_part(&mut self, covers: u64, entries: u64, part: Row<'_>) -> Result<(), StoreError> {
        self.change(
            layout::PUT_HISTORY,
            part.bytes.len(),
            params![column(covers), column(part.id), column(entries), column(part.start), part.checksum, part.bytes],
        )
    }

    fn read_history(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.each_row(layout::READ_HISTORY, [], each)
    }

    fn note_start(&mut self, start: u64, at_ms: u64, unix_ms: u64) -> Result<(), StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute(layout::FORGET_STARTS, params![column(start)])?;
        transaction.execute(layout::NOTE_START, params![column(start), column(at_ms), column(unix_ms)])?;
        Ok(transaction.commit()?)
    }

    fn noted_starts(&mut self) -> Result<Vec<[u64; 3]>, StoreError> {
        let mut statement = self.connection.prepare(layout::READ_STARTS)?;
        let rows = statement.query_map([], |row| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?]))?;
        rows.map(|row| {
            let [start, at_ms, unix_ms] = row?;
            Ok([number(start)?, number(at_ms)?, number(unix_ms)?])
        })
        .collect()
    }

    fn trim(&mut self, start: u64, history: u64) -> Result<bool, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let rows = transaction.prepare_cached(layout::TRIM_LOG)?.execute(params![column(start), column(TRIM_ROWS)])?;
        let parts =
            transaction.prepare_cached(layout::TRIM_SNAPSHOTS)?.execute(params![column(start), column(TRIM_PARTS)])?;
        let told = transaction.prepare_cached(layout::TRIM_HISTORY)?.execute(params![
            column(start),
            column(history),
            column(TRIM_PARTS)
        ])?;
        transaction.commit()?;
        let parts = parts + told;
        self.wal_pages += (rows + parts) as u64 + 2;
        Ok(rows + parts > 0)
    }

    fn tidy(&mut self) -> Result<(), StoreError> {
        let busy: i64 = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
        self.wal_pages = if busy == 0 { 0 } else { self.wal_pages / 2 };
        Ok(())
    }

    fn upkeep(&self) -> Upkeep {
        match self.wal_pages {
            TIDY_NOW_PAGES.. => Upkeep::Now,
            TIDY_IDLE_PAGES.. => Upkeep::WhenIdle,
            _ => Upkeep::NotNeeded,
        }
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// A number for a signed column. All of them count up from zero in steps, far from the end.
fn column(number: u64) -> i64 {
    i64::try_from(number).expect("no counter of the store comes near 2^63")
}

fn number(column: i64) -> Result<u64, StoreError> {
    u64::try_from(column).map_err(|_| damaged("a counter", column))
}

fn nobody() -> StoreError {
    StoreError::Damaged("its table `store` is empty".to_owned())
}

fn damaged(what: &str, found: i64) -> StoreError {
    StoreError::Damaged(format!("{found} stands where {what} should"))
}
