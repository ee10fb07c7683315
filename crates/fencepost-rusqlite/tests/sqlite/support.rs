//! What the stories have in common: a database file of their own, grants out of thin air, and plain connections.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, Token,
    fence::{Operation, RecordedResult},
};
use fencepost_rusqlite::{DomainExpression, Mode, ReceiverSeed, guard};
use rusqlite::{Connection, Transaction};
use tempfile::TempDir;

pub(crate) fn issuer() -> Issuer {
    Issuer::new("prod").unwrap()
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

pub(crate) fn token(text: &str) -> Token {
    text.parse().unwrap()
}

pub(crate) fn grant(name: &str, text: &str) -> Grant {
    let token = token(text);
    let [a, b] = [LeaseId::from_bytes([1; 16]), LeaseId::from_bytes([2; 16])];
    let lease = if token.sequence().get().is_multiple_of(2) { a } else { b };
    Grant { issuer: issuer(), domain: domain(name), token, lease, session: SessionId::from_bytes([3; 16]) }
}

pub(crate) fn operation(id: &str) -> Operation {
    Operation::new(OperationId::new(id).unwrap(), id.as_bytes())
}

pub(crate) fn result(bytes: &[u8]) -> RecordedResult {
    RecordedResult::new(bytes).unwrap()
}

/// An issuer in epoch 1, so that tokens `0.x` and `1.x` are known and `2.x` are not.
pub(crate) fn seed() -> ReceiverSeed {
    ReceiverSeed::new(issuer(), Epoch::new(1).unwrap())
}

/// Where memory is a file system, for stories with many writes; else the ordinary place.
pub(crate) fn in_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

pub(crate) struct Database {
    pub(crate) path: PathBuf,
    _folder: TempDir,
}

impl Database {
    /// A new file with this schema, in WAL mode.
    pub(crate) fn new(schema: &str) -> Self {
        Self::new_in(&std::env::temp_dir(), schema)
    }

    fn new_in(parent: &Path, schema: &str) -> Self {
        let folder = tempfile::tempdir_in(parent).unwrap();
        let database = Self { path: folder.path().join("shop.db"), _folder: folder };
        let connection = Connection::open(&database.path).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch(schema).unwrap();
        database
    }

    /// One counter per name; the name is the domain.
    pub(crate) fn with_counters() -> Self {
        Self::with_counters_in(&std::env::temp_dir())
    }

    pub(crate) fn with_counters_in(parent: &Path) -> Self {
        let database = Self::new_in(
            parent,
            "CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER NOT NULL);
             INSERT INTO counter VALUES ('a', 0), ('b', 0), ('c', 0)",
        );
        database.guard("counter", "name");
        database
    }

    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection
    }

    pub(crate) fn guard(&self, table: &str, expression: &str) {
        self.guard_as(table, expression, Mode::Enforce);
    }

    pub(crate) fn guard_as(&self, table: &str, expression: &str, mode: Mode) {
        let expression = DomainExpression::new(expression).unwrap();
        guard(&mut self.connect(), table, &expression, mode, Some(&seed())).unwrap();
    }

    pub(crate) fn count(&self, name: &str) -> i64 {
        self.connect().query_row("SELECT n FROM counter WHERE name = ?1", [name], |row| row.get(0)).unwrap()
    }

    /// Every row of every table, Fencepost's own included: what a refused write must leave as it was.
    pub(crate) fn dump(&self) -> Vec<String> {
        dump(&self.connect())
    }
}

pub(crate) fn dump(connection: &Connection) -> Vec<String> {
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name")
        .unwrap();
    let names: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut lines = Vec::new();
    for name in names {
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = rows.column_count();
        let mut found: Vec<String> = rows
            .query_map([], |row| {
                let values: Vec<rusqlite::types::Value> =
                    (0..columns).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
                Ok(format!("{name}: {values:?}"))
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        found.sort();
        lines.extend(found);
    }
    lines
}

/// A mutation that adds to a counter and answers with its new value.
pub(crate) fn add<'a>(
    name: &'a str,
    by: i64,
) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<RecordedResult> + 'a {
    move |tx| {
        let sql = "UPDATE counter SET n = n + ?2 WHERE name = ?1 RETURNING n";
        let n: i64 = tx.query_row(sql, rusqlite::params![name, by], |row| row.get(0))?;
        Ok(result(n.to_string().as_bytes()))
    }
}
