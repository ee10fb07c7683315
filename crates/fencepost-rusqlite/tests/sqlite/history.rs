//! Random histories on a real database, step by step beside the reference in memory: the same verdicts, and in the end the
//! same fences.

use fencepost_core::{
    Domain, Invalid, Token,
    fence::{LiveLease, Operation, Presented, RecordedResult, Register, Verdict},
};
use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, WriteError, collect, fences, guard};
use proptest::prelude::*;
use rusqlite::Connection;

use crate::support::{domain, grant, issuer, operation, result, seed};

#[derive(Clone, Debug)]
enum Step {
    Write { domain: usize, token: u64, operation: Option<(u8, Option<u64>)>, fails: bool },
    Advance { domain: usize, token: u64 },
    Read { domain: usize, token: u64 },
    Collect { next: u64, live: Vec<(usize, u64)> },
    CollectOperations { next: u64, horizon: u64 },
}

const DOMAINS: [&str; 3] = ["a", "b", "c"];

fn token(number: u64) -> Token {
    Token::from_integer(number).unwrap()
}

fn step() -> impl Strategy<Value = Step> {
    let (domain, number) = (0..DOMAINS.len(), 1_u64..12);
    let operation = prop::option::weighted(0.7, (0_u8..4, prop::option::of(1_u64..12)));
    prop_oneof![
        8 => (domain.clone(), number.clone(), operation, prop::bool::weighted(0.1))
            .prop_map(|(domain, token, operation, fails)| Step::Write { domain, token, operation, fails }),
        2 => (domain.clone(), number.clone()).prop_map(|(domain, token)| Step::Advance { domain, token }),
        1 => (domain.clone(), number.clone()).prop_map(|(domain, token)| Step::Read { domain, token }),
        1 => (number.clone(), prop::collection::vec((domain, number.clone()), 0..3))
            .prop_map(|(next, live)| Step::Collect { next, live }),
        1 => (number.clone(), number).prop_map(|(next, horizon)| Step::CollectOperations { next, horizon }),
    ]
}

#[derive(Debug, PartialEq)]
enum Answer {
    Verdict(Verdict<Vec<u8>>),
    Failed,
    Invalid,
}

impl From<Invalid> for Answer {
    fn from(_: Invalid) -> Self {
        Self::Invalid
    }
}

fn answer(outcome: Result<Verdict<RecordedResult>, WriteError<&str>>) -> Answer {
    match outcome {
        Ok(verdict) => Answer::Verdict(verdict.map(RecordedResult::into_bytes)),
        Err(WriteError::Invalid(_)) => Answer::Invalid,
        Err(WriteError::Mutation(_)) => Answer::Failed,
        Err(other) => panic!("{other}"),
    }
}

/// A history of one receiver, told to both.
struct Pair {
    register: Register,
    connection: Connection,
    receiver: SqliteReceiver,
    /// What a mutation answers: another one each time, so that a replay shows whose answer it is.
    step: u64,
    /// How many mutations have taken effect, by domain.
    effects: [i64; 3],
}

impl Pair {
    fn new() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        let schema = "CREATE TABLE t (owner TEXT, n INTEGER); INSERT INTO t VALUES ('a', 0), ('b', 0), ('c', 0)";
        connection.execute_batch(schema).unwrap();
        guard(&mut connection, "t", &DomainExpression::new("owner").unwrap(), Mode::Enforce, Some(&seed())).unwrap();
        let register = Register::new(issuer(), seed().known_epoch);
        Self { register, connection, receiver: SqliteReceiver::new(), step: 0, effects: [0; 3] }
    }

    fn apply(&mut self, step: &Step) -> (Answer, Answer) {
        self.step += 1;
        match step {
            Step::Write { domain, token: number, operation: chosen, fails } => {
                let operation =
                    chosen.map(|(id, born)| Operation { born: born.map(token), ..operation(&format!("op{id}")) });
                self.write(*domain, *number, operation.as_ref(), *fails)
            }
            Step::Advance { domain: at, token: number } => {
                let mut grant = grant(DOMAINS[*at], "0.1");
                grant.token = token(*number);
                let expected = self.register.advance(&grant.domain, &Presented::grant(&grant)).unwrap();
                let found = self.receiver.advance(&mut self.connection, &grant).unwrap();
                (Answer::Verdict(expected.map(|()| Vec::new())), Answer::Verdict(found.map(|()| Vec::new())))
            }
            Step::Read { domain: at, token: number } => {
                let mut grant = grant(DOMAINS[*at], "0.1");
                grant.token = token(*number);
                let expected = self.register.advance(&grant.domain, &Presented::grant(&grant)).unwrap();
                let found = self.receiver.read(&mut self.connection, &grant, |_| Ok::<_, &str>(())).unwrap();
                (Answer::Verdict(expected.map(|()| Vec::new())), Answer::Verdict(found.map(|()| Vec::new())))
            }
            Step::Collect { next, live } => {
                let live: Vec<LiveLease> = live
                    .iter()
                    .map(|(at, number)| LiveLease { domain: domain(DOMAINS[*at]), token: token(*number) })
                    .collect();
                let _ = self.register.collect(token(*next), &live);
                collect(&mut self.connection, token(*next), &live, None).unwrap();
                (Answer::Failed, Answer::Failed)
            }
            Step::CollectOperations { next, horizon } => {
                let _ = self.register.collect(token(*next), &[]);
                self.register.collect_operations(token(*horizon));
                collect(&mut self.connection, token(*next), &[], Some(token(*horizon))).unwrap();
                (Answer::Failed, Answer::Failed)
            }
        }
    }

    fn write(&mut self, at: usize, number: u64, operation: Option<&Operation>, fails: bool) -> (Answer, Answer) {
        let mut grant = grant(DOMAINS[at], "0.1");
        grant.token = token(number);
        let bytes = self.step.to_be_bytes().to_vec();
        let presented = Presented { operation, ..Presented::grant(&grant) };
        let ours = || if fails { Err(Answer::Failed) } else { Ok(result(&bytes)) };
        let expected = self.register.write(&grant.domain, &presented, ours);
        let expected =
            expected.map_or_else(|failed| failed, |verdict| Answer::Verdict(verdict.map(RecordedResult::into_bytes)));
        let theirs = |tx: &rusqlite::Transaction<'_>| {
            tx.execute("UPDATE t SET n = n + 1 WHERE owner = ?1", [DOMAINS[at]]).map_err(|_| "refused")?;
            if fails { Err("failed") } else { Ok(result(&bytes)) }
        };
        let found = match operation {
            Some(operation) => self.receiver.write(&mut self.connection, &grant, operation, theirs),
            None => self.receiver.mutate(&mut self.connection, &grant, theirs),
        };
        if matches!(found, Ok(Verdict::Applied(_))) {
            self.effects[at] += 1;
        }
        (expected, answer(found))
    }

    fn assert_alike(&self) {
        let ours: Vec<(Domain, Token)> =
            DOMAINS.iter().filter_map(|name| Some((domain(name), self.register.fence(&domain(name))?))).collect();
        let theirs: Vec<(Domain, Token)> =
            fences(&self.connection, None, 9).unwrap().into_iter().map(|fence| (fence.domain, fence.token)).collect();
        assert_eq!(ours, theirs);
        for (name, expected) in DOMAINS.iter().zip(self.effects) {
            let sql = "SELECT n FROM t WHERE owner = ?1";
            let found: i64 = self.connection.query_row(sql, [name], |row| row.get(0)).unwrap();
            assert_eq!(found, expected, "{name}: one effect for each Applied");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_reads_the_same_from_the_database_and_from_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            let (expected, found) = pair.apply(step);
            prop_assert_eq!(expected, found, "{:?}", step);
            pair.assert_alike();
        }
    }
}
