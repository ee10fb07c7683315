//! What happens inside one transaction that holds the write lock: read, decide, raise, enter, and at the end record,
//! leave, count. Nothing here begins or ends the transaction.

use std::convert::Infallible;

use fencepost_core::{
    Grant, Invalid,
    fence::{Closure, Decision, Fingerprint, Operation, Presented, RecordedResult, RejectedBy, Rejection, decide},
    sabotage,
};
use fencepost_receiver::{WriteError, adapter::misread};
use fencepost_sql::sqlite::{DomainRow, Identity, ReceiverRow, TABLES, standing, statement};
use rusqlite::{Connection, OptionalExtension, Row, config::DbConfig, params};

use crate::place;

pub(crate) type Failure = WriteError<Infallible>;

/// The storage failed before anything could have been committed.
pub(crate) fn unavailable(error: rusqlite::Error) -> Failure {
    WriteError::Unavailable(error.into())
}

/// What a write is made under: its grants in byte order of their domains, and its operation as it is recorded.
pub(crate) struct Claim<'a> {
    pub(crate) grants: Vec<&'a Grant>,
    pub(crate) operation: Option<Operation>,
}

impl<'a> Claim<'a> {
    /// # Errors
    /// When there is no grant, or two for one domain.
    pub(crate) fn new(
        grants: impl IntoIterator<Item = &'a Grant>,
        operation: Option<&Operation>,
    ) -> Result<Self, Invalid> {
        let mut grants: Vec<&Grant> = grants.into_iter().collect();
        grants.sort_unstable_by(|a, b| a.domain.cmp(&b.domain));
        if grants.is_empty() || grants.windows(2).any(|pair| pair[0].domain == pair[1].domain) {
            return Err(Invalid::form("grants", "one or more, each for another domain"));
        }
        let operation = operation.cloned().map(|operation| match grants.len() {
            1 => operation,
            _ => {
                let fingerprint: Fingerprint = operation.fingerprint.over(grants.iter().map(|grant| &grant.domain));
                Operation { fingerprint, ..operation }
            }
        });
        Ok(Self { grants, operation })
    }

    fn operation_id(&self) -> Option<&str> {
        self.operation.as_ref().map(|operation| operation.id.as_str())
    }
}

/// What is to be done, decided for all domains before anything is done for one.
pub(crate) struct Plan {
    /// The receiver's counter as it was read; 0 where there is no receiver.
    pub(crate) counter: u64,
    /// Domains that are entered at this moment.
    pub(crate) entries: i64,
    pub(crate) step: Step,
}

pub(crate) enum Step {
    Apply { raises: Vec<Raise> },
    Replay { raises: Vec<Raise> },
    Reject(Rejection),
}

/// A fence to be raised: of the n-th grant, as the domain's first one or not.
#[derive(Clone, Copy)]
pub(crate) struct Raise {
    nth: usize,
    first: bool,
}

fn receiver_row(row: &Row<'_>) -> rusqlite::Result<ReceiverRow> {
    Ok(ReceiverRow {
        condition: row.get(0)?,
        issuer: row.get(1)?,
        known_epoch: row.get(2)?,
        floor: row.get(3)?,
        unfenced_floor: row.get(4)?,
        horizon: row.get(5)?,
        fences: row.get(6)?,
        recovery: row.get(7)?,
        device: row.get(8)?,
        inode: row.get(9)?,
        counter: row.get(10)?,
    })
}

/// The receiver's row, where tables and row are there.
pub(crate) fn read_receiver(connection: &Connection) -> rusqlite::Result<Option<ReceiverRow>> {
    connection.prepare_cached(statement::RECEIVER)?.query_row([], receiver_row).optional()
}

fn read_standing(
    connection: &Connection,
    grant: &Grant,
    operation: Option<&str>,
) -> rusqlite::Result<Option<(ReceiverRow, DomainRow, i64)>> {
    let mut statement = connection.prepare_cached(statement::STANDING)?;
    let row = |row: &Row<'_>| {
        let records = DomainRow { fence: row.get(11)?, fences_found: row.get(12)?, fingerprint: row.get(13)? };
        Ok((receiver_row(row)?, records, row.get(14)?))
    };
    statement.query_row(params![grant.domain.as_str(), operation], row).optional()
}

/// Why there is nothing to read: nobody has guarded anything here, or what was there is gone or is not what its column
/// holds.
///
/// # Errors
/// When every table is there and readable, so that the failure has another cause: that failure.
pub(crate) fn missing_records(connection: &Connection, failure: rusqlite::Error) -> Result<Closure, rusqlite::Error> {
    match tables_found(connection)? {
        0 => Ok(Closure::NotGuarded),
        found if found < TABLES.len() || is_damage(&failure) => Ok(Closure::MetadataMissing),
        _ => Err(failure),
    }
}

/// Whether a row was read that holds something else than its columns do: NULL or a text for a number, say.
fn is_damage(failure: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(
        failure,
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..)
    )
}

/// How many of Fencepost's own tables there are.
pub(crate) fn tables_found(connection: &Connection) -> rusqlite::Result<usize> {
    let mut statement =
        connection.prepare_cached("SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = ?1")?;
    TABLES.iter().try_fold(0, |found, table| Ok(found + usize::from(statement.exists([table])?)))
}

/// Reads the standing of every domain and decides. Changes nothing.
pub(crate) fn plan(connection: &Connection, claim: &Claim<'_>, seen: u64) -> Result<Plan, Failure> {
    let here = place::identity(connection);
    let seen = if sabotage::active("restore_not_noticed") { 0 } else { seen };
    let mut plan = Plan { counter: 0, entries: 0, step: Step::Reject(Rejection::Missing) };
    let (mut applied, mut replayed, mut raises) = (0, 0, Vec::new());
    for (nth, grant) in claim.grants.iter().enumerate() {
        let found = match read_standing(connection, grant, claim.operation_id()) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Plan { step: closed(Closure::MetadataMissing), ..plan }),
            Err(failure) => {
                let why = missing_records(connection, failure).map_err(unavailable)?;
                return Ok(Plan { step: closed(why), ..plan });
            }
        };
        plan.counter = found.0.mutation_counter().unwrap_or(0);
        plan.entries = found.2;
        match decide_one(grant, claim.operation.as_ref(), &found, here, seen)? {
            Decision::Reject(_) if nth > 0 && sabotage::active("first_domain_only") => applied += 1,
            Decision::Reject(rejection) => return Ok(Plan { step: Step::Reject(rejection), ..plan }),
            Decision::Apply { raise } => {
                applied += 1;
                raises.extend(raise.then_some(Raise { nth, first: found.1.fence.is_none() }));
            }
            Decision::Replay { raise } => {
                replayed += 1;
                let raise = raise && !sabotage::active("replay_raises_nothing");
                raises.extend(raise.then_some(Raise { nth, first: found.1.fence.is_none() }));
            }
        }
    }
    plan.step = match (applied, replayed) {
        (_, 0) => Step::Apply { raises },
        (0, _) => Step::Replay { raises },
        // An operation is recorded in all of its domains by one commit, so some of its records were removed.
        (_, _) => closed(Closure::MetadataMissing),
    };
    Ok(plan)
}

fn closed(why: Closure) -> Step {
    Step::Reject(Rejection::Closed(why))
}

fn decide_one(
    grant: &Grant,
    operation: Option<&Operation>,
    (row, records, _): &(ReceiverRow, DomainRow, i64),
    here: Identity,
    seen: u64,
) -> Result<Decision, Invalid> {
    let Some(standing) = standing(row, records, &grant.domain, here, seen) else {
        return Ok(Decision::Reject(Rejection::Closed(Closure::MetadataMissing)));
    };
    let presented = Presented { operation, ..Presented::grant(grant) };
    let standing = misread(&presented, standing);
    let decision = decide(&presented, &standing)?;
    if sabotage::active("equal_token_refused") && standing.fence == Some(grant.token) && operation_is_new(&decision) {
        return Ok(stale(grant, grant.token));
    }
    if sabotage::active("replay_after_staleness") && matches!(decision, Decision::Replay { .. }) {
        let order = decide(&Presented::grant(grant), &standing)?;
        if matches!(order, Decision::Reject(_)) {
            return Ok(order);
        }
    }
    Ok(decision)
}

fn operation_is_new(decision: &Decision) -> bool {
    matches!(decision, Decision::Apply { .. })
}

fn stale(grant: &Grant, least_accepted: fencepost_core::Token) -> Decision {
    Decision::Reject(Rejection::Stale { presented: grant.token, least_accepted, by: RejectedBy::Fence })
}

/// Raises the fences of a plan. Where nothing follows that leaves, the caller raises the counter.
pub(crate) fn raise(connection: &Connection, claim: &Claim<'_>, raises: &[Raise]) -> rusqlite::Result<()> {
    let mut added = 0;
    for Raise { nth, first } in raises {
        let grant = claim.grants[*nth];
        let statement = if *first { statement::INSERT_FENCE } else { statement::RAISE_FENCE };
        let changed =
            connection.prepare_cached(statement)?.execute(params![grant.domain.as_str(), grant.token.as_i64()])?;
        assert_eq!(changed, 1, "a fence that was read under the write lock rises when it is told to");
        added += i64::from(*first);
    }
    count_fences(connection, added)
}

/// Keeps the number of fences, by which a removed one is noticed.
pub(crate) fn count_fences(connection: &Connection, added: i64) -> rusqlite::Result<()> {
    if added != 0 {
        connection.prepare_cached(statement::COUNT_FENCES)?.execute([added])?;
    }
    Ok(())
}

/// Opens the guarded tables for these domains.
pub(crate) fn enter(connection: &Connection, claim: &Claim<'_>, counter: u64) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(statement::ENTER)?;
    for (slot, grant) in (1_i64..).zip(&claim.grants) {
        statement.execute(params![slot, grant.domain.as_str(), counter.cast_signed() + 1])?;
    }
    Ok(())
}

/// Records the operation in each of its domains.
pub(crate) fn record(connection: &Connection, claim: &Claim<'_>, result: &RecordedResult) -> rusqlite::Result<()> {
    let Some(operation) = &claim.operation else { return Ok(()) };
    if sabotage::active("operations_not_recorded") {
        return Ok(());
    }
    // One token for all domains, so that a collection removes all records of an operation or none.
    let kept_by = claim.grants.iter().map(|grant| grant.token).max().map(|token| token.as_i64());
    let mut statement = connection.prepare_cached(statement::RECORD)?;
    for grant in &claim.grants {
        statement.execute(params![
            grant.domain.as_str(),
            operation.id.as_str(),
            operation.fingerprint.as_bytes(),
            operation.born.map(|token| token.as_i64()),
            kept_by,
            result.as_bytes(),
        ])?;
    }
    Ok(())
}

/// Closes the guarded tables again and raises the counter.
///
/// # Returns
/// Whether every domain was still entered; nothing was changed otherwise.
pub(crate) fn leave(connection: &Connection, counter: u64, entered: usize) -> rusqlite::Result<bool> {
    let parameters = params![counter.cast_signed() + 1, entered as i64];
    let left = connection.prepare_cached(statement::LEAVE)?.execute(parameters)? == 1;
    if entered > 1 {
        connection.prepare_cached(statement::FORGET_SLOTS)?.execute([])?;
    }
    Ok(left)
}

/// Ends a change in which nothing was entered. What was left open is closed by it too.
pub(crate) fn raise_counter(connection: &Connection) -> rusqlite::Result<()> {
    let changed = connection.prepare_cached(statement::RAISE_COUNTER)?.execute([])?;
    assert_eq!(changed, 1, "the counter was read in this transaction");
    Ok(())
}

/// What the operation of a replay answered when it was applied.
pub(crate) fn recorded_result(connection: &Connection, claim: &Claim<'_>) -> Result<RecordedResult, Failure> {
    let domain = claim.grants[0].domain.as_str();
    let mut statement = connection.prepare_cached(statement::RESULT).map_err(unavailable)?;
    let bytes: Vec<u8> =
        statement.query_row(params![domain, claim.operation_id()], |row| row.get(0)).map_err(unavailable)?;
    Ok(RecordedResult::new(bytes)?)
}

/// Refuses a connection on which no guard would fire.
pub(crate) fn require_triggers(connection: &Connection) -> Result<(), Failure> {
    if connection.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER).map_err(unavailable)? {
        return Ok(());
    }
    Err(WriteError::Misused("triggers are switched off on this connection, so no guard would fire: switch them on"))
}
