//! Random scripts from a seed, each step compared with the reference; the first that fails is shrunk to a short story.

use fencepost_core::{Domain, Epoch, OperationId, Token, fence::LiveLease};

use super::{
    Ability,
    stage::{Failure, Teller, Told, domain},
    step::{Ask, Claim, Named, Step, Write},
};

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Few tokens, so that they meet; the last one's epoch is unknown until it is told.
fn tokens() -> Vec<Token> {
    let token = |(epoch, sequence): (u64, u64)| Token::from_integer((epoch << 43) | sequence).expect("a token");
    [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 9), (0, 10), (1, 1), (1, 2), (1, 3), (2, 1)].map(token).to_vec()
}

struct Writer<'a> {
    random: Random,
    teller: &'a Teller<'a>,
    domains: Vec<Domain>,
    written: usize,
}

impl Writer<'_> {
    fn claim(&mut self) -> Claim {
        let mut claim = Claim::new(&self.random.of(&self.domains), self.random.of(&tokens()));
        if self.random.chance(3) {
            claim.issuer = "other";
        }
        claim
    }

    fn named(&mut self, presented: Token) -> Option<Named> {
        if !self.teller.has(Ability::OperationRecords) || self.random.chance(40) {
            return None;
        }
        let id = OperationId::new(self.random.of(&["x", "y", "z"])).expect("an id");
        let request = if self.random.chance(15) { "another" } else { "the usual" }.to_owned();
        let born = self.random.chance(60).then(|| {
            let born = self.random.of(&tokens());
            if self.random.chance(10) { born } else { born.min(presented) }
        });
        Some(Named { id, request, born })
    }

    fn write(&mut self) -> Ask {
        let claim = self.claim();
        self.written += 1;
        let value = format!("v{}", self.written).into_bytes();
        // What a receiver answers that finds a wrong domain only in the mutation depends on what else is in its way.
        if self.random.chance(3) {
            let target = claim.domain.clone();
            return Ask::Write(Write {
                claim: Claim { domain: domain("other"), ..claim },
                target,
                operation: None,
                value,
            });
        }
        let operation = self.named(claim.token);
        Ask::Write(Write { target: claim.domain.clone(), claim, operation, value })
    }

    fn ask(&mut self) -> Ask {
        loop {
            let (ability, ask) = match self.random.below(100) {
                0..60 => return self.write(),
                60..75 => return Ask::Advance(self.claim()),
                75..80 => return Ask::Reopen,
                80..88 => (Ability::FencedRead, Ask::Read(self.claim())),
                88..96 => (Ability::Collection, self.collect()),
                _ => {
                    let epoch = Epoch::new(self.random.below(3) as u32).expect("an epoch");
                    (Ability::Telling, Ask::Tell { epoch, floor: self.random.of(&tokens()) })
                }
            };
            if self.teller.has(ability) {
                return ask;
            }
        }
    }

    fn collect(&mut self) -> Ask {
        let mut live = Vec::new();
        for domain in self.domains.clone() {
            if self.random.chance(50) {
                live.push(LiveLease { domain, token: self.random.of(&tokens()) });
            }
        }
        let records = self.teller.has(Ability::OperationRecords);
        let horizon = (records && self.random.chance(40)).then(|| self.random.of(&tokens()));
        Ask::Collect { next: self.random.of(&tokens()), live, horizon }
    }
}

fn script(teller: &Teller<'_>, seed: u64) -> (Vec<Domain>, Vec<Step>) {
    let names: &[&str] = if teller.has(Ability::SeveralDomains) { &["d", "e"] } else { &["d"] };
    let domains: Vec<Domain> = names.iter().map(|name| domain(name)).collect();
    let mut writer = Writer { random: Random(seed), teller, domains: domains.clone(), written: 0 };
    let steps = (0..teller.settings.steps)
        .map(|_| {
            let handle = usize::from(writer.random.chance(30));
            Step { handle, ask: writer.ask() }
        })
        .collect();
    (domains, steps)
}

fn play(teller: &Teller<'_>, domains: &[Domain], steps: &[Step]) -> Told {
    let mut stage = teller.stage_with(Epoch::new(1).expect("an epoch"), domains)?;
    steps.iter().try_for_each(|step| stage.tell(step).map(|_| ()))
}

/// How many shorter scripts are tried at most.
const ATTEMPTS: usize = 400;

/// Leaves out steps as long as what is left still fails.
fn shrink(teller: &Teller<'_>, domains: &[Domain], mut steps: Vec<Step>, mut failure: Failure) -> Failure {
    // What comes after the step that failed was never asked.
    steps.truncate(failure.story.len());
    let mut attempts = 0;
    let mut length = steps.len() / 2;
    while length > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at + length <= steps.len() && attempts < ATTEMPTS {
            let mut fewer = steps.clone();
            fewer.drain(at..at + length);
            attempts += 1;
            match play(teller, domains, &fewer) {
                Ok(()) => at += length,
                Err(still) => {
                    fewer.truncate(still.story.len());
                    (steps, failure, shorter) = (fewer, still, true);
                }
            }
        }
        if !shorter || length > 1 {
            length = if length == 1 { 0 } else { length / 2 };
        }
    }
    failure
}

/// Mutants: each that shows in a sequence of calls.
pub(crate) fn random_scripts_are_answered_as_the_reference_answers_them(teller: &Teller<'_>) -> Told {
    for nth in 0..teller.settings.scripts as u64 {
        let seed = teller.settings.seed.wrapping_add(nth);
        let (domains, steps) = script(teller, seed);
        if let Err(failure) = play(teller, &domains, &steps) {
            let mut failure = shrink(teller, &domains, steps, failure);
            failure.broke = format!("{} (found by seed {seed})", failure.broke);
            return Err(failure);
        }
    }
    Ok(())
}
