//! Storage that is full, read-only, busy or gone: an error that says so, and nothing changed.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use fencepost_core::{Epoch, fence::Verdict};
use fencepost_receiver::{AdvanceError, Receiver};
use fencepost_rusqlite::{SqliteFile, SqliteReceiver, WriteError};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::support::{Database, add, domain, grant, operation, result, token};

#[test]
fn a_full_disk_is_an_error_with_nothing_changed() {
    for journal in ["wal", "delete"] {
        let database = Database::with_counters();
        let mut connection = database.connect();
        let _: String =
            connection.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| row.get(0)).unwrap();
        let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        let _: i64 = connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |row| row.get(0)).unwrap();
        let before = database.dump();
        let big = result(&vec![7; 65_536]);
        let outcome = SqliteReceiver::new().write(&mut connection, &grant("a", "0.5"), &operation("x"), |tx| {
            tx.execute("UPDATE counter SET n = 5 WHERE name = 'a'", [])?;
            Ok::<_, rusqlite::Error>(big)
        });
        let error = outcome.unwrap_err();
        assert!(!error.may_have_happened() && error.retryable(), "{error}");
        assert!(error.to_string().contains("full"), "{error}");
        assert_eq!(database.dump(), before);
        let _: i64 = connection.query_row("PRAGMA max_page_count = 100000", [], |row| row.get(0)).unwrap();
        assert!(SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1)).is_ok());
    }
}

#[test]
fn a_connection_that_cannot_write_is_an_error_with_nothing_changed() {
    let database = Database::with_counters();
    let before = database.dump();
    let mut connection = Connection::open_with_flags(&database.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let error = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1)).unwrap_err();
    assert!(matches!(error, WriteError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("readonly"), "{error}");
    drop(connection);
    assert_eq!(database.dump(), before);
}

#[test]
fn a_file_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nowhere.db");
    let error = SqliteFile::new(&path).advance_blocking(&grant("a", "0.5")).unwrap_err();
    assert!(matches!(error, AdvanceError::Unavailable(_)) && error.retryable(), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    fs::write(&path, "Dear reader, this is not a database, however long it may be. ".repeat(20)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let error = SqliteFile::new(&path).advance_blocking(&grant("a", "0.5")).unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[test]
fn a_busy_database_is_waited_for_and_then_said_to_be_busy() {
    let database = Database::with_counters();
    let mut other = database.connect();
    let lock = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut connection = database.connect();
    connection.busy_timeout(Duration::from_millis(50)).unwrap();
    let asked = Instant::now();
    let error = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1)).unwrap_err();
    assert!(asked.elapsed() >= Duration::from_millis(45));
    assert!(matches!(error, WriteError::Unavailable(_)) && error.retryable(), "{error}");
    lock.rollback().unwrap();
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1)).is_ok());
}

/// In a rollback journal a reader holds up the commit itself. The transaction is undone, so the answer is definite.
#[test]
fn a_commit_held_up_by_a_reader_has_not_happened() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let _: String = connection.query_row("PRAGMA journal_mode = delete", [], |row| row.get(0)).unwrap();
    connection.busy_timeout(Duration::from_millis(50)).unwrap();
    let reader = database.connect();
    reader.execute_batch("BEGIN; SELECT * FROM counter").unwrap();
    let _: i64 = reader.query_row("SELECT n FROM counter", [], |row| row.get(0)).unwrap();
    let outcome = SqliteReceiver::new().write(&mut connection, &grant("a", "0.5"), &operation("x"), add("a", 1));
    let error = outcome.unwrap_err();
    assert!(matches!(error, WriteError::Unavailable(_)), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(database.count("a"), 0);
    let again = SqliteReceiver::new().write(&mut connection, &grant("a", "0.5"), &operation("x"), add("a", 1)).unwrap();
    assert!(matches!(again, Verdict::Applied(_)));
}

/// A kill leaves what the kernel has, so no kill shows whether a raise was synced.
/// Mutant: `connect` sets `synchronous` to anything weaker.
#[test]
fn a_raise_that_was_acknowledged_was_synced() {
    let database = Database::with_counters();
    let connection = SqliteFile::new(&database.path).connect().unwrap();
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(synchronous, 2, "FULL");
}

#[test]
fn a_file_advances_without_any_runtime_and_says_what_it_is() {
    let database = Database::with_counters();
    let file = SqliteFile::new(&database.path);
    assert_eq!(file.name(), format!("sqlite:{}", database.path.display()));
    assert!(file.capabilities().guard);
    let grant = grant("a", "0.9");
    let mut advance = std::pin::pin!(file.advance(&grant).into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let verdict = loop {
        if let std::task::Poll::Ready(verdict) = advance.as_mut().poll(&mut context) {
            break verdict;
        }
        std::thread::yield_now();
    };
    assert_eq!(verdict.unwrap(), Verdict::Applied(()));
    let fences = fencepost_rusqlite::fences(&database.connect(), None, 9).unwrap();
    assert_eq!((fences[0].domain.clone(), fences[0].token), (domain("a"), token("0.9")));
    assert_eq!(Epoch::ZERO, fences[0].token.epoch());
}
