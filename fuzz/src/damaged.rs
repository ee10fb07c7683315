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
use rusqlite::{Connection, OptionalExtension as _, Transaction, config::DbConfig, params, types::Value};

use crate::made::Made;

const EDITS: usize = 6;
const CALLS: usize = 8;

/// A column of a receiver's own tables, as the database itself tells of it.
struct Column {
    table: &'static str,
    name: String,
    holds: Holds,
}

/// What the layout's types take in a column: anything else is no damage that there can be.
enum Holds {
    Number,
    Text,
    Bytes,
    Anything,
}

thread_local! {
    static DATABASE: RefCell<(Connection, Vec<Column>)> = RefCell::new({
        let connection = guarded();
        let columns = columns(&connection);
        (connection, columns)
    });
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

/// All of them: a column that a later layout brings is damaged from its first day.
fn columns(connection: &Connection) -> Vec<Column> {
    let mut statement = connection.prepare("SELECT name, type FROM pragma_table_info(?1, 'main')").expect("a pragma");
    let mut columns = Vec::new();
    for table in TABLES {
        let of_table = statement.query_map([table], |row| {
            let (name, declared): (String, String) = (row.get(0)?, row.get(1)?);
            let holds = match declared.as_str() {
                "INTEGER" => Holds::Number,
                "TEXT" => Holds::Text,
                "BLOB" => Holds::Bytes,
                "ANY" => Holds::Anything,
                other => panic!("{table}.{name} is of type {other}"),
            };
            Ok(Column { table, name, holds })
        });
        columns.extend(of_table.expect("a table").map(|column| column.expect("a column")));
    }
    columns
}

/// What is there is understood as it is, and each column can be damaged.
pub fn taken() {
    DATABASE.with_borrow_mut(|(connection, columns)| {
        begin_anew(connection);
        for domain in ["d0", "d1"] {
            let written = SqliteReceiver::new().mutate(connection, &grant(domain, token(7)), |tx| set(tx, domain));
            assert!(matches!(written, Ok(Verdict::Applied(_))), "{written:?}");
        }
        let status = status(connection).expect("a receiver says how it stands");
        assert_eq!((status.fences, status.operations, status.guarded.len()), (2, 2, 2));
        assert_eq!(fences(connection, None, 10).expect("fences").len(), 2);
        assert_eq!(observations(connection, 10).expect("notes").len(), 1);
        for column in columns {
            begin_anew(connection);
            let value = match column.holds {
                Holds::Number => Value::Integer(-77),
                Holds::Text | Holds::Anything => Value::Text("damage".to_owned()),
                Holds::Bytes => Value::Blob(b"damage".to_vec()),
            };
            unprotected(connection, |connection| damage(connection, column, Some(0), &value));
            let Column { table, name, .. } = column;
            let sql = format!("SELECT count(*) FROM main.{table} WHERE {name} IS ?1");
            let found: i64 = connection.query_row(&sql, [&value], |row| row.get(0)).expect("the column is read");
            assert!(found > 0, "{table}.{name} is not damaged by {value:?}");
        }
    });
}

/// A receiver's own tables with anything in their columns that SQLite can store there: whoever reads them is told that
/// they are damaged, or reads them as they are; and whatever else they hold, no token is accepted below what stands there,
/// or where something stands that no receiver has written.
pub fn damaged(bytes: &[u8]) {
    let mut made = Made::of(bytes);
    DATABASE.with_borrow_mut(|(connection, columns)| {
        begin_anew(connection);
        unprotected(connection, |connection| {
            for _ in 0..1 + made.below(EDITS) {
                edit(connection, columns, &mut made);
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

fn edit(connection: &Connection, columns: &[Column], made: &mut Made<'_>) {
    let column = &columns[made.below(columns.len())];
    if made.one_in(16) {
        // A whole table may be empty.
        let _ = connection.execute(&format!("DELETE FROM main.{}", column.table), []);
        return;
    }
    let value = match (made.byte() % 16, &column.holds) {
        (0, _) => Value::Null,
        (_, Holds::Number) | (2, Holds::Anything) => Value::Integer(made.number()),
        (_, Holds::Bytes) | (3, Holds::Anything) => Value::Blob(made.bytes(40).to_vec()),
        (1, Holds::Text | Holds::Anything) => Value::Text("open".to_owned()),
        (_, Holds::Text | Holds::Anything) => Value::Text(made.text(24)),
    };
    let row = made.below(4);
    damage(connection, column, (row < 3).then_some(row), &value);
}

/// Puts a value into one row, or into all of them.
fn damage(connection: &Connection, Column { table, name, .. }: &Column, row: Option<usize>, value: &Value) {
    let _ = match row {
        None => connection.execute(&format!("UPDATE main.{table} SET {name} = ?1"), [value]),
        Some(row) => {
            // What stands in the row may be nothing at all, which only IS compares; what stands there twice is damaged twice.
            let sql = format!(
                "UPDATE main.{table} SET {name} = ?1 WHERE {name} IS (SELECT {name} FROM main.{table} LIMIT 1 \
                 OFFSET ?2 % max(1, (SELECT count(*) FROM main.{table})))"
            );
            connection.execute(&sql, params![value, row as i64])
        }
    };
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

/// What a verdict rests on, as it stands in the tables.
#[derive(Debug)]
struct Rests {
    condition: String,
    issuer: String,
    known_epoch: i64,
    floor: Option<i64>,
    unfenced_floor: Option<i64>,
    horizon: Option<i64>,
    fences: i64,
    recovery: Vec<u8>,
    place: (i64, i64),
    counter: i64,
    fence: Option<i64>,
    fences_found: i64,
}

impl Rests {
    /// `None` where the receiver's row or its counter is not there.
    fn on(connection: &Connection, domain: &str) -> Option<Self> {
        let sql = "SELECT r.condition, r.issuer, r.known_epoch, r.floor, r.unfenced_floor, r.horizon, r.fences, \
                   r.recovery, r.device, r.inode, c.counter, (SELECT count(*) FROM main.fencepost_fence) \
                   FROM main.fencepost_receiver AS r, main.fencepost_entry AS c WHERE r.id = 1 AND c.slot = 0";
        let row = connection.query_row(sql, [], |row| {
            Ok(Self {
                condition: row.get(0)?,
                issuer: row.get(1)?,
                known_epoch: row.get(2)?,
                floor: row.get(3)?,
                unfenced_floor: row.get(4)?,
                horizon: row.get(5)?,
                fences: row.get(6)?,
                recovery: row.get(7)?,
                place: (row.get(8)?, row.get(9)?),
                counter: row.get(10)?,
                fence: fence(connection, domain),
                fences_found: row.get(11)?,
            })
        });
        row.ok()
    }

    /// Whether a receiver can have written this, and accepts the token.
    fn accepts(&self, token: i64) -> bool {
        let tokens = [self.floor, self.unfenced_floor, self.horizon, self.fence];
        let is_sound = tokens.into_iter().flatten().all(|token| token > 0)
            && (0..1 << 20).contains(&self.known_epoch)
            && (0..i64::MAX).contains(&self.counter)
            && self.recovery.len() == 16;
        // In memory, where no database has a place.
        let is_open = self.condition == "open" && self.issuer == "fuzz" && self.place == (0, 0);
        let has_its_fences = self.fence.is_some() || self.fences == self.fences_found;
        let least = self.floor.max(self.fence.or(self.unfenced_floor));
        is_sound && is_open && has_its_fences && token >> 43 <= self.known_epoch && least <= Some(token)
    }
}

/// The fence as it stands.
fn fence(connection: &Connection, domain: &str) -> Option<i64> {
    let sql = "SELECT token FROM main.fencepost_fence WHERE domain = ?1";
    connection.query_row(sql, [domain], |row| row.get(0)).optional().expect("a number").flatten()
}

fn call(receiver: &SqliteReceiver, connection: &mut Connection, made: &mut Made<'_>) {
    let domain = made.of_these(&["d0", "d1", "d2"]);
    let presented = token(made.below(12));
    let grant = grant(domain, presented);
    let before = Rests::on(connection, domain);
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
        let accepts = before.as_ref().is_some_and(|rests| rests.accepts(presented.as_i64()));
        assert!(accepts, "{presented} was accepted for {domain} by {before:?}");
        assert_eq!(fence(connection, domain), Some(presented.as_i64()), "{presented} was accepted and not raised to");
    }
}

fn applied<T, E: std::fmt::Debug>(written: Result<Verdict<T>, fencepost_rusqlite::WriteError<E>>) -> bool {
    written.is_ok_and(|verdict| matches!(verdict, Verdict::Applied(_)))
}
