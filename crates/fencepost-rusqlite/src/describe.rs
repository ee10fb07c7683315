//! Reads what a guard has to know of a table, and asks a database of its own whether an expression can be used.

use fencepost_sql::sqlite::{Column, DomainExpression, RowId, TableShape, Unguardable, UniqueIndex, quoted};
use rusqlite::{Connection, OptionalExtension, config::DbConfig, params};

use crate::MaintenanceError;

/// The shape of a table of the main database. The name is found without regard to case, as SQLite does.
pub(crate) fn table_shape(connection: &Connection, table: &str) -> Result<TableShape, MaintenanceError> {
    let found: Option<(String, String, bool)> = connection
        .query_row(
            "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1 COLLATE NOCASE",
            [table],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .optional()?;
    let Some((name, kind, without_rowid)) = found else {
        return Err(Unguardable::NoSuchTable(table.to_owned()).into());
    };
    let reserved = ["sqlite_", "fencepost_"].iter().any(|prefix| name.to_lowercase().starts_with(prefix));
    if kind != "table" || reserved {
        return Err(Unguardable::NotATable(name).into());
    }
    let (columns, primary_key) = columns(connection, &name)?;
    let (unique, primary_key_has_index) = unique_indexes(connection, &name)?;
    let row_id = match primary_key.as_slice() {
        _ if without_rowid => RowId::None,
        [only] if !primary_key_has_index => RowId::Column(only.clone()),
        _ => {
            let taken = |name: &&&str| columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
            let free = ["rowid", "oid", "_rowid_"].iter().find(|name| !taken(name));
            RowId::Hidden(free.ok_or_else(|| Unguardable::RowIdHidden(name.clone()))?)
        }
    };
    Ok(TableShape { name, columns, row_id, unique })
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<(Vec<Column>, Vec<String>)> {
    let mut statement = connection
        .prepare("SELECT name, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid")?;
    let mut rows = statement.query([table])?;
    let (mut columns, mut primary_key) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let (name, not_null, default): (String, bool, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if row.get::<_, i64>(3)? > 0 {
            primary_key.push(name.clone());
        }
        let generated = matches!(row.get::<_, i64>(4)?, 2 | 3);
        columns.push(Column { name, generated, replaces_null: default.filter(|_| not_null) });
    }
    Ok((columns, primary_key))
}

fn unique_indexes(connection: &Connection, table: &str) -> Result<(Vec<UniqueIndex>, bool), MaintenanceError> {
    let mut statement =
        connection.prepare("SELECT name, origin FROM pragma_index_list(?1, 'main') WHERE \"unique\" ORDER BY name")?;
    let found: Vec<(String, String)> =
        statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    let mut indexes = Vec::new();
    for (name, _) in &found {
        let mut statement =
            connection.prepare("SELECT name, coll FROM pragma_index_xinfo(?1, 'main') WHERE key ORDER BY seqno")?;
        let columns: Vec<(Option<String>, String)> =
            statement.query_map(params![name], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        let columns: Option<Vec<(String, String)>> =
            columns.into_iter().map(|(column, collation)| Some((column?, collation))).collect();
        let Some(columns) = columns else {
            return Err(Unguardable::ExpressionIndex { table: table.to_owned(), index: name.clone() }.into());
        };
        indexes.push(UniqueIndex { name: name.clone(), columns });
    }
    Ok((indexes, found.iter().any(|(_, origin)| origin == "pk")))
}

/// Whether the expression reads the column that is the rowid.
///
/// # Errors
/// When the database would not take it as a generated column of this table: that is the test for one deterministic
/// expression over the row's own columns. It is asked of a database in memory, which has none of the functions that a
/// program may have added to its own connection and other clients lack.
pub(crate) fn reads_row_id(table: &TableShape, expression: &DomainExpression) -> Result<bool, MaintenanceError> {
    let refused = |error: &rusqlite::Error| {
        let why = error.to_string();
        let hint =
            if why.contains("no such column") { " (a constant is written in single quotes: 'jobs')" } else { "" };
        MaintenanceError::Expression { table: table.name.clone(), expression: expression.to_string(), why, hint }
    };
    let all: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    try_generated(&all, expression).map_err(|error| refused(&error))?;
    let RowId::Column(row_id) = &table.row_id else { return Ok(false) };
    let others: Vec<&str> = all.into_iter().filter(|name| name != row_id).collect();
    Ok(try_generated(&others, expression).is_err())
}

fn try_generated(columns: &[&str], expression: &DomainExpression) -> rusqlite::Result<()> {
    let connection = Connection::open_in_memory()?;
    // A misspelt name in double quotes would otherwise be taken for a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    let mut computed = "fencepost_domain".to_owned();
    while columns.iter().any(|column| column.eq_ignore_ascii_case(&computed)) {
        computed.push('_');
    }
    let columns: String = columns.iter().map(|column| format!("{}, ", quoted(column))).collect();
    connection.execute_batch(&format!(
        "CREATE TABLE probe (fencepost_probe, {columns}{} AS ({expression}));
         INSERT INTO probe (fencepost_probe) VALUES (0)",
        quoted(&computed)
    ))?;
    match connection.query_row(&format!("SELECT {} FROM probe", quoted(&computed)), [], |_| Ok(())) {
        // Only a row of real values can say whether the expression fails on them; NULL may well.
        Err(error) if error.to_string().contains("non-deterministic") => Err(error),
        Err(_) | Ok(()) => Ok(()),
    }
}
