use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fencepost_core::{
    BootId, Domain, Epoch, Holder, Issuer, LeaseId, Reason, RequestId, Secret, SecretHash, Sequence, SessionId, Token,
    Ttl,
    lease::{
        Acquire, AcquireRefusal, Answer, BreakRefusal, Broken, Caller, Claim, Command, Counts, Credential, Filter,
        Fresh, Heartbeat, HeartbeatRefusal, LimitReached, LiveSnapshot, Page, Query, QueueView, ReleaseRefusal,
        Released, SessionRefusal, SessionView, Ticket,
    },
    limits,
};
use tokio::sync::{broadcast, oneshot};

use super::{
    Clock, Identity, NotReady, Statistics,
    facts::Facts,
    history::History,
    message::{Call, Decided, Message, Reply, Settled, Unanswered},
    random,
    writer::SHUT_DOWN,
};
use crate::{
    AcquireRequest, Answered, CallError, Coordinator, Explain, Granted, HistoryPage, HistoryQuery, Opened, Refused,
    RequestCaller, SessionKey, Watch, WatchedEvents,
};

/// A coordinator in this process. Cheap to clone; the last clone to go shuts it down.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) to_writer: Sender<Message>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) boot: BootId,
    pub(super) identity: Identity,
    pub(super) start_number: u64,
    pub(super) withheld_push: Option<Sequence>,
    pub(super) facts: Arc<Facts>,
    pub(super) history: Arc<History>,
    pub(super) events: broadcast::Sender<Arc<WatchedEvents>>,
    pub(super) next_ticket: AtomicU64,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    pub(super) fn new(shared: Shared, thread: JoinHandle<()>) -> Self {
        *shared.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Self { shared: Arc::new(shared) }
    }

    /// Its name, as receivers know it.
    #[must_use]
    pub fn issuer(&self) -> &Issuer {
        &self.shared.identity.issuer
    }

    /// The generation of its identity.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared.identity.epoch
    }

    /// The boot it runs under.
    #[must_use]
    pub fn boot(&self) -> BootId {
        self.shared.boot
    }

    /// The number of this start; greater at every one.
    #[must_use]
    pub fn start_number(&self) -> u64 {
        self.shared.start_number
    }

    /// How far the wall clock would have pushed the sequence at this start, where that was withheld because it is
    /// more than a year. Either the clock is wrong, or the coordinator has granted little for long; in the latter case
    /// start once with [`Options::push_far`](super::Options::push_far). Order does not depend on it.
    #[must_use]
    pub fn withheld_push(&self) -> Option<Sequence> {
        self.shared.withheld_push
    }

    /// Whether it grants at present.
    ///
    /// # Errors
    /// When it does not, and why. Reads and heartbeats may work all the same.
    pub fn ready(&self) -> Result<(), NotReady> {
        self.shared.facts.ready()
    }

    /// What has been done since the start.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.facts.statistics()
    }

    /// How many sessions, leases and waiting requests there are.
    ///
    /// # Errors
    /// When the coordinator cannot tell at present.
    pub async fn counts(&self) -> Result<Counts, CallError<Refused>> {
        match self.call(Command::Query(Query::Counts)).await?.answer {
            Answer::Counts(counts) => Ok(counts),
            other => other_answer(&other),
        }
    }

    /// Answers what has been called, closes the store and lets go of its directory. Calls made from now on, by any
    /// clone, are [`Unavailable`](CallError::Unavailable). May be repeated.
    pub async fn shutdown(&self) {
        let (done, closed) = oneshot::channel();
        if self.shared.to_writer.send(Message::Shutdown(Some(done))).is_ok() {
            let _ = closed.await;
        }
    }

    async fn call<R>(&self, command: Command) -> Result<Decided, CallError<R>> {
        let received = self.shared.clock.now();
        let (_, answer) = self.send(command, received)?;
        receive(answer).await
    }

    fn send<R>(
        &self,
        command: Command,
        received: Duration,
    ) -> Result<(Ticket, oneshot::Receiver<Settled>), CallError<R>> {
        let (to, answer) = oneshot::channel();
        let ticket = Ticket(self.shared.next_ticket.fetch_add(1, Relaxed));
        let call = Call { ticket, command, reply: Reply { received, to } };
        if self.shared.facts.queued.fetch_add(1, Relaxed) >= limits::QUEUED_CALLS {
            self.shared.facts.queued.fetch_sub(1, Relaxed);
            let why = format!("{} calls wait for the storage already", limits::QUEUED_CALLS);
            return Err(CallError::Unavailable { why, may_have_happened: false });
        }
        if self.shared.to_writer.send(Message::Call(call)).is_err() {
            self.shared.facts.queued.fetch_sub(1, Relaxed);
            return Err(CallError::Unavailable { why: SHUT_DOWN.to_owned(), may_have_happened: false });
        }
        Ok((ticket, answer))
    }

    fn answered<T>(&self, answer: T, elapsed: Duration) -> Answered<T> {
        Answered { answer, elapsed, boot: self.shared.boot }
    }
}

async fn receive<R>(answer: oneshot::Receiver<Settled>) -> Result<Decided, CallError<R>> {
    match answer.await {
        Ok(Ok(decided)) => Ok(decided),
        Ok(Err(Unanswered { why, may_have_happened })) => Err(CallError::Unavailable { why, may_have_happened }),
        // The writer went away with the call in its hands.
        Err(_) => Err(CallError::Unavailable { why: SHUT_DOWN.to_owned(), may_have_happened: true }),
    }
}

/// Tells the writer when the future of a waiting acquire is dropped.
struct Connection<'a> {
    shared: &'a Shared,
    ticket: Option<Ticket>,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let _ = self.shared.to_writer.send(Message::Disconnected(ticket));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.to_writer.send(Message::Shutdown(None));
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|writer| writer.thread().id() != thread::current().id()) {
            // A writer that panicked has been reported as stopped.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded")
            .field("issuer", self.issuer())
            .field("epoch", &self.epoch())
            .field("start_number", &self.start_number())
            .finish_non_exhaustive()
    }
}

/// The machine answers each command with its own kind of answer, so any other is a defect of ours.
fn other_answer(answer: &Answer) -> ! {
    panic!("the answer is of another call: {answer:?}")
}

fn credential(key: &SessionKey) -> Credential {
    Credential { session: key.session, secret: Some(key.secret.hash()) }
}

impl Coordinator for Embedded {
    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        let secret = Secret::from_bytes(random::bytes());
        let session = SessionId::from_bytes(random::bytes());
        let command = Command::OpenSession { session, secret: secret.hash(), holder, ttl };
        let Decided { answer, elapsed } = self.call(command).await?;
        match answer {
            Answer::Opened(Ok(session)) => Ok(self.answered(Opened { session, secret }, elapsed)),
            Answer::Opened(Err(reached)) => Err(CallError::Refused(reached)),
            other => other_answer(&other),
        }
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        let Decided { answer, elapsed } = self.call(Command::Heartbeat { caller: credential(key), claim }).await?;
        match answer {
            Answer::Heartbeat(Ok(heartbeat)) => Ok(self.answered(heartbeat, elapsed)),
            Answer::Heartbeat(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn read_session(&self, key: &SessionKey) -> Result<Answered<SessionView>, CallError<SessionRefusal>> {
        let Decided { answer, elapsed } = self.call(Command::ReadSession { caller: credential(key) }).await?;
        match answer {
            Answer::Session(Ok(session)) => Ok(self.answered(session, elapsed)),
            Answer::Session(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        match self.call(Command::EndSession { caller: credential(key) }).await?.answer {
            Answer::SessionEnded(Ok(())) => Ok(()),
            Answer::SessionEnded(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        let received = self.shared.clock.now();
        let (caller, secret) = match request.caller {
            RequestCaller::Session { session, secret } => {
                (Caller::Session(Credential { session, secret: secret.map(|secret| secret.hash()) }), None)
            }
            RequestCaller::Opening { holder, ttl } => {
                (Caller::Opening { holder, ttl }, Some(Secret::from_bytes(random::bytes())))
            }
        };
        let fresh = Fresh {
            lease: LeaseId::from_bytes(random::bytes()),
            session: SessionId::from_bytes(random::bytes()),
            // A digest that no secret is known for, where the acquire opens no session.
            secret: secret.as_ref().map_or_else(|| SecretHash::from_bytes(random::bytes()), Secret::hash),
        };
        let AcquireRequest { caller: _, domain, request, contract, terms, metadata, renew, wait } = request;
        let acquire = Acquire { caller, domain, request, contract, terms, metadata, renew, wait, fresh };
        let (ticket, answer) = self.send(Command::Acquire(Box::new(acquire)), received)?;
        let mut connection = Connection { shared: &self.shared, ticket: Some(ticket).filter(|_| wait.as_millis() > 0) };
        let answer = receive(answer).await;
        connection.ticket = None;
        let Decided { answer, elapsed } = answer?;
        match answer {
            Answer::Acquired(Ok(acquired)) => {
                let secret = secret.filter(|_| acquired.secret_taken);
                Ok(self.answered(Granted { acquired: *acquired, secret }, elapsed))
            }
            Answer::Acquired(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        match self.call(Command::Release { secret: Some(secret.hash()), lease, request }).await?.answer {
            Answer::Released(Ok(released)) => Ok(released),
            Answer::Released(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn break_lease(&self, lease: LeaseId, reason: Reason) -> Result<Broken, CallError<BreakRefusal>> {
        match self.call(Command::Break { lease, reason }).await?.answer {
            Answer::Broken(Ok(broken)) => Ok(broken),
            Answer::Broken(Err(refusal)) => Err(CallError::Refused(refusal)),
            other => other_answer(&other),
        }
    }

    async fn check(&self, domain: Domain, token: Token) -> Result<bool, CallError<Refused>> {
        match self.call(Command::Query(Query::Check { domain, token })).await?.answer {
            Answer::Current(current) => Ok(current),
            other => other_answer(&other),
        }
    }

    async fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Result<Page, CallError<Refused>> {
        match self.call(Command::Query(Query::List { filter, after, limit })).await?.answer {
            Answer::Page(page) => Ok(page),
            other => other_answer(&other),
        }
    }

    async fn snapshot(&self, prefix: String) -> Result<LiveSnapshot, CallError<Refused>> {
        match self.call(Command::Query(Query::Snapshot { prefix })).await?.answer {
            Answer::Snapshot(snapshot) => Ok(snapshot),
            other => other_answer(&other),
        }
    }
}

impl Watch for Embedded {
    fn watch(&self) -> broadcast::Receiver<Arc<WatchedEvents>> {
        self.shared.events.subscribe()
    }
}

impl Explain for Embedded {
    async fn queue(&self, domain: Domain, limit: usize) -> Result<QueueView, CallError<Refused>> {
        match self.call(Command::Query(Query::Queue { domain, limit })).await?.answer {
            Answer::Queue(queue) => Ok(queue),
            other => other_answer(&other),
        }
    }

    async fn history(&self, query: HistoryQuery) -> Result<HistoryPage, CallError<Refused>> {
        Ok(self.shared.history.page(&query))
    }
}
