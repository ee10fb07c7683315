//! The SQLite receiver: one table, one row for each domain.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fencepost_core::{
    Domain, Epoch, Grant, Token,
    fence::{LiveLease, Operation, RecordedResult, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, Seen, WriteError};
use fencepost_rusqlite::{
    DomainExpression, Mode, SqliteReceiver, collect, fence_of, guard, incarnation, recover, status,
};
use fencepost_testkit::conformance::{self, Ability, Adapter, Handle, Records, Written};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tempfile::TempDir;

pub(crate) struct Sqlite {
    folder: TempDir,
    made: AtomicUsize,
    /// What this program has seen of each database: the only witness of one that was copied back.
    seen: Mutex<BTreeMap<String, Seen>>,
    /// The mutant whose effect and operation record are two transactions.
    two_transactions: bool,
    /// What a careless operator does to each new database.
    meddling: &'static str,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir_in(crate::in_memory()).unwrap(),
            made: AtomicUsize::default(),
            seen: Mutex::default(),
            two_transactions: false,
            meddling: "",
        }
    }

    pub(crate) fn in_two_transactions() -> Self {
        Self { two_transactions: true, ..Self::new() }
    }

    pub(crate) fn meddled_with(meddling: &'static str) -> Self {
        Self { meddling, ..Self::new() }
    }
}

fn connect(place: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(place)?;
    connection.busy_timeout(Duration::from_secs(20))?;
    Ok(connection)
}

fn by_domain() -> DomainExpression {
    DomainExpression::new("domain").unwrap()
}

fn copy_of(place: &str) -> PathBuf {
    Path::new(place).with_extension("copy")
}

const SET: &str = "INSERT INTO held VALUES (?1, ?2) ON CONFLICT (domain) DO UPDATE SET value = excluded.value";

/// Each is a way in which records go missing; the triggers that protect them do not stop who drops them first.
const LOSSES: [(&str, &str); 6] = [
    ("the row of a fence", "DROP TRIGGER fencepost_fence_stays; DELETE FROM fencepost_fence"),
    ("the table of fences", "DROP TABLE fencepost_fence"),
    ("the receiver's row", "DROP TRIGGER fencepost_receiver_stays; DELETE FROM fencepost_receiver"),
    ("the receiver's table", "DROP TABLE fencepost_receiver"),
    ("the table of operations", "DROP TABLE fencepost_operation"),
    (
        "every table of the receiver",
        "DROP TABLE fencepost_fence; DROP TABLE fencepost_receiver; DROP TABLE fencepost_operation;
         DROP TABLE fencepost_entry; DROP TABLE fencepost_guard; DROP TABLE fencepost_observation",
    ),
];

impl Adapter for Sqlite {
    fn name(&self) -> String {
        "sqlite:".to_owned()
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::Presentation, "its writes take a grant, which has a token and the contract safety"),
            (Ability::LostAnswer, "a commit inside one process has an answer; processes are killed instead"),
        ]
    }

    fn create(&self, seed: &ReceiverSeed, _: &[Domain]) -> Result<String, Cause> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let place = self.folder.path().join(format!("{number}.db")).to_string_lossy().into_owned();
        let mut connection = connect(&place)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch("CREATE TABLE held (domain TEXT PRIMARY KEY, value BLOB)")?;
        guard(&mut connection, "held", &by_domain(), Mode::Enforce, Some(seed))?;
        connection.execute_batch(self.meddling)?;
        Ok(place)
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        let seen = self.seen.lock().unwrap().entry(place.to_owned()).or_default().clone();
        let receiver = SqliteReceiver::with_seen(seen);
        Ok(Box::new(Open { connection: connect(place)?, receiver, two_transactions: self.two_transactions }))
    }

    fn write_without_token(&self, place: &str, domain: &Domain, value: &[u8]) -> Result<(), Cause> {
        connect(place)?.execute(SET, params![domain.as_str(), value])?;
        Ok(())
    }

    fn lose_records(&self, place: &str, way: usize) -> Result<Option<&'static str>, Cause> {
        let Some((what, sql)) = LOSSES.get(way) else { return Ok(None) };
        connect(place)?.execute_batch(sql)?;
        Ok(Some(what))
    }

    fn back_up(&self, place: &str) -> Result<(), Cause> {
        // The last connection has closed, so everything is in the file.
        fs::copy(place, copy_of(place))?;
        Ok(())
    }

    fn restore(&self, place: &str) -> Result<(), Cause> {
        // Into the same file, so that nothing but its counter tells it from the one that it was.
        fs::copy(copy_of(place), place)?;
        Ok(())
    }

    fn process(&self) -> Result<Command, Cause> {
        crate::this_binary(if self.two_transactions { "sqlite, two transactions" } else { "sqlite" })
    }
}

struct Open {
    connection: Connection,
    receiver: SqliteReceiver,
    two_transactions: bool,
}

fn set(tx: &Transaction<'_>, domain: &Domain, value: &[u8]) -> Result<(), Cause> {
    tx.execute(SET, params![domain.as_str(), value])?;
    Ok(())
}

fn result_of(value: &[u8]) -> Result<RecordedResult, Cause> {
    Ok(RecordedResult::new(value)?)
}

fn found(connection: &Connection, domain: &Domain) -> Result<Option<Vec<u8>>, Cause> {
    let sql = "SELECT value FROM held WHERE domain = ?1";
    Ok(connection.query_row(sql, [domain.as_str()], |row| row.get(0)).optional()?)
}

impl Open {
    fn write_and(
        &mut self,
        grants: &[Grant],
        targets: &[&Domain],
        operation: Option<&Operation>,
        value: &[u8],
        end: Result<(), &'static str>,
    ) -> Written {
        let mutation = |tx: &Transaction<'_>| -> Result<RecordedResult, Cause> {
            targets.iter().try_for_each(|target| set(tx, target, value))?;
            end?;
            result_of(value)
        };
        match operation {
            Some(operation) => {
                let verdict = self.receiver.write_all(&mut self.connection, grants, operation, mutation)?;
                Ok(verdict.map(RecordedResult::into_bytes))
            }
            None => {
                let verdict = self.receiver.mutate_all(&mut self.connection, grants, mutation)?;
                Ok(verdict.map(RecordedResult::into_bytes))
            }
        }
    }
}

impl Handle for Open {
    fn write(&mut self, target: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        if let (Some(operation), true) = (operation, self.two_transactions) {
            // The effect first and the record after it, which is right only as long as nobody dies between them.
            let verdict = self.receiver.write(&mut self.connection, grant, operation, |tx| {
                set(tx, target, value)?;
                tx.execute_batch("SELECT 1")?;
                Err::<RecordedResult, Cause>("seen as new".into())
            });
            if let Err(WriteError::Mutation(_)) = verdict {
                let _applied = self.write_and(std::slice::from_ref(grant), &[target], None, value, Ok(()))?;
                // bounded: a gap for the kill, in a mutant
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.write_and(std::slice::from_ref(grant), &[target], operation, value, Ok(()))
    }

    fn write_all(&mut self, grants: &[Grant], operation: Option<&Operation>, value: &[u8]) -> Written {
        let targets: Vec<&Domain> = grants.iter().map(|grant| &grant.domain).collect();
        self.write_and(grants, &targets, operation, value, Ok(()))
    }

    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.write_and(std::slice::from_ref(grant), &[&grant.domain], operation, value, Err("no"))
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        self.receiver.advance(&mut self.connection, grant)
    }

    fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        found(&self.connection, domain)
    }

    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        self.receiver.read(&mut self.connection, grant, |tx| found(tx, &grant.domain))
    }

    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        collect(&mut self.connection, next, live, horizon)?;
        Ok(())
    }

    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        let seed = ReceiverSeed::new(status(&self.connection)?.issuer, epoch).with_floor(floor);
        guard(&mut self.connection, "held", &by_domain(), Mode::Enforce, Some(&seed))?;
        Ok(())
    }

    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        let noted = incarnation(&self.connection)?;
        recover(&mut self.connection, &noted, seed, self.receiver.seen())?;
        Ok(())
    }

    fn records(&mut self, domain: &Domain) -> Result<Records, Cause> {
        let status = status(&self.connection)?;
        Ok(Records {
            condition: status.condition,
            known_epoch: status.known_epoch,
            floor: status.floor,
            unfenced_floor: status.unfenced_floor,
            fence: fence_of(&self.connection, domain)?,
            horizon: status.horizon,
        })
    }
}

#[test]
fn the_sqlite_receiver_conforms() {
    let report = conformance::run_with(&Sqlite::new(), &crate::settings());
    println!("{report}");
    report.must_pass();
}
