//! A guarded table and its unguarded twin: the same statement at both. What the twin changes, the guarded table changes
//! too where the transaction has entered the domain of every row that is touched, and otherwise it refuses.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::script::DOMAINS;

pub(crate) const TABLES: &str = "
    CREATE TABLE note (id INTEGER PRIMARY KEY, domain TEXT NOT NULL, name INTEGER UNIQUE);
    CREATE TABLE twin (id INTEGER PRIMARY KEY, domain TEXT NOT NULL, name INTEGER UNIQUE);";

type Rows = BTreeMap<i64, (String, Option<i64>)>;

fn rows(connection: &Connection, table: &str) -> Rows {
    let mut read = connection.prepare_cached(&format!("SELECT id, domain, name FROM {table}")).expect("a table");
    let rows = read.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows of their types")
}

/// Each with the table's name in the place of `{}`; ?1 and ?2 ids, ?3 a domain, ?4 a name or NULL.
const STATEMENTS: [&str; 10] = [
    "INSERT INTO {} (id, domain, name) SELECT ?1, ?3, ?4 WHERE ?2 IS NOT NULL",
    "INSERT OR REPLACE INTO {} (id, domain, name) SELECT ?1, ?3, ?4 WHERE ?2 IS NOT NULL",
    "INSERT OR IGNORE INTO {} (id, domain, name) SELECT ?1, ?3, ?4 WHERE ?2 IS NOT NULL",
    "UPDATE {} SET domain = ?3 WHERE id IN (?1, ?2) AND ?4 IS ?4",
    "UPDATE OR REPLACE {} SET id = ?2, name = ?4 WHERE id = ?1 AND ?3 IS ?3",
    "DELETE FROM {} WHERE id IN (?1, ?2) AND ?3 IS ?3 AND ?4 IS ?4",
    "DELETE FROM {}",
    "INSERT INTO {} (id, domain, name) SELECT ?1, ?3, ?4 WHERE ?2 IS NOT NULL
     ON CONFLICT (id) DO UPDATE SET domain = excluded.domain, name = ?2",
    "UPDATE OR IGNORE {} SET name = ?4 WHERE id IN (?1, ?2) AND ?3 IS ?3",
    "UPDATE OR REPLACE {} SET name = ?4 WHERE ?1 IS ?1 AND ?2 IS ?2 AND ?3 IS ?3",
];
const WHOLE_TABLE: usize = 6;
/// An upsert is looked at as the insert that it may be, so it can be refused for a row that it leaves out.
const UPSERT: usize = 7;

/// Runs a statement at both, in whatever transaction there is. `open` says which domains it has entered.
///
/// # Panics
/// When the guard lets something pass that it must not, or refuses what it has no reason to.
pub(crate) fn run(connection: &Connection, [what, first, second]: [u8; 3], open: [bool; DOMAINS]) {
    let which = usize::from(what & 0x3f) % STATEMENTS.len();
    let (id, other) = (i64::from(first % 4), i64::from(second % 4));
    let domain = format!("d{}", first / 4 % 3);
    let name = (second & 0x80 == 0).then(|| i64::from(second / 4 % 4));
    let execute = |table: &str| {
        let mut statement = connection.prepare_cached(&STATEMENTS[which].replace("{}", table))?;
        if which == WHOLE_TABLE { statement.execute([]) } else { statement.execute(params![id, other, domain, name]) }
    };

    let before = rows(connection, "twin");
    assert_eq!(rows(connection, "note"), before, "the tables were the same before");
    connection.execute_batch("SAVEPOINT twin").expect("a savepoint");
    let twin = execute("twin");
    let after = rows(connection, "twin");
    let is_open = |row: Option<&(String, Option<i64>)>| {
        row.is_none_or(|(domain, _)| (0..DOMAINS).any(|place| open[place] && *domain == format!("d{place}")))
    };
    let mut touched = before.keys().chain(after.keys()).filter(|id| before.get(id) != after.get(id));
    let is_allowed = touched.all(|id| is_open(before.get(id)) && is_open(after.get(id)));

    let guarded = execute("note");
    let left = rows(connection, "note");
    let said = format!("{} with {id}, {other}, {domain}, {name:?}; open: {open:?}", STATEMENTS[which]);
    match &guarded {
        Ok(_) if before != after => {
            assert!(is_allowed, "{said} changed a row whose domain was not entered: {before:?} to {left:?}");
            assert_eq!(left, after, "{said}");
        }
        Ok(_) => assert_eq!(left, before, "{said}"),
        Err(error) => {
            assert_eq!(left, before, "{said} was refused and changed something: {error}");
            let is_due = twin.is_err() || !is_allowed || before == after || which == UPSERT;
            assert!(is_due, "{said} was refused without a reason: {error}");
        }
    }
    let undone = if guarded.is_ok() { "RELEASE twin" } else { "ROLLBACK TO twin; RELEASE twin" };
    connection.execute_batch(undone).expect("the savepoint ends");
}
