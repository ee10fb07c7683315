use std::{sync::Arc, time::Duration};

use fencepost_core::{
    Contract, Domain, LeaseId, OperationId,
    fence::Rejection,
    lease::{Counts, LeaseEnd},
};
use fencepost_wire::{ErrorCode, RejectedData};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};
use tokio::sync::broadcast;

/// How many rejections may wait for the streams of events; what is beyond is counted and logged all the same.
const REJECTION_BUFFER: usize = 1_024;

/// The figures of one coordinator and of the receivers in its process, as `/metrics` shows them.
///
/// A cheap handle on shared counters; there is no global registry. Labels are names out of this program only, never
/// a domain, holder or id, so the number of series is fixed.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    acquires: Family<AcquireLabels, Counter>,
    waits: Family<ContractLabel, Histogram>,
    renewal_failures: Family<ReasonLabel, Counter>,
    losses: Family<ReasonLabel, Counter>,
    rejections: Family<ReasonLabel, Counter>,
    work_failures: Counter,
    commits: Histogram,
    commit_failures: Counter,
    requests: Family<RequestLabels, Counter>,
    panics: Counter,
    connections_refused: Counter,
    events_missed: Counter,
    connections: Gauge,
    sessions: Gauge,
    leases: Gauge,
    waiting: Gauge,
    rejected: broadcast::Sender<Arc<RejectedData>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AcquireLabels {
    contract: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ContractLabel {
    contract: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    class: &'static str,
}

/// From a tenth of a millisecond, which a good disk needs, to a stall of seconds.
const COMMIT_SECONDS: [f64; 14] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];
const WAIT_SECONDS: [f64; 12] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 600.0];

/// Why renewals fail where nobody has made a mistake; what else there is appears with its first.
const RENEWAL_FAILURES: [&str; 6] = [
    ErrorCode::SessionEnded.as_str(),
    LeaseEnd::Expired.as_str(),
    LeaseEnd::Revoked.as_str(),
    LeaseEnd::Recovered.as_str(),
    ErrorCode::StorageUnavailable.as_str(),
    ErrorCode::CallTimeout.as_str(),
];

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Fresh counters. Make them before the coordinator, whose commits they are to be told of.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("fencepost");
        let mut inner = Inner::unregistered();
        inner.register(&mut registry);
        inner.start_at_zero();
        inner.registry = registry;
        Self(Arc::new(inner))
    }

    /// Counts a write that a receiver in this process refused, and tells watchers of it. It is not logged here: the
    /// receivers for SQLite and for files have done that; of any other, `fencepost_receiver::adapter::log_rejection` does.
    /// A receiver in another process reports it by `POST /v1/reports/rejected`, which is logged here.
    ///
    /// Receivers know no coordinator, so whoever gets the verdict calls this. `lease` and `operation` are what the
    /// refused grant and write named.
    pub fn rejected(
        &self,
        domain: &Domain,
        rejection: &Rejection,
        lease: Option<LeaseId>,
        operation: Option<&OperationId>,
    ) {
        self.count_rejection(RejectedData::new(domain.clone(), rejection, lease, operation.cloned()), rejection.code());
    }

    pub(crate) fn reported(&self, data: RejectedData, reason: &'static str) {
        tracing::warn!(
            target: "fencepost::rejected",
            domain = %data.domain,
            reason,
            token = data.presented.map(tracing::field::display),
            least_accepted = data.least_accepted.map(tracing::field::display),
            lease = data.lease.map(tracing::field::display),
            operation = data.operation.as_ref().map(tracing::field::display),
            "a write was rejected: the check was at work; look for pauses"
        );
        self.count_rejection(data, reason);
    }

    fn count_rejection(&self, data: RejectedData, reason: &'static str) {
        self.0.rejections.get_or_create(&ReasonLabel { reason }).inc();
        // Nobody may be watching, which is no error.
        let _ = self.0.rejected.send(Arc::new(data));
    }

    /// Counts and logs a failure of the work that was done under a lease: none of the coordinator's, and none of the
    /// lease's. Another process reports it by `POST /v1/reports/work-failed`.
    pub fn work_failed(&self, domain: &Domain, lease: Option<LeaseId>) {
        self.0.work_failures.inc();
        tracing::warn!(
            target: "fencepost::work_failed",
            %domain,
            lease = lease.map(tracing::field::display),
            "the work that was done under a lease has failed"
        );
    }

    /// Counts a commit.
    pub fn committed(&self, took: Duration) {
        self.0.commits.observe(took.as_secs_f64());
    }

    /// Counts a commit that failed.
    pub fn commit_failed(&self) {
        self.0.commit_failures.inc();
    }

    /// The text of `/metrics`, in the OpenMetrics format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(8 * 1024);
        encode(&mut text, &self.0.registry).expect("writing to a string cannot fail");
        text
    }

    pub(crate) fn acquired(&self, contract: Contract, outcome: &'static str) {
        self.0.acquires.get_or_create(&AcquireLabels { contract: contract.as_str(), outcome }).inc();
    }

    pub(crate) fn waited(&self, contract: Contract, ms: u64) {
        let label = ContractLabel { contract: contract.as_str() };
        self.0.waits.get_or_create(&label).observe(Duration::from_millis(ms).as_secs_f64());
    }

    pub(crate) fn renewal_failed(&self, reason: &'static str) {
        self.0.renewal_failures.get_or_create(&ReasonLabel { reason }).inc();
    }

    pub(crate) fn lost(&self, end: LeaseEnd) {
        self.0.losses.get_or_create(&ReasonLabel { reason: end.as_str() }).inc();
    }

    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        let class = match status {
            0..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            500.. => "5xx",
        };
        self.0.requests.get_or_create(&RequestLabels { route, class }).inc();
    }

    pub(crate) fn panicked(&self) {
        self.0.panics.inc();
    }

    pub(crate) fn connected(&self) -> Connected {
        self.0.connections.inc();
        Connected(self.clone())
    }

    pub(crate) fn connection_refused(&self) {
        self.0.connections_refused.inc();
    }

    pub(crate) fn missed_events(&self, count: u64) {
        self.0.events_missed.inc_by(count);
    }

    pub(crate) fn show(&self, counts: Counts) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.0.sessions.set(number(counts.sessions));
        self.0.leases.set(number(counts.leases));
        self.0.waiting.set(number(counts.waiting));
    }

    pub(crate) fn watch_rejections(&self) -> broadcast::Receiver<Arc<RejectedData>> {
        self.0.rejected.subscribe()
    }
}

/// An open connection, counted as long as this lives.
pub(crate) struct Connected(Metrics);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}

impl Inner {
    fn unregistered() -> Self {
        Self {
            registry: Registry::default(),
            acquires: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAIT_SECONDS)),
            renewal_failures: Family::default(),
            losses: Family::default(),
            rejections: Family::default(),
            work_failures: Counter::default(),
            commits: Histogram::new(COMMIT_SECONDS),
            commit_failures: Counter::default(),
            requests: Family::default(),
            panics: Counter::default(),
            connections_refused: Counter::default(),
            events_missed: Counter::default(),
            connections: Gauge::default(),
            sessions: Gauge::default(),
            leases: Gauge::default(),
            waiting: Gauge::default(),
            rejected: broadcast::channel(REJECTION_BUFFER).0,
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("acquires", "Answers to acquires, by contract and outcome", self.acquires.clone());
        registry.register_with_unit(
            "wait",
            "Time between arrival and grant, by contract",
            Unit::Seconds,
            self.waits.clone(),
        );
        registry.register("waiting", "Acquires that wait on an open connection", self.waiting.clone());
        registry.register("sessions", "Live sessions", self.sessions.clone());
        registry.register("leases", "Live leases", self.leases.clone());
        registry.register(
            "renewal_failures",
            "Renewals that renewed nothing, by reason: refused heartbeats, and leases named in one that had ended",
            self.renewal_failures.clone(),
        );
        registry.register(
            "losses",
            "Leases that ended against their holder's will, by reason: expired, revoked by an operator, recovered",
            self.losses.clone(),
        );
        registry.register(
            "rejections",
            "Writes that a receiver refused, by reason. A rise shows the check at work: look for pauses of holders",
            self.rejections.clone(),
        );
        registry.register(
            "work_failures",
            "Failures of the work itself, done under a lease that was not lost",
            self.work_failures.clone(),
        );
        registry.register_with_unit(
            "commit",
            "Time to make a batch of calls durable",
            Unit::Seconds,
            self.commits.clone(),
        );
        registry.register("commit_failures", "Commits that failed", self.commit_failures.clone());
        registry.register("http_requests", "Answered requests, by route and class of status", self.requests.clone());
        registry.register("http_panics", "Requests that hit a bug of the server", self.panics.clone());
        registry.register("http_connections", "Open connections", self.connections.clone());
        registry.register(
            "http_connections_refused",
            "Connections closed because too many were open",
            self.connections_refused.clone(),
        );
        registry.register(
            "events_missed",
            "Events that the server itself came too late for; its other figures about leases miss them too",
            self.events_missed.clone(),
        );
    }

    /// A series that appears only with its first event hides that event from a rate.
    fn start_at_zero(&self) {
        for end in [LeaseEnd::Expired, LeaseEnd::Revoked, LeaseEnd::Recovered] {
            drop(self.losses.get_or_create(&ReasonLabel { reason: end.as_str() }));
        }
        for contract in [Contract::Safety, Contract::Admission, Contract::Advisory] {
            drop(self.acquires.get_or_create(&AcquireLabels { contract: contract.as_str(), outcome: "granted" }));
            drop(self.waits.get_or_create(&ContractLabel { contract: contract.as_str() }));
        }
        for reason in RENEWAL_FAILURES {
            drop(self.renewal_failures.get_or_create(&ReasonLabel { reason }));
        }
        for reason in Rejection::CODES {
            drop(self.rejections.get_or_create(&ReasonLabel { reason }));
        }
    }
}
