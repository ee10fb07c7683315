//! Turn-taking: contestants run one after the other, again and again, so that they share whatever the machine does.

use std::time::{Duration, Instant};

use anyhow::Result;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) turn: Duration,
    pub(crate) rounds: usize,
}

/// What one turn has shown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Turn {
    /// Operations a second.
    pub(crate) rate: f64,
    /// The median time of one operation, in microseconds, where single ones were timed.
    pub(crate) median_us: f64,
}

/// Something to measure.
pub(crate) struct Contestant<'a> {
    pub(crate) name: String,
    run: Box<dyn FnMut(Duration) -> Result<Turn> + 'a>,
}

impl<'a> Contestant<'a> {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut(Duration) -> Result<Turn> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// All turns of one contestant.
pub(crate) struct Score {
    pub(crate) name: String,
    pub(crate) turns: Vec<Turn>,
}

impl Score {
    pub(crate) fn rate(&self) -> f64 {
        median(self.turns.iter().map(|turn| turn.rate))
    }

    pub(crate) fn median_us(&self) -> f64 {
        median(self.turns.iter().map(|turn| turn.median_us))
    }

    /// How this one's rate stands to another's, round by round.
    pub(crate) fn rate_over(&self, other: &Self) -> f64 {
        median(self.turns.iter().zip(&other.turns).map(|(own, other)| own.rate / other.rate))
    }

    /// How this one's median time stands to another's, round by round.
    pub(crate) fn time_over(&self, other: &Self) -> f64 {
        median(self.turns.iter().zip(&other.turns).map(|(own, other)| own.median_us / other.median_us))
    }
}

/// Lets everybody take turns. The first round warms up and does not count.
pub(crate) fn compete(plan: Plan, mut contestants: Vec<Contestant<'_>>) -> Result<Vec<Score>> {
    let mut scores: Vec<Score> =
        contestants.iter().map(|one| Score { name: one.name.clone(), turns: Vec::new() }).collect();
    for round in 0..=plan.rounds {
        for (contestant, score) in contestants.iter_mut().zip(&mut scores) {
            let turn = (contestant.run)(plan.turn)?;
            if round > 0 {
                score.turns.push(turn);
            }
        }
        eprint!("\r  round {round} of {}", plan.rounds);
    }
    eprintln!();
    Ok(scores)
}

/// Repeats one operation for a turn and times each.
pub(crate) fn repeat(turn: Duration, mut operation: impl FnMut() -> Result<()>) -> Result<Turn> {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < turn {
        let before = Instant::now();
        operation()?;
        times.push(before.elapsed());
    }
    Ok(timed(start.elapsed(), times))
}

pub(crate) fn timed(elapsed: Duration, times: Vec<Duration>) -> Turn {
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    Turn { rate, median_us: median(times.into_iter().map(|time| time.as_secs_f64() * 1e6)) }
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(values, 0.5)
}

/// The value that this share of the values is not above.
pub(crate) fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
