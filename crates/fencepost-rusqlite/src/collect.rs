use fencepost_core::{Token, fence::LiveLease, sabotage};
use fencepost_sql::sqlite::statement;
use rusqlite::{Connection, params};

use crate::{
    MaintenanceError,
    maintenance::{drop_fences, in_one_transaction, open_receiver_row, set_live_fences, unprotect},
    transaction::raise_counter,
};

/// What a collection has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Fences removed.
    pub fences: u64,
    /// Operation records removed.
    pub operations: u64,
    /// Live leases whose token this receiver no longer accepts: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// Forgets the fences of domains that nobody holds and, where a horizon is given, old operation records.
///
/// `next` and `live` come from one consistent read of the coordinator that excludes grants in flight. Every step can only
/// refuse more: live leases get their fence by the ordinary decision, and the floor of domains without a fence rises to
/// `next` before any fence is removed. What was granted in an epoch before that of `next` is refused from then on. The
/// horizon is raised before any record is removed: an operation born below it is answered `OperationTooOld` from then on,
/// and one without `born` that was applied under an older token than it may take effect again. So choose a horizon that
/// is older than any retry. Doing it twice or late is harmless.
///
/// # Errors
/// When the receiver is closed. Nothing was changed then.
pub fn collect(
    connection: &mut Connection,
    next: Token,
    live: &[LiveLease],
    horizon: Option<Token>,
) -> Result<Collected, MaintenanceError> {
    in_one_transaction(connection, |tx| {
        open_receiver_row(tx)?;
        tx.execute(statement::LEARN, params![0, next.begin_of_epoch().map(Token::as_i64)])?;
        let refused = set_live_fences(tx, live)?;
        if sabotage::active("late_collection_lowers_floor") {
            unprotect(tx, "receiver_rises")?;
            tx.execute("UPDATE main.fencepost_receiver SET unfenced_floor = ?1 WHERE id = 1", [next.as_i64()])?;
        } else if !sabotage::active("collection_raises_no_floor") {
            tx.execute(statement::RAISE_UNFENCED_FLOOR, [next.as_i64()])?;
        }
        let dropped = drop_fences(tx, next, live)?;
        let mut operations = 0;
        if let Some(horizon) = horizon {
            let horizon = if sabotage::active("records_collected_early") { next } else { horizon };
            tx.execute(statement::RAISE_HORIZON, [horizon.as_i64()])?;
            operations = tx.execute(statement::DELETE_OPERATIONS, [])?;
        }
        raise_counter(tx)?;
        Ok(Collected { fences: dropped.unsigned_abs(), operations: operations as u64, refused })
    })
}
