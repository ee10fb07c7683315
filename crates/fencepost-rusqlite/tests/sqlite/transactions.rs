//! Entering in the caller's own transaction, and what a mutation that does wrong cannot do.

use fencepost_core::fence::Verdict;
use fencepost_rusqlite::{Entry, SqliteReceiver, WriteError, audit};
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{Database, add, grant, operation, result};

fn immediate(connection: &mut Connection) -> rusqlite::Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

fn add_one(connection: &Connection, name: &str) -> rusqlite::Result<usize> {
    connection.execute("UPDATE counter SET n = n + 1 WHERE name = ?1", [name])
}

#[test]
fn a_domain_is_entered_in_the_callers_own_transaction_and_finished_before_its_commit() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let tx = immediate(&mut connection);
    let Entry::Entered(entered) = receiver.enter(&tx, &grant("a", "0.5"), Some(&operation("x"))).unwrap() else {
        panic!("not entered")
    };
    add_one(&tx, "a").unwrap();
    assert!(add_one(&tx, "b").is_err(), "another domain stays closed");
    entered.record(&result(b"done")).unwrap();
    assert!(add_one(&tx, "a").is_err(), "finished is closed again");
    let Entry::Entered(entered) = receiver.enter(&tx, &grant("b", "0.5"), None).unwrap() else { panic!("not entered") };
    add_one(&tx, "b").unwrap();
    entered.finish().unwrap();
    tx.commit().unwrap();
    assert_eq!((database.count("a"), database.count("b")), (1, 1));

    for text in ["0.5", "0.6"] {
        let tx = immediate(&mut connection);
        match receiver.enter(&tx, &grant("a", text), Some(&operation("x"))).unwrap() {
            Entry::Replayed(answer) => assert_eq!(answer.as_bytes(), b"done"),
            other => panic!("{other:?}"),
        }
        // Mutant: a replay that enters lets a second effect through.
        assert!(add_one(&tx, "a").is_err(), "a replay opens nothing");
        tx.commit().unwrap();
    }
    let tx = immediate(&mut connection);
    assert!(matches!(receiver.enter(&tx, &grant("a", "0.5"), None), Ok(Entry::Rejected(_))), "the replay has raised");
}

#[test]
fn a_deferred_transaction_is_told_to_be_an_immediate_one() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let tx = connection.transaction().unwrap();
    let error = receiver.enter(&tx, &grant("a", "0.5"), None).unwrap_err();
    assert!(matches!(error, WriteError::Misused(rule) if rule.contains("immediate")), "{error}");
    let _: i64 = tx.query_row("SELECT n FROM counter", [], |row| row.get(0)).unwrap();
    assert!(receiver.enter(&tx, &grant("a", "0.5"), None).is_err(), "a read is not enough");
}

/// Mutant: nothing done when an entered domain is dropped.
#[test]
fn an_entered_operation_whose_result_was_not_recorded_fails_at_commit() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let before = database.dump();
    let tx = immediate(&mut connection);
    let entry = receiver.enter(&tx, &grant("a", "0.5"), Some(&operation("x"))).unwrap();
    add_one(&tx, "a").unwrap();
    drop(entry);
    assert!(tx.commit().is_err());
    assert_eq!(database.dump(), before);
    // The connection is as good as new, also when the transaction was rolled back instead.
    let tx = immediate(&mut connection);
    drop(receiver.enter(&tx, &grant("a", "0.5"), None).unwrap());
    tx.rollback().unwrap();
    connection.execute_batch("CREATE TABLE other (x); INSERT INTO other VALUES (1)").unwrap();
    assert!(matches!(receiver.mutate(&mut connection, &grant("a", "0.5"), add("a", 1)), Ok(Verdict::Applied(_))));
}

#[test]
fn recording_and_finishing_are_not_interchangeable() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    for with_operation in [true, false] {
        let tx = immediate(&mut connection);
        let operation = operation("x");
        let entry = receiver.enter(&tx, &grant("a", "0.5"), with_operation.then_some(&operation));
        let Entry::Entered(entered) = entry.unwrap() else { panic!("not entered") };
        let ended = if with_operation { entered.finish() } else { entered.record(&result(b"")) };
        assert!(matches!(ended, Err(WriteError::Misused(_))));
        assert!(tx.commit().is_err());
    }
}

#[test]
fn a_second_domain_cannot_be_entered_beside_an_unfinished_one() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let tx = immediate(&mut connection);
    let Entry::Entered(entered) = receiver.enter(&tx, &grant("a", "0.5"), None).unwrap() else { panic!("not entered") };
    assert!(matches!(receiver.enter(&tx, &grant("b", "0.5"), None), Err(WriteError::Misused(_))));
    entered.finish().unwrap();
    let Entry::Entered(both) = receiver.enter_all(&tx, &[grant("b", "0.5"), grant("a", "0.5")], None).unwrap() else {
        panic!("not entered")
    };
    add_one(&tx, "a").unwrap();
    add_one(&tx, "b").unwrap();
    both.finish().unwrap();
    tx.commit().unwrap();
}

/// Mutant: entries not counted when they are removed. The raise would be gone and the record there.
#[test]
fn a_savepoint_that_takes_the_entry_back_takes_the_operation_with_it() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let before = database.dump();
    let tx = immediate(&mut connection);
    tx.execute_batch("SAVEPOINT s").unwrap();
    let Entry::Entered(entered) = receiver.enter(&tx, &grant("a", "0.5"), Some(&operation("x"))).unwrap() else {
        panic!("not entered")
    };
    tx.execute_batch("ROLLBACK TO s").unwrap();
    assert!(matches!(entered.record(&result(b"")), Err(WriteError::Misused(_))));
    assert!(tx.commit().is_err());
    assert_eq!(database.dump(), before);
}

#[test]
fn a_failing_mutation_rolls_back_the_raise_too() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let before = database.dump();
    let outcome = receiver.write(&mut connection, &grant("a", "0.5"), &operation("x"), |tx| {
        add_one(tx, "a").unwrap();
        Err::<_, &str>("insufficient funds")
    });
    assert!(matches!(outcome, Err(WriteError::Mutation("insufficient funds"))));
    assert_eq!(database.dump(), before);
    let again = receiver.write(&mut connection, &grant("a", "0.4"), &operation("x"), add("a", 1)).unwrap();
    assert!(matches!(again, Verdict::Applied(_)), "a definite failure leaves no record: {again:?}");
}

#[test]
fn a_panicking_mutation_leaves_nothing_behind() {
    let database = Database::with_counters();
    let before = database.dump();
    let mut connection = database.connect();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), |tx| -> Result<(), ()> {
            add_one(tx, "a").unwrap();
            panic!("in the middle")
        });
    }));
    assert!(panicked.is_err());
    assert_eq!(database.dump(), before);
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1)).is_ok());
}

#[test]
fn a_mutation_that_commits_by_itself_is_unknown_and_leaves_no_door_open() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let outcome = receiver.write(&mut connection, &grant("a", "0.5"), &operation("x"), |tx| {
        add_one(tx, "a")?;
        tx.execute_batch("COMMIT")?;
        Ok::<_, rusqlite::Error>(result(b""))
    });
    let error = outcome.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    assert!(add_one(&connection, "a").is_err(), "closed again");
}

/// Mutant: entries left behind not swept. They open the domain to everybody.
#[test]
fn an_entry_left_behind_is_found_by_the_audit_and_swept_by_the_next_write() {
    let database = Database::with_counters();
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    let tx = immediate(&mut connection);
    std::mem::forget(receiver.enter(&tx, &grant("a", "0.5"), None).unwrap());
    tx.commit().unwrap();
    let found = audit(&connection, fencepost_rusqlite::AuditScope::default()).unwrap();
    assert!(found.findings.iter().any(|finding| finding.code == "left_open"), "{found:?}");
    // Also a rejected write sweeps.
    assert!(matches!(receiver.mutate(&mut connection, &grant("a", "0.4"), add("a", 1)), Ok(Verdict::Rejected(_))));
    assert!(add_one(&connection, "a").is_err());
    let found = audit(&connection, fencepost_rusqlite::AuditScope::default()).unwrap();
    assert!(found.findings.iter().all(|finding| finding.code != "left_open"), "{found:?}");
}

/// Mutant: the sweep left to the transaction of the call, which is rolled back or not committed.
#[test]
fn an_entry_left_behind_is_swept_whatever_the_next_call_comes_to() {
    type Call = fn(&SqliteReceiver, &mut Connection);
    let calls: [(&str, Call); 5] = [
        ("a replay", |receiver, connection| {
            let again = receiver.write(connection, &grant("a", "0.5"), &operation("x"), add("a", 1)).unwrap();
            assert!(matches!(again, Verdict::Replayed(_)));
        }),
        ("a mutation that fails", |receiver, connection| {
            let failed = receiver.mutate(connection, &grant("a", "0.5"), |_| Err::<(), _>("no funds"));
            assert!(matches!(failed, Err(WriteError::Mutation("no funds"))));
        }),
        ("a rejected read", |receiver, connection| {
            let read = receiver.read(connection, &grant("a", "0.4"), |_| Ok::<_, ()>(())).unwrap();
            assert!(matches!(read, Verdict::Rejected(_)));
        }),
        ("a reader that fails", |receiver, connection| {
            assert!(receiver.read(connection, &grant("a", "0.5"), |_| Err::<(), _>("no such row")).is_err());
        }),
        ("an advance", |receiver, connection| {
            assert_eq!(receiver.advance(connection, &grant("a", "0.5")).unwrap(), Verdict::Applied(()));
        }),
    ];
    for (what, call) in calls {
        let database = Database::with_counters();
        let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
        let _ = receiver.write(&mut connection, &grant("a", "0.5"), &operation("x"), add("a", 1)).unwrap();
        let tx = immediate(&mut connection);
        std::mem::forget(receiver.enter(&tx, &grant("a", "0.5"), None).unwrap());
        tx.commit().unwrap();
        let tx = immediate(&mut connection);
        assert!(matches!(receiver.enter(&tx, &grant("b", "0.5"), None), Err(WriteError::Misused(_))), "{what}");
        drop(tx);

        call(&receiver, &mut connection);
        assert!(add_one(&connection, "a").is_err(), "{what} closes what was left open");
        let tx = immediate(&mut connection);
        assert!(matches!(receiver.enter(&tx, &grant("b", "0.5"), None), Ok(Entry::Entered(_))), "{what}");
    }
}

/// A row left behind under an old counter opens nothing. Mutant: entries compared without the counter.
#[test]
fn an_entry_of_an_old_counter_opens_nothing() {
    let database = Database::with_counters();
    let connection = database.connect();
    connection
        .execute("INSERT INTO fencepost_entry SELECT 1, 'a', counter FROM fencepost_entry WHERE slot = 0", [])
        .unwrap();
    assert!(add_one(&connection, "a").is_err());
}

#[test]
fn a_connection_without_triggers_is_refused() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    let outcome = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), add("a", 1));
    assert!(matches!(outcome, Err(WriteError::Misused(rule)) if rule.contains("triggers")));
}

#[test]
fn a_fenced_read_opens_no_guarded_table() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let outcome = SqliteReceiver::new().read(&mut connection, &grant("a", "0.5"), |tx| add_one(tx, "a"));
    assert!(matches!(outcome, Err(WriteError::Mutation(_))));
}
