//! One script at several receivers: the same verdicts, the same value, the same records.
//!
//! All of them call the core's decision. What is compared is everything around it: what is read for it, raised, recorded,
//! collected and told. The triggers of a SQLite guard do not call it; they are its mirror in SQL.

mod database;
mod file;
mod reference;
mod script;
mod table;

use std::cell::RefCell;

use fencepost_core::{
    Epoch, Grant, Issuer, Token,
    fence::{Operation, RecordedResult, Verdict},
};
use fencepost_receiver::{ReceiverSeed, WriteError};
use fencepost_rusqlite::{Entry, Mode, SqliteReceiver, collect, fence_of, guard, incarnation, recover, status};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

pub(crate) use file::folder;
pub use file::{file, taken as taken_by_file};
use reference::{Answer, Effect, Reference, Undecided};
use script::{DOMAINS, Step, domain, steps};

thread_local! {
    static DATABASE: RefCell<Connection> =
        RefCell::new(database::guarded(&first_seed(&Issuer::new("fuzz").expect("a name"))));
}

/// A write at both, the same again under its operation, and an older one that is refused.
pub fn taken() {
    assert_eq!(played(&GOOD.concat()), [2, 0, 0], "the last write that counts");
}

/// Three writes to the first domain: under a token, under a greater one, and under the first again.
const GOOD: [[u8; 6]; 3] = [[5, 0, 65, 0, 0, 0], [2, 0, 66, 0, 0, 0], [5, 0, 65, 0, 0, 0]];

/// The memory receiver and SQLite with its triggers.
pub fn decision(bytes: &[u8]) {
    played(bytes);
}

/// The values that are left.
fn played(bytes: &[u8]) -> [i64; DOMAINS] {
    let issuer = Issuer::new("fuzz").expect("a name");
    DATABASE.with_borrow_mut(|connection| {
        database::begin_anew(connection);
        let mut sides = Sides::new(&issuer, connection);
        for step in steps(bytes, &issuer) {
            sides.take(&step);
            sides.compare_values(&step);
        }
        sides.compare_records();
        sides.values
    })
}

fn first_seed(issuer: &Issuer) -> ReceiverSeed {
    ReceiverSeed::new(issuer.clone(), Epoch::new(1).expect("an epoch"))
}

fn result(at: i64) -> RecordedResult {
    RecordedResult::new(at.to_string().into_bytes()).expect("a short result")
}

/// What a mutation comes to that may fail on purpose.
fn effect(step: &Step<'_>) -> Effect {
    if step.fails() { Err(Undecided::Mutation) } else { Ok(result(step.at)) }
}

struct Sides<'a> {
    issuer: Issuer,
    reference: Reference,
    receiver: SqliteReceiver,
    connection: &'a mut Connection,
    values: [i64; DOMAINS],
}

impl<'a> Sides<'a> {
    fn new(issuer: &Issuer, connection: &'a mut Connection) -> Self {
        let (reference, receiver) = (Reference::new(&first_seed(issuer)), SqliteReceiver::new());
        Self { issuer: issuer.clone(), reference, receiver, connection, values: [0; DOMAINS] }
    }

    fn take(&mut self, step: &Step<'_>) {
        match step.what % 16 {
            0 => {
                let grant = step.grant();
                let here = self.reference.memory().advance_now(&grant).map_err(drop);
                let there = self.receiver.advance(self.connection, &grant).map_err(drop);
                assert_eq!(here, there, "{step:?}");
            }
            1 => self.read(step),
            2..=4 => self.write(step, vec![step.grant()], Some(&step.operation())),
            5 => self.write(step, vec![step.grant()], None),
            6 => self.write(step, step.grants(), Some(&several(step))),
            7 => self.collect(step, None),
            8 => self.collect(step, Some(step.token())),
            9 => self.tell(step),
            10 => self.close(),
            11 => self.recover(step),
            12 => table::run(self.connection, step.statement(), [false; DOMAINS]),
            13 => self.enter(step, &[step.grant()], Some(&step.operation())),
            14 => self.enter(step, &step.grants(), Some(&several(step))),
            _ => self.enter(step, &[step.grant()], None),
        }
    }

    /// A fenced read: the verdict, and the value.
    fn read(&mut self, step: &Step<'_>) {
        let grant = step.grant();
        let here =
            self.reference.memory().advance_now(&grant).expect("a grant without an operation is no invalid input");
        let there = self.receiver.read(self.connection, &grant, |tx| value(tx, step.place()));
        let there = there.unwrap_or_else(|error| panic!("{step:?}: {error}"));
        assert_eq!(here.map(|()| self.values[step.place()]), there, "{step:?}");
    }

    fn write(&mut self, step: &Step<'_>, grants: Vec<Grant>, operation: Option<&Operation>) {
        let open = opened(&grants);
        let mutation = |tx: &Transaction<'_>| {
            change(tx, step, &grants)?;
            table::run(tx, step.statement(), open);
            if step.fails() { Err(rusqlite::Error::QueryReturnedNoRows) } else { Ok(result(step.at)) }
        };
        let there = match operation {
            Some(operation) => self.receiver.write_all(self.connection, &grants, operation, mutation),
            None => self.receiver.mutate_all(self.connection, &grants, mutation),
        };
        let here = self.reference.write(grants.clone(), operation, || effect(step));
        assert_eq!(here, answer(step, there), "{step:?}: {operation:?} under {grants:?}");
        self.note(step, &here, &grants);
    }

    /// The same in a transaction of the caller's own, which may be rolled back, and which may forget to finish.
    fn enter(&mut self, step: &Step<'_>, grants: &[Grant], operation: Option<&Operation>) {
        let saved = self.reference.saved();
        let tx =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).expect("nobody else is here");
        let mut fails = step.fails();
        let there = match self.receiver.enter_all(&tx, grants, operation) {
            Ok(Entry::Entered(entered)) => {
                change(&tx, step, grants).expect("the rows of domains that were entered are open");
                table::run(&tx, step.statement(), opened(grants));
                let finished = match operation {
                    _ if step.forgets() => {
                        drop(entered);
                        fails = true;
                        Ok(())
                    }
                    Some(_) => entered.record(&result(step.at)),
                    None => entered.finish(),
                };
                finished.unwrap_or_else(|error| panic!("{step:?}: {error}"));
                // Whoever has finished has closed the tables behind it.
                table::run(&tx, step.statement(), if step.forgets() { opened(grants) } else { [false; DOMAINS] });
                Ok(Verdict::Applied(result(step.at)))
            }
            Ok(Entry::Replayed(recorded)) => {
                table::run(&tx, step.statement(), [false; DOMAINS]);
                Ok(Verdict::Replayed(recorded))
            }
            Ok(Entry::Rejected(rejection)) => {
                table::run(&tx, step.statement(), [false; DOMAINS]);
                Ok(Verdict::Rejected(rejection))
            }
            Err(WriteError::Invalid(invalid)) => Err(Undecided::Invalid(invalid)),
            Err(error) => panic!("{step:?}: {error}"),
        };
        if step.fails() {
            drop(tx);
        } else {
            let committed = tx.commit();
            assert_eq!(committed.is_err(), fails, "{step:?}: what was entered and not finished is not committed");
        }
        let here = self.reference.write(grants.to_vec(), operation, || Ok(result(step.at)));
        assert_eq!(here, there, "{step:?}: {operation:?} under {grants:?}");
        if fails {
            self.reference.restore(saved);
        } else {
            self.note(step, &here, grants);
        }
    }

    fn note(&mut self, step: &Step<'_>, answer: &Answer, grants: &[Grant]) {
        if let Ok(Verdict::Applied(_)) = answer {
            let open = opened(grants);
            (0..DOMAINS).filter(|place| open[*place]).for_each(|place| self.values[place] = step.at);
        }
    }

    fn collect(&mut self, step: &Step<'_>, horizon: Option<Token>) {
        let (next, live) = (step.next(), step.live());
        let here = self.reference.memory().register().collect(next, &live);
        let there = collect(self.connection, next, &live, horizon);
        assert_eq!(matches!(here, Verdict::Rejected(_)), there.is_err(), "{step:?}: collection at {next}");
        if let (Ok(_), Some(horizon)) = (there, horizon) {
            self.reference.memory().register().collect_operations(horizon);
        }
    }

    /// A recovery of the coordinator tells the receiver its new epoch, and the least token that counts from now on.
    fn tell(&mut self, step: &Step<'_>) {
        let seed = ReceiverSeed::new(self.issuer.clone(), step.epoch()).with_floor(step.token());
        let told = guard(self.connection, "cell", &database::expression(), Mode::Enforce, Some(&seed));
        assert_eq!(told.is_err(), self.reference.is_closed, "{step:?}: {told:?}");
        if told.is_ok() {
            self.reference.memory().register().tell(seed.known_epoch, step.token());
        }
    }

    fn close(&mut self) {
        self.reference.close();
        self.connection
            .execute("UPDATE main.fencepost_receiver SET condition = 'by_operator' WHERE id = 1", [])
            .expect("a receiver has a condition");
    }

    /// A recovery of the receiver, which opens one that is closed.
    fn recover(&mut self, step: &Step<'_>) {
        let (next, live) = (step.next(), step.live());
        let seed = ReceiverSeed::new(self.issuer.clone(), step.epoch()).with_snapshot(next, live.clone());
        let noted = incarnation(self.connection).expect("an incarnation");
        recover(self.connection, &noted, &seed, self.receiver.seen())
            .expect("a receiver with its records is recovered");
        self.reference.memory().register().recover(seed.known_epoch, next, &live);
        self.reference.is_closed = false;
    }

    fn compare_values(&self, step: &Step<'_>) {
        for place in 0..DOMAINS {
            let stored = value(self.connection, place).expect("the row is there");
            assert_eq!(stored, self.values[place], "{step:?}: the value of d{place}");
        }
    }

    fn compare_records(&self) {
        let there = status(self.connection).expect("a receiver says how it stands");
        for place in 0..DOMAINS {
            let here = self.reference.standing(place);
            assert_eq!(here.condition, there.condition);
            assert_eq!(here.known_epoch, there.known_epoch);
            assert_eq!(here.floor, there.floor, "floor");
            assert_eq!(here.unfenced_floor, there.unfenced_floor, "unfenced floor");
            assert_eq!(here.horizon, there.horizon, "horizon");
            let fence = fence_of(self.connection, &domain(place)).expect("a fence or none");
            assert_eq!(here.fence, fence, "the fence of d{place}");
        }
    }
}

/// The operation of a write over several domains. Where their tokens differ it is born under the smallest: a record without
/// `born` goes by one token, and the reference has one for each domain.
fn several(step: &Step<'_>) -> Operation {
    let operation = step.operation();
    let (token, other) = (step.token(), step.other_token());
    if operation.born.is_none() && token != other { operation.born(token.min(other)) } else { operation }
}

fn opened(grants: &[Grant]) -> [bool; DOMAINS] {
    std::array::from_fn(|place| grants.iter().any(|grant| grant.domain == domain(place)))
}

fn change(tx: &Transaction<'_>, step: &Step<'_>, grants: &[Grant]) -> rusqlite::Result<()> {
    let mut update = tx.prepare_cached("UPDATE cell SET value = ?1 WHERE domain = ?2")?;
    grants.iter().try_for_each(|grant| update.execute(params![step.at, grant.domain.as_str()]).map(drop))
}

fn value(connection: &Connection, place: usize) -> rusqlite::Result<i64> {
    let mut read = connection.prepare_cached("SELECT value FROM cell WHERE domain = ?1")?;
    read.query_row([format!("d{place}")], |row| row.get(0))
}

fn answer(step: &Step<'_>, there: Result<Verdict<RecordedResult>, WriteError<rusqlite::Error>>) -> Answer {
    match there {
        Ok(verdict) => Ok(verdict),
        Err(WriteError::Invalid(invalid)) => Err(Undecided::Invalid(invalid)),
        Err(WriteError::Mutation(_)) if step.fails() => Err(Undecided::Mutation),
        Err(error) => panic!("{step:?}: {error}"),
    }
}
