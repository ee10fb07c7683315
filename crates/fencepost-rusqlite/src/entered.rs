use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use fencepost_core::fence::{RecordedResult, Rejection};
use fencepost_receiver::WriteError;
use rusqlite::Transaction;

use crate::transaction::{self, Claim, Failure, unavailable};

/// What entering a domain in the caller's own transaction came to.
#[derive(Debug)]
#[must_use = "a replayed or rejected operation must not be run"]
pub enum Entry<'t> {
    /// The guarded tables are open for the domain: run the mutation, then finish.
    Entered(Entered<'t>),
    /// The operation had taken effect before; this is what it answered. Nothing is open. Commit the transaction, because
    /// the fence may have been raised.
    Replayed(RecordedResult),
    /// Nothing was changed and nothing is open.
    Rejected(Rejection),
}

/// A domain entered in a transaction that is the caller's own.
///
/// While it lives the transaction cannot be committed by `Transaction::commit`, which would take it away from here.
/// Dropped without [`record`](Self::record) or [`finish`](Self::finish), it makes the commit of the transaction fail, so
/// that no effect is left without its record. Being forgotten ([`std::mem::forget`]), or a `COMMIT` sent as a statement,
/// leaves the domain open; `audit` shows it, and the next write, read or advance of a
/// [`SqliteReceiver`](crate::SqliteReceiver) closes it, whatever its own outcome. Entering another domain is refused until
/// then, because it cannot be told from one that this very transaction has entered.
#[derive(Debug)]
pub struct Entered<'t> {
    tx: &'t Transaction<'t>,
    grants: Vec<fencepost_core::Grant>,
    operation: Option<fencepost_core::fence::Operation>,
    counter: u64,
    finished: bool,
}

impl<'t> Entered<'t> {
    pub(crate) fn new(tx: &'t Transaction<'_>, claim: &Claim<'_>, counter: u64) -> Self {
        let grants = claim.grants.iter().map(|grant| (*grant).clone()).collect();
        Self { tx, grants, operation: claim.operation.clone(), counter, finished: false }
    }

    /// The transaction.
    #[must_use]
    pub fn transaction(&self) -> &Transaction<'t> {
        self.tx
    }

    /// Records what the operation answered and closes the guarded tables. The caller commits.
    ///
    /// # Errors
    /// When the domain was entered without an operation, or inside a savepoint that was rolled back, or when the storage
    /// fails. The transaction can only be rolled back then.
    pub fn record(self, result: &RecordedResult) -> Result<(), Failure> {
        if self.operation.is_none() {
            return Err(WriteError::Misused(
                "the domain was entered without an operation: finish instead of recording",
            ));
        }
        self.end(Some(result))
    }

    /// Closes the guarded tables after a mutation that names no operation. The caller commits.
    ///
    /// # Errors
    /// When there is an operation whose result has to be recorded, else as for [`record`](Self::record).
    pub fn finish(self) -> Result<(), Failure> {
        if self.operation.is_some() {
            return Err(WriteError::Misused("an operation was entered: record its result"));
        }
        self.end(None)
    }

    fn end(mut self, result: Option<&RecordedResult>) -> Result<(), Failure> {
        let claim = Claim { grants: self.grants.iter().collect(), operation: self.operation.clone() };
        if let Some(result) = result {
            transaction::record(self.tx, &claim, result).map_err(unavailable)?;
        }
        if !transaction::leave(self.tx, self.counter, self.grants.len()).map_err(unavailable)? {
            return Err(WriteError::Misused(
                "the domain was entered inside a savepoint that was rolled back, and its fence with it: enter before the \
                 savepoint",
            ));
        }
        self.finished = true;
        Ok(())
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.finished || self.tx.is_autocommit() {
            return;
        }
        tracing::error!(
            target: "fencepost::sqlite",
            operation = self.operation.as_ref().map(|operation| operation.id.as_str()),
            "a domain was entered and neither recorded nor finished: the transaction will not commit"
        );
        refuse_commit(self.tx);
    }
}

/// Makes the next commit of this connection a rollback, and nothing after it. The hooks are the connection's only ones,
/// so a program that sets its own loses them here; that is the price of a mistake, never of a right call.
fn refuse_commit(tx: &Transaction<'_>) {
    let armed = Arc::new(AtomicBool::new(true));
    let disarmed = Arc::clone(&armed);
    let hooked = tx
        .commit_hook(Some(move || armed.swap(false, Ordering::AcqRel)))
        .and_then(|()| tx.rollback_hook(Some(move || disarmed.store(false, Ordering::Release))));
    if hooked.is_err() {
        // A connection that takes no hooks is not rusqlite's own to close; undoing the work is what is left.
        let _ = tx.execute_batch("ROLLBACK");
    }
}
