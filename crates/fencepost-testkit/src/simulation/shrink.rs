//! Looking for a seed that fails, and making its story small.

use super::{Fault, Run, Settings, simulate};

/// A seed that broke a promise, with the smallest settings under which it still does.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed; after shrinking it may be a neighbour of the one that was run first.
    pub seed: u64,
    /// The settings, shrunk.
    pub settings: Settings,
    /// What happened under them.
    pub run: Run,
}

impl std::fmt::Display for Failure {
    /// The whole story: under which settings, what happened, and what must not have.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {} under {:?}", self.seed, self.settings)?;
        self.run.trace.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if self.run.lost_updates > 0 {
            writeln!(f, "{} updates were lost", self.run.lost_updates)?;
        }
        for violation in &self.run.violations {
            writeln!(f, "{}: {}", violation.invariant, violation.what)?;
            violation.story.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
        }
        Ok(())
    }
}

/// Runs seeds until one breaks a promise.
#[must_use]
pub fn find(seeds: impl IntoIterator<Item = u64>, settings: &Settings) -> Option<Failure> {
    let (seed, run) =
        seeds.into_iter().map(|seed| (seed, simulate(seed, settings))).find(|(_, run)| run.is_broken(settings))?;
    Some(Failure { seed, settings: settings.clone(), run })
}

/// How many seeds are tried under smaller settings: under other settings one seed has another story.
const NEIGHBOURS: u64 = 8;

impl Failure {
    /// Leaves out time, kinds of faults and workers as long as the seed, or one near it, still fails.
    #[must_use]
    pub fn shrink(mut self) -> Self {
        loop {
            let smaller = candidates(&self.settings).into_iter().find_map(|settings| {
                (0..NEIGHBOURS).map(|step| self.seed.wrapping_add(step)).find_map(|seed| {
                    let run = simulate(seed, &settings);
                    run.is_broken(&settings).then(|| Self { seed, settings: settings.clone(), run })
                })
            });
            match smaller {
                Some(smaller) => self = smaller,
                None => return self,
            }
        }
    }
}

fn candidates(settings: &Settings) -> Vec<Settings> {
    let mut candidates = Vec::new();
    // The shorter a run, the faster is all that follows.
    for (numerator, denominator) in [(1, 2), (9, 10)] {
        let length_ms = settings.length_ms * numerator / denominator;
        if length_ms >= settings.ttl_ms {
            candidates.push(Settings { length_ms, ..settings.clone() });
        }
    }
    for fault in Fault::ALL.iter().filter(|fault| settings.faults.contains(fault)) {
        let mut fewer = settings.clone();
        fewer.faults.remove(fault);
        candidates.push(fewer);
    }
    for workers in (2..settings.workers).rev() {
        candidates.push(Settings { workers, ..settings.clone() });
    }
    if settings.domains > 1 {
        candidates.push(Settings { domains: settings.domains - 1, ..settings.clone() });
    }
    candidates
}
