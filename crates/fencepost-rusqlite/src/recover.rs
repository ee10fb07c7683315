use fencepost_core::{
    RecoveryId,
    fence::{Closure, LiveLease},
    sabotage,
};
use fencepost_receiver::{
    ReceiverSeed, Seen,
    adapter::{first_counter, fresh_recovery_id},
};
use fencepost_sql::sqlite::{Identity, SCHEMA, statement};
use rusqlite::{Connection, params};

use crate::{
    MaintenanceError,
    guard::{create_receiver, forget_born_before, learn},
    maintenance::{drop_fences, in_one_transaction, receiver_row, same_issuer, set_live_fences},
    place::identity,
    transaction::{count_fences, read_receiver},
};

/// Which storage a receiver is: noted before a recovery is begun, compared when it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The random id of the last recovery; `None` where the receiver's records are missing or damaged.
    pub recovery: Option<RecoveryId>,
    /// Where the file lies now.
    pub place: Identity,
    /// The mutation counter, 0 where there is none.
    pub counter: u64,
}

/// What a recovery has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The incarnation that it has now.
    pub incarnation: Incarnation,
    /// Fences dropped, because they are below the coordinator's next token and not of a live lease.
    pub fences_dropped: u64,
    /// Live leases whose token this receiver would not accept: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// Which storage this receiver is at this moment.
///
/// # Errors
/// When the database cannot be read. Missing records are part of the answer.
pub fn incarnation(connection: &Connection) -> Result<Incarnation, MaintenanceError> {
    let row = match receiver_row(connection) {
        Ok(row) => Some(row),
        Err(MaintenanceError::Closed(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(Incarnation {
        recovery: row.as_ref().and_then(|row| row.recovery_id()),
        place: identity(connection),
        counter: row.and_then(|row| row.mutation_counter()).unwrap_or(0),
    })
}

/// Opens a receiver whose storage was restored, copied or moved, or whose records were lost.
///
/// In this order: note the [`incarnation`]; read next token and live leases from the coordinator in one read; call this.
/// It goes ahead only if the incarnation is still the noted one, so that a recovery that hung while the storage was
/// replaced again changes nothing. No new epoch is needed. Live leases stay usable. Doing it twice is harmless.
///
/// Where a table or the receiver's row was lost, operation records may have been lost with it, while their effects are
/// still there. The horizon then rises to the seed's next token (its floor, where there is none), and a retry of an
/// operation born before is answered `OperationTooOld`. Operations without `born` are not covered: a retry of one whose
/// record was lost takes effect again.
///
/// # Errors
/// When the seed says neither a next token nor a floor, is of another issuer, or the incarnation is another one by now.
pub fn recover(
    connection: &mut Connection,
    noted: &Incarnation,
    seed: &ReceiverSeed,
    seen: &Seen,
) -> Result<Recovered, MaintenanceError> {
    let recovered = in_one_transaction(connection, |tx| {
        if incarnation(tx)? != *noted {
            return Err(MaintenanceError::Overtaken);
        }
        if seed.next.is_none() && seed.floor.is_none() {
            return Err(MaintenanceError::SeedNeeded);
        }
        let records_lost = match receiver_row(tx) {
            Ok(_) => false,
            Err(MaintenanceError::Closed(_)) => true,
            Err(error) => return Err(error),
        };
        tx.execute_batch(SCHEMA)?;
        tx.execute(statement::START_COUNTER, [first_counter().cast_signed()])?;
        let recorded = match read_receiver(tx)? {
            Some(row) => {
                same_issuer(&row, &seed.issuer)?;
                row.fences
            }
            None => {
                create_receiver(tx, seed)?;
                0
            }
        };
        // Fences may be there that a lost or damaged row does not count: dropping them would count below none.
        count_fences(tx, fences_found(tx)? - recorded)?;
        learn(tx, seed)?;
        if records_lost {
            forget_born_before(tx, seed)?;
        }
        let only_opens = sabotage::active("recovery_only_opens");
        let (next, live) = if only_opens { (None, &[][..]) } else { (seed.next, seed.live.as_slice()) };
        let refused = set_live_fences(tx, live)?;
        let mut dropped = 0;
        if let Some(next) = next {
            tx.execute(statement::RAISE_UNFENCED_FLOOR, [next.as_i64()])?;
            dropped = drop_fences(tx, next, live)?;
        }
        let fences = fences_found(tx)?;
        let (device, inode) = identity(tx).columns();
        let least = first_counter().max(seen.greatest().saturating_add(1));
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        tx.execute(statement::REOPEN, params![fresh_recovery_id().as_bytes(), device, inode, fences])?;
        tx.execute(statement::SKIP_COUNTER, [least])?;
        let incarnation = incarnation(tx)?;
        if incarnation.recovery.is_none() {
            return Err(MaintenanceError::Closed(Closure::MetadataMissing));
        }
        Ok(Recovered { incarnation, fences_dropped: dropped.unsigned_abs(), refused })
    })?;
    seen.note(recovered.incarnation.counter);
    Ok(recovered)
}

fn fences_found(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM main.fencepost_fence", [], |row| row.get(0))
}
