//! A real coordinator in this process, and a network in front of it that tests can make worse.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fencepost_client::{Clock, Session};
use fencepost_coordinator::{
    AcquireRequest, Answered, CallError, Coordinator, Granted, Opened, SessionKey,
    embedded::{Embedded, Options, testing::MemoryStore},
};
use fencepost_core::{
    Domain, Holder, LeaseId, Moment, RequestId, Secret, Ttl,
    lease::{
        AcquireRefusal, Acquired, Claim, Filter, Heartbeat, HeartbeatRefusal, LeaseEnd, LimitReached, ReleaseRefusal,
        Released, SessionRefusal,
    },
};
use fencepost_testkit::pass_on;

pub(crate) fn coordinator() -> Embedded {
    MemoryStore::new().open(Options::default()).expect("an empty store opens")
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

pub(crate) fn ttl(ms: u64) -> Ttl {
    Ttl::from_millis(ms).unwrap()
}

pub(crate) async fn session(coordinator: impl Coordinator, ttl_ms: u64) -> Session {
    Session::open(coordinator, Holder::new("a").unwrap(), ttl(ttl_ms)).await.unwrap()
}

/// Waits for a condition, and says which one when it does not come.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < Duration::from_secs(20), "never came: {what}");
        // bounded: the assertion above ends it
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) async fn is_held(coordinator: &impl Coordinator, domain: &Domain) -> bool {
    let page = coordinator.list(Filter::Domain(domain.clone()), None, 1).await.unwrap();
    !page.rows.is_empty()
}

/// Every acquire is claimed by a heartbeat at once, so every release here races one.
pub(crate) async fn releases_race_heartbeats(called: impl Coordinator, coordinator: &Embedded) {
    let session = session(called, 1_000).await;
    let tasks: Vec<_> = (0..4_u64)
        .map(|task| {
            let session = session.clone();
            tokio::spawn(async move {
                let mut last = None;
                for round in 0..2_500_u64 {
                    let lease = session.acquire(domain(&format!("d{task}"))).await.unwrap();
                    assert!(Some(lease.token()) > last, "a token came again");
                    last = Some(lease.token());
                    for _ in 0..round % 5 {
                        tokio::task::yield_now().await;
                    }
                    let released = lease.release().await.unwrap();
                    assert_eq!(released.ended, Some(LeaseEnd::Released), "it had ended otherwise");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(coordinator.counts().await.unwrap().leases, 0);
    assert_eq!(session.over(), None);
}

/// A clock that stands still until it is told.
#[derive(Clone)]
pub(crate) struct StoppedClock(Arc<Mutex<u64>>);

impl StoppedClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(1_000_000)))
    }

    pub(crate) fn advance(&self, ms: u64) {
        *self.0.lock().unwrap() += ms;
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Moment {
        Moment::from_millis(*self.0.lock().unwrap())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Open,
    Heartbeat,
    Acquire,
    Release,
    End,
}

/// A coordinator behind a bad network.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) there: Embedded,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    /// How many answers of this kind are still to be lost, after the call was done.
    lost: HashMap<Verb, u32>,
    calls: HashMap<Verb, u32>,
    claims: Vec<Claim>,
    lie: Option<fn(&mut Acquired)>,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self { there: coordinator(), state: Arc::default() }
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.state.lock().unwrap().is_cut = is_cut;
    }

    pub(crate) fn lose_answers(&self, verb: Verb, count: u32) {
        self.state.lock().unwrap().lost.insert(verb, count);
    }

    /// Changes every grant on its way back.
    pub(crate) fn lie(&self, lie: fn(&mut Acquired)) {
        self.state.lock().unwrap().lie = Some(lie);
    }

    pub(crate) fn calls(&self, verb: Verb) -> u32 {
        self.state.lock().unwrap().calls.get(&verb).copied().unwrap_or_default()
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.state.lock().unwrap().claims.clone()
    }

    async fn pass<T, R>(
        &self,
        verb: Verb,
        call: impl Future<Output = Result<T, CallError<R>>>,
    ) -> Result<T, CallError<R>> {
        {
            let mut state = self.state.lock().unwrap();
            *state.calls.entry(verb).or_default() += 1;
            if state.is_cut {
                return Err(CallError::Unreachable { why: "cut".to_owned(), may_have_happened: false });
            }
        }
        let answer = call.await;
        let mut state = self.state.lock().unwrap();
        let left = state.lost.entry(verb).or_default();
        if *left > 0 {
            *left -= 1;
            return Err(CallError::Unreachable { why: "answer lost".to_owned(), may_have_happened: true });
        }
        if state.is_cut {
            return Err(CallError::Unreachable { why: "cut".to_owned(), may_have_happened: true });
        }
        answer
    }
}

impl Coordinator for Network {
    pass_on!(there: read_session, break_lease, check, list, snapshot);

    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        self.pass(Verb::Open, self.there.open_session(holder, ttl)).await
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        self.state.lock().unwrap().claims.push(claim.clone());
        self.pass(Verb::Heartbeat, self.there.heartbeat(key, claim)).await
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        self.pass(Verb::End, self.there.end_session(key)).await
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        let mut granted = self.pass(Verb::Acquire, self.there.acquire(request)).await?;
        if let Some(lie) = self.state.lock().unwrap().lie {
            lie(&mut granted.answer.acquired);
        }
        Ok(granted)
    }

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        self.pass(Verb::Release, self.there.release(secret, lease, request)).await
    }
}
