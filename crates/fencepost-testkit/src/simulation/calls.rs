//! The simulated coordinator as the real server sees it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_coordinator::{
    AcquireRequest, Answered, CallError, Coordinator, Explain, Granted, HistoryPage, HistoryQuery, Opened, Refused,
    RequestCaller, SessionKey, Watch, WatchedEvents,
};
use fencepost_core::{
    Domain, Holder, LeaseId, Reason, RequestId, Secret, SecretHash, SessionId, Token, Ttl,
    lease::{
        Acquire, AcquireRefusal, Answer, BreakRefusal, Broken, Caller, Claim, Command, Counts, Credential, Filter,
        Fresh, Heartbeat, HeartbeatRefusal, LimitReached, LiveSnapshot, Page, Query, QueueView, ReleaseRefusal,
        Released, SessionRefusal, SessionView, Ticket,
    },
};
use fencepost_server::Inspect;
use tokio::sync::broadcast;

use super::{
    coordinator::{Coordinator as Machine, Told},
    process::LocalClock,
    settings::Mistake,
};

/// The calls of one start of the coordinator. They are decided when the world lets it decide.
#[derive(Clone)]
pub(super) struct Calls {
    pub(super) machine: Arc<Mutex<Machine>>,
    pub(super) clock: Arc<LocalClock>,
    /// Nobody watches: what a server tells of events is no part of the simulation.
    pub(super) events: broadcast::Sender<Arc<WatchedEvents>>,
    pub(super) mistake: Option<Mistake>,
}

/// Tells the coordinator when the caller of a waiting acquire has gone.
struct Connection<'a> {
    calls: &'a Calls,
    ticket: Option<Ticket>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.calls.machine().disconnect(self.calls.clock.shown_us(), ticket);
        }
    }
}

/// The machine answers each command with its own kind of answer, so any other is a defect of ours.
fn other(answer: &Answer) -> ! {
    panic!("the answer is of another call: {answer:?}")
}

impl Calls {
    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<R>(&self, command: Command) -> Result<Told, CallError<R>> {
        let (ticket, told) = self.machine().receive(self.clock.shown_us(), command);
        let mut connection = Connection { calls: self, ticket: Some(ticket) };
        let told = told.await;
        connection.ticket = None;
        told.map_err(|_| CallError::Unavailable { why: "it is gone".to_owned(), may_have_happened: true })
    }

    async fn query(&self, query: Query) -> Result<Answer, CallError<Refused>> {
        Ok(self.call(Command::Query(query)).await?.answer)
    }

    fn answered<T>(&self, answer: T, told: &Told) -> Answered<T> {
        Answered { answer, elapsed: told.elapsed, boot: self.machine().boot() }
    }
}

fn credential(key: &SessionKey) -> Credential {
    Credential { session: key.session, secret: Some(key.secret.hash()) }
}

impl Coordinator for Calls {
    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        let (session, secret) = {
            let mut machine = self.machine();
            (SessionId::from_bytes(machine.draw()), Secret::from_bytes(machine.draw()))
        };
        let told = self.call(Command::OpenSession { session, secret: secret.hash(), holder, ttl }).await?;
        match &told.answer {
            Answer::Opened(Ok(session)) => Ok(self.answered(Opened { session: session.clone(), secret }, &told)),
            Answer::Opened(Err(reached)) => Err(CallError::Refused(*reached)),
            answer => other(answer),
        }
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        let told = self.call(Command::Heartbeat { caller: credential(key), claim }).await?;
        match &told.answer {
            Answer::Heartbeat(Ok(heartbeat)) => {
                let mut heartbeat = heartbeat.clone();
                if self.mistake == Some(Mistake::UnclaimedUntold) {
                    heartbeat.unclaimed.clear();
                }
                Ok(self.answered(heartbeat, &told))
            }
            Answer::Heartbeat(Err(refusal)) => Err(CallError::Refused(*refusal)),
            answer => other(answer),
        }
    }

    async fn read_session(&self, key: &SessionKey) -> Result<Answered<SessionView>, CallError<SessionRefusal>> {
        let told = self.call(Command::ReadSession { caller: credential(key) }).await?;
        match &told.answer {
            Answer::Session(Ok(session)) => Ok(self.answered(session.clone(), &told)),
            Answer::Session(Err(refusal)) => Err(CallError::Refused(*refusal)),
            answer => other(answer),
        }
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        match self.call(Command::EndSession { caller: credential(key) }).await?.answer {
            Answer::SessionEnded(Ok(())) => Ok(()),
            Answer::SessionEnded(Err(refusal)) => Err(CallError::Refused(refusal)),
            answer => other(&answer),
        }
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        let (lease, session, secret) = {
            let mut machine = self.machine();
            let (lease, session) = (LeaseId::from_bytes(machine.draw()), SessionId::from_bytes(machine.draw()));
            (lease, session, Secret::from_bytes(machine.draw()))
        };
        let (caller, opening) = match request.caller {
            RequestCaller::Session { session, secret } => {
                let secret: Option<SecretHash> = secret.map(|secret| secret.hash());
                (Caller::Session(Credential { session, secret }), false)
            }
            RequestCaller::Opening { holder, ttl } => (Caller::Opening { holder, ttl }, true),
        };
        let fresh = Fresh { lease, session, secret: secret.hash() };
        let AcquireRequest { caller: _, domain, request, contract, terms, metadata, renew, wait } = request;
        let acquire = Acquire { caller, domain, request, contract, terms, metadata, renew, wait, fresh };
        let told = self.call(Command::Acquire(Box::new(acquire))).await?;
        match &told.answer {
            Answer::Acquired(Ok(acquired)) => {
                let acquired = (**acquired).clone();
                let secret = Some(secret).filter(|_| opening && acquired.secret_taken);
                Ok(self.answered(Granted { acquired, secret }, &told))
            }
            Answer::Acquired(Err(refusal)) => Err(CallError::Refused(refusal.clone())),
            answer => other(answer),
        }
    }

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        assert!(self.mistake != Some(Mistake::PanicInCoordinator), "as a mistake");
        match self.call(Command::Release { secret: Some(secret.hash()), lease, request }).await?.answer {
            Answer::Released(Ok(released)) => Ok(released),
            Answer::Released(Err(refusal)) => Err(CallError::Refused(refusal)),
            answer => other(&answer),
        }
    }

    async fn break_lease(&self, lease: LeaseId, reason: Reason) -> Result<Broken, CallError<BreakRefusal>> {
        match self.call(Command::Break { lease, reason }).await?.answer {
            Answer::Broken(Ok(broken)) => Ok(broken),
            Answer::Broken(Err(refusal)) => Err(CallError::Refused(refusal)),
            answer => other(&answer),
        }
    }

    async fn check(&self, domain: Domain, token: Token) -> Result<bool, CallError<Refused>> {
        match self.query(Query::Check { domain, token }).await? {
            Answer::Current(current) => Ok(current),
            answer => other(&answer),
        }
    }

    async fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Result<Page, CallError<Refused>> {
        match self.query(Query::List { filter, after, limit }).await? {
            Answer::Page(page) => Ok(page),
            answer => other(&answer),
        }
    }

    async fn snapshot(&self, prefix: String) -> Result<LiveSnapshot, CallError<Refused>> {
        match self.query(Query::Snapshot { prefix }).await? {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            answer => other(&answer),
        }
    }
}

impl Watch for Calls {
    fn watch(&self) -> broadcast::Receiver<Arc<WatchedEvents>> {
        self.events.subscribe()
    }
}

impl Explain for Calls {
    async fn queue(&self, domain: Domain, limit: usize) -> Result<QueueView, CallError<Refused>> {
        match self.query(Query::Queue { domain, limit }).await? {
            Answer::Queue(queue) => Ok(queue),
            answer => other(&answer),
        }
    }

    async fn history(&self, _: HistoryQuery) -> Result<HistoryPage, CallError<Refused>> {
        Ok(HistoryPage { entries: Vec::new(), next: None })
    }
}

impl Inspect for Calls {
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    async fn counts(&self) -> Option<Counts> {
        match self.query(Query::Counts).await.ok()? {
            Answer::Counts(counts) => Some(counts),
            answer => other(&answer),
        }
    }
}
