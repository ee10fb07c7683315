use std::collections::BTreeMap;

use fencepost_core::fence::{Closure, Condition};
use fencepost_sql::sqlite::{Mode, SCHEMA, Trigger, fault_of_version, guard_triggers};
use rusqlite::{Connection, config::DbConfig};

use crate::{
    Audit, GuardedTable, MaintenanceError, Severity, Status,
    describe::{reads_row_id, table_shape},
    guard::guard_triggers_of,
    status,
};

/// What an audit looks at beyond the guarded tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditScope {
    /// List tables that have no guard.
    pub unguarded_tables: bool,
}

/// Lists every way around the guards that can be seen from this connection. Changes nothing.
///
/// What cannot be seen: another connection's settings (triggers or durability switched off there), edits of the file, and
/// guards that were removed together with their entry in `fencepost_guard`.
///
/// # Errors
/// When the database cannot be read. A closed or missing receiver is a finding.
pub fn audit(connection: &Connection, scope: AuditScope) -> Result<Audit, MaintenanceError> {
    let mut audit = Audit::default();
    connection_settings(connection, &mut audit)?;
    match status(connection) {
        Ok(status) => receiver(connection, &status, &mut audit)?,
        Err(MaintenanceError::Closed(Closure::NotGuarded)) => {
            let fix = "guard a table: fencepost guard sqlite:PATH TABLE --domain EXPR";
            audit.add("not_guarded", Severity::Critical, None, "this database was never guarded".into(), fix);
        }
        Err(MaintenanceError::Closed(why)) => closed(why, &mut audit),
        Err(error) => return Err(error),
    }
    if scope.unguarded_tables {
        unguarded_tables(connection, &mut audit)?;
    }
    Ok(audit.worst_first())
}

fn closed(why: Closure, audit: &mut Audit) {
    let found = format!("the receiver is closed and refuses everything: {why}");
    let fix = "recover it with what the coordinator says is live: fencepost recover sqlite:PATH";
    audit.add("closed", Severity::Critical, None, found, fix);
}

fn sqlite_itself(version: i32, audit: &mut Audit) {
    if let Some(fault) = fault_of_version(version) {
        let found = format!("SQLite {} writes here, and {fault}", rusqlite::version());
        let fix = "use SQLite 3.51.3 or later in every program that writes";
        audit.add("old_sqlite", Severity::Warning, None, found, fix);
    }
}

fn connection_settings(connection: &Connection, audit: &mut Audit) -> Result<(), MaintenanceError> {
    sqlite_itself(rusqlite::version_number(), audit);
    if !connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)? {
        let found = "triggers are switched off on this connection".into();
        audit.add("triggers_off", Severity::Critical, None, found, "switch them on; no guard fires without them");
    }
    if connection.db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA)? {
        let found = "the schema is writable on this connection".into();
        audit.add("writable_schema", Severity::Critical, None, found, "PRAGMA writable_schema = OFF");
    }
    let journal: String = connection.query_row("PRAGMA main.journal_mode", [], |row| row.get(0))?;
    let synchronous: i64 = connection.query_row("PRAGMA main.synchronous", [], |row| row.get(0))?;
    let in_memory = matches!(connection.path(), None | Some(""));
    if journal == "off" || (journal == "memory" && !in_memory) {
        let found = format!("journal_mode is {journal}: a crash inside a write can damage fences and rows alike");
        audit.add("no_journal", Severity::Critical, None, found, "PRAGMA journal_mode = WAL");
    }
    let weak = synchronous == 0 || (synchronous == 1 && journal == "wal");
    if weak && !in_memory {
        let found =
            "a commit of this connection can be lost in a power failure, and an acknowledged raise with it".into();
        audit.add(
            "not_durable",
            Severity::Warning,
            None,
            found,
            "PRAGMA synchronous = FULL on every connection that writes",
        );
    }
    Ok(())
}

fn receiver(connection: &Connection, status: &Status, audit: &mut Audit) -> Result<(), MaintenanceError> {
    match status.condition {
        Condition::Open => {}
        Condition::Closed(why) => closed(why, audit),
    }
    own_records(connection, audit)?;
    for table in &status.guarded {
        guarded_table(connection, table, audit)?;
    }
    orphans(connection, status, audit)?;
    // A guard whose entry is gone still refuses, and is a finding of its own.
    if status.guarded.is_empty() && !audit.findings.iter().any(|finding| finding.code == "guard_unregistered") {
        let fix = "guard a table: fencepost guard sqlite:PATH TABLE --domain EXPR";
        audit.add("not_guarded", Severity::Critical, None, "no table is guarded any more".into(), fix);
    }
    Ok(())
}

/// Fencepost's own tables and triggers against what the schema makes in an empty database.
fn own_records(connection: &Connection, audit: &mut Audit) -> Result<(), MaintenanceError> {
    let own = |connection: &Connection| -> rusqlite::Result<BTreeMap<String, String>> {
        let mut statement = connection.prepare(
            "SELECT name, sql FROM main.sqlite_schema WHERE tbl_name LIKE 'fencepost\\_%' ESCAPE '\\' AND sql IS NOT NULL",
        )?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let fresh = Connection::open_in_memory()?;
    fresh.execute_batch(SCHEMA)?;
    let (expected, found) = (own(&fresh)?, own(connection)?);
    for (name, sql) in &expected {
        match found.get(name) {
            Some(same) if same == sql => {}
            Some(_) => {
                let found = format!("{name} is not what Fencepost made");
                audit.add(
                    "records_altered",
                    Severity::Critical,
                    Some(name.clone()),
                    found,
                    "drop the trigger and recover the receiver: fencepost recover sqlite:PATH",
                );
            }
            None => {
                let found = format!("{name} is missing: Fencepost's own records can be changed by hand");
                audit.add(
                    "records_unprotected",
                    Severity::Critical,
                    Some(name.clone()),
                    found,
                    "recover the receiver, which makes it anew: fencepost recover sqlite:PATH",
                );
            }
        }
    }
    for name in found.keys().filter(|name| !expected.contains_key(*name)) {
        let found = format!("{name} is attached to Fencepost's own tables and was not made by it");
        audit.add("records_altered", Severity::Warning, Some(name.clone()), found, "drop it");
    }
    let sql = "SELECT count(*) FROM main.fencepost_entry AS e JOIN main.fencepost_entry AS c ON c.slot = 0
               WHERE e.slot > 0 AND e.counter > c.counter";
    let entries: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if entries > 0 {
        let found = "a transaction was committed while a domain was entered: that domain is open to everybody".into();
        let fix = "any fenced write sweeps it away; look for a mutation that sends COMMIT";
        audit.add("left_open", Severity::Critical, Some("fencepost_entry".into()), found, fix);
    }
    Ok(())
}

fn guarded_table(connection: &Connection, table: &GuardedTable, audit: &mut Audit) -> Result<(), MaintenanceError> {
    let name = || Some(table.name.clone());
    let again = "guard the table again: fencepost guard sqlite:PATH TABLE --domain EXPR";
    let shape = match table_shape(connection, &table.name) {
        Ok(shape) => shape,
        Err(MaintenanceError::Unguardable(why)) => {
            let fix = "undo the change, or guard the table that took its place and leave this one: \
                       fencepost unguard sqlite:PATH TABLE";
            audit.add("not_coverable", Severity::Critical, name(), why.to_string(), fix);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let triggers = guard_triggers_of(connection, &table.name)?;
    let expected = |mode| -> Result<Option<Vec<Trigger>>, MaintenanceError> {
        let reads = match reads_row_id(&shape, &table.domain) {
            Ok(reads) => reads,
            Err(MaintenanceError::Expression { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(guard_triggers(&shape, &table.domain, reads, mode).ok().map(sorted))
    };
    if triggers.is_empty() {
        let found = format!("{} is registered as guarded and has no triggers", table.name);
        audit.add("guard_missing", Severity::Critical, name(), found, again);
    } else if expected(Mode::Observe)?.as_ref() == Some(&triggers) {
        let found = format!("the guard of {} only observes: nothing is refused", table.name);
        let fix = "guard the table again, without --observe: fencepost guard sqlite:PATH TABLE --domain EXPR";
        audit.add("guard_observes", Severity::Warning, name(), found, fix);
    } else if expected(Mode::Enforce)?.as_ref() != Some(&triggers) {
        let found =
            format!("the triggers of {} do not match its columns and unique indexes, or were changed", table.name);
        audit.add("guard_outdated", Severity::Critical, name(), found, again);
    }
    ignoring_triggers(connection, &table.name, audit)
}

fn sorted(mut triggers: Vec<Trigger>) -> Vec<Trigger> {
    triggers.sort_by(|a, b| a.name.cmp(&b.name));
    triggers
}

/// A trigger that leaves its statement with RAISE(IGNORE) takes the guard's later checks with it.
fn ignoring_triggers(connection: &Connection, table: &str, audit: &mut Audit) -> Result<(), MaintenanceError> {
    let mut statement = connection.prepare(
        "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
         AND name NOT LIKE 'fencepost\\_guard\\_%' ESCAPE '\\' AND replace(upper(sql), ' ', '') LIKE '%RAISE(IGNORE)%'",
    )?;
    let names: Vec<String> = statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for name in names {
        let found =
            format!("trigger {name} leaves with RAISE(IGNORE), which skips the guard's checks after the change");
        audit.add(
            "ignoring_trigger",
            Severity::Warning,
            Some(name),
            found,
            "raise ABORT there, or check in the statement",
        );
    }
    Ok(())
}

fn orphans(connection: &Connection, status: &Status, audit: &mut Audit) -> Result<(), MaintenanceError> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT tbl_name FROM main.sqlite_schema
         WHERE type = 'trigger' AND name LIKE 'fencepost\\_guard\\_%' ESCAPE '\\'",
    )?;
    let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in tables {
        if !status.guarded.iter().any(|guarded| guarded.name.eq_ignore_ascii_case(&table)) {
            let found = format!(
                "{table} has guard triggers and is not registered as guarded: it was renamed, or its entry removed"
            );
            audit.add(
                "guard_unregistered",
                Severity::Warning,
                Some(table),
                found,
                "guard it again under its present name: fencepost guard sqlite:PATH TABLE --domain EXPR",
            );
        }
    }
    Ok(())
}

fn unguarded_tables(connection: &Connection, audit: &mut Audit) -> Result<(), MaintenanceError> {
    let mut statement = connection.prepare(
        "SELECT name FROM main.sqlite_schema AS t WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
         AND name NOT LIKE 'fencepost\\_%' ESCAPE '\\' AND NOT EXISTS (SELECT 1 FROM main.sqlite_schema AS g
         WHERE g.type = 'trigger' AND g.tbl_name = t.name AND g.name LIKE 'fencepost\\_guard\\_%' ESCAPE '\\') ORDER BY name",
    )?;
    let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in tables {
        let found = format!("{table} has no guard: any client can change it");
        let fix = "guard it if leases are to protect it: fencepost guard sqlite:PATH TABLE --domain EXPR";
        audit.add("unguarded_table", Severity::Notice, Some(table), found, fix);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_sqlite_is_a_finding_and_a_sound_one_is_none() {
        let mut audit = Audit::default();
        sqlite_itself(3_051_003, &mut audit);
        assert!(audit.findings.is_empty());
        sqlite_itself(3_051_002, &mut audit);
        assert_eq!(audit.findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["old_sqlite"]);
    }
}
