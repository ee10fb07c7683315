use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::Tally;
use crate::history::{Action, History, Outcome, Report};

/// When older tokens stop working at the resource that a set is kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Discipline {
    /// Before the new owner reads: no acknowledged element may be lost.
    FencedOnAcquire,
    /// Once the new owner has written: a late write before that costs an element.
    FencedOnFirstWrite,
    /// Never: the lock alone.
    Unfenced,
}

/// An element whose write was acknowledged and that is not there in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The resource.
    pub resource: String,
    /// The domain.
    pub domain: String,
    /// The element.
    pub element: String,
}

/// What a run has come to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// The seed of the plan.
    pub seed: u64,
    /// What must not have happened, with the story that shows it.
    pub broken: Vec<String>,
    /// How many acknowledged elements were lost.
    pub lost: BTreeMap<String, u64>,
    /// How often the nemesis did what.
    pub deeds: Tally,
    /// What calls were answered.
    pub answers: Tally,
    /// Whatever else was counted.
    pub notes: Tally,
    /// What could not be done here, and why.
    pub skipped: BTreeMap<String, String>,
}

/// The acknowledged elements that are missing from what was found in the end, by resource and domain.
///
/// A write's value in the history is the element that it adds.
#[must_use]
pub fn lost(history: &History, found: &BTreeMap<(String, String), BTreeSet<String>>) -> Vec<Lost> {
    let mut missing: BTreeMap<(&str, &str, &str), Lost> = BTreeMap::new();
    for call in &history.calls {
        let acknowledged = matches!(call.outcome, Outcome::Applied | Outcome::Replayed);
        let Action::Write { value, .. } = &call.action else { continue };
        let place = (call.resource.clone(), call.domain.clone());
        let is_there = found.get(&place).is_some_and(|set| set.contains(value));
        if acknowledged && !is_there {
            let lost = Lost { resource: place.0, domain: place.1, element: value.clone() };
            missing.insert((&call.resource, &call.domain, value), lost);
        }
    }
    missing.into_values().collect()
}

impl Verdict {
    /// Takes over what the checker has found.
    pub fn judge(&mut self, report: &Report) {
        for violation in &report.violations {
            let story = violation.story.join("\n    ");
            self.broken.push(format!("{}: {}\n    {story}", violation.invariant, violation.what));
        }
        self.broken.extend(report.undecided.iter().map(|what| format!("undecided: {what}")));
    }

    /// Counts a lost element; where the discipline forbids it, something is broken.
    pub fn lose(&mut self, discipline: Discipline, lost: &Lost) {
        *self.lost.entry(format!("{discipline:?}")).or_default() += 1;
        match discipline {
            Discipline::FencedOnAcquire => {
                let Lost { resource, domain, element } = lost;
                self.broken
                    .push(format!("lost update: {element} was acknowledged and is not in {domain} at {resource}"));
            }
            Discipline::FencedOnFirstWrite | Discipline::Unfenced => {}
        }
    }

    /// How many elements were lost under a discipline.
    #[must_use]
    pub fn lost_under(&self, discipline: Discipline) -> u64 {
        self.lost.get(&format!("{discipline:?}")).copied().unwrap_or(0)
    }

    /// Adds another run's; the seed stays this one's.
    pub fn add(&mut self, other: Self) {
        self.broken.extend(other.broken.into_iter().map(|broken| format!("seed {}: {broken}", other.seed)));
        for (discipline, count) in other.lost {
            *self.lost.entry(discipline).or_default() += count;
        }
        self.deeds.add(&other.deeds);
        self.answers.add(&other.answers);
        self.notes.add(&other.notes);
        self.skipped.extend(other.skipped);
    }

    /// What is missing for the run to prove anything: that without the fence on acquire updates were lost, that stale
    /// writes and conflicting requests have come, and that work was done.
    #[must_use]
    pub fn proves_nothing(&self) -> Option<String> {
        for discipline in [Discipline::FencedOnFirstWrite, Discipline::Unfenced] {
            if self.lost_under(discipline) == 0 {
                return Some(format!("no element was lost under {discipline:?}: the attack did not bite"));
            }
        }
        let wanted = [
            ("heartbeat done", 20),
            ("write applied", 20),
            ("write replayed", 1),
            ("write rejected: stale", 1),
            ("write rejected: operation_conflict", 1),
        ];
        wanted.into_iter().find_map(|(what, least)| {
            let found = self.answers.of(what);
            (found < least).then(|| format!("{what}: {found}, which is less than {least}"))
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "what the nemesis did\n{}", self.deeds)?;
        writeln!(f, "what calls were answered\n{}", self.answers)?;
        writeln!(f, "what was noted\n{}", self.notes)?;
        writeln!(f, "acknowledged elements lost")?;
        for discipline in [Discipline::FencedOnAcquire, Discipline::FencedOnFirstWrite, Discipline::Unfenced] {
            let (name, lost) = (format!("{discipline:?}"), self.lost_under(discipline));
            writeln!(f, "  {name:18}  {lost:>7}")?;
        }
        for (what, why) in &self.skipped {
            writeln!(f, "not done: {what}: {why}")?;
        }
        match self.broken.len() {
            0 => writeln!(f, "nothing was broken (seed {})", self.seed),
            count => {
                writeln!(f, "{count} promises were broken (seed {})", self.seed)?;
                self.broken.iter().try_for_each(|broken| writeln!(f, "  {broken}"))
            }
        }
    }
}
