//! One guarded database for all scripts: its schema is made once, and its rows are put back before each.

use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{DomainExpression, Mode, guard};
use fencepost_sql::sqlite::TABLES;
use rusqlite::{Connection, config::DbConfig};

use super::table;

pub(super) fn expression() -> DomainExpression {
    DomainExpression::new("domain").expect("an expression")
}

pub(super) fn guarded(seed: &ReceiverSeed) -> Connection {
    let mut connection = Connection::open_in_memory().expect("a database");
    connection.set_prepared_statement_cache_capacity(128);
    connection
        .execute_batch(
            "CREATE TABLE cell (domain TEXT PRIMARY KEY, value INTEGER NOT NULL);
             INSERT INTO cell VALUES ('d0', 0), ('d1', 0), ('d2', 0);",
        )
        .and_then(|()| connection.execute_batch(table::TABLES))
        .expect("tables");
    for table in ["cell", "note"] {
        guard(&mut connection, table, &expression(), Mode::Enforce, Some(seed)).expect("a table is guarded");
    }
    for table in TABLES {
        let saved = format!("CREATE TABLE saved_{table} AS SELECT * FROM {table}");
        connection.execute_batch(&saved).expect("a copy of its rows");
    }
    connection
}

/// Puts every row back, without the triggers that keep everybody else from that.
pub(super) fn begin_anew(connection: &Connection) {
    let mut script = String::from("BEGIN IMMEDIATE; UPDATE cell SET value = 0; DELETE FROM note; DELETE FROM twin;");
    for table in TABLES {
        script.push_str(&format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM saved_{table};"));
    }
    script.push_str("COMMIT");
    let triggers = |on| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on);
    triggers(false)
        .and_then(|_| connection.execute_batch(&script))
        .and_then(|()| triggers(true))
        .expect("rows are put back");
}
