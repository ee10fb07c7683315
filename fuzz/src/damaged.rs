use std::cell::RefCell;

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, Token,
    fence::{LiveLease, Operation, RecordedResult, Verdict},
};
use fencepost_receiver::{ReceiverSeed, Seen};
use fencepost_rusqlite::{
    AuditScope, DomainExpression, Mode, SqliteReceiver, audit, collect, fence_of, fences, guard, incarnation,
    observations, recover, status,
};
use fencepost_sql::sqlite::TABLES;
use rusqlite::{Connection, Transaction, config::DbConfig, types::Value};

use crate::made::Made;

const EDITS: usize = 6;
const CALLS: usize = 8;

/// Each column of a receiver's own tables, and its kind: a number, a text or bytes.
const COLUMNS: [(&str, &str, char); 24] = [
    ("fencepost_receiver", "id", 'n'),
    ("fencepost_receiver", "layout", 'n'),
    ("fencepost_receiver", "condition", 't'),
    ("fencepost_receiver", "issuer", 't'),
    ("fencepost_receiver", "known_epoch", 'n'),
    ("fencepost_receiver", "floor", 'n'),
    ("fencepost_receiver", "unfenced_floor", 'n'),
    ("fencepost_receiver", "horizon", 'n'),
    ("fencepost_receiver", "fences", 'n'),
    ("fencepost_receiver", "recovery", 'b'),
    ("fencepost_receiver", "inode", 'n'),
    ("fencepost_entry", "slot", 'n'),
    ("fencepost_entry", "domain", 't'),
    ("fencepost_entry", "counter", 'n'),
    ("fencepost_fence", "domain", 't'),
    ("fencepost_fence", "token", 'n'),
    ("fencepost_operation", "id", 't'),
    ("fencepost_operation", "fingerprint", 'b'),
    ("fencepost_operation", "born", 'n'),
    ("fencepost_operation", "token", 'n'),
    ("fencepost_operation", "result", 'b'),
    ("fencepost_guard", "name", 't'),
    ("fencepost_guard", "expression", 't'),
    ("fencepost_observation", "at", 't'),
];

thread_local! {
    static DATABASE: RefCell<Connection> = RefCell::new(guarded());
}

fn name(text: &str) -> Domain {
    Domain::new(text).expect("a name")
}

fn issuer() -> Issuer {
    Issuer::new("fuzz").expect("a name")
}

fn token(sequence: usize) -> Token {
    format!("0.{}", sequence.max(1)).parse().expect("a token")
}

fn grant(domain: &str, token: Token) -> Grant {
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
    Grant { issuer: issuer(), domain: name(domain), token, lease, session }
}

fn expression() -> DomainExpression {
    DomainExpression::new("domain").expect("an expression")
}

fn operation(nth: usize) -> Operation {
    let id = OperationId::new(&format!("o{nth}")).expect("a name");
    Operation::new(id, b"request").born(token(5))
}

fn set(tx: &Transaction<'_>, domain: &str) -> rusqlite::Result<RecordedResult> {
    tx.execute("UPDATE cell SET value = value + 1 WHERE domain = ?1", [domain])?;
    Ok(RecordedResult::default())
}

/// A database with fences, records and a note, and a copy of each of its rows.
fn guarded() -> Connection {
    let mut connection = Connection::open_in_memory().expect("a database");
    connection
        .execute_batch(
            "CREATE TABLE cell (domain TEXT PRIMARY KEY, value INTEGER NOT NULL);
             INSERT INTO cell VALUES ('d0', 0), ('d1', 0), ('d2', 0);
             CREATE TABLE seen (domain TEXT PRIMARY KEY);",
        )
        .expect("tables");
    let seed = ReceiverSeed::new(issuer(), Epoch::new(1).expect("an epoch"));
    guard(&mut connection, "cell", &expression(), Mode::Enforce, Some(&seed)).expect("a guard");
    guard(&mut connection, "seen", &expression(), Mode::Observe, None).expect("a guard");
    connection.execute("INSERT INTO seen VALUES ('d0')", []).expect("a guard that only observes lets it pass");
    let receiver = SqliteReceiver::new();
    for (nth, domain) in ["d0", "d1"].into_iter().enumerate() {
        let grant = grant(domain, token(7));
        let verdict = receiver.write(&mut connection, &grant, &operation(nth), |tx| set(tx, domain));
        assert!(matches!(verdict, Ok(Verdict::Applied(_))), "{verdict:?}");
    }
    for table in TABLES {
        let saved = format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}");
        connection.execute_batch(&saved).expect("a copy of its rows");
    }
    connection
}

/// Puts rows and guards back, without the triggers and checks that keep everybody else from that.
fn unprotected(connection: &Connection, work: impl FnOnce(&Connection)) {
    let protect = |on: bool| {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on).expect("triggers are switched");
        connection.pragma_update(None, "ignore_check_constraints", !on).expect("checks are switched");
    };
    protect(false);
    work(connection);
    protect(true);
}

fn begin_anew(connection: &Connection) {
    let mut script = String::from("BEGIN IMMEDIATE; UPDATE cell SET value = 0;");
    for table in TABLES {
        script.push_str(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved_{table};"));
    }
    script.push_str("COMMIT");
    unprotected(connection, |connection| connection.execute_batch(&script).expect("rows are put back"));
}

/// A receiver's own tables with anything in their columns that SQLite can store there: whoever reads them is told that
/// they are damaged, or reads them as they are; and whatever else they hold, no token is accepted below the fence that
/// stands there.
pub fn damaged(bytes: &[u8]) {
    let mut made = Made::of(bytes);
    DATABASE.with_borrow_mut(|connection| {
        begin_anew(connection);
        unprotected(connection, |connection| {
            for _ in 0..1 + made.below(EDITS) {
                edit(connection, &mut made);
            }
        });
        look(connection);
        let receiver = SqliteReceiver::new();
        for _ in 0..CALLS {
            if made.is_empty() {
                break;
            }
            call(&receiver, connection, &mut made);
        }
    });
}

fn edit(connection: &Connection, made: &mut Made<'_>) {
    let (table, column, kind) = made.of_these(&COLUMNS);
    if made.one_in(16) {
        // A whole table may be empty.
        let _ = connection.execute(&format!("DELETE FROM {table}"), []);
        return;
    }
    let value = match (made.byte() % 16, kind) {
        (0, _) => Value::Null,
        (_, 'n') => Value::Integer(made.number()),
        (_, 'b') => Value::Blob(made.bytes(40).to_vec()),
        (1, _) => Value::Text("open".to_owned()),
        _ => Value::Text(made.text(24)),
    };
    // What the layout's types do not take is no damage that there can be. One row or all of them.
    let which = if made.one_in(2) { "" } else { " LIMIT 1" };
    let sql = format!("UPDATE {table} SET {column} = ?1 WHERE {column} IN (SELECT {column} FROM {table}{which})");
    let _ = connection.execute(&sql, [value]);
}

/// Everybody who only looks. Whatever they say, somebody will be told.
fn look(connection: &Connection) {
    let told = |error: fencepost_rusqlite::MaintenanceError| drop(error.to_string());
    let _ = status(connection).map_err(told);
    let _ = fences(connection, None, 10).map_err(told);
    let _ = fence_of(connection, &name("d0")).map_err(told);
    let _ = observations(connection, 10).map_err(told);
    let _ = incarnation(connection).map_err(told);
    let _ = audit(connection, AuditScope { unguarded_tables: true }).map_err(told);
}

/// The fence as it stands, where a token stands there.
fn fence(connection: &Connection, domain: &str) -> Option<i64> {
    let sql = "SELECT token FROM main.fencepost_fence WHERE domain = ?1";
    connection.query_row(sql, [domain], |row| row.get::<_, i64>(0)).ok().filter(|token| *token > 0)
}

fn call(receiver: &SqliteReceiver, connection: &mut Connection, made: &mut Made<'_>) {
    let domain = made.of_these(&["d0", "d1", "d2"]);
    let presented = token(made.below(12));
    let grant = grant(domain, presented);
    let before = fence(connection, domain);
    let mutation = |tx: &Transaction<'_>| set(tx, domain);
    let is_applied = match made.byte() % 10 {
        0..=2 => applied(receiver.mutate(connection, &grant, mutation)),
        3 | 4 => applied(receiver.write(connection, &grant, &operation(made.below(3)), mutation)),
        5 => applied(receiver.read(connection, &grant, |_| Ok::<_, rusqlite::Error>(()))),
        6 => receiver.advance(connection, &grant).is_ok_and(|verdict| matches!(verdict, Verdict::Applied(()))),
        7 => {
            let live = [LiveLease { domain: name(domain), token: presented }];
            let horizon = made.one_in(2).then_some(presented);
            let _ = collect(connection, token(9), &live, horizon).map_err(|error| error.to_string());
            false
        }
        8 => {
            let seed =
                ReceiverSeed::new(issuer(), Epoch::new(1).expect("an epoch")).with_snapshot(token(9), Vec::new());
            let noted = incarnation(connection);
            let done = noted.and_then(|noted| recover(connection, &noted, &seed, &Seen::new()));
            let _ = done.map_err(|error| error.to_string());
            false
        }
        _ => {
            let again = guard(connection, "cell", &expression(), Mode::Enforce, None);
            let _ = again.map_err(|error| error.to_string());
            false
        }
    };
    assert!(connection.is_autocommit(), "a transaction is left open");
    if is_applied {
        assert!(before <= Some(presented.as_i64()), "{presented} was accepted where the fence stands at {before:?}");
        assert_eq!(fence(connection, domain), Some(presented.as_i64()), "{presented} was accepted and not raised to");
    }
}

fn applied<T, E: std::fmt::Debug>(written: Result<Verdict<T>, fencepost_rusqlite::WriteError<E>>) -> bool {
    written.is_ok_and(|verdict| matches!(verdict, Verdict::Applied(_)))
}
