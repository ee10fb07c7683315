//! Every way in which SQL can change a row, tried by code that has not entered the row's domain: refused, and nothing
//! has changed. Each list is tried with recursive triggers off (the default) and on, and from Debian's `sqlite3` shell,
//! which is another SQLite than the one that made the triggers.
//!
//! Mutants that these stories have found: each of the five triggers left out; displaced rows not looked up by rowid, by
//! index, by the index's collation, by the default that replaces NULL; a changed key compared by its column's collation;
//! the unary plus left out.

use std::process::{Command, Output};

use fencepost_rusqlite::{
    DomainExpression, MaintenanceError, Mode, SqliteReceiver, Unguardable, Verdict, guard, observations, status,
};
use rusqlite::Connection;

use crate::support::{Database, dump, grant, seed};

const DOCUMENTS: &str = "
    CREATE TABLE doc (
        id INTEGER PRIMARY KEY, owner TEXT NOT NULL, slug TEXT UNIQUE COLLATE NOCASE, body TEXT,
        parent INTEGER REFERENCES folder (id) ON DELETE CASCADE ON UPDATE SET NULL
    );
    CREATE TABLE folder (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE inbox (owner TEXT, slug TEXT);
    CREATE VIEW titles AS SELECT id, owner, slug FROM doc;
    CREATE TRIGGER titles_change INSTEAD OF UPDATE ON titles BEGIN
        UPDATE doc SET slug = NEW.slug WHERE id = NEW.id;
    END;
    CREATE TRIGGER titles_new INSTEAD OF INSERT ON titles BEGIN
        INSERT INTO doc (owner, slug) VALUES (NEW.owner, NEW.slug);
    END;
    CREATE TRIGGER inbox_takes AFTER INSERT ON inbox BEGIN
        INSERT INTO doc (owner, slug) VALUES (NEW.owner, NEW.slug);
    END;
    INSERT INTO folder VALUES (7, 'f');
    INSERT INTO doc VALUES (1, 'a', 'one', 'x', NULL), (2, 'b', 'two', 'y', 7), (-1, 'b', 'minus', 'z', NULL);
";

/// None of these may pass for somebody who has entered nothing, or only `owner/a`.
const AGAINST_B: [&str; 27] = [
    "INSERT INTO doc (owner, slug) VALUES ('b', 'new')",
    "INSERT INTO doc (id, owner, slug) VALUES (-1, 'b', 'minus one')",
    "INSERT OR IGNORE INTO doc (owner, slug) VALUES ('b', 'new')",
    "INSERT OR FAIL INTO doc (owner, slug) VALUES ('b', 'new')",
    "INSERT OR ROLLBACK INTO doc (owner, slug) VALUES ('b', 'new')",
    "INSERT INTO doc (owner, slug) SELECT 'b', 'new'",
    "UPDATE doc SET body = 'stolen' WHERE id = 2",
    "UPDATE OR IGNORE doc SET body = 'stolen' WHERE id = 2",
    "UPDATE doc SET owner = 'a' WHERE id = 2",
    "UPDATE doc SET owner = 'b' WHERE id = 1",
    "UPDATE doc SET body = 'all'",
    "UPDATE doc SET body = f.name FROM folder AS f WHERE f.id = doc.parent",
    "DELETE FROM doc WHERE id = 2",
    "DELETE FROM doc",
    "REPLACE INTO doc (id, owner, slug) VALUES (2, 'a', 'three')",
    "REPLACE INTO doc (rowid, owner, slug) VALUES (2, 'a', 'three')",
    "INSERT OR REPLACE INTO doc (id, owner, slug) VALUES (-1, 'a', 'three')",
    "INSERT OR REPLACE INTO doc (owner, slug) VALUES ('a', 'TWO')",
    "UPDATE OR REPLACE doc SET slug = 'TWO' WHERE id = 1",
    "UPDATE OR REPLACE doc SET id = 2 WHERE id = 1",
    "UPDATE OR REPLACE doc SET rowid = 2 WHERE id = 1",
    "INSERT INTO doc (owner, slug) VALUES ('a', 'Two') ON CONFLICT (slug) DO UPDATE SET body = 'stolen'",
    "INSERT INTO doc (id, owner, slug) VALUES (2, 'b', 'two') ON CONFLICT DO UPDATE SET body = 'stolen'",
    "DELETE FROM folder WHERE id = 7",
    "UPDATE folder SET id = 8 WHERE id = 7",
    "UPDATE titles SET slug = 'stolen' WHERE id = 2",
    "INSERT INTO inbox VALUES ('b', 'new')",
];

fn documents() -> Database {
    let database = Database::new(DOCUMENTS);
    database.guard("doc", "'owner/' || owner");
    database
}

fn plain(database: &Database, recursive: bool) -> Connection {
    let connection = database.connect();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection.pragma_update(None, "recursive_triggers", recursive).unwrap();
    connection
}

fn assert_refused(connection: &Connection, sql: &str) {
    let before = dump(connection);
    let refused = connection.execute_batch(sql).expect_err(sql);
    assert!(refused.to_string().starts_with("fencepost: "), "{sql}: {refused}");
    assert_eq!(dump(connection), before, "{sql}");
}

#[test]
fn code_that_has_entered_nothing_changes_nothing() {
    for recursive in [false, true] {
        let database = documents();
        let connection = plain(&database, recursive);
        for sql in AGAINST_B {
            assert_refused(&connection, sql);
        }
        for sql in ["INSERT INTO titles (owner, slug) VALUES ('a', 'new')", "INSERT INTO doc (owner) VALUES ('a')"] {
            assert_refused(&connection, sql);
        }
    }
}

#[test]
fn the_holder_of_one_domain_changes_no_row_of_another() {
    for recursive in [false, true] {
        let database = documents();
        let mut connection = plain(&database, recursive);
        for sql in AGAINST_B {
            let before = database.dump();
            let outcome = SqliteReceiver::new().mutate(&mut connection, &grant("owner/a", "0.5"), |tx| {
                tx.execute_batch("SAVEPOINT attempt")?;
                assert_refused(tx, sql);
                Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
            });
            // The transaction of OR ROLLBACK is over when the statement fails, which the closure cannot know.
            assert!(outcome.is_err() || sql.contains("OR ROLLBACK"), "{sql}");
            assert_eq!(database.dump(), before, "{sql}");
        }
    }
}

#[test]
fn the_holder_changes_the_rows_of_its_domain_in_every_way() {
    for recursive in [false, true] {
        let database = documents();
        let mut connection = plain(&database, recursive);
        let verdict = SqliteReceiver::new().mutate(&mut connection, &grant("owner/a", "0.5"), |tx| {
            tx.execute_batch(
                "INSERT INTO doc (owner, slug) VALUES ('a', 'three'), ('a', 'four');
                 UPDATE doc SET body = 'mine' WHERE owner = 'a';
                 REPLACE INTO doc (id, owner, slug) VALUES (1, 'a', 'FOUR');
                 UPDATE OR REPLACE doc SET slug = 'Four' WHERE slug = 'three';
                 INSERT INTO doc (owner, slug) VALUES ('a', 'five') ON CONFLICT (slug) DO UPDATE SET body = 'again';
                 INSERT INTO doc (owner, slug) VALUES ('a', 'five') ON CONFLICT (slug) DO UPDATE SET body = 'again';
                 INSERT OR IGNORE INTO doc (owner, slug) VALUES ('a', 'five');
                 UPDATE titles SET slug = 'six' WHERE slug = 'five';
                 INSERT INTO inbox VALUES ('a', 'seven');
                 DELETE FROM doc WHERE slug = 'seven'",
            )
        });
        assert!(matches!(verdict, Ok(Verdict::Applied(()))), "{verdict:?}");
        let slugs: String = connection
            .query_row(
                "SELECT group_concat(slug) FROM (SELECT slug FROM doc WHERE owner = 'a' ORDER BY slug)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(slugs, "Four,six");
    }
}

fn shell(database: &Database, recursive: bool, sql: &str) -> Output {
    let setup = format!("PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = {recursive};");
    let mut command = Command::new("sqlite3");
    command.arg(&database.path).arg(format!("{setup} {sql}"));
    command.output().expect("Debian's package sqlite3 is installed for this test")
}

#[test]
fn the_shell_changes_nothing_either() {
    for recursive in [false, true] {
        let database = documents();
        for sql in AGAINST_B {
            let before = database.dump();
            let output = shell(&database, recursive, sql);
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && message.contains("fencepost: "), "{sql}: {message}");
            assert_eq!(database.dump(), before, "{sql}");
        }
        let read = shell(&database, recursive, "PRAGMA recursive_triggers; SELECT count(*) FROM doc");
        assert_eq!(String::from_utf8_lossy(&read.stdout), format!("{}\n3\n", u8::from(recursive)));
    }
}

#[test]
fn the_refusal_says_which_table_which_domain_and_what_to_do() {
    let refused = documents().connect().execute("DELETE FROM doc", []).unwrap_err().to_string();
    assert_eq!(
        refused,
        "fencepost: DELETE on doc refused: its transaction has not entered the domain ('owner/' || owner) of the row, or of \
         a row that it would displace. Acquire a lease on that domain and write through Fencepost under its grant"
    );
}

#[test]
fn rows_without_a_rowid_are_displaced_by_their_key_and_by_their_indexes() {
    let database = Database::new(
        "CREATE TABLE pair (x TEXT, y TEXT, owner TEXT, code BLOB, PRIMARY KEY (x, y)) WITHOUT ROWID;
         CREATE UNIQUE INDEX by_code ON pair (code, owner COLLATE NOCASE) WHERE code IS NOT NULL;
         INSERT INTO pair VALUES ('1', '1', 'a', x'01', NULL), ('1', '2', 'b', x'02', NULL)"
            .replace(", NULL)", ")")
            .as_str(),
    );
    database.guard("pair", "owner");
    let mut connection = database.connect();
    for sql in [
        "REPLACE INTO pair VALUES ('1', '2', 'a', x'09')",
        "UPDATE OR REPLACE pair SET y = '2' WHERE owner = 'a'",
        "REPLACE INTO pair VALUES ('5', '5', 'B', x'02')",
        "DELETE FROM pair",
    ] {
        assert_refused(&connection, sql);
        let applied =
            SqliteReceiver::new()
                .mutate_all(&mut connection, &[grant("a", "0.5"), grant("B", "0.5")], |tx| tx.execute_batch(sql));
        assert!(applied.is_err(), "{sql}");
    }
}

#[test]
fn every_way_to_displace_a_row_is_looked_up_without_a_declared_key() {
    let database = Database::new(
        "CREATE TABLE note (rowid TEXT, owner TEXT, n INTEGER UNIQUE ON CONFLICT REPLACE,
                            kind TEXT NOT NULL DEFAULT 'k' UNIQUE);
         INSERT INTO note (owner, n, kind) VALUES ('b', 5, 'k'), ('a', 6, 'other')",
    );
    database.guard("note", "owner");
    let mut connection = database.connect();
    for sql in [
        "INSERT INTO note (owner, n, kind) VALUES ('a', 5, 'new')",
        "INSERT INTO note (owner, n, kind) VALUES ('a', '5', 'new')",
        "INSERT INTO note (owner, n, kind) VALUES ('a', 5.0, 'new')",
        "INSERT OR REPLACE INTO note (oid, owner, n, kind) VALUES (1, 'a', 9, 'new')",
        "INSERT OR REPLACE INTO note (owner, n, kind) VALUES ('a', 9, NULL)",
        "UPDATE OR REPLACE note SET kind = NULL WHERE owner = 'a'",
        "UPDATE OR REPLACE note SET oid = 1 WHERE owner = 'a'",
        "UPDATE note SET n = 5 WHERE owner = 'a'",
    ] {
        assert_refused(&connection, sql);
        let outcome = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), |tx| tx.execute_batch(sql));
        let refused = outcome.expect_err(sql).to_string();
        assert!(refused.contains("fencepost: "), "{sql}: {refused}");
    }
}

#[test]
fn a_domain_made_of_the_rowid_is_checked_when_the_database_has_chosen_it() {
    let database = Database::new("CREATE TABLE page (id INTEGER PRIMARY KEY, text TEXT)");
    database.guard("page", "'page/' || id");
    let mut connection = database.connect();
    assert_refused(&connection, "INSERT INTO page (text) VALUES ('x')");
    assert_refused(&connection, "INSERT INTO page VALUES (1, 'x')");
    assert_refused(&connection, "INSERT INTO page VALUES (-1, 'x')");
    let insert = |tx: &rusqlite::Transaction<'_>| tx.execute("INSERT INTO page (text) VALUES ('x')", []);
    let verdict = SqliteReceiver::new().mutate(&mut connection, &grant("page/1", "0.5"), insert);
    assert!(matches!(verdict, Ok(Verdict::Applied(1))), "{verdict:?}");
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("page/1", "0.5"), insert).is_err());
}

#[test]
fn a_trigger_of_the_users_own_cannot_lead_around_the_guard() {
    let database = Database::new(
        "CREATE TABLE t (k TEXT PRIMARY KEY, owner TEXT, v TEXT);
         CREATE TABLE other (x);
         INSERT INTO t VALUES ('1', 'a', ''), ('2', 'b', '');",
    );
    database.guard("t", "owner");
    // Made after the guard, so that it runs before the guard's own.
    let mut connection = database.connect();
    connection
        .execute_batch(
            "CREATE TRIGGER t_moves BEFORE UPDATE OF v ON t BEGIN UPDATE t SET owner = 'b' WHERE k = NEW.k; END;
             CREATE TRIGGER t_leaves AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE); END;
             CREATE TRIGGER other_writes AFTER INSERT ON other BEGIN UPDATE t SET v = NEW.x WHERE k = '2'; END;",
        )
        .unwrap();
    for sql in [
        "UPDATE t SET v = 'x' WHERE k = '1'",
        "INSERT INTO t VALUES ('3', 'b', '')",
        "INSERT INTO other VALUES ('stolen')",
    ] {
        assert_refused(&connection, sql);
        let outcome = SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), |tx| tx.execute_batch(sql));
        assert!(outcome.is_err(), "{sql}");
    }
}

/// Outer statement and trigger change one column each, into domains that were entered; together they make a third. Mutant:
/// no check after an update.
#[test]
fn a_row_that_two_statements_move_together_is_checked_where_it_ends() {
    let database = Database::new(
        "CREATE TABLE t (k INTEGER PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t VALUES (1, 'p', '1');
         CREATE TRIGGER both BEFORE UPDATE OF a ON t BEGIN UPDATE t SET b = '2' WHERE k = NEW.k; END",
    );
    database.guard("t", "a || b");
    let mut connection = database.connect();
    let grants = ["p1", "p2", "q1"].map(|name| grant(name, "0.5"));
    let update = |tx: &rusqlite::Transaction<'_>| tx.execute("UPDATE t SET a = 'q'", []);
    assert!(SqliteReceiver::new().mutate_all(&mut connection, &grants, update).is_err());
    let [p1, p2, q1] = grants;
    let outcome = SqliteReceiver::new().mutate_all(&mut connection, &[p1, p2, q1, grant("q2", "0.5")], update);
    assert!(matches!(outcome, Ok(Verdict::Applied(1))), "{outcome:?}");
}

/// To the column `x` and `X` are the same, to the index they are not.
#[test]
fn a_key_that_changes_only_for_its_index_is_looked_up() {
    let database = Database::new(
        "CREATE TABLE t (u TEXT COLLATE NOCASE, owner TEXT); CREATE UNIQUE INDEX by_u ON t (u COLLATE BINARY);
         INSERT INTO t VALUES ('x', 'a'), ('X', 'b')",
    );
    database.guard("t", "owner");
    let mut connection = database.connect();
    let update = |tx: &rusqlite::Transaction<'_>| tx.execute("UPDATE OR REPLACE t SET u = 'X' WHERE owner = 'a'", []);
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), update).is_err());
}

#[test]
fn a_row_without_a_domain_is_refused_whatever_was_entered() {
    let database = Database::new("CREATE TABLE t (owner TEXT, n INTEGER); INSERT INTO t VALUES (NULL, 1)");
    database.guard("t", "owner");
    let mut connection = database.connect();
    for sql in
        ["INSERT INTO t VALUES (NULL, 2)", "UPDATE t SET n = 3", "DELETE FROM t", "INSERT INTO t VALUES (x'61', 2)"]
    {
        assert_refused(&connection, sql);
        assert!(SqliteReceiver::new().mutate(&mut connection, &grant("a", "0.5"), |tx| tx.execute_batch(sql)).is_err());
    }
}

#[test]
fn a_number_as_domain_is_entered_by_its_digits() {
    let database = Database::new("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)");
    database.guard("account", "id");
    let mut connection = database.connect();
    let insert = |tx: &rusqlite::Transaction<'_>| tx.execute("INSERT INTO account VALUES (5, 1)", []);
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("6", "0.5"), insert).is_err());
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("5", "0.5"), insert).is_ok());
}

#[test]
fn a_stored_row_and_a_new_one_have_the_same_domain_whatever_the_affinity() {
    let database = Database::new(
        "CREATE TABLE t (n INTEGER UNIQUE, shard INTEGER, v TEXT COLLATE NOCASE);
         INSERT INTO t VALUES (1, 5, 'X')",
    );
    database.guard("t", "CASE WHEN shard = '5' THEN 'five' WHEN v = 'x' THEN 'ex' ELSE 'rest' END");
    let mut connection = database.connect();
    // Without affinity 5 = '5' is false, so the row is of domain `ex` both ways: stored and about to be stored.
    let update =
        |tx: &rusqlite::Transaction<'_>| tx.execute_batch("UPDATE t SET n = 2; REPLACE INTO t VALUES (2, 5, 'x')");
    assert!(SqliteReceiver::new().mutate(&mut connection, &grant("five", "0.5"), update).is_err());
    let verdict = SqliteReceiver::new().mutate(&mut connection, &grant("ex", "0.5"), update);
    assert!(matches!(verdict, Ok(Verdict::Applied(()))), "{verdict:?}");
}

#[test]
fn a_temporary_table_cannot_stand_in_for_the_receivers_own() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    connection
        .execute_batch(
            "CREATE TEMP TABLE fencepost_entry (slot INTEGER PRIMARY KEY, domain TEXT, counter INTEGER);
             CREATE TEMP TABLE fencepost_receiver (id);
             INSERT INTO temp.fencepost_entry VALUES (0, NULL, 1), (1, 'a', 2);
             CREATE TEMP TABLE fencepost_fence (domain TEXT, token INTEGER);",
        )
        .unwrap();
    let refused = connection.execute("UPDATE main.counter SET n = 9", []).unwrap_err();
    assert!(refused.to_string().starts_with("fencepost: "), "{refused}");
    let receiver = SqliteReceiver::new();
    assert!(matches!(receiver.advance(&mut connection, &grant("a", "0.9")), Ok(Verdict::Applied(()))));
    assert!(matches!(receiver.advance(&mut connection, &grant("a", "0.8")), Ok(Verdict::Rejected(_))));
}

#[test]
fn a_temporary_table_of_the_same_name_does_not_get_the_guard() {
    let database = Database::new("CREATE TABLE t (owner TEXT)");
    let mut connection = database.connect();
    connection.execute_batch("CREATE TEMP TABLE t (owner TEXT)").unwrap();
    guard(&mut connection, "t", &DomainExpression::new("owner").unwrap(), Mode::Enforce, Some(&seed())).unwrap();
    assert!(database.connect().execute("INSERT INTO t VALUES ('a')", []).is_err());
    connection.execute("INSERT INTO temp.t VALUES ('a')", []).unwrap();
}

#[test]
fn what_triggers_cannot_cover_is_not_guarded() {
    let database = Database::new(
        "CREATE TABLE e (a TEXT); CREATE UNIQUE INDEX lower_a ON e (lower(a));
         CREATE TABLE g (a TEXT NOT NULL DEFAULT 'x', b AS (lower(a)) UNIQUE);
         CREATE TABLE r (rowid, oid, _rowid_);
         CREATE VIEW v AS SELECT * FROM e;
         CREATE VIRTUAL TABLE f USING fts5 (text);
         CREATE TABLE ok (a TEXT, \"odd \"\"name\" TEXT)",
    );
    let attempt = |table: &str, expression: &str| {
        let expression = DomainExpression::new(expression).unwrap();
        guard(&mut database.connect(), table, &expression, Mode::Enforce, Some(&seed())).unwrap_err()
    };
    let unguardable = |table: &str| match attempt(table, "'x'") {
        MaintenanceError::Unguardable(why) => why,
        other => panic!("{table}: {other}"),
    };
    assert!(matches!(unguardable("e"), Unguardable::ExpressionIndex { .. }));
    assert!(matches!(unguardable("g"), Unguardable::GeneratedIndex { .. }));
    assert!(matches!(unguardable("r"), Unguardable::RowIdHidden(_)));
    assert!(matches!(unguardable("v"), Unguardable::NotATable(_)));
    assert!(matches!(unguardable("f"), Unguardable::NotATable(_)));
    assert!(matches!(unguardable("sqlite_schema"), Unguardable::NotATable(_) | Unguardable::NoSuchTable(_)));
    assert!(matches!(unguardable("nowhere"), Unguardable::NoSuchTable(_)));
    for expression in ["jobs", "\"jobs\"", "random()", "date('now')", "count(a)", "rowid", "no_such(a)", "(a, a)"] {
        let error = attempt("ok", expression);
        assert!(matches!(error, MaintenanceError::Expression { .. }), "{expression}: {error}");
    }
    let hint = attempt("ok", "jobs").to_string();
    assert!(hint.contains("'jobs'"), "{hint}");
    database.guard("ok", "a || \"odd \"\"name\"");
    assert!(matches!(unguardable("fencepost_fence"), Unguardable::NotATable(_)));
}

#[test]
fn observing_refuses_nothing_and_notes_what_it_would_have_refused() {
    let database = Database::new(DOCUMENTS);
    database.guard_as("doc", "'owner/' || owner", Mode::Observe);
    let mut connection = database.connect();
    let verdict = SqliteReceiver::new().mutate(&mut connection, &grant("owner/a", "0.5"), |tx| {
        tx.execute("UPDATE doc SET body = 'mine' WHERE owner = 'a'", [])
    });
    assert!(matches!(verdict, Ok(Verdict::Applied(1))));
    assert_eq!(status(&connection).unwrap().guarded[0].observed, 0);
    for conflict in ["", "OR IGNORE ", "OR REPLACE ", "OR FAIL ", "OR ABORT ", "OR ROLLBACK "] {
        connection.execute_batch(&format!("UPDATE {conflict}doc SET body = 'free' WHERE id = 2")).unwrap();
        connection.execute_batch(&format!("INSERT {conflict}INTO doc (owner) VALUES ('c')")).unwrap();
    }
    connection.execute_batch("DELETE FROM doc WHERE owner = 'c'").unwrap();
    let guarded = &status(&connection).unwrap().guarded[0];
    assert_eq!((guarded.mode, guarded.observed), (Some(Mode::Observe), 18));
    let noted = observations(&connection, 3).unwrap();
    assert_eq!((noted[0].action.as_str(), noted[0].domain.as_deref()), ("delete", Some("owner/c")));
    database.guard("doc", "'owner/' || owner");
    assert_refused(&connection, "UPDATE doc SET body = 'free' WHERE id = 2");
}

#[test]
fn observing_a_domain_made_of_the_rowid_notes_an_insert_once() {
    let database = Database::new("CREATE TABLE page (id INTEGER PRIMARY KEY, text TEXT)");
    database.guard_as("page", "'page/' || id", Mode::Observe);
    let connection = database.connect();
    connection.execute_batch("INSERT INTO page (text) VALUES ('x'); INSERT INTO page VALUES (9, 'y')").unwrap();
    let noted: Vec<_> = observations(&connection, 9).unwrap().into_iter().map(|noted| noted.domain).collect();
    assert_eq!(noted, [Some("page/9".to_owned()), Some("page/1".to_owned())]);
}

#[test]
fn the_log_of_observations_is_bounded_and_the_count_is_not() {
    let database = Database::new("CREATE TABLE t (owner TEXT)");
    database.guard_as("t", "owner", Mode::Observe);
    let connection = database.connect();
    connection
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) INSERT INTO t SELECT 'x' FROM n",
        )
        .unwrap();
    assert_eq!(status(&connection).unwrap().guarded[0].observed, 1500);
    assert_eq!(observations(&connection, 9999).unwrap().len(), 1000);
}
