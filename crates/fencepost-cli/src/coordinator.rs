//! The coordinator that a command talks to, and what its answers mean for whoever typed the command.

use std::{convert::Infallible, env, time::Duration};

use clap::Args;
use fencepost_client::{HttpCoordinator, HttpError, HttpOptions};
use fencepost_coordinator::CallError;
use fencepost_core::{
    Domain, LeaseId,
    lease::{AcquireRefusal, BreakRefusal, HeartbeatRefusal, LimitReached, ReleaseRefusal, SessionRefusal},
};
use fencepost_wire::{ErrorCode, Problem, Refusal};
use tokio::time::{Instant, sleep};

use crate::{
    duration::{readable, readable_left},
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
    progress::{self, Doing},
    shell,
};

/// Where `fencepost serve` listens unless it is told otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:7421";
/// How much longer than they are willing to wait those who say how long that is wait for an answer. A coordinator that is
/// busy answers within that; one that hangs costs no more.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
pub(crate) const URL_VARIABLE: &str = "FENCEPOST_URL";

/// The option that names the coordinator.
#[derive(Args, Clone, Debug)]
pub(crate) struct UrlArgs {
    /// The coordinator
    #[arg(long, env = URL_VARIABLE, hide_env_values = true, default_value = DEFAULT_URL, value_parser = usual_if_empty)]
    pub(crate) url: String,
}

impl UrlArgs {
    /// # Errors
    /// When the address cannot be used.
    pub(crate) fn connect(&self) -> Result<HttpCoordinator, Failure> {
        connect(&self.url)
    }

    /// The same for somebody who is willing to wait for so long and no longer.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub(crate) fn connect_to_wait(&self) -> Result<HttpCoordinator, Failure> {
        connect_to_wait(&self.url)
    }

    /// What a printed command needs so that it reaches the same coordinator: nothing where it would anyway.
    pub(crate) fn option(&self) -> String {
        url_option(&self.url)
    }
}

/// A variable that is set to nothing counts as not set, as with other tools. An empty --url beside one that is not is wrong.
fn usual_if_empty(url: &str) -> Result<String, Infallible> {
    let is_unset = url.is_empty() && env::var_os(URL_VARIABLE).is_some_and(|url| url.is_empty());
    Ok(if is_unset { DEFAULT_URL } else { url }.to_owned())
}

/// Which coordinator the environment names; nothing in it names none.
pub(crate) fn url_from_environment() -> Option<String> {
    env::var(URL_VARIABLE).ok().filter(|url| !url.is_empty())
}

fn url_option(url: &str) -> String {
    let usual = url_from_environment().unwrap_or_else(|| DEFAULT_URL.to_owned());
    if url == usual { String::new() } else { format!(" --url {}", shell::word(url)) }
}

/// # Errors
/// When the address cannot be used.
pub(crate) fn connect(url: &str) -> Result<HttpCoordinator, Failure> {
    connect_with(url, HttpOptions::default())
}

/// The coordinator for calls that wait: each is answered within [`ANSWER`] after its wait, or not at all.
///
/// # Errors
/// When the address cannot be used.
pub(crate) fn connect_to_wait(url: &str) -> Result<HttpCoordinator, Failure> {
    connect_with(url, HttpOptions { call_timeout: ANSWER, ..HttpOptions::default() })
}

fn connect_with(url: &str, options: HttpOptions) -> Result<HttpCoordinator, Failure> {
    if let Some(port) = impossible_port(url) {
        return Err(Failure::new(Exit::Usage, format!("url: {url:?} has the port {port:?}, which is not 1 to 65535"))
            .then(format!("--url {DEFAULT_URL}, or set {URL_VARIABLE}")));
    }
    HttpCoordinator::with_options(url, options).map_err(|error| match error {
        HttpError::Url(error) => Failure::new(Exit::Usage, format!("url: {error}"))
            .then(format!("--url {DEFAULT_URL}, or set {URL_VARIABLE}")),
        HttpError::Thread(_) => no_threads(&error),
    })
}

/// The system is at its limits; nothing was sent.
pub(crate) fn no_threads(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Unreachable, error.to_string()).then(AGAIN)
}

/// What stands where the port belongs, where no port can be that. Nobody listens there, and saying only that would send
/// whoever mistyped it looking for a server.
pub(crate) fn impossible_port(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    // Colons in brackets are of an address.
    let (_, after) = host.rsplit_once(']').unwrap_or(("", host));
    let (_, port) = after.rsplit_once(':')?;
    let is_possible = port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    (!is_possible).then_some(port)
}

/// The line that takes a lease away from its holder. `TEXT` is to be replaced, and works as it stands.
pub(crate) fn break_line(domain: &Domain, lease: LeaseId, options: &str) -> String {
    shell::line("fencepost break", &[domain.as_str()], &format!(" --lease {lease} --reason TEXT{options}"))
}

/// Says who is asked, for as long as that takes.
pub(crate) fn asking(url: &str) -> Doing {
    progress::doing(format!("asking the coordinator at {url}"))
}

/// What a call was, which decides what its failure leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// It changes nothing.
    Read,
    /// It may have taken effect though no answer came.
    Change,
}

/// Shows who holds what.
const LIST: &str = "fencepost ls";

/// A refusal that knows what it means for the command.
pub(crate) trait Meaning: Refusal + std::fmt::Display {
    /// What to exit with, and what to type next.
    fn meaning(&self) -> (Exit, String);
}

impl Meaning for fencepost_coordinator::Refused {
    fn meaning(&self) -> (Exit, String) {
        match *self {}
    }
}

impl Meaning for LimitReached {
    fn meaning(&self) -> (Exit, String) {
        (Exit::Unreachable, LIST.to_owned())
    }
}

impl Meaning for SessionRefusal {
    fn meaning(&self) -> (Exit, String) {
        let anew = || "acquire anew: fencepost acquire DOMAIN".to_owned();
        match self {
            Self::Unauthenticated | Self::NotYours => (Exit::Denied, anew()),
            Self::UnknownSession | Self::SessionEnded(_) => (Exit::Lost, anew()),
        }
    }
}

impl Meaning for HeartbeatRefusal {
    fn meaning(&self) -> (Exit, String) {
        match self {
            Self::Session(refusal) => refusal.meaning(),
            Self::VersionUnknown => (Exit::Bug, REPORT.to_owned()),
        }
    }
}

impl Meaning for AcquireRefusal {
    fn meaning(&self) -> (Exit, String) {
        let again = || AGAIN.to_owned();
        match self {
            Self::Session(SessionRefusal::UnknownSession | SessionRefusal::SessionEnded(_)) => {
                (Exit::Unreachable, again())
            }
            Self::Session(refusal) => refusal.meaning(),
            Self::Held(_) | Self::Reserved(_) => (Exit::Held, LIST.to_owned()),
            Self::HoldEnded | Self::RequestConflict | Self::LeaseMismatch | Self::ReentrancyLimit { .. } => {
                (Exit::Bug, "fencepost release".to_owned())
            }
            Self::Superseded => (Exit::Unknown, again()),
            Self::LimitReached(reached) => reached.meaning(),
            Self::TokenSpaceExhausted => (Exit::Unreachable, ErrorCode::TokenSpaceExhausted.fix().to_owned()),
        }
    }
}

impl<R: Meaning> Meaning for Box<R> {
    fn meaning(&self) -> (Exit, String) {
        (**self).meaning()
    }
}

impl Meaning for ReleaseRefusal {
    fn meaning(&self) -> (Exit, String) {
        match self {
            Self::Session(refusal) => refusal.meaning(),
            Self::NotYours => (Exit::Denied, LIST.to_owned()),
            Self::UnknownLease | Self::NeverHeld => (Exit::Lost, LIST.to_owned()),
        }
    }
}

impl Meaning for BreakRefusal {
    fn meaning(&self) -> (Exit, String) {
        match self {
            Self::UnknownLease => (Exit::Usage, LIST.to_owned()),
            Self::LeaseEnded(_) => (Exit::Lost, LIST.to_owned()),
            Self::TokenSpaceExhausted => (Exit::Unreachable, ErrorCode::TokenSpaceExhausted.fix().to_owned()),
        }
    }
}

/// How `--wait` is typed for so many milliseconds; `None` for more than it takes.
pub(crate) fn wait_for(ms: u64) -> Option<String> {
    (ms <= 600_000).then(|| format!("{}s", ms.div_ceil(1_000).max(1)))
}

/// What a failed call to the coordinator at `url` says.
pub(crate) fn failed<R: Meaning>(call: Call, url: &str, error: CallError<R>) -> Failure {
    let may_have_happened = call == Call::Change && error.may_have_happened();
    let absent = if may_have_happened { Exit::Unknown } else { Exit::Unreachable };
    let what = error.to_string();
    let at = format!("coordinator at {url}");
    let failure = match &error {
        CallError::Refused(refusal) => {
            let (exit, next) = refusal.meaning();
            // Asked without it, another coordinator would answer.
            let option = if next == LIST { url_option(url) } else { String::new() };
            Failure::new(exit, what).then(next + &option)
        }
        CallError::Invalid(invalid) => return invalid.clone().into(),
        CallError::Unavailable { .. } => {
            Failure::new(absent, what).detail(at).then(AGAIN).then(format!("curl {}/readyz", shell::word(url)))
        }
        CallError::Unreachable { .. } => Failure::new(absent, what)
            .detail(at)
            .then("see that it runs: fencepost serve --data DIR")
            .then("name another one: --url URL, or FENCEPOST_URL"),
        CallError::Protocol { .. } => Failure::new(absent, what)
            .detail(at)
            .then("see that a coordinator answers there, and of this version: fencepost --version"),
    };
    let problem = Problem::of_call(error);
    failure.with_problem(problem.happened(may_have_happened))
}

/// Repeats a call that is safe to repeat. An attempt that certainly did nothing is repeated for as long as `wait`
/// says; one whose answer was lost for `settle` at least, because only a repetition tells what became of it.
///
/// # Errors
/// The last one, with whether any attempt may have taken effect.
pub(crate) async fn patiently<T, R, F: Future<Output = Result<T, CallError<R>>>>(
    wait: Duration,
    settle: Duration,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<T, (CallError<R>, bool)> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(50);
    let mut may_have_happened = false;
    loop {
        let error = match attempt(wait.saturating_sub(started.elapsed())).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        may_have_happened |= error.may_have_happened();
        let patience = if may_have_happened { wait.max(settle) } else { wait };
        let left = patience.saturating_sub(started.elapsed());
        if !error.is_worth_repeating() || left.is_zero() {
            return Err((error, may_have_happened));
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

fn waited(ms: u64) -> String {
    if ms == 0 { String::new() } else { format!(", after a wait of {}", readable(ms)) }
}

/// Says who holds a domain, since when, until when, and how to get at it; `again` is the command with a wait.
pub(crate) fn held(
    domain: &Domain,
    refusal: &AcquireRefusal,
    url_option: &str,
    code: Option<u8>,
    again: impl Fn(&str) -> String,
) -> Option<Failure> {
    let name = domain.as_str();
    let failure = match refusal {
        AcquireRefusal::Held(held) => {
            let token = held.token.map_or_else(String::new, |token| format!(", token {token}"));
            Failure::new(Exit::Held, format!("{name} is held by {}", held.holder))
                .detail(format!(
                    "since {}, ends in {} unless renewed{token}, lease {}",
                    readable(held.held_ms),
                    readable_left(held.remaining_ms),
                    held.lease
                ))
                .detail(format!("{} waiting{}", held.queue, waited(held.waited_ms)))
                .then(again("60s"))
                .then(break_line(domain, held.lease, url_option))
        }
        AcquireRefusal::Reserved(reserved) => {
            let why = match reserved.kind {
                fencepost_core::lease::ReservedKind::MinHold => "its last lease asked for a least holding time",
                fencepost_core::lease::ReservedKind::LockDelay => {
                    "its last lease ended uncleanly and asked for a delay"
                }
            };
            Failure::new(Exit::Held, format!("{name} is not granted yet: {why} ({})", reserved.kind.as_str()))
                .detail(format!("for {} more, {} waiting", readable_left(reserved.remaining_ms), reserved.queue))
                .then(match wait_for(reserved.remaining_ms) {
                    Some(wait) => again(&wait),
                    // Nobody waits that long in a queue.
                    None => shell::line("fencepost show", &[name], url_option),
                })
        }
        AcquireRefusal::Session(_)
        | AcquireRefusal::HoldEnded
        | AcquireRefusal::RequestConflict
        | AcquireRefusal::LeaseMismatch
        | AcquireRefusal::ReentrancyLimit { .. }
        | AcquireRefusal::Superseded
        | AcquireRefusal::LimitReached { .. }
        | AcquireRefusal::TokenSpaceExhausted => return None,
    };
    let failure = failure.with_problem(refusal.to_problem());
    Some(match code {
        Some(code) => failure.with_code(code),
        None => failure,
    })
}
