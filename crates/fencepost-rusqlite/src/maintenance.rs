use std::collections::HashSet;

use fencepost_core::{
    Invalid, Issuer, Token,
    fence::{Closure, Condition, Decision, LiveLease, Presented, Standing, decide},
    sabotage,
};
use fencepost_sql::sqlite::{
    DomainRow, FIRST_USABLE_VERSION, Identity, ReceiverRow, TABLES, Unguardable, condition_of, standing, statement,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::{
    place::identity,
    transaction::{count_fences, missing_records, read_receiver, tables_found},
};

/// Why guarding, unguarding, recovering, collecting or looking did not work. Each is one transaction: nothing was
/// changed, except after `Unknown`. All of them may be repeated, and end in the same state as done once.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The input breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The domain expression cannot be used on this table.
    #[error("the domain expression {expression} cannot be used on {table}: {why}{hint}")]
    Expression {
        /// The table.
        table: String,
        /// The expression.
        expression: String,
        /// What the database says of it.
        why: String,
        /// What to do, where it can be guessed.
        hint: &'static str,
    },
    /// The table is of a kind that a guard cannot cover.
    #[error(transparent)]
    Unguardable(#[from] Unguardable),
    /// The table has no guard.
    #[error("{0:?} has no guard")]
    NotGuarded(String),
    /// The first guard in a database needs issuer and epoch.
    #[error("the first guard in a database needs issuer, epoch and live leases: from the coordinator, or by hand")]
    SeedNeeded,
    /// The database belongs to another issuer.
    #[error("this database takes grants of issuer {here}, not of {presented}")]
    WrongIssuer {
        /// The receiver's issuer.
        here: Issuer,
        /// The seed's issuer.
        presented: Issuer,
    },
    /// The receiver is closed.
    #[error("the receiver is closed ({0}): recover it")]
    Closed(Closure),
    /// The storage is no longer the one that was noted before the recovery was begun.
    #[error("the receiver is no longer the one that this recovery was begun for: begin again")]
    Overtaken,
    /// SQLite is too old for the layout.
    #[error("SQLite {0} is too old for Fencepost's tables: 3.37 or later is needed")]
    SqliteTooOld(String),
    /// The storage could not be used. Nothing was changed.
    #[error("nothing was changed, the database cannot be used now: {0}")]
    Unavailable(#[from] rusqlite::Error),
    /// The answer to the commit was lost. Repeat the call.
    #[error("it may have happened, the answer was lost: {0}")]
    Unknown(#[source] rusqlite::Error),
}

impl MaintenanceError {
    /// Whether something may have been changed.
    #[must_use]
    pub const fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Runs `work` in one transaction that holds the write lock, and commits it.
pub(crate) fn in_one_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, MaintenanceError>,
) -> Result<T, MaintenanceError> {
    if rusqlite::version_number() < FIRST_USABLE_VERSION {
        return Err(MaintenanceError::SqliteTooOld(rusqlite::version().to_owned()));
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&tx)?;
    match tx.execute_batch("COMMIT") {
        Ok(()) => Ok(done),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull) => {
                Err(MaintenanceError::Unavailable(error))
            }
            _ => Err(MaintenanceError::Unknown(error)),
        },
    }
}

/// The receiver's row.
///
/// # Errors
/// Closed where there is none, or where a table is missing beside it, with the reason.
pub(crate) fn receiver_row(connection: &Connection) -> Result<ReceiverRow, MaintenanceError> {
    match read_receiver(connection) {
        Ok(Some(_)) if tables_found(connection)? < TABLES.len() => {
            Err(MaintenanceError::Closed(Closure::MetadataMissing))
        }
        Ok(Some(row)) => Ok(row),
        Ok(None) => Err(MaintenanceError::Closed(Closure::MetadataMissing)),
        Err(failure) => Err(MaintenanceError::Closed(missing_records(connection, failure)?)),
    }
}

/// The receiver's row, where the receiver accepts writes at all.
pub(crate) fn open_receiver_row(connection: &Connection) -> Result<ReceiverRow, MaintenanceError> {
    let row = receiver_row(connection)?;
    match condition_of(&row, identity(connection), 0) {
        Condition::Open => Ok(row),
        Condition::Closed(why) => Err(MaintenanceError::Closed(why)),
    }
}

pub(crate) fn same_issuer(row: &ReceiverRow, presented: &Issuer) -> Result<(), MaintenanceError> {
    let here = Issuer::new(&row.issuer).map_err(|_| MaintenanceError::Closed(Closure::MetadataMissing))?;
    if here == *presented {
        return Ok(());
    }
    Err(MaintenanceError::WrongIssuer { here, presented: presented.clone() })
}

/// Sets the fences of live leases by the ordinary decision, so that a late seed re-admits no old token.
///
/// # Returns
/// The leases whose token this receiver would not accept.
pub(crate) fn set_live_fences(connection: &Connection, live: &[LiveLease]) -> Result<Vec<LiveLease>, MaintenanceError> {
    let row = receiver_row(connection)?;
    let (mut added, mut refused) = (0, Vec::new());
    for lease in live {
        let fence: Option<i64> = connection
            .prepare_cached("SELECT ifnull(token, 0) FROM main.fencepost_fence WHERE domain = ?1")?
            .query_row([lease.domain.as_str()], |row| row.get(0))
            .optional()?;
        if sabotage::active("live_fences_unchecked") && fence.is_some() {
            unprotect(connection, "fence_rises")?;
            let sql = "UPDATE main.fencepost_fence SET token = ?2 WHERE domain = ?1";
            connection.execute(sql, params![lease.domain.as_str(), lease.token.as_i64()])?;
            continue;
        }
        let records = DomainRow { fence, ..DomainRow::default() };
        let here = Identity { device: row.device.cast_unsigned(), inode: row.inode.cast_unsigned() };
        let standing = standing(&row, &records, &lease.domain, here, 0)
            .ok_or(MaintenanceError::Closed(Closure::MetadataMissing))?;
        let standing = Standing { condition: Condition::Open, ..standing };
        match decide(&Presented::token(&standing.issuer, &lease.domain, lease.token), &standing)? {
            Decision::Apply { raise: true } => {
                let statement = if fence.is_none() { statement::INSERT_FENCE } else { statement::RAISE_FENCE };
                connection.prepare_cached(statement)?.execute(params![lease.domain.as_str(), lease.token.as_i64()])?;
                added += i64::from(fence.is_none());
            }
            Decision::Apply { raise: false } => {}
            Decision::Replay { .. } => unreachable!("nothing is replayed without an operation"),
            Decision::Reject(_) => refused.push(lease.clone()),
        }
    }
    count_fences(connection, added)?;
    Ok(refused)
}

/// Removes the fences below `next` that are not of live leases.
///
/// # Returns
/// How many there were.
pub(crate) fn drop_fences(connection: &Connection, next: Token, live: &[LiveLease]) -> Result<i64, MaintenanceError> {
    let live = if sabotage::active("live_fences_collected") { &[] } else { live };
    let live: HashSet<&str> = live.iter().map(|lease| lease.domain.as_str()).collect();
    let mut below = connection.prepare_cached(statement::FENCES_BELOW)?;
    let domains: Vec<String> = below.query_map([next.as_i64()], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut delete = connection.prepare_cached(statement::DELETE_FENCE)?;
    let mut dropped = 0;
    for domain in domains.iter().filter(|domain| !live.contains(domain.as_str())) {
        delete.execute([domain])?;
        dropped += 1;
    }
    count_fences(connection, -dropped)?;
    Ok(dropped)
}

/// For a deliberate defect: takes a trigger of the receiver's own off, which would refuse what the defect does.
pub(crate) fn unprotect(connection: &Connection, trigger: &str) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("DROP TRIGGER IF EXISTS main.fencepost_{trigger}"))
}
