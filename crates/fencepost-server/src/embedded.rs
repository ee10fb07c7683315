//! The coordinator of this process, behind this server.

use std::time::Duration;

use fencepost_coordinator::embedded::{Embedded, Observer};
use fencepost_core::lease::Counts;

use crate::{Inspect, Metrics};

impl Inspect for Embedded {
    fn ready(&self) -> Result<(), String> {
        Self::ready(self).map_err(|why| why.to_string())
    }

    async fn counts(&self) -> Option<Counts> {
        Self::counts(self).await.ok()
    }
}

impl Metrics {
    /// What the coordinator is to be [opened](fencepost_coordinator::embedded::Options::observer) with, so that its
    /// commits are seen here and its outages are logged.
    #[must_use]
    pub fn commit_observer(&self) -> Box<dyn Observer> {
        Box::new(Commits(self.clone()))
    }
}

struct Commits(Metrics);

impl Observer for Commits {
    fn committed(&mut self, _: usize, records: usize, took: Duration) {
        if records > 0 {
            self.0.committed(took);
        }
    }

    fn failed(&mut self, why: &str) {
        self.0.commit_failed();
        tracing::error!(target: "fencepost::storage", why, "the storage does not take commits");
    }

    fn resumed(&mut self, after: Duration) {
        tracing::warn!(target: "fencepost::storage", after_ms = after.as_millis(), "the storage takes commits again");
    }

    fn deposed(&mut self, by: u64) {
        tracing::error!(target: "fencepost::storage", by, "a later start has taken over the store; stop this process");
    }
}
