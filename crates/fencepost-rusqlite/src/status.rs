use fencepost_core::{
    Domain, Epoch, Issuer, Token,
    fence::{Closure, Condition},
};
use fencepost_sql::sqlite::{DomainExpression, Mode, condition_of, statement};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    MaintenanceError,
    guard::guard_triggers_of,
    maintenance::receiver_row,
    place::identity,
    recover::{Incarnation, incarnation},
};

/// What a receiver knows, read in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it accepts anything, and why not.
    pub condition: Condition,
    /// The coordinator whose grants it accepts.
    pub issuer: Issuer,
    /// The greatest epoch it accepts.
    pub known_epoch: Epoch,
    /// The least token accepted for any domain.
    pub floor: Option<Token>,
    /// The least token accepted for a domain without a fence.
    pub unfenced_floor: Option<Token>,
    /// The bound below which operation records may have been collected.
    pub horizon: Option<Token>,
    /// How many domains have a fence.
    pub fences: u64,
    /// How many operations are recorded.
    pub operations: u64,
    /// Which storage it is.
    pub incarnation: Incarnation,
    /// The guarded tables, by name.
    pub guarded: Vec<GuardedTable>,
    /// The version of SQLite that read this.
    pub sqlite_version: &'static str,
}

/// A guarded table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardedTable {
    /// Its name.
    pub name: String,
    /// What computes a row's domain.
    pub domain: DomainExpression,
    /// What the guard does, by its triggers; `None` where it has none.
    pub mode: Option<Mode>,
    /// How many changes a guard in observe mode has noted. Enforced refusals leave no trace here, because they are
    /// rolled back with their statement.
    pub observed: u64,
}

/// The fence of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The domain.
    pub domain: Domain,
    /// The highest token it was raised to.
    pub token: Token,
}

/// A change that a guard in observe mode would have refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The table.
    pub table: String,
    /// `insert`, `update` or `delete`.
    pub action: String,
    /// The domain of the row, where the expression gave a text.
    pub domain: Option<String>,
    /// When, RFC 3339, for people.
    pub at: String,
}

/// Reads what the receiver knows.
///
/// # Errors
/// Closed, with the reason, where there is no receiver to read; damaged columns count as missing.
pub fn status(connection: &Connection) -> Result<Status, MaintenanceError> {
    let tx = connection.unchecked_transaction()?;
    let damaged = || MaintenanceError::Closed(Closure::MetadataMissing);
    let row = receiver_row(&tx)?;
    let token = |column: Option<i64>| column.map(Token::from_column).transpose().map_err(|_| damaged());
    let count = |table: &str| tx.query_row(&format!("SELECT count(*) FROM main.{table}"), [], |row| row.get(0));
    let fences: i64 = count("fencepost_fence")?;
    let condition = match condition_of(&row, identity(&tx), 0) {
        Condition::Open if fences != row.fences => Condition::Closed(Closure::FenceMissing),
        condition => condition,
    };
    Ok(Status {
        condition,
        issuer: Issuer::new(&row.issuer).map_err(|_| damaged())?,
        known_epoch: u32::try_from(row.known_epoch)
            .ok()
            .and_then(|number| Epoch::new(number).ok())
            .ok_or_else(damaged)?,
        floor: token(row.floor)?,
        unfenced_floor: token(row.unfenced_floor)?,
        horizon: token(row.horizon)?,
        fences: fences.unsigned_abs(),
        operations: count("fencepost_operation")?.unsigned_abs(),
        incarnation: incarnation(&tx)?,
        guarded: guarded_tables(&tx)?,
        sqlite_version: rusqlite::version(),
    })
}

/// Fences in byte order of their domains, from after `after` on, at most `limit`.
///
/// # Errors
/// When the database cannot be read.
pub fn fences(connection: &Connection, after: Option<&Domain>, limit: u32) -> Result<Vec<Fence>, MaintenanceError> {
    receiver_row(connection)?;
    let mut statement = connection.prepare_cached(statement::LIST_FENCES)?;
    let mut rows = statement.query(params![after.map_or("", Domain::as_str), limit])?;
    let mut fences = Vec::new();
    while let Some(row) = rows.next()? {
        let (domain, token): (String, i64) = (row.get(0)?, row.get(1)?);
        fences.push(Fence { domain: Domain::new(&domain)?, token: Token::from_column(token)? });
    }
    Ok(fences)
}

/// The fence of one domain; `None` where it has none.
///
/// # Errors
/// When the database cannot be read.
pub fn fence_of(connection: &Connection, domain: &Domain) -> Result<Option<Token>, MaintenanceError> {
    receiver_row(connection)?;
    let sql = "SELECT token FROM main.fencepost_fence WHERE domain = ?1";
    let token: Option<i64> = connection.query_row(sql, [domain.as_str()], |row| row.get(0)).optional()?;
    Ok(token.map(Token::from_column).transpose()?)
}

/// The last changes that guards in observe mode would have refused, newest first. At most 1000 are kept.
///
/// # Errors
/// When the database cannot be read.
pub fn observations(connection: &Connection, limit: u32) -> Result<Vec<Observation>, MaintenanceError> {
    receiver_row(connection)?;
    let mut statement = connection.prepare_cached(
        "SELECT name, action, CASE typeof(domain) WHEN 'text' THEN domain END, at FROM main.fencepost_observation
         ORDER BY id DESC LIMIT ?1",
    )?;
    let rows = statement.query_map([limit], |row| {
        Ok(Observation { table: row.get(0)?, action: row.get(1)?, domain: row.get(2)?, at: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn guarded_tables(connection: &Connection) -> Result<Vec<GuardedTable>, MaintenanceError> {
    let mut statement =
        connection.prepare("SELECT name, expression, observed FROM main.fencepost_guard ORDER BY name")?;
    let rows: Vec<(String, String, i64)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect::<Result<_, _>>()?;
    rows.into_iter()
        .map(|(name, expression, observed)| {
            let triggers = guard_triggers_of(connection, &name)?;
            let mode = match triggers.as_slice() {
                [] => None,
                some if some.iter().all(|trigger| trigger.sql.contains("RAISE(ABORT")) => Some(Mode::Enforce),
                _ => Some(Mode::Observe),
            };
            Ok(GuardedTable {
                domain: DomainExpression::new(&expression)?,
                name,
                mode,
                observed: observed.unsigned_abs(),
            })
        })
        .collect()
}
