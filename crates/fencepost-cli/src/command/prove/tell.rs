//! The words of the report.

use std::io::{self, IsTerminal as _};

use fencepost_testkit::prove::{Kind, Outcome, Plan, Report, Scenario, Tried};
use serde_json::json;

use crate::{
    failure::Failure,
    output::{Output, aside},
    progress::{self, Doing},
};

/// Says on a terminal what is tried now: some scenarios take a while.
pub(super) fn begins(scenario: Scenario, output: Output) {
    if !output.json && io::stderr().is_terminal() {
        aside(&format!("trying: {}", scenario.title()));
    }
}

/// Says for how long it has been tried.
pub(super) fn goes_on(scenario: Scenario) -> Doing {
    progress::doing(format!("trying: {}", scenario.title()))
}

/// How many there are of each.
#[derive(Default)]
struct Counts {
    passed: usize,
    lesser: usize,
    failed: usize,
    not_tried: usize,
}

impl Counts {
    fn of(report: &Report) -> Self {
        let mut counts = Self::default();
        for tried in &report.scenarios {
            match &tried.outcome {
                Outcome::Passed { .. } => counts.passed += 1,
                Outcome::OnlyFencedOnFirstWrite => counts.lesser += 1,
                Outcome::Failed(_) => counts.failed += 1,
                Outcome::NotTried { .. } => counts.not_tried += 1,
            }
        }
        counts
    }
}

/// # Errors
/// When nobody takes it.
pub(super) fn report(report: &Report, url: &str, plan: &Plan, output: Output) -> Result<(), Failure> {
    let counts = Counts::of(report);
    if output.json {
        return output.json(&json!({
            "url": url,
            "domain": plan.domain,
            "scenarios": report.scenarios,
            "passed": counts.passed,
            "only_fenced_on_first_write": counts.lesser,
            "failed": counts.failed,
            "not_tried": counts.not_tried,
            "requests": report.requests,
        }));
    }
    output.table(&["RESULT", "SCENARIO", "WHAT IT TRIES"], report.scenarios.iter().map(row).collect())?;
    for tried in &report.scenarios {
        story(tried, output)?;
    }
    let lesser = if counts.lesser > 0 { format!(", {} only FencedOnFirstWrite", counts.lesser) } else { String::new() };
    output.line("")?;
    output.line(&format!(
        "{} passed{lesser}, {} failed, {} not tried; {} requests to {url}",
        counts.passed, counts.failed, counts.not_tried, report.requests
    ))
}

fn row(tried: &Tried) -> Vec<String> {
    let what = tried.call.as_deref().unwrap_or(tried.scenario.title());
    let (result, what) = match &tried.outcome {
        Outcome::Passed { note: None } => ("passed", what.to_owned()),
        Outcome::Passed { note: Some(note) } => ("passed", format!("{what}: {note}")),
        Outcome::OnlyFencedOnFirstWrite => ("only FencedOnFirstWrite", what.to_owned()),
        Outcome::Failed(_) => ("failed", what.to_owned()),
        Outcome::NotTried { why, .. } => ("not tried", why.clone()),
    };
    vec![result.to_owned(), tried.scenario.as_str().to_owned(), what]
}

fn story(tried: &Tried, output: Output) -> Result<(), Failure> {
    let Outcome::Failed(failure) = &tried.outcome else { return Ok(()) };
    let about = tried.call.as_ref().map_or_else(String::new, |call| format!(" ({call})"));
    let harm = match failure.kind {
        Kind::Effect => "what was written is not what must stand there",
        Kind::Refusal => "a rightful request is refused",
        Kind::Answer => "the answer says something else than it should",
        Kind::Silence => "there is no answer",
    };
    output.line("")?;
    output.line(&output.strong(&format!("{}{about}: {harm}", tried.scenario)))?;
    for (at, line) in tried.story.iter().enumerate() {
        output.sentence(2, &format!("{:>2}. {line}", at + 1))?;
    }
    let facts = [
        ("expected:", &failure.expected),
        ("found:", &failure.found),
        ("means:", &failure.meaning),
        ("fix:", &failure.fix),
    ];
    output.facts(2, &facts.map(|(name, text)| (name, text.clone())))
}
