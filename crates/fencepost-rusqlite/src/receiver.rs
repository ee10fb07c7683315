use std::sync::Once;

use fencepost_core::{
    Grant, OperationId,
    fence::{Operation, RecordedResult, Rejection, Verdict},
    sabotage,
};
use fencepost_receiver::{AdvanceError, Seen, WriteError, adapter::log_rejection};
use fencepost_sql::sqlite::{FIRST_SOUND_VERSION, fault_of_version};
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, TransactionState};

use crate::{
    entered::{Entered, Entry},
    transaction::{self, Claim, Failure, Plan, Step, unavailable},
};

/// The receiver inside a SQLite database, used through the caller's own connections.
///
/// It holds nothing but the greatest mutation counter seen, so one value serves every connection to one database, and a
/// clone shares what was seen. Use another value for another database.
///
/// Every method takes the write lock (`BEGIN IMMEDIATE`) before it reads the fence, and waits for it as long as the
/// connection's busy timeout says. An acknowledged raise is as durable as the connection's `synchronous` setting makes a
/// commit: `FULL` for one that has to survive a power failure.
#[derive(Clone, Debug, Default)]
pub struct SqliteReceiver {
    seen: Seen,
}

impl SqliteReceiver {
    /// A receiver of which nothing was seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A receiver of which the caller has seen a counter before: one that is smaller now was copied back, and closes.
    #[must_use]
    pub fn with_seen(seen: Seen) -> Self {
        Self { seen }
    }

    /// The greatest mutation counter seen so far.
    #[must_use]
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Runs `mutation` under the grant as the effect of `operation`, at most once: a retry, by whichever owner, gets the
    /// recorded result as [`Verdict::Replayed`] and runs nothing.
    ///
    /// The mutation has the whole transaction; it must not end it. Rows of guarded tables are open to it where their
    /// domain is the grant's.
    ///
    /// # Errors
    /// When no verdict was reached; see [`WriteError`] for what may be repeated. After `Unknown`, call again with the
    /// same operation.
    pub fn write<E>(
        &self,
        connection: &mut Connection,
        grant: &Grant,
        operation: &Operation,
        mutation: impl FnOnce(&Transaction<'_>) -> Result<RecordedResult, E>,
    ) -> Result<Verdict<RecordedResult>, WriteError<E>> {
        self.write_all(connection, [grant], operation, mutation)
    }

    /// The same over several domains: under all of the grants or none of them, in one transaction. The set of domains
    /// belongs to the operation, so the same id over another set is a conflict wherever the sets meet.
    ///
    /// # Errors
    /// As for [`write`](Self::write); invalid without a grant or with two for one domain.
    pub fn write_all<'a, E>(
        &self,
        connection: &mut Connection,
        grants: impl IntoIterator<Item = &'a Grant>,
        operation: &Operation,
        mutation: impl FnOnce(&Transaction<'_>) -> Result<RecordedResult, E>,
    ) -> Result<Verdict<RecordedResult>, WriteError<E>> {
        let claim = Claim::new(grants, Some(operation))?;
        let record = |tx: &Connection, result: &RecordedResult| transaction::record(tx, &claim, result);
        self.apply(connection, &claim, mutation, record, |result| result)
    }

    /// Runs `mutation` under the grant without an operation: a retry is a second effect, so a lost answer cannot be
    /// settled by asking again.
    ///
    /// # Errors
    /// When no verdict was reached.
    pub fn mutate<T, E>(
        &self,
        connection: &mut Connection,
        grant: &Grant,
        mutation: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Verdict<T>, WriteError<E>> {
        self.mutate_all(connection, [grant], mutation)
    }

    /// The same over several domains.
    ///
    /// # Errors
    /// When no verdict was reached; invalid without a grant or with two for one domain.
    pub fn mutate_all<'a, T, E>(
        &self,
        connection: &mut Connection,
        grants: impl IntoIterator<Item = &'a Grant>,
        mutation: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Verdict<T>, WriteError<E>> {
        let claim = Claim::new(grants, None)?;
        let nothing = |_: RecordedResult| unreachable!("nothing is replayed without an operation");
        self.apply(connection, &claim, mutation, |_, _| Ok(()), nothing)
    }

    /// Raises the fence to the grant's token and then reads in the same transaction: what is read stays true for later
    /// writes under this grant, unless its owner changes. Guarded tables are not open to the reader.
    ///
    /// # Errors
    /// When no verdict was reached. Repeating it is safe.
    pub fn read<T, E>(
        &self,
        connection: &mut Connection,
        grant: &Grant,
        reader: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Verdict<T>, WriteError<E>> {
        let claim = Claim::new([grant], None)?;
        let tx = begin(connection).map_err(foreign)?;
        let plan = self.plan(&tx, &claim).map_err(foreign)?;
        match plan.step {
            Step::Reject(rejection) => {
                refused(&claim, &rejection);
                Ok(Verdict::Rejected(rejection))
            }
            Step::Apply { raises } | Step::Replay { raises } => {
                let raises = if sabotage::active("read_raises_nothing") { Vec::new() } else { raises };
                transaction::raise(&tx, &claim, &raises).map_err(lost)?;
                if !raises.is_empty() {
                    transaction::raise_counter(&tx).map_err(lost)?;
                }
                let read = reader(&tx).map_err(WriteError::Mutation)?;
                if tx.is_autocommit() {
                    return Err(WriteError::Misused("the reader ended the transaction that it was given"));
                }
                commit(tx, None).map_err(foreign)?;
                self.seen.note(plan.counter + u64::from(!raises.is_empty()));
                Ok(Verdict::Applied(read))
            }
        }
    }

    /// Raises the fence of the grant's domain to its token, durably, before it answers. An equal token is `Applied`.
    ///
    /// # Errors
    /// When no verdict was reached. Repeating it is safe.
    pub fn advance(&self, connection: &mut Connection, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        if sabotage::active("no_advance") {
            return Ok(Verdict::Applied(()));
        }
        Ok(self.read(connection, grant, |_| Ok(()))?)
    }

    /// Enters the grant's domain in the caller's own transaction, which has to hold the write lock already: begin it with
    /// `transaction_with_behavior(TransactionBehavior::Immediate)`.
    ///
    /// Finish it with [`Entered::record`] (with an operation) or [`Entered::finish`] (without) before the commit; an
    /// operation that was entered and not finished makes the commit fail. While a domain is entered no other can be:
    /// several belong into one [`enter_all`](Self::enter_all).
    ///
    /// # Errors
    /// When no verdict was reached. Nothing was changed; the transaction can go on.
    pub fn enter<'t>(
        &self,
        tx: &'t Transaction<'_>,
        grant: &Grant,
        operation: Option<&Operation>,
    ) -> Result<Entry<'t>, Failure> {
        self.enter_all(tx, [grant], operation)
    }

    /// The same for several domains.
    ///
    /// # Errors
    /// As for [`enter`](Self::enter).
    pub fn enter_all<'t, 'a>(
        &self,
        tx: &'t Transaction<'_>,
        grants: impl IntoIterator<Item = &'a Grant>,
        operation: Option<&Operation>,
    ) -> Result<Entry<'t>, Failure> {
        let claim = Claim::new(grants, operation)?;
        prepare(tx)?;
        match tx.transaction_state(Some("main")).map_err(unavailable)? {
            TransactionState::Write => {}
            _ => {
                return Err(WriteError::Misused(
                    "the transaction does not hold the write lock, and taking it later can fail whatever the busy \
                     timeout: begin an immediate transaction (TransactionBehavior::Immediate)",
                ));
            }
        }
        let plan = transaction::plan(tx, &claim, self.seen.greatest())?;
        if plan.entries > 0 {
            return Err(WriteError::Misused(
                "a domain is entered already: finish it first, or enter all domains at once; one that an earlier \
                 transaction left open is closed by any write, read or advance outside of this transaction",
            ));
        }
        match plan.step {
            Step::Reject(rejection) => {
                refused(&claim, &rejection);
                Ok(Entry::Rejected(rejection))
            }
            Step::Replay { raises } => {
                let result = transaction::recorded_result(tx, &claim)?;
                if !raises.is_empty() {
                    transaction::raise(tx, &claim, &raises).map_err(unavailable)?;
                    transaction::raise_counter(tx).map_err(unavailable)?;
                }
                Ok(Entry::Replayed(result))
            }
            Step::Apply { raises } => {
                transaction::raise(tx, &claim, &raises).map_err(unavailable)?;
                transaction::enter(tx, &claim, plan.counter).map_err(unavailable)?;
                Ok(Entry::Entered(Entered::new(tx, &claim, plan.counter)))
            }
        }
    }

    /// Decides in a transaction that has just begun. Where a domain was left open, it is another one by then.
    fn plan(&self, tx: &Transaction<'_>, claim: &Claim<'_>) -> Result<Plan, Failure> {
        loop {
            let plan = transaction::plan(tx, claim, self.seen.greatest())?;
            if plan.entries == 0 {
                return Ok(plan);
            }
            // Nothing is entered in a transaction that has just begun, so this was left open by one that has ended. It is
            // closed by a commit of its own: what comes next may be rolled back, or need no commit.
            transaction::raise_counter(tx)
                .and_then(|()| tx.execute_batch("COMMIT; BEGIN IMMEDIATE"))
                .map_err(unavailable)?;
            self.seen.note(plan.counter + 1);
        }
    }

    fn apply<T, E>(
        &self,
        connection: &mut Connection,
        claim: &Claim<'_>,
        mutation: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
        record: impl FnOnce(&Connection, &T) -> rusqlite::Result<()>,
        replayed: impl FnOnce(RecordedResult) -> T,
    ) -> Result<Verdict<T>, WriteError<E>> {
        let outside = check_outside(connection, claim, &self.seen);
        let tx = begin(connection).map_err(foreign)?;
        let mut plan = self.plan(&tx, claim).map_err(foreign)?;
        if let (Some(Step::Apply { .. }), Step::Reject(_)) = (outside, &plan.step) {
            plan.step = Step::Apply { raises: Vec::new() };
        }
        match plan.step {
            Step::Reject(rejection) => {
                refused(claim, &rejection);
                Ok(Verdict::Rejected(rejection))
            }
            Step::Replay { raises } => {
                let result = transaction::recorded_result(&tx, claim).map_err(foreign)?;
                if !raises.is_empty() {
                    transaction::raise(&tx, claim, &raises).map_err(lost)?;
                    transaction::raise_counter(&tx).map_err(lost)?;
                    commit(tx, None).map_err(foreign)?;
                    self.seen.note(plan.counter + 1);
                }
                Ok(Verdict::Replayed(replayed(result)))
            }
            Step::Apply { raises } => {
                transaction::raise(&tx, claim, &raises).map_err(lost)?;
                transaction::enter(&tx, claim, plan.counter).map_err(lost)?;
                let result = mutation(&tx).map_err(WriteError::Mutation)?;
                if tx.is_autocommit() {
                    drop(tx);
                    return Err(ended_by_the_mutation(connection, claim));
                }
                record(&tx, &result).map_err(lost)?;
                if !transaction::leave(&tx, plan.counter, claim.grants.len()).map_err(lost)? {
                    return Err(WriteError::Misused(
                        "the mutation changed the table of entries, which is not for it to change",
                    ));
                }
                commit(tx, claim.operation.as_ref().map(|operation| &operation.id)).map_err(foreign)?;
                self.seen.note(plan.counter + 1);
                Ok(Verdict::Applied(result))
            }
        }
    }
}

/// Says a rejection once for each domain that it kept from being changed.
fn refused(claim: &Claim<'_>, rejection: &Rejection) {
    claim.grants.iter().for_each(|grant| log_rejection(grant, claim.operation.as_ref(), rejection));
}

/// The storage failed before the commit: nothing can have happened.
fn lost<E>(error: rusqlite::Error) -> WriteError<E> {
    WriteError::Unavailable(error.into())
}

fn foreign<E>(failure: Failure) -> WriteError<E> {
    failure.map_mutation(|never| match never {})
}

/// What has to hold of a connection before its fence is read.
fn prepare(connection: &Connection) -> Result<(), Failure> {
    static WARN_ONCE: Once = Once::new();
    WARN_ONCE.call_once(|| warn_of(version()));
    transaction::require_triggers(connection)
}

/// The SQLite that this program is linked with. No test can be linked with an old one, so one is told that it is.
fn version() -> i32 {
    if sabotage::active("old_sqlite") { FIRST_SOUND_VERSION - 1 } else { rusqlite::version_number() }
}

fn warn_of(version: i32) {
    if let Some(fault) = fault_of_version(version) {
        tracing::warn!(target: "fencepost::sqlite", version = rusqlite::version(), fault, "use SQLite 3.51.3 or later");
    }
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Failure> {
    prepare(connection)?;
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)
}

/// Commits, and tells a commit that did not happen from one whose answer was lost.
fn commit(tx: Transaction<'_>, operation: Option<&OperationId>) -> Result<(), Failure> {
    let Err(error) = tx.prepare_cached("COMMIT").and_then(|mut commit| commit.execute([])) else { return Ok(()) };
    // Readers that hold up a commit in a rollback journal leave the transaction as it was, a full disk and a refusing
    // commit hook undo it; all of them before anything is durable.
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull | ErrorCode::ConstraintViolation,
        ) => {
            drop(tx);
            Err(unavailable(error))
        }
        _ => Err(WriteError::Unknown { operation: operation.cloned(), source: error.into() }),
    }
}

/// A mutation that commits by itself leaves its entry behind, which would open the tables to everybody.
fn ended_by_the_mutation<E>(connection: &mut Connection, claim: &Claim<'_>) -> WriteError<E> {
    let swept = begin(connection).and_then(|tx| {
        transaction::raise_counter(&tx).map_err(unavailable)?;
        commit(tx, None)
    });
    let source = match swept {
        Ok(()) => "the mutation ended the transaction that it was given".into(),
        Err(error) => {
            format!("the mutation ended the transaction that it was given, and its entry is still there: {error}")
                .into()
        }
    };
    WriteError::Unknown { operation: claim.operation.as_ref().map(|operation| operation.id.clone()), source }
}

/// The defect "check outside the transaction": what was decided before the lock was taken counts after it.
fn check_outside(connection: &Connection, claim: &Claim<'_>, seen: &Seen) -> Option<Step> {
    if !sabotage::active("check_outside_transaction") {
        return None;
    }
    let plan = transaction::plan(connection, claim, seen.greatest()).ok()?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    Some(plan.step)
}
