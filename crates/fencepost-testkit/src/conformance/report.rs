use std::{fmt, time::Duration};

use super::{Ability, Failure};

/// What the suite found out about a receiver. Printed, it is a table and the story of each failure.
#[derive(Clone, Debug)]
#[must_use = "a report that nobody looks at has found nothing"]
pub struct Report {
    /// The receiver, as its adapter calls it.
    pub receiver: String,
    /// One row for each scenario, in the order in which they were told.
    pub rows: Vec<Row>,
    /// What was not attacked, with the adapter's reasons.
    pub lacks: Vec<(Ability, &'static str)>,
}

/// One scenario of a report.
#[derive(Clone, Debug)]
pub struct Row {
    /// The scenario's name.
    pub scenario: &'static str,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub took: Duration,
}

/// How a scenario ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The receiver kept its promises.
    Passed,
    /// It did not, with the story.
    Failed(Failure),
    /// It was not told, because receiver or adapter lack these.
    NotTried(Vec<Ability>),
}

impl Report {
    /// Whether no scenario failed. What was not tried did not fail: see [`lacks`](Self::lacks).
    #[must_use]
    pub fn passed(&self) -> bool {
        self.first_failure().is_none()
    }

    /// The first scenario that failed, with its story.
    #[must_use]
    pub fn first_failure(&self) -> Option<(&'static str, &Failure)> {
        self.rows.iter().find_map(|row| match &row.outcome {
            Outcome::Failed(failure) => Some((row.scenario, failure)),
            Outcome::Passed | Outcome::NotTried(_) => None,
        })
    }

    /// Fails the test that calls it, with the whole report, unless every scenario that was tried has passed.
    ///
    /// # Panics
    /// When one has failed.
    pub fn must_pass(&self) {
        assert!(self.passed(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.receiver)?;
        let width = self.rows.iter().map(|row| row.scenario.len()).max().unwrap_or_default();
        for Row { scenario, outcome, took } in &self.rows {
            match outcome {
                Outcome::Passed => writeln!(f, "  {scenario:width$}  passed  {:>6.2} s", took.as_secs_f64())?,
                Outcome::Failed(_) => writeln!(f, "  {scenario:width$}  FAILED  {:>6.2} s", took.as_secs_f64())?,
                Outcome::NotTried(lacking) => {
                    let lacking: Vec<_> = lacking.iter().map(|ability| ability.as_str()).collect();
                    writeln!(f, "  {scenario:width$}  not tried: no {}", lacking.join(", no "))?;
                }
            }
        }
        for (ability, why) in &self.lacks {
            writeln!(f, "  not attacked: {ability}, because {why}")?;
        }
        for Row { scenario, outcome, .. } in &self.rows {
            if let Outcome::Failed(failure) = outcome {
                writeln!(f, "\n  {scenario}\n{failure}")?;
            }
        }
        Ok(())
    }
}
