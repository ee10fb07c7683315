use fencepost_core::{
    Token,
    fence::{Closure, LiveLease},
    sabotage,
};
use fencepost_receiver::{
    ReceiverSeed,
    adapter::{first_counter, fresh_recovery_id},
};
use fencepost_sql::sqlite::{DomainExpression, Mode, SCHEMA, Trigger, guard_triggers, quoted, statement};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::{
    MaintenanceError,
    describe::{reads_row_id, table_shape},
    maintenance::{in_one_transaction, open_receiver_row, receiver_row, same_issuer, set_live_fences, unprotect},
    place::identity,
    transaction::{missing_records, raise_counter, read_receiver},
};

/// What guarding a table has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The table's name as the schema spells it.
    pub table: String,
    /// What the guard does.
    pub mode: Mode,
    /// Whether the database became a receiver by it.
    pub receiver_created: bool,
    /// Live leases of the seed whose token this receiver would not accept: their holders have to acquire anew.
    pub refused: Vec<LiveLease>,
}

/// Guards a table: from the commit on, every change of a row whose domain its transaction has not entered is refused
/// (or, with [`Mode::Observe`], counted and noted), from whatever client.
///
/// The first guard makes the database a receiver and needs a seed. Later ones may bring one: what it knows is learned
/// where it is greater, and nothing is ever lowered. Guarding a guarded table again replaces its triggers: that is how
/// the mode or the expression is changed and how new columns and indexes are taken in.
///
/// # Errors
/// When the expression or the table cannot be used, or the receiver is closed or of another issuer. Nothing was changed
/// then.
pub fn guard(
    connection: &mut Connection,
    table: &str,
    domain: &DomainExpression,
    mode: Mode,
    seed: Option<&ReceiverSeed>,
) -> Result<Guarded, MaintenanceError> {
    in_one_transaction(connection, |tx| {
        let shape = table_shape(tx, table)?;
        let triggers = guard_triggers(&shape, domain, reads_row_id(&shape, domain)?, mode)?;
        let (receiver_created, refused) = become_receiver(tx, seed)?;
        drop_guard_triggers(tx, &shape.name)?;
        if !sabotage::active("guard_dropped") {
            create_triggers(tx, &triggers)?;
        }
        tx.execute(
            "INSERT INTO main.fencepost_guard (name, expression) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET expression = excluded.expression",
            params![shape.name, domain.as_str()],
        )?;
        raise_counter(tx)?;
        Ok(Guarded { table: shape.name, mode, receiver_created, refused })
    })
}

/// Removes the guard of a table. The receiver keeps everything that it knows, so guarding it again re-admits nothing.
///
/// # Errors
/// When the table has no guard.
pub fn unguard(connection: &mut Connection, table: &str) -> Result<(), MaintenanceError> {
    in_one_transaction(connection, |tx| {
        open_receiver_row(tx)?;
        let name: Option<String> = tx
            .query_row("DELETE FROM main.fencepost_guard WHERE name = ?1 RETURNING name", [table], |row| row.get(0))
            .optional()?;
        let dropped = drop_guard_triggers(tx, name.as_deref().unwrap_or(table))?;
        if name.is_none() && dropped == 0 {
            return Err(MaintenanceError::NotGuarded(table.to_owned()));
        }
        raise_counter(tx)?;
        Ok(())
    })
}

/// Makes the database a receiver, or teaches the one that it is.
fn become_receiver(
    tx: &Transaction<'_>,
    seed: Option<&ReceiverSeed>,
) -> Result<(bool, Vec<LiveLease>), MaintenanceError> {
    let created = match read_receiver(tx) {
        Ok(Some(_)) => {
            receiver_row(tx)?;
            false
        }
        Ok(None) => return Err(MaintenanceError::Closed(Closure::MetadataMissing)),
        Err(failure) => match missing_records(tx, failure)? {
            Closure::NotGuarded => true,
            why => return Err(MaintenanceError::Closed(why)),
        },
    };
    match (created, seed) {
        (true, None) => return Err(MaintenanceError::SeedNeeded),
        (true, Some(seed)) => {
            create_receiver(tx, seed)?;
            if guard_triggers_left(tx)? {
                forget_born_before(tx, seed)?;
            }
        }
        (false, _) => {}
    }
    let row = open_receiver_row(tx)?;
    let Some(seed) = seed else { return Ok((created, Vec::new())) };
    same_issuer(&row, &seed.issuer)?;
    learn(tx, seed)?;
    let refused = set_live_fences(tx, &seed.live)?;
    if let Some(next) = seed.next {
        tx.execute(statement::RAISE_UNFENCED_FLOOR, [next.as_i64()])?;
    }
    Ok((created, refused))
}

/// Makes tables and row. Tables that are there already stay as they are.
pub(crate) fn create_receiver(tx: &Transaction<'_>, seed: &ReceiverSeed) -> Result<(), MaintenanceError> {
    tx.execute_batch(SCHEMA)?;
    let (device, inode) = identity(tx).columns();
    tx.execute(
        statement::CREATE_RECEIVER,
        params![
            seed.issuer.as_str(),
            seed.known_epoch.get(),
            seed.floor.map(|floor| floor.as_i64()),
            fresh_recovery_id().as_bytes(),
            device,
            inode
        ],
    )?;
    tx.execute(statement::START_COUNTER, [first_counter().cast_signed()])?;
    Ok(())
}

/// Takes known epoch and floor of a seed where they are greater.
pub(crate) fn learn(tx: &Transaction<'_>, seed: &ReceiverSeed) -> Result<(), MaintenanceError> {
    let statement = if sabotage::active("telling_not_monotone") {
        unprotect(tx, "receiver_rises")?;
        "UPDATE main.fencepost_receiver SET known_epoch = ?1, floor = ?2 WHERE id = 1"
    } else {
        statement::LEARN
    };
    tx.execute(statement, params![seed.known_epoch.get(), seed.least_accepted().map(Token::as_i64)])?;
    Ok(())
}

/// Shuts out the operations that may have taken effect under records that are gone: all that were born before the seed.
pub(crate) fn forget_born_before(tx: &Transaction<'_>, seed: &ReceiverSeed) -> Result<(), MaintenanceError> {
    let horizon = seed.next.or(seed.floor).filter(|_| !sabotage::active("lost_records_leave_no_horizon"));
    if let Some(horizon) = horizon {
        tx.execute(statement::RAISE_HORIZON, [horizon.as_i64()])?;
    }
    Ok(())
}

/// Whether some table has a guard. Where no record is left, that shows that there were records.
fn guard_triggers_left(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare(
            "SELECT 1 FROM main.sqlite_schema
             WHERE type = 'trigger' AND name LIKE 'fencepost\\_guard\\_%' ESCAPE '\\'",
        )?
        .exists([])
}

fn create_triggers(tx: &Transaction<'_>, triggers: &[Trigger]) -> Result<(), MaintenanceError> {
    for trigger in triggers {
        // Without the schema's name a temporary table of the same name would get the trigger.
        tx.execute_batch(&trigger.sql.replacen("CREATE TRIGGER ", "CREATE TRIGGER main.", 1))?;
    }
    Ok(())
}

/// The guard's triggers that a table has, by name, with their text.
pub(crate) fn guard_triggers_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<Trigger>> {
    let mut statement = connection.prepare(
        "SELECT name, sql FROM main.sqlite_schema
         WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND name LIKE 'fencepost\\_guard\\_%' ESCAPE '\\'
         ORDER BY name",
    )?;
    let triggers = statement.query_map([table], |row| Ok(Trigger { name: row.get(0)?, sql: row.get(1)? }))?;
    triggers.collect()
}

fn drop_guard_triggers(tx: &Transaction<'_>, table: &str) -> Result<usize, MaintenanceError> {
    let triggers = guard_triggers_of(tx, table)?;
    for trigger in &triggers {
        tx.execute_batch(&format!("DROP TRIGGER main.{}", quoted(&trigger.name)))?;
    }
    Ok(triggers.len())
}
