use std::{fmt, time::Duration};

use super::explorer::{Explored, Model, Property, Search, explore};

/// How much of a system is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// What every run of the tests explores.
    Standard,
    /// More, on demand.
    Deep,
}

/// What an exploration has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The rules as they are: nothing is broken, and every state within the bounds is seen.
    Holds,
    /// A mutant: this is broken, and is found.
    Found(Property),
    /// The rules as they are, beyond what they promise: this is broken, is found, and is stated in the guarantees.
    Limit(Property),
}

/// One model with one set of rules, and what it has to come to.
pub struct Study {
    /// What is attacked, and for a mutant which rule is taken away.
    pub name: &'static str,
    /// The trace of the guarantees that the mutant replays; empty where it has no name.
    pub trace: &'static str,
    /// What it has to come to.
    pub expected: Expected,
    run: Box<dyn Fn(Bounds, Search) -> Explored + Send + Sync>,
}

impl fmt::Debug for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Study").field("name", &self.name).field("expected", &self.expected).finish_non_exhaustive()
    }
}

impl Study {
    /// A study of one model within different bounds.
    pub(super) fn new<M: Model + Send + Sync + 'static>(
        expected: Expected,
        (trace, name): (&'static str, &'static str),
        model: impl Fn(Bounds) -> M + Send + Sync + 'static,
    ) -> Self {
        let run = Box::new(move |bounds, search| explore(&model(bounds), search));
        Self { name, trace, expected, run }
    }

    /// Explores. Mutants are explored within the standard bounds, which suffice to find them.
    #[must_use]
    pub fn explore(&self, bounds: Bounds) -> Explored {
        self.explore_for(bounds, None)
    }

    /// The same for no longer than this. What was cut short proves nothing, and says so.
    #[must_use]
    pub fn explore_for(&self, bounds: Bounds, time: Option<Duration>) -> Explored {
        let (property, bounds) = match self.expected {
            Expected::Holds => (None, bounds),
            Expected::Found(property) | Expected::Limit(property) => (Some(property), Bounds::Standard),
        };
        let states = match bounds {
            Bounds::Standard => 300_000,
            Bounds::Deep => 20_000_000,
        };
        (self.run)(bounds, Search { property, states, time })
    }

    /// Whether an exploration came to what it had to come to; if not, why, as a story.
    ///
    /// # Errors
    /// When the rules were broken, a mutant was not found, or the search was cut short.
    pub fn judge(&self, explored: &Explored) -> Result<(), String> {
        match (self.expected, &explored.counterexample) {
            (Expected::Holds, None) if explored.complete => Ok(()),
            (Expected::Holds, None) => Err(format!("{self}: cut short after {} states", explored.states)),
            (Expected::Holds, Some(found)) => Err(format!("{self}: broken\n{found}")),
            (Expected::Found(property) | Expected::Limit(property), Some(found)) if found.property == property => {
                Ok(())
            }
            (Expected::Found(_) | Expected::Limit(_), Some(found)) => Err(format!("{self}: something else\n{found}")),
            (Expected::Found(_) | Expected::Limit(_), None) => {
                Err(format!("{self}: not found in {} states", explored.states))
            }
        }
    }
}

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.trace.is_empty() {
            write!(f, "[{}] ", self.trace)?;
        }
        f.write_str(self.name)
    }
}

/// The line of a report: what it came to, with its figures.
#[derive(Debug)]
pub struct Line<'a>(pub &'a Study, pub &'a Explored);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(study, explored) = self;
        let came_to = match (study.judge(explored), study.expected) {
            (Err(_), _) if !explored.complete && explored.counterexample.is_none() => "CUT SHORT".to_owned(),
            (Err(_), _) => "FAILED".to_owned(),
            (Ok(()), Expected::Holds) => "holds".to_owned(),
            (Ok(()), Expected::Found(property)) => format!("found, {property}, {} steps", steps(explored)),
            (Ok(()), Expected::Limit(property)) => format!("limit, {property}, {} steps", steps(explored)),
        };
        let (states, seconds) = (explored.states, explored.took.as_secs_f64());
        write!(f, "{came_to:<30} {states:>9} states {:>3} deep {seconds:>6.2} s  {study}", explored.depth)
    }
}

fn steps(explored: &Explored) -> usize {
    explored.counterexample.as_ref().map_or(0, |found| found.story.len())
}
