//! The SQL receivers' locks: transactions of several statements, interleaved at every statement.
//!
//! A database of few lines: row locks in shared and exclusive mode, a table lock, statements that see what was
//! committed before they started, changes that nobody sees before the commit. Each transaction is a short program; a
//! statement that meets a lock waits. What is asked is whether the *locks* are right, so the decision itself is the
//! comparison of a token with what was read.

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    small::Seen,
    study::{Bounds, Expected, Study},
};

/// One rule of the lock protocol taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Fence and floor are read by one statement, which waits for the row lock with its snapshot taken.
    OneStatement,
    /// Writers with an equal token lock something that the raiser does not lock.
    AnotherLock,
    /// The fence is read from the snapshot that the transaction began with.
    OldSnapshot,
    /// Recovery raises the floor without waiting for guarded transactions in flight.
    RecoveryDoesNotWait,
    /// The shared lock does not exclude an update that leaves the key alone.
    KeyShare,
    /// A shared lock is taken first and turned into an exclusive one.
    Upgrade,
    /// The check and the mutation are two transactions.
    CheckOutside,
    /// A write over two domains locks them in the order in which it was called.
    AnyOrder,
    /// A fence row that the second look finds is not locked.
    SecondLookUnlocked,
    /// The collector locks the fence rows before the floor row.
    FloorLast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// Writes to the domains under a token.
    Write(&'static [usize], u8),
    /// Collects fences below the bound, which becomes the unfenced floor.
    Collect(u8),
    /// The same under the table lock, as a recovery takes it.
    CollectAlone(u8),
    /// Raises the floor.
    Recover(u8),
}

#[derive(Clone, Debug)]
pub(super) struct Locking {
    fences: [Option<u8>; 2],
    jobs: Vec<Job>,
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct State {
    committed: Tables,
    transactions: Vec<Transaction>,
    /// The greatest token whose write is committed in each domain, and the floor that recovery has told.
    written: [u8; 2],
    told: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tables {
    fences: [Option<u8>; 2],
    unfenced: u8,
    floor: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Shared,
    Exclusive,
}

/// What can be locked: the fence row of a domain, the floor row, an advisory lock beside the rows, the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lockable {
    Fence(usize),
    Floor,
    Advisory,
    Table,
}

#[derive(Clone, Debug, Hash)]
struct Transaction {
    at: Step,
    /// Which of its domains it is at.
    domain: usize,
    locks: Vec<(Lockable, Mode)>,
    snapshot: Option<Tables>,
    raises: [bool; 2],
    done: bool,
    refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Begin,
    Hint,
    /// A locking statement takes a weak lock on the table first, which a table lock waits for.
    Enter(Mode),
    Lock(Mode),
    Read,
    LockFloor,
    ReadAgain,
    /// Makes the missing row: the unique index makes a second inserter wait for the first.
    Insert,
    Mutate,
    Commit,
}

impl Model for Locking {
    type State = State;
    type Action = usize;

    fn start(&self) -> State {
        let begin = Transaction {
            at: Step::Begin,
            domain: 0,
            locks: Vec::new(),
            snapshot: None,
            raises: [false; 2],
            done: false,
            refused: false,
        };
        let written = self.fences.map(|fence| fence.unwrap_or(0));
        State {
            committed: Tables { fences: self.fences, unfenced: 0, floor: 0 },
            transactions: vec![begin; self.jobs.len()],
            written,
            told: 0,
        }
    }

    fn key(&self, state: &State, key: &mut Key) {
        hashed(state, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<usize>) {
        actions.extend((0..self.jobs.len()).filter(|at| !state.transactions[*at].done));
    }

    fn step(&self, state: &mut State, at: &usize, tale: &mut Tale) -> bool {
        let moved = self.advance(state, *at, tale);
        if moved {
            let unfinished: Vec<usize> = (0..self.jobs.len()).filter(|at| !state.transactions[*at].done).collect();
            let mut silent = Tale::default();
            let stuck = unfinished.iter().all(|at| !self.advance(&mut state.clone(), *at, &mut silent));
            tale.expect(Property::Progress, unfinished.is_empty() || !stuck, || {
                let waiting: Vec<String> = unfinished.iter().map(|at| self.name(*at)).collect();
                format!("{} wait for each other", waiting.join(" and "))
            });
        }
        moved
    }
}

impl Locking {
    fn name(&self, at: usize) -> String {
        match self.jobs[at] {
            Job::Write(_, token) => format!("writer {} (token {token})", at + 1),
            Job::Collect(_) | Job::CollectAlone(_) => "the collector".to_owned(),
            Job::Recover(_) => "the recovery".to_owned(),
        }
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// One statement of one transaction, or nothing if it has to wait.
    fn advance(&self, state: &mut State, at: usize, tale: &mut Tale) -> bool {
        match self.jobs[at] {
            Job::Write(domains, token) => self.write(state, at, domains, token, tale),
            Job::Collect(bound) if self.has(Mistake::FloorLast) => {
                let order = [Lockable::Table, Lockable::Fence(0), Lockable::Fence(1), Lockable::Floor];
                self.collect(state, at, bound, &order, tale)
            }
            Job::Collect(bound) => {
                let order = [Lockable::Table, Lockable::Floor, Lockable::Fence(0), Lockable::Fence(1)];
                self.collect(state, at, bound, &order, tale)
            }
            Job::CollectAlone(bound) => self.collect(state, at, bound, &[Lockable::Table], tale),
            Job::Recover(floor) => self.recover(state, at, floor, tale),
        }
    }

    /// Takes a lock, or has to wait. A row that does not exist cannot be locked, and nothing is taken.
    fn lock(&self, state: &mut State, at: usize, what: Lockable, mode: Mode) -> bool {
        match what {
            Lockable::Fence(domain) if state.committed.fences[domain].is_none() => true,
            Lockable::Fence(_) | Lockable::Floor | Lockable::Advisory | Lockable::Table => {
                self.take(state, at, what, mode)
            }
        }
    }

    fn take(&self, state: &mut State, at: usize, what: Lockable, mode: Mode) -> bool {
        let excludes = |(held, held_mode): &(Lockable, Mode)| {
            let key_share = self.has(Mistake::KeyShare)
                && matches!(what, Lockable::Fence(_))
                && (*held_mode == Mode::Shared || mode == Mode::Shared);
            *held == what && (*held_mode == Mode::Exclusive || mode == Mode::Exclusive) && !key_share
        };
        let others = state.transactions.iter().enumerate().filter(|(other, _)| *other != at);
        if others.into_iter().any(|(_, other)| other.locks.iter().any(excludes)) {
            return false;
        }
        state.transactions[at].locks.push((what, mode));
        true
    }

    fn write(&self, state: &mut State, at: usize, domains: &[usize], token: u8, tale: &mut Tale) -> bool {
        let name = || self.name(at);
        let order: Vec<usize> = if self.has(Mistake::AnyOrder) {
            domains.to_vec()
        } else {
            let mut sorted = domains.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let domain = order[state.transactions[at].domain];
        let committed = state.committed;
        match state.transactions[at].at {
            Step::Begin => {
                if self.has(Mistake::OldSnapshot) {
                    state.transactions[at].snapshot = Some(committed);
                }
                tale.say(|| format!("{} begins", name()));
                state.transactions[at].at = Step::Hint;
            }
            Step::Hint => {
                let hint = committed.fences[domain];
                let mode = match hint {
                    _ if self.has(Mistake::Upgrade) => Mode::Shared,
                    Some(fence) if fence >= token => Mode::Shared,
                    Some(_) | None => Mode::Exclusive,
                };
                if self.has(Mistake::OneStatement) {
                    state.transactions[at].snapshot = Some(committed);
                }
                tale.say(|| format!("{} sees fence {} and will lock {mode:?}", name(), hint.unwrap_or(0)));
                state.transactions[at].at = Step::Enter(mode);
            }
            Step::Enter(mode) => {
                if !self.lock(state, at, Lockable::Table, Mode::Shared) {
                    return false;
                }
                tale.say(|| format!("{} enters the fence table", name()));
                state.transactions[at].at = Step::Lock(mode);
            }
            Step::Lock(mode) => {
                let beside = self.has(Mistake::AnotherLock) && mode == Mode::Shared || self.has(Mistake::OldSnapshot);
                let what = if beside { Lockable::Advisory } else { Lockable::Fence(domain) };
                if !self.lock(state, at, what, mode) {
                    return false;
                }
                let no_row = what == Lockable::Fence(domain) && committed.fences[domain].is_none();
                tale.say(|| {
                    let has = if no_row { "finds no row" } else { "has it" };
                    format!("{} asks for the {mode:?} lock on {} and {has}", name(), told(what))
                });
                let again = no_row && !self.has(Mistake::OneStatement);
                state.transactions[at].at = if again { Step::LockFloor } else { Step::Read };
            }
            Step::Read => self.read(state, at, domain, token, tale),
            Step::LockFloor => {
                if !self.lock(state, at, Lockable::Floor, Mode::Shared) {
                    return false;
                }
                tale.say(|| format!("{} locks the floor row", name()));
                state.transactions[at].at = Step::ReadAgain;
            }
            Step::ReadAgain if committed.fences[domain].is_some() && !self.has(Mistake::SecondLookUnlocked) => {
                tale.say(|| format!("{} finds that there is a row by now, and starts over to lock it", name()));
                state.transactions[at].at = Step::Hint;
            }
            Step::ReadAgain => {
                self.decide(state, at, domain, token, committed, tale);
                let transaction = &mut state.transactions[at];
                if !transaction.done && committed.fences[domain].is_none() {
                    transaction.at = Step::Insert;
                }
            }
            Step::Insert => {
                if !self.take(state, at, Lockable::Fence(domain), Mode::Exclusive) {
                    return false;
                }
                let come = committed.fences[domain].is_some();
                tale.say(|| {
                    let does = if come { "finds that there is one by now, and looks again" } else { "makes the row" };
                    format!("{} {does}", name())
                });
                state.transactions[at].at = if come { Step::Hint } else { Step::Mutate };
            }
            Step::Mutate => {
                let last = state.transactions[at].domain + 1 == order.len();
                tale.say(|| format!("{} changes d{domain}", name()));
                if last {
                    state.transactions[at].at = Step::Commit;
                } else {
                    state.transactions[at].domain += 1;
                    state.transactions[at].at = Step::Hint;
                }
            }
            Step::Commit => self.commit_write(state, at, &order, token, tale),
        }
        true
    }

    fn read(&self, state: &mut State, at: usize, domain: usize, token: u8, tale: &mut Tale) {
        let committed = state.committed;
        let old = state.transactions[at].snapshot;
        if self.has(Mistake::OldSnapshot) {
            return self.decide(state, at, domain, token, old.unwrap_or(committed), tale);
        }
        if self.has(Mistake::OneStatement) {
            // The locked row is seen as it is by now, and is gone if it was deleted; the rest is of the snapshot.
            let seen = Tables { fences: committed.fences, ..old.unwrap_or(committed) };
            return self.decide(state, at, domain, token, seen, tale);
        }
        self.decide(state, at, domain, token, committed, tale);
    }

    fn decide(&self, state: &mut State, at: usize, domain: usize, token: u8, seen: Tables, tale: &mut Tale) {
        let seen = Seen { floor: seen.floor, unfenced: seen.unfenced, fence: seen.fences[domain] };
        let accepted = seen.accepts(token);
        let transaction = &mut state.transactions[at];
        tale.say(|| {
            let does = if accepted.is_some() { "is accepted" } else { "is stale" };
            format!("{} reads, at least {}: it {does}", self.name(at), seen.least())
        });
        let Some(raise) = accepted else {
            (transaction.done, transaction.refused) = (true, true);
            transaction.locks.clear();
            return;
        };
        transaction.raises[domain] = raise;
        transaction.at = Step::Mutate;
        if self.has(Mistake::Upgrade) && transaction.raises[domain] && !holds_exclusively(transaction, domain) {
            transaction.at = Step::Lock(Mode::Exclusive);
        }
        if self.has(Mistake::CheckOutside) {
            transaction.locks.clear();
        }
    }

    fn commit_write(&self, state: &mut State, at: usize, domains: &[usize], token: u8, tale: &mut Tale) {
        tale.say(|| format!("{} commits", self.name(at)));
        for domain in domains {
            let written = state.written[*domain];
            tale.expect(Property::I3, token >= written, || {
                format!("{token} was committed in d{domain} after {written} had been")
            });
            state.written[*domain] = written.max(token);
            if state.transactions[at].raises[*domain] {
                state.committed.fences[*domain] = Some(token);
            }
        }
        let told = state.told;
        tale.expect(Property::I11, token >= told, || format!("{token} was committed after floor {told} had been told"));
        state.transactions[at].done = true;
        state.transactions[at].locks.clear();
    }

    fn collect(&self, state: &mut State, at: usize, bound: u8, order: &[Lockable], tale: &mut Tale) -> bool {
        let next = state.transactions[at].domain;
        if let Some(what) = order.get(next) {
            let weak = *what == Lockable::Table && order.len() > 1;
            if !self.lock(state, at, *what, if weak { Mode::Shared } else { Mode::Exclusive }) {
                return false;
            }
            tale.say(|| format!("the collector asks for {} and has it", told(*what)));
            state.transactions[at].domain += 1;
            return true;
        }
        let tables = &mut state.committed;
        tables.unfenced = tables.unfenced.max(bound);
        for fence in &mut tables.fences {
            *fence = fence.filter(|fence| *fence >= bound);
        }
        tale.say(|| format!("the collector commits: unfenced floor {bound}, fences below it are gone"));
        state.transactions[at].done = true;
        state.transactions[at].locks.clear();
        true
    }

    fn recover(&self, state: &mut State, at: usize, floor: u8, tale: &mut Tale) -> bool {
        if state.transactions[at].at == Step::Begin {
            if !self.has(Mistake::RecoveryDoesNotWait) && !self.lock(state, at, Lockable::Table, Mode::Exclusive) {
                return false;
            }
            tale.say(|| "the recovery locks the fence table".to_owned());
            state.transactions[at].at = Step::Commit;
            return true;
        }
        state.committed.floor = state.committed.floor.max(floor);
        state.told = state.committed.floor;
        tale.say(|| format!("the recovery commits: floor {floor}"));
        state.transactions[at].done = true;
        state.transactions[at].locks.clear();
        true
    }
}

fn holds_exclusively(transaction: &Transaction, domain: usize) -> bool {
    transaction.locks.contains(&(Lockable::Fence(domain), Mode::Exclusive))
}

fn told(what: Lockable) -> String {
    match what {
        Lockable::Fence(domain) => format!("the fence row of d{domain}"),
        Lockable::Floor => "the floor row".to_owned(),
        Lockable::Advisory => "an advisory lock".to_owned(),
        Lockable::Table => "the fence table".to_owned(),
    }
}

const D0: &[usize] = &[0];
const BOTH: &[usize] = &[0, 1];
const BACKWARDS: &[usize] = &[1, 0];

/// Fences at the start, transactions, the rule taken away, what breaks, and the name of it.
type Mutant = ([Option<u8>; 2], &'static [Job], Mistake, Property, (&'static str, &'static str));

/// The lock protocol, and each of its rules taken away.
pub(super) fn studies() -> Vec<Study> {
    let holds = |name, fences: [Option<u8>; 2], jobs: &'static [Job], more: &'static [Job]| {
        Study::new(Expected::Holds, ("", name), move |bounds| {
            let jobs = match bounds {
                Bounds::Standard => jobs.to_vec(),
                Bounds::Deep => [jobs, more].concat(),
            };
            Locking { fences, jobs, mistake: None }
        })
    };
    let mut studies = vec![
        holds(
            "locks: writers, raisers, a collector and a recovery",
            [Some(5), Some(1)],
            &[Job::Write(D0, 5), Job::Write(D0, 9), Job::Collect(10), Job::Recover(8)],
            &[Job::Write(D0, 7), Job::Write(BOTH, 9)],
        ),
        holds(
            "locks: no fence yet",
            [None, None],
            &[Job::Write(D0, 5), Job::Write(D0, 9), Job::Collect(6)],
            &[Job::Recover(7), Job::Write(D0, 8)],
        ),
        holds(
            "locks: several domains in any order",
            [Some(1), Some(1)],
            &[Job::Write(BOTH, 2), Job::Write(BACKWARDS, 3), Job::Write(D0, 4)],
            &[Job::Collect(5), Job::Recover(2)],
        ),
    ];
    studies.push(holds(
        "locks: a collector under the table lock, several domains",
        [Some(1), None],
        &[Job::Write(BOTH, 2), Job::Write(D0, 1), Job::CollectAlone(2)],
        &[Job::Write(BACKWARDS, 3), Job::Recover(2)],
    ));
    studies.push(Study::new(
        Expected::Limit(Property::Progress),
        ("", "locks: several domains of which one has no fence, and a collector"),
        |_| Locking { fences: [Some(1), None], jobs: vec![Job::Write(BOTH, 2), Job::Collect(2)], mistake: None },
    ));
    let mutants: [Mutant; 10] = [
        (
            [Some(9), None],
            &[Job::Write(D0, 5), Job::Collect(10)],
            Mistake::OneStatement,
            Property::I3,
            ("Q1", "floor and fence are read in one statement"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 5), Job::Write(D0, 9)],
            Mistake::AnotherLock,
            Property::I3,
            ("Q2", "equal tokens lock beside the row"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 5), Job::Write(D0, 9)],
            Mistake::OldSnapshot,
            Property::I3,
            ("Q3", "the fence is read from a snapshot older than the lock"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 5), Job::Recover(8)],
            Mistake::RecoveryDoesNotWait,
            Property::I11,
            ("Q5", "recovery does not wait for writes in flight"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 5), Job::Write(D0, 9)],
            Mistake::KeyShare,
            Property::I3,
            ("", "a lock that an advance commits past"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 8), Job::Write(D0, 9)],
            Mistake::Upgrade,
            Property::Progress,
            ("", "a shared lock is upgraded"),
        ),
        (
            [Some(5), None],
            &[Job::Write(D0, 5), Job::Write(D0, 9)],
            Mistake::CheckOutside,
            Property::I3,
            ("", "the check is outside the transaction"),
        ),
        (
            [None, None],
            &[Job::Write(D0, 5), Job::Write(D0, 9), Job::Collect(6)],
            Mistake::FloorLast,
            Property::Progress,
            ("", "the collector locks the floor row last"),
        ),
        (
            [None, None],
            &[Job::Write(D0, 5), Job::Write(D0, 8), Job::Write(D0, 9)],
            Mistake::SecondLookUnlocked,
            Property::I3,
            ("", "a fence found on the second look is not locked"),
        ),
        (
            [Some(1), Some(1)],
            &[Job::Write(BOTH, 2), Job::Write(BACKWARDS, 3)],
            Mistake::AnyOrder,
            Property::Progress,
            ("", "domains are locked in the caller's order"),
        ),
    ];
    for (fences, jobs, mistake, property, name) in mutants {
        let mutant = Locking { fences, jobs: jobs.to_vec(), mistake: Some(mistake) };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant.clone()));
    }
    studies
}
