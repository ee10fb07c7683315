//! What `run` waits for, said on a terminal: a second after it began, and then every ten seconds.

use std::{
    future::pending,
    io::{self, IsTerminal},
    time::Duration,
};

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::Coordinator;
use fencepost_core::{Domain, SessionId, lease::Filter};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    coordinator::UrlArgs,
    duration::readable_left,
    output::{Output, aside},
    progress::readable_seconds,
};

/// What is over by then is not worth a word.
const FIRST: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_secs(10);
/// How long it may take to find out more.
const ASKING: Duration = Duration::from_secs(2);

/// What is being waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Nothing that takes long by itself: the command runs.
    Nothing,
    /// A session; and why there is none so far.
    Session { trouble: Option<String> },
    /// A domain, and what is to be advanced for it.
    Domain { domain: Domain, session: SessionId },
    /// What these words say.
    Told(&'static str),
    /// The coordinator to confirm that the leases were given back.
    Release,
}

impl WaitsFor {
    /// Whether it goes on, however much more is known of it by now.
    fn goes_on_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Session { .. }, Self::Session { .. }) => true,
            (Self::Domain { domain, .. }, Self::Domain { domain: other, .. }) => domain == other,
            (
                Self::Nothing | Self::Session { .. } | Self::Domain { .. } | Self::Told(_) | Self::Release,
                Self::Nothing | Self::Session { .. } | Self::Domain { .. } | Self::Told(_) | Self::Release,
            ) => self == other,
        }
    }
}

/// Says it for as long as it is not dropped.
pub(crate) async fn tell(url: &UrlArgs, mut waits_for: watch::Receiver<WaitsFor>, output: Output) {
    if !io::stderr().is_terminal() || output.json {
        return pending().await;
    }
    loop {
        let begun = (waits_for.borrow_and_update().clone(), Instant::now());
        let mut next = FIRST;
        loop {
            let is_due = tokio::select! {
                changed = waits_for.changed() => match changed {
                    Ok(()) => false,
                    Err(_) => return pending().await,
                },
                () = sleep_until(begun.1 + next), if begun.0 != WaitsFor::Nothing => true,
            };
            let now = waits_for.borrow().clone();
            if !now.goes_on_as(&begun.0) {
                break;
            }
            if is_due {
                let what = words(url, &now).await;
                // The wait may have ended while that was asked.
                if !waits_for.borrow().goes_on_as(&begun.0) {
                    break;
                }
                if let Some(what) = what {
                    aside(&format!("fencepost: waiting for {what} ({})", readable_seconds(next.as_secs())));
                }
                next = if next < EVERY { EVERY } else { next + EVERY };
            }
        }
    }
}

async fn words(url: &UrlArgs, what: &WaitsFor) -> Option<String> {
    match what {
        WaitsFor::Nothing => None,
        WaitsFor::Session { trouble } => {
            let trouble = trouble.as_ref().map_or_else(String::new, |trouble| format!(": {trouble}"));
            Some(format!("the coordinator at {}{trouble}", url.url))
        }
        WaitsFor::Domain { domain, session } => {
            let coordinator = url.connect().ok()?;
            let page = timeout(ASKING, coordinator.list(Filter::Domain(domain.clone()), None, 1)).await;
            Some(match page {
                Ok(Ok(page)) => match page.rows.first() {
                    // It has been granted, so it is a receiver that takes its time.
                    Some(row) if row.session == *session => format!("the receivers of {domain} to take its new token"),
                    Some(row) => format!("{domain}, held by {}", row.holder),
                    None => free(&coordinator, domain).await,
                },
                Ok(Err(error)) => format!("{domain}; the coordinator at {}: {error}", url.url),
                Err(_) => format!("{domain}; the coordinator at {} does not answer", url.url),
            })
        }
        WaitsFor::Told(what) => Some((*what).to_owned()),
        WaitsFor::Release => Some("the coordinator to confirm the release".to_owned()),
    }
}

/// A domain that nobody holds, and until when nobody may.
async fn free(coordinator: &HttpCoordinator, domain: &Domain) -> String {
    let queue = timeout(ASKING, coordinator.queue(domain, 1)).await.ok().and_then(Result::ok);
    match queue.and_then(|queue| queue.reserved.zip(queue.remaining_ms)) {
        Some((kind, ms)) => format!("{domain}, reserved ({}) for {} more", kind.as_str(), readable_left(ms)),
        None => domain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_trouble_is_no_other_wait_and_another_domain_is() {
        let session = |trouble: Option<&str>| WaitsFor::Session { trouble: trouble.map(str::to_owned) };
        let domain = |name: &str| WaitsFor::Domain {
            domain: Domain::new(name).unwrap(),
            session: SessionId::from_bytes([0; 16]),
        };
        assert!(session(None).goes_on_as(&session(Some("refused"))));
        assert!(domain("d").goes_on_as(&domain("d")) && !domain("d").goes_on_as(&domain("e")));
        assert!(!session(None).goes_on_as(&WaitsFor::Release) && !WaitsFor::Told("a").goes_on_as(&WaitsFor::Told("b")));
    }
}
