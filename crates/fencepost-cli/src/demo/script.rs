//! What happens in the demo, as data: who does what in which order, and what the design promises that it gets. Nothing
//! here runs anything.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::promise::Promise;

/// A worker process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Actor {
    A,
    B,
    C,
}

impl Actor {
    pub(super) const ALL: [Self; 3] = [Self::A, Self::B, Self::C];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether acquiring includes raising the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fenced {
    OnFirstWrite,
    OnAcquire,
}

/// What a write makes of the amount in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// This amount.
    To(i64),
    /// The stored amount and this, computed in the database.
    By(i64),
    /// The amount that the worker has read earlier, and one: a read-modify-write across transactions.
    ReadingPlusOne,
}

/// One part of an act: one row of the table, and so one domain.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The row's key.
    pub(super) item: &'static str,
    /// Its amount at the start.
    pub(super) amount: i64,
    pub(super) fenced: Fenced,
    pub(super) ttl_ms: u64,
    /// One sentence on what is about to be seen.
    pub(super) tells: &'static str,
    pub(super) steps: Vec<Step>,
}

impl Scene {
    /// Whether anybody acquires anything in it.
    pub(super) fn has_leases(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Acquire(_)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) number: u8,
    pub(super) title: &'static str,
    pub(super) scenes: Vec<Scene>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Acquires, waiting for as long as somebody else holds the lease.
    Acquire(Actor),
    /// Gives the lease back.
    Release(Actor),
    /// Reads the amount and keeps it in mind.
    Read(Actor),
    /// The worker's own last look at its lease before it goes on.
    Look(Actor),
    /// Stops the whole process.
    Pause(Actor),
    /// Lets it go on exactly where it was.
    Continue(Actor),
    Write {
        by: Actor,
        change: Change,
        /// The operation's id; a fresh one where there is none.
        operation: Option<&'static str>,
        check: Check,
    },
    /// A write whose answer never reaches the worker.
    WriteUnheard { by: Actor, change: Change, operation: &'static str },
    /// The second write arrives while the first one's transaction is open, and waits for it.
    WriteDuring { first: (Actor, Change, Check), second: (Actor, Change, Check) },
    /// A statement from a program that knows nothing of Fencepost.
    PlainSql { sql: &'static str, check: Check },
    /// Notes every byte of the database file.
    Remember,
    /// Compares every byte of the database file with what was noted.
    Untouched(Check),
    /// The amount in the row at the end.
    Amount(Check),
    /// How many writes were `Applied` beyond those that the amount shows.
    LostUpdates(Check),
    /// Blocks every thread of the worker's async runtime for longer than the TTL, while another asks for the lease.
    Block { blocked: Actor, asks: Actor, ms: u64, ask_after_ms: u64, refused: Check, held: Check },
}

/// A promise, with the words that name it in the table at the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) claim: &'static str,
    pub(super) promise: Promise,
}

/// Of every grant.
pub(super) const GREATER_TOKEN: Check = check("each new owner's token is greater", Promise::Granted);
/// Of every worker that goes on after another has got its domain.
pub(super) const KNOWS_ITS_LOSS: Check = check("a worker that wakes up knows its loss", Promise::LeaseLost);

const fn check(claim: &'static str, promise: Promise) -> Check {
    Check { claim, promise }
}

fn write(by: Actor, change: Change, check: Check) -> Step {
    Step::Write { by, change, operation: None, check }
}

fn operate(by: Actor, operation: &'static str, change: Change, check: Check) -> Step {
    Step::Write { by, change, operation: Some(operation), check }
}

/// How long leases last where a worker is to be paused past the end of one.
const TTL_MS: u64 = 1_000;
/// How long they last where one has to survive, with room for a busy machine.
const ROOMY_TTL_MS: u64 = 2_000;

pub(super) fn acts() -> Vec<Act> {
    vec![late_write(), gap_before_the_first_write(), same_operation_again(), forgotten_token(), counter()]
}

use Actor::{A, B, C};
use Change::{By, ReadingPlusOne, To};

fn late_write() -> Act {
    let steps = vec![
        Step::Acquire(A),
        Step::Read(A),
        Step::Look(A),
        Step::Pause(A),
        Step::Acquire(B),
        write(B, To(80), check("B writes under its greater token", Promise::Applied)),
        Step::Remember,
        Step::Continue(A),
        write(A, To(90), check("A's delayed write", Promise::Stale { fenced_by: B })),
        Step::Untouched(check("the database file after it", Promise::Untouched)),
    ];
    let tells = "A has checked its lease and is about to write when its process is stopped for longer than the lease \
                 lasts. B takes over and writes. Then A goes on where it was.";
    let scene = Scene { item: "apples", amount: 100, fenced: Fenced::OnAcquire, ttl_ms: TTL_MS, tells, steps };
    Act { number: 1, title: "A write that comes too late is refused", scenes: vec![scene] }
}

fn gap_before_the_first_write() -> Act {
    let first_write = vec![
        Step::Acquire(A),
        Step::Pause(A),
        Step::Acquire(B),
        Step::Continue(A),
        write(A, To(90), check("no fence on acquire: A's write before B's first", Promise::Applied)),
        Step::WriteDuring {
            first: (B, To(80), check("no fence on acquire: B's first write", Promise::Applied)),
            second: (
                A,
                To(91),
                check("no fence on acquire: A's write during B's first", Promise::Stale { fenced_by: B }),
            ),
        },
    ];
    let acquire = vec![
        Step::Acquire(A),
        Step::Pause(A),
        Step::Acquire(B),
        Step::Continue(A),
        write(A, To(90), check("fence on acquire: A's write before B's first", Promise::Stale { fenced_by: B })),
        write(B, To(80), check("fence on acquire: B's first write", Promise::Applied)),
    ];
    let scenes = vec![
        Scene {
            item: "pears",
            amount: 100,
            fenced: Fenced::OnFirstWrite,
            ttl_ms: TTL_MS,
            tells: "FencedOnFirstWrite: older tokens are dead once the new owner has written, and no sooner. A's late \
                    write still lands before that; the next one comes while B is writing, and waits for the verdict.",
            steps: first_write,
        },
        Scene {
            item: "plums",
            amount: 100,
            fenced: Fenced::OnAcquire,
            ttl_ms: TTL_MS,
            tells: "FencedOnAcquire: the fence is raised before B gets the lease, so the same late write is refused \
                    although B has written nothing yet.",
            steps: acquire,
        },
    ];
    Act { number: 2, title: "The gap before the new owner's first write", scenes }
}

fn same_operation_again() -> Act {
    let steps = vec![
        Step::Acquire(A),
        Step::WriteUnheard { by: A, change: By(-3), operation: "sale-17" },
        operate(A, "sale-17", By(-3), check("retry by the same owner", Promise::Replayed("97"))),
        operate(A, "sale-18", By(-2), check("another operation, equal token", Promise::Applied)),
        Step::WriteUnheard { by: A, change: By(-1), operation: "sale-19" },
        Step::Pause(A),
        Step::Acquire(B),
        operate(B, "sale-19", By(-1), check("retry by the next owner", Promise::Replayed("94"))),
        operate(B, "sale-19", By(-50), check("the same id for another request", Promise::OperationConflict)),
        Step::Continue(A),
        operate(A, "sale-19", By(-1), check("retry under a token that is stale by now", Promise::Replayed("94"))),
        operate(A, "sale-20", By(-1), check("a new operation under that token", Promise::Stale { fenced_by: B })),
        Step::Amount(check("three sales, each counted once", Promise::Amount(94))),
    ];
    let tells = "A's answers get lost, so nobody knows whether the sales were booked. Whoever retries under the same \
                 operation id gets the recorded result, and nothing is booked twice.";
    let scene = Scene { item: "quinces", amount: 100, fenced: Fenced::OnAcquire, ttl_ms: TTL_MS, tells, steps };
    Act { number: 3, title: "The same operation again, after a lost answer", scenes: vec![scene] }
}

fn forgotten_token() -> Act {
    const CLAIM: &str = "plain SQL without a token";
    let refused = |sql| Step::PlainSql { sql, check: check(CLAIM, Promise::RefusedByGuard) };
    let steps = vec![
        Step::Remember,
        refused("UPDATE stock SET amount = 0 WHERE item = 'apples'"),
        refused("INSERT INTO stock VALUES ('kiwis', 1, 'me')"),
        refused("REPLACE INTO stock VALUES ('pears', 1, 'me')"),
        refused("DELETE FROM stock WHERE item = 'plums'"),
        Step::Untouched(check("the database file after it", Promise::Untouched)),
    ];
    let tells = "A script that has never heard of Fencepost opens the database and writes. The table's guard is in \
                 the database itself, so it refuses.";
    let scene = Scene { item: "apples", amount: 100, fenced: Fenced::OnAcquire, ttl_ms: TTL_MS, tells, steps };
    Act { number: 4, title: "A write that forgot its token", scenes: vec![scene] }
}

fn counter() -> Act {
    let readings = |late: [Step; 3]| {
        let mut steps =
            vec![Step::Acquire(A), Step::Read(A), Step::Pause(A), Step::Acquire(B), Step::Read(B), Step::Pause(B)];
        let [a, b, c] = late;
        steps.extend([Step::Acquire(C), Step::Read(C), Step::Continue(A), a, Step::Continue(B), b, c]);
        steps
    };

    let applied = check("no fence on acquire: writes from old readings", Promise::Applied);
    let mut without = readings([A, B, C].map(|by| write(by, ReadingPlusOne, applied)));
    without.push(Step::LostUpdates(check("no fence on acquire: updates lost", Promise::LostUpdates(2))));

    let stale = check("fence on acquire: writes from old readings", Promise::Stale { fenced_by: C });
    let fresh = check("fence on acquire: writes from fresh readings", Promise::Applied);
    let late = [(A, stale), (B, stale), (C, fresh)].map(|(by, check)| write(by, ReadingPlusOne, check));
    let mut with = readings(late);
    with.push(Step::Release(C));
    for again in [A, B] {
        with.extend([
            Step::Acquire(again),
            Step::Read(again),
            write(again, ReadingPlusOne, fresh),
            Step::Release(again),
        ]);
    }
    with.push(Step::LostUpdates(check("fence on acquire: updates lost", Promise::LostUpdates(0))));

    let blocked = vec![
        Step::Acquire(A),
        Step::Block {
            blocked: A,
            asks: B,
            ms: ROOMY_TTL_MS + 1_000,
            ask_after_ms: ROOMY_TTL_MS + 600,
            refused: check("B asks while A's runtime is blocked", Promise::HeldBy(A)),
            held: check("A's lease after it", Promise::StillHeld),
        },
        write(A, To(80), check("A's write after it", Promise::Applied)),
    ];
    let scenes = vec![
        Scene {
            item: "figs",
            amount: 0,
            fenced: Fenced::OnFirstWrite,
            ttl_ms: TTL_MS,
            tells: "Three workers count one box each: read, add one, write back, and a pause between reading and \
                    writing. Without a fence on acquire each writes what it computed from an old reading.",
            steps: without,
        },
        Scene {
            item: "dates",
            amount: 0,
            fenced: Fenced::OnAcquire,
            ttl_ms: TTL_MS,
            tells: "The same three workers, the same pauses, with a fence on acquire. Who comes back with an old \
                    reading is refused, and counts its box anew.",
            steps: with,
        },
        Scene {
            item: "melons",
            amount: 100,
            fenced: Fenced::OnAcquire,
            ttl_ms: ROOMY_TTL_MS,
            tells: "Not every pause costs a lease: A's program blocks its async runtime for longer than the lease \
                    lasts, and the session's own thread keeps it alive.",
            steps: blocked,
        },
    ];
    Act { number: 5, title: "A counter under pauses", scenes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_paused_only_once_it_holds_the_lease_and_always_goes_on() {
        for scene in acts().into_iter().flat_map(|act| act.scenes) {
            let mut paused: Vec<Actor> = Vec::new();
            let mut holder = None;
            for step in &scene.steps {
                match step {
                    Step::Acquire(actor) => holder = Some(*actor),
                    Step::Pause(actor) => {
                        assert_eq!(holder, Some(*actor), "{}", scene.item);
                        paused.push(*actor);
                    }
                    Step::Continue(actor) => {
                        assert_ne!(holder, Some(*actor), "{}: somebody else holds the lease by now", scene.item);
                        paused.retain(|other| other != actor);
                    }
                    Step::Write { by, .. } => assert!(!paused.contains(by), "{}", scene.item),
                    _ => {}
                }
            }
            assert!(paused.is_empty(), "{}", scene.item);
        }
    }

    #[test]
    fn every_row_of_the_table_has_one_amount_to_begin_with() {
        let mut rows: Vec<(&str, i64)> =
            acts().iter().flat_map(|act| &act.scenes).map(|scene| (scene.item, scene.amount)).collect();
        rows.sort_unstable();
        rows.dedup();
        let items = rows.len();
        rows.dedup_by_key(|(item, _)| *item);
        assert_eq!(rows.len(), items);
    }
}
