//! The audit finds every way around a guard that can be seen, and nothing where there is none.

use fencepost_rusqlite::{AuditScope, DomainExpression, Mode, Severity, audit, guard};
use rusqlite::{Connection, config::DbConfig};

use crate::support::{Database, seed};

fn codes(connection: &Connection) -> Vec<&'static str> {
    let found = audit(connection, AuditScope::default()).unwrap();
    assert!(found.findings.iter().all(|finding| !finding.fix.is_empty() && !finding.found.is_empty()));
    found.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn a_guarded_database_has_no_findings() {
    let database = Database::with_counters();
    assert!(audit(&database.connect(), AuditScope::default()).unwrap().is_clean());
}

#[test]
fn a_database_without_a_receiver_is_a_finding() {
    let database = Database::new("CREATE TABLE t (x)");
    assert_eq!(codes(&database.connect()), ["not_guarded"]);
}

#[test]
fn whatever_was_done_to_the_guard_is_found() {
    for (damage, code) in [
        ("DROP TRIGGER fencepost_guard_before_delete_counter", "guard_outdated"),
        (
            "DROP TRIGGER fencepost_guard_before_delete_counter;
             CREATE TRIGGER fencepost_guard_before_delete_counter BEFORE DELETE ON counter BEGIN SELECT 1; END",
            "guard_outdated",
        ),
        ("ALTER TABLE counter ADD COLUMN more TEXT", "guard_outdated"),
        ("CREATE UNIQUE INDEX by_n ON counter (n, name)", "guard_outdated"),
        ("CREATE UNIQUE INDEX by_half ON counter (n / 2, name)", "not_coverable"),
        ("ALTER TABLE counter RENAME COLUMN name TO label", "guard_outdated"),
        ("DROP TABLE counter", "not_coverable"),
        ("DELETE FROM fencepost_guard", "guard_unregistered"),
        ("CREATE TRIGGER leaves AFTER INSERT ON counter BEGIN SELECT raise ( ignore ); END", "ignoring_trigger"),
        ("DROP TRIGGER fencepost_fence_rises", "records_unprotected"),
        ("CREATE TRIGGER own BEFORE INSERT ON fencepost_entry BEGIN SELECT RAISE(IGNORE); END", "records_altered"),
        ("INSERT INTO fencepost_entry SELECT 1, 'a', counter + 1 FROM fencepost_entry", "left_open"),
        ("INSERT INTO fencepost_fence VALUES ('z', 1)", "closed"),
    ] {
        let database = Database::with_counters();
        let connection = database.connect();
        connection.execute_batch(damage).unwrap();
        assert_eq!(codes(&connection), [code], "{damage}");
    }
}

#[test]
fn guards_without_triggers_and_triggers_of_a_renamed_table_are_found() {
    let database = Database::with_counters();
    let connection = database.connect();
    for trigger in ["before_insert", "after_insert", "before_update", "after_update", "before_delete"] {
        connection.execute_batch(&format!("DROP TRIGGER fencepost_guard_{trigger}_counter")).unwrap();
    }
    assert_eq!(codes(&connection), ["guard_missing"]);
    let database = Database::with_counters();
    let connection = database.connect();
    connection.execute_batch("ALTER TABLE counter RENAME TO tally").unwrap();
    assert_eq!(codes(&connection), ["not_coverable", "guard_unregistered"]);
    assert!(connection.execute("UPDATE tally SET n = 1", []).is_err(), "the guard itself goes with the table");
}

#[test]
fn guarding_again_settles_what_an_altered_table_needs() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    connection
        .execute_batch("ALTER TABLE counter ADD COLUMN more TEXT; CREATE UNIQUE INDEX i ON counter (more)")
        .unwrap();
    guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, None).unwrap();
    assert!(codes(&connection).is_empty());
}

#[test]
fn observing_is_a_finding() {
    let database = Database::new("CREATE TABLE t (owner TEXT)");
    database.guard_as("t", "owner", Mode::Observe);
    let found = audit(&database.connect(), AuditScope::default()).unwrap();
    assert_eq!((found.findings[0].code, found.findings[0].severity), ("guard_observes", Severity::Warning));
}

#[test]
fn settings_of_the_connection_that_weaken_the_promise_are_found() {
    let database = Database::with_counters();
    let connection = database.connect();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    assert_eq!(codes(&connection), ["triggers_off"]);
    let connection = database.connect();
    connection.pragma_update(None, "synchronous", "NORMAL").unwrap();
    assert_eq!(codes(&connection), ["not_durable"], "in WAL mode a commit is not synced then");
    let connection = database.connect();
    connection.pragma_update(None, "writable_schema", true).unwrap();
    assert_eq!(codes(&connection), ["writable_schema"]);
    let other = Database::with_counters();
    let connection = other.connect();
    let journal = "PRAGMA journal_mode = off";
    let _: String = connection.query_row(journal, [], |row| row.get(0)).unwrap();
    assert_eq!(codes(&connection), ["no_journal"]);
}

#[test]
fn unguarded_tables_are_listed_when_asked_for() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    connection.execute_batch("CREATE TABLE free (x); CREATE TABLE bound (owner TEXT)").unwrap();
    guard(&mut connection, "bound", &DomainExpression::new("owner").unwrap(), Mode::Enforce, Some(&seed())).unwrap();
    let found = audit(&connection, AuditScope { unguarded_tables: true }).unwrap();
    let found: Vec<_> = found.findings.iter().map(|finding| (finding.code, finding.subject.as_deref())).collect();
    assert_eq!(found, [("unguarded_table", Some("free"))]);
}

/// Names of tables differ by what SQLite compares: only the letters A to Z are the same in both cases. Mutant: the name of a
/// trigger in lower case by the rules of another alphabet, where two tables would share one.
#[test]
fn tables_whose_names_differ_in_the_case_of_a_letter_that_sqlite_does_not_fold_are_guarded_apart() {
    let database = Database::new("CREATE TABLE \"Änderung\" (name TEXT); CREATE TABLE \"änderung\" (name TEXT)");
    database.guard("Änderung", "name");
    database.guard("änderung", "name");
    assert_eq!(codes(&database.connect()), Vec::<&str>::new());
    for table in ["Änderung", "änderung"] {
        let refused = database.connect().execute(&format!("INSERT INTO \"{table}\" VALUES ('a')"), []).unwrap_err();
        assert!(refused.to_string().contains(table), "{refused}");
    }
}
