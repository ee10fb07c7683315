//! The proof of a service: does an HTTP service that takes a token refuse what it must?
//!
//! A service in any language is a receiver when it takes the headers of [`fencepost_receiver::header`] and answers with
//! a [`VerdictCode`](fencepost_receiver::VerdictCode). [`prove`] plays every [`Scenario`] of a late, repeated,
//! forgotten or foreign request on it and reports what became of each, with the story of what was sent and what came
//! back. `docs/prove.md` explains it to those whose service it is; `fencepost prove` is it on the command line.
//!
//! The scenarios know nothing of sockets: what they need from outside is a [`World`]. [`Line`] is the HTTP side of one.
//! It is not a load generator and not a search: each scenario is a short play whose outcome can be read, and passing
//! all of them is evidence and no proof of what was not played.

mod concurrent;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod late;
mod life;
mod message;
mod plan;
mod refuse;
mod report;
mod retry;
mod scenario;
mod stage;
#[cfg(test)]
mod tests;
mod world;

pub use http::{Begun, Line};
pub use message::{Answer, NoAnswer, Request};
pub use plan::{Call, Hooks, PLACEHOLDER, Plan, Target};
pub use report::{Failure, Kind, Outcome, Report, Tried};
pub use scenario::Scenario;
pub use world::{Hook, Trouble, World};

use stage::{Advice, PASSED, Stage, Step, failed};

/// Before restarts and restores, which change more than one value.
const BEFORE: [Scenario; 13] = [
    Scenario::FirstWrite,
    Scenario::LateAfter,
    Scenario::LateBefore,
    Scenario::HalfSent,
    Scenario::Concurrent,
    Scenario::Paused,
    Scenario::RetrySameOwner,
    Scenario::RetryNextOwner,
    Scenario::RetryLate,
    Scenario::ReusedId,
    Scenario::MissingToken,
    Scenario::MalformedToken,
    Scenario::OtherDomain,
];

/// After them; a restored service may accept nothing more, and an absurd token may have locked everybody out.
const AFTER: [Scenario; 5] = [
    Scenario::CoordinatorRestart,
    Scenario::ServiceRestart,
    Scenario::Verdicts,
    Scenario::Restore,
    Scenario::AbsurdToken,
];

/// Plays every scenario, one after the other, and says before each that it begins. It takes as long as the answers
/// take; each is waited for no longer than the world waits.
///
/// Where the first write does not work, or the service stops answering, the scenarios after it are not tried.
pub async fn prove<W: World>(plan: &Plan, world: &W, mut begins: impl FnMut(Scenario)) -> Report {
    let stage = Stage::new(plan, world);
    let mut report = Report::default();
    let mut why_not: Option<&str> = None;
    let also = plan.also.iter().map(|call| (Scenario::Also, Some(call)));
    let without = |scenario| (scenario, None);
    for (scenario, call) in BEFORE.into_iter().map(without).chain(also).chain(AFTER.into_iter().map(without)) {
        let outcome = match why_not {
            Some(why) => Outcome::NotTried { why: why.to_owned(), asked_for: true },
            None => {
                begins(scenario);
                play(&stage, scenario, call).await.unwrap_or_else(|early| *early)
            }
        };
        if why_not.is_none() {
            why_not = match &outcome {
                Outcome::Failed(_) if scenario == Scenario::FirstWrite => Some("the first write does not work"),
                Outcome::Failed(Failure { kind: Kind::Silence, .. }) => stage.silence().await,
                Outcome::Failed(_)
                | Outcome::Passed { .. }
                | Outcome::OnlyFencedOnFirstWrite
                | Outcome::NotTried { .. } => None,
            };
        }
        let (call, story) = (call.map(ToString::to_string), stage.take_story());
        report.scenarios.push(Tried { scenario, call, outcome, story });
    }
    report.requests = stage.requests();
    report
}

async fn play<W: World>(stage: &Stage<'_, W>, scenario: Scenario, call: Option<&Call>) -> Step<Outcome> {
    match scenario {
        Scenario::FirstWrite => stage.first_write().await,
        Scenario::LateAfter => stage.late_after().await,
        Scenario::LateBefore => stage.late_before().await,
        Scenario::HalfSent => stage.half_sent().await,
        Scenario::Concurrent => stage.concurrent().await,
        Scenario::Paused => stage.paused().await,
        Scenario::RetrySameOwner => stage.retry_same_owner().await,
        Scenario::RetryNextOwner => stage.retry_next_owner().await,
        Scenario::RetryLate => stage.retry_late().await,
        Scenario::ReusedId => stage.reused_id().await,
        Scenario::MissingToken => stage.missing_token().await,
        Scenario::MalformedToken => stage.malformed_token().await,
        Scenario::OtherDomain => stage.other_domain().await,
        Scenario::Also => stage.also(call.expect("a further call is what this is about")).await,
        Scenario::CoordinatorRestart => stage.coordinator_restart().await,
        Scenario::ServiceRestart => stage.service_restart().await,
        Scenario::Restore => stage.restore().await,
        Scenario::AbsurdToken => stage.absurd_token().await,
        Scenario::Verdicts => stage.verdicts(),
    }
}

const UNNAMED: Advice = Advice {
    meaning: "clients tell applied from replayed, and one 403 from another, by the verdict",
    fix: "send Fencepost-Verdict with every answer to a write, the word that belongs to the status",
};

impl<W: World> Stage<'_, W> {
    /// Whether the service has stopped answering at all.
    async fn silence(&self) -> Option<&'static str> {
        self.look_quietly().await.is_err().then_some("the service does not answer any more")
    }

    fn verdicts(&self) -> Step<Outcome> {
        let unnamed = self.unnamed();
        if unnamed.is_empty() {
            return Ok(PASSED);
        }
        let shown = 10.min(unnamed.len());
        unnamed[..shown].iter().for_each(|line| self.tell(line));
        let found = format!("{} answers without it, or with another than the status says", unnamed.len());
        Err(failed(Kind::Answer, "Fencepost-Verdict in every answer to a write", found, UNNAMED))
    }
}
