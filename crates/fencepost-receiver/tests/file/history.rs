//! Random histories on a real file, step by step beside the reference in memory: the same verdicts, and in the end the
//! same fence.

use fencepost_core::{
    Domain, Grant, Invalid, Token,
    fence::{Fingerprint, LiveLease, Operation, Presented, RecordedResult, Register, Rejection, Verdict},
};
use fencepost_receiver::{WriteError, file::Content};
use proptest::prelude::*;

use crate::support::{Guarded, domain, grant, in_memory, issuer, operation, seed};

#[derive(Clone, Debug)]
enum Step {
    Write { token: u64, operation: Option<(u8, Option<u64>)>, other_domain: bool },
    Conflict { token: u64, id: u8 },
    Advance { token: u64 },
    Read { token: u64 },
    Collect { next: u64, live: Option<u64>, horizon: Option<u64> },
    Recover { next: u64, live: Option<u64> },
}

fn token(number: u64) -> Token {
    Token::from_integer(number).unwrap()
}

fn granted(number: u64) -> Grant {
    Grant { token: token(number), ..grant("0.1") }
}

fn leases(live: Option<u64>) -> Vec<LiveLease> {
    live.map(|number| LiveLease { domain: domain("f"), token: token(number) }).into_iter().collect()
}

fn step() -> impl Strategy<Value = Step> {
    let number = 1_u64..12;
    let operation = prop::option::weighted(0.7, (0_u8..4, prop::option::of(1_u64..12)));
    prop_oneof![
        8 => (number.clone(), operation, prop::bool::weighted(0.05))
            .prop_map(|(token, operation, other_domain)| Step::Write { token, operation, other_domain }),
        1 => (number.clone(), 0_u8..4).prop_map(|(token, id)| Step::Conflict { token, id }),
        2 => number.clone().prop_map(|token| Step::Advance { token }),
        1 => number.clone().prop_map(|token| Step::Read { token }),
        1 => (number.clone(), prop::option::of(number.clone()), prop::option::of(number.clone()))
            .prop_map(|(next, live, horizon)| Step::Collect { next, live, horizon }),
        1 => (number.clone(), prop::option::of(number)).prop_map(|(next, live)| Step::Recover { next, live }),
    ]
}

/// Applied and replayed with the digest of what was written; the reference records the digest's bytes.
fn ours(answer: Result<Verdict<RecordedResult>, Invalid>) -> Option<Verdict<Vec<u8>>> {
    Some(answer.ok()?.map(RecordedResult::into_bytes))
}

fn theirs(answer: Result<Verdict<Content>, WriteError<std::io::Error>>) -> Option<Verdict<Vec<u8>>> {
    match answer {
        Ok(verdict) => Some(verdict.map(|content| content.digest.as_bytes().to_vec())),
        Err(WriteError::Invalid(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

struct Pair {
    register: Register,
    file: Guarded,
    domain: Domain,
    /// What a write writes: another content each time, so that a replay shows whose answer it is.
    step: u64,
    holds: Vec<u8>,
}

impl Pair {
    fn new() -> Self {
        let register = Register::new(issuer(), seed().known_epoch);
        Self { register, file: Guarded::under(&in_memory()), domain: domain("f"), step: 0, holds: b"old".to_vec() }
    }

    fn apply(&mut self, step: &Step) {
        self.step += 1;
        match step {
            Step::Write { token: number, operation: chosen, other_domain } => {
                let operation = chosen.map(|(id, born)| {
                    let id = format!("op{id}");
                    Operation { born: born.map(token), ..operation(&id, id.as_bytes()) }
                });
                let mut grant = granted(*number);
                if *other_domain {
                    grant.domain = domain("g");
                }
                self.write(&grant, operation.as_ref(), step);
            }
            Step::Conflict { token, id } => {
                let operation = operation(&format!("op{id}"), b"something else");
                self.write(&granted(*token), Some(&operation), step);
            }
            Step::Advance { token } => {
                let grant = granted(*token);
                let expected = self.register.advance(&self.domain, &Presented::grant(&grant)).unwrap();
                assert_eq!(self.file.receiver.advance_blocking(&grant).unwrap(), expected, "{step:?}");
            }
            Step::Read { token } => {
                let grant = granted(*token);
                let expected = self.register.advance(&self.domain, &Presented::grant(&grant)).unwrap();
                let found = self.file.receiver.read(&grant).unwrap();
                assert_eq!(found.map(|file| assert!(file.is_some())), expected, "{step:?}");
            }
            Step::Collect { next, live, horizon } => {
                let live = leases(*live);
                let _ = self.register.collect(token(*next), &live);
                if let Some(horizon) = horizon {
                    self.register.collect_operations(token(*horizon));
                }
                self.file.receiver.collect(token(*next), &live, horizon.map(token)).unwrap();
            }
            Step::Recover { next, live } => {
                let live = leases(*live);
                self.register.recover(seed().known_epoch, token(*next), &live);
                let noted = self.file.receiver.incarnation().unwrap();
                let seed = seed().with_snapshot(token(*next), live);
                self.file.receiver.recover(&self.domain, &noted, &seed).unwrap();
            }
        }
    }

    fn write(&mut self, grant: &Grant, operation: Option<&Operation>, step: &Step) {
        let bytes = format!("step {}", self.step).into_bytes();
        let presented = Presented { operation, ..Presented::grant(grant) };
        let digest = RecordedResult::new(*Fingerprint::of(&bytes).as_bytes()).unwrap();
        let expected = self.register.write(&self.domain, &presented, || Ok::<_, Invalid>(digest));
        let expected = ours(expected);
        let found = theirs(self.file.receiver.write(grant, operation, &bytes[..]));
        assert_eq!(found, expected, "{step:?}");
        if matches!(found, Some(Verdict::Applied(_))) {
            self.holds = bytes;
        }
        if let Some(verdict) = found.filter(|_| grant.domain != self.domain) {
            assert_eq!(verdict.rejection(), Some(&Rejection::WrongDomain));
        }
    }

    fn assert_alike(&self) {
        let status = self.file.receiver.status().unwrap();
        let standing = self.register.standing(&self.domain, None);
        assert_eq!(status.fence, standing.fence);
        assert_eq!(status.unfenced_floor, standing.unfenced_floor);
        assert_eq!(status.horizon, standing.horizon);
        assert_eq!(status.known_epoch, standing.known_epoch);
        assert_eq!(std::fs::read(self.file.path()).unwrap(), self.holds);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Mutants: `>` for `>=` where records are kept by the horizon; a replay that never raises.
    #[test]
    fn every_history_reads_the_same_from_the_file_and_from_the_reference(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.apply(step);
            pair.assert_alike();
        }
    }
}
