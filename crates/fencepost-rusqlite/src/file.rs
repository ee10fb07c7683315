use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencepost_core::{Grant, fence::Verdict};
use fencepost_receiver::{AdvanceError, Capabilities, Guarantee, Receiver, adapter::on_a_thread};
use rusqlite::{Connection, OpenFlags};

use crate::SqliteReceiver;

/// How long an advance waits for other writers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A SQLite database named by its path: what an acquire advances, on a connection of its own.
///
/// Clones share the connection and what was seen. Writes go through [`receiver`](Self::receiver) on the caller's own
/// connections.
#[derive(Clone, Debug)]
pub struct SqliteFile {
    path: PathBuf,
    name: String,
    receiver: SqliteReceiver,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl SqliteFile {
    /// The database at this path. It is opened at the first use and never created.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_receiver(path, SqliteReceiver::new())
    }

    /// The same, sharing what a receiver has seen.
    #[must_use]
    pub fn with_receiver(path: impl Into<PathBuf>, receiver: SqliteReceiver) -> Self {
        let path = path.into();
        let name = format!("sqlite:{}", path.display());
        Self { path, name, receiver, connection: Arc::default() }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The receiver that shares what this one has seen.
    #[must_use]
    pub fn receiver(&self) -> &SqliteReceiver {
        &self.receiver
    }

    /// A new connection to the file, which has to be there, with a busy timeout of five seconds and `synchronous = FULL`,
    /// so that an acknowledged raise survives a power failure.
    ///
    /// # Errors
    /// When there is no such file or it cannot be opened for writing.
    pub fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }

    /// Raises the fence of the grant's domain, blocking the calling thread.
    ///
    /// # Errors
    /// When no verdict was reached. Repeating it is safe.
    pub fn advance_blocking(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        let mut kept = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => self.connect().map_err(|error| AdvanceError::Unavailable(error.into()))?,
        };
        let verdict = self.receiver.advance(&mut connection, grant);
        // After an error the next call opens the file anew: it may have been replaced.
        if verdict.as_ref().is_ok_and(|verdict| verdict.rejection().is_none()) {
            *kept = Some(connection);
        }
        verdict
    }
}

impl Receiver for SqliteFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strongest: Guarantee::FencedOnAcquire,
            operation_records: true,
            fenced_read: true,
            guard: true,
            collection: true,
            several_domains: true,
            incarnation: true,
        }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        let (this, grant) = (self.clone(), grant.clone());
        on_a_thread(move || this.advance_blocking(&grant)).await
    }
}
