//! What a process of the suite does: it is told on its standard input what to write, and says what came of it.

use std::{
    io::{BufRead, Write},
    thread,
    time::Duration,
};

use fencepost_core::{Domain, Token, fence::Verdict};
use serde::{Deserialize, Serialize};

use super::{
    Adapter, Handle,
    build::operation,
    step::Claim,
    stories::races::{mark, settled},
};

/// How long a child waits between two looks, so that others write meanwhile.
const PAUSE: Duration = Duration::from_millis(1);

/// Set in the environment of a child.
pub(super) const ROLE: &str = "FENCEPOST_CONFORMANCE_CHILD";
/// What a line of a child begins with, somewhere behind what a test binary says itself.
pub(super) const MARK: &str = "fencepost-conformance: ";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) place: String,
    pub(super) domain: Domain,
    pub(super) token: Token,
    /// Operations `name-0`, `name-1`, …; where there is no name, writes without an operation.
    pub(super) name: Option<String>,
    pub(super) writes: u64,
    /// Whether it looks at the value after each write.
    pub(super) looks_on: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Line {
    Ready,
    Tries(u64),
    Applied(u64),
    Stale(u64),
    Other(String),
    Done,
}

/// The value that the n-th write of a job sets.
pub(super) fn value(token: Token, n: u64) -> String {
    format!("{}:{n}", token.as_u64())
}

/// Does what the suite tells this process, if the suite has started it; otherwise nothing.
///
/// In a test binary, one test calls it:
///
/// ```text
/// #[test]
/// fn child() {
///     conformance::child(&MyAdapter::new());
/// }
/// ```
///
/// # Panics
/// When the suite has gone away.
pub fn child(adapter: &dyn Adapter) {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut told = std::io::stdin().lock().lines();
    let mut line = || told.next().and_then(Result::ok).unwrap_or_default();
    let Ok(job) = serde_json::from_str::<Job>(&line()) else { return };
    say(&Line::Ready);
    if line() != "go" {
        return;
    }
    let ended = works(adapter, &job);
    say(&match ended {
        Ok(()) => Line::Done,
        Err(what) => Line::Other(what),
    });
}

fn works(adapter: &dyn Adapter, job: &Job) -> Result<(), String> {
    let mut handle = adapter.open(&job.place).map_err(|cause| format!("the resource was not opened: {cause}"))?;
    let grant = Claim::new(&job.domain, job.token).grant();
    for n in 0..job.writes {
        say(&Line::Tries(n));
        let named = job.name.as_ref().map(|name| operation(&format!("{name}-{n}"), "same"));
        let value = value(job.token, n);
        match settled(|| handle.write(&job.domain, &grant, named.as_ref(), value.as_bytes()))? {
            // A replay where the answer of the attempt before it was lost.
            Verdict::Applied(_) | Verdict::Replayed(_) => say(&Line::Applied(n)),
            Verdict::Rejected(rejection) if rejection.stale().is_some() => {
                say(&Line::Stale(n));
                return Ok(());
            }
            Verdict::Rejected(rejection) => return Err(format!("token {} was rejected: {rejection}", job.token)),
        }
        if job.looks_on {
            looks_on(handle.as_mut(), job)?;
        }
    }
    Ok(())
}

/// After a write was applied, nobody sees a value of an older token again: looked at at once, and a little later.
fn looks_on(handle: &mut dyn Handle, job: &Job) -> Result<(), String> {
    for pause in [Duration::ZERO, PAUSE] {
        thread::sleep(pause);
        let seen = handle.value(&job.domain).map_err(|cause| format!("the value could not be read: {cause}"))?;
        let seen = mark(seen.as_deref());
        if seen < job.token.as_u64() {
            return Err(format!("after token {} was applied, a value of token 0.{seen} was seen", job.token));
        }
    }
    Ok(())
}

fn say(line: &Line) {
    let mut out = std::io::stdout().lock();
    let text = serde_json::to_string(line).expect("a line is JSON");
    writeln!(out, "{MARK}{text}").and_then(|()| out.flush()).expect("the suite listens");
}
