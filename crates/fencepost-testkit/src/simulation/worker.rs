//! A worker: opens a session, acquires, raises the fence or does not, reads, thinks, writes, releases, again and again.
//!
//! Until when it may believe in its lease is decided by the real holder machine. Whatever it does may be interrupted by
//! a pause, after which it goes on exactly where it was: the last look at the lease lies before the pause.

use std::{collections::BTreeMap, time::Duration};

use fencepost_core::{
    Contract, Domain, Grant, Holder, LeaseId, Metadata, Moment, OperationId, RequestId, SecretHash, SessionId, Ttl,
    Wait,
    fence::Operation,
    holder::{Attempt, Confirmed, Holdings, Jitter},
    lease::{Acquire, Acquired, Caller, Command, Credential, Fresh, Heartbeat, HeartbeatRefusal, SessionView, Terms},
};

use super::{random::Random, wishes::Wish};

pub(super) struct Worker {
    pub(super) name: String,
    pub(super) life: u64,
    /// What its clock shows beyond virtual time, in milliseconds: clocks of two machines cannot be compared.
    offset_ms: u64,
    pub(super) paused_until_us: u64,
    pub(super) session: Option<Session>,
    pub(super) phase: Phase,
    /// Rises with every phase: a timer of an earlier one is void.
    pub(super) serial: u64,
    attempts: u64,
    operations: u64,
}

pub(super) struct Session {
    pub(super) key: Credential,
    pub(super) holdings: Holdings,
    pub(super) beats: BTreeMap<u64, Attempt>,
}

/// What a worker waits for.
pub(super) enum Phase {
    /// Nothing but time.
    Idle,
    /// A session.
    Opening { attempt: u64, sent_us: u64 },
    /// A grant. The same request is sent again until it is answered.
    Acquiring { request: RequestId, domain: Domain, call: u64, attempt: u64, sent_us: u64, tries: u32 },
    /// The resource's answer to a wish, under a hold.
    Asking { hold: Hold, wish: Wish, call: u64, attempt: u64, tries: u32 },
    /// Time, between reading and writing.
    Thinking { hold: Hold, based_on: String },
    /// The answer to a release.
    Releasing { hold: Hold, call: u64, attempt: u64, tries: u32 },
}

/// A hold, and what it lets the worker present.
#[derive(Clone)]
pub(super) struct Hold {
    pub(super) request: RequestId,
    pub(super) lease: LeaseId,
    pub(super) grant: Grant,
}

impl Worker {
    pub(super) fn new(number: usize, life: u64, random: &mut Random) -> Self {
        Self {
            name: format!("W{number}.{life}"),
            life,
            offset_ms: random.between(0, 1_000_000),
            paused_until_us: 0,
            session: None,
            phase: Phase::Idle,
            serial: 0,
            attempts: 0,
            operations: 0,
        }
    }

    pub(super) fn moment(&self, now_us: u64) -> Moment {
        Moment::from_millis(now_us / 1_000 + self.offset_ms)
    }

    /// A moment of the worker's clock in virtual time.
    pub(super) fn us(&self, moment: Moment) -> u64 {
        (moment.as_millis() - self.offset_ms) * 1_000
    }

    pub(super) fn attempt(&mut self) -> u64 {
        self.attempts += 1;
        self.attempts
    }

    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.serial += 1;
    }

    pub(super) fn open(&mut self, now_us: u64, ttl: Ttl) -> (u64, Command) {
        let holder = Holder::new(&self.name).expect("a worker's name is a name");
        let Fresh { session, secret, .. } = to_be_drawn();
        let attempt = self.attempt();
        self.enter(Phase::Opening { attempt, sent_us: now_us });
        (attempt, Command::OpenSession { session, secret, holder, ttl })
    }

    pub(super) fn opened(
        &mut self,
        now_us: u64,
        sent_us: u64,
        view: &SessionView,
        elapsed_ms: u64,
        secret: Option<SecretHash>,
    ) {
        let sent = self.moment(sent_us);
        let confirmed = Confirmed { sent, elapsed: Duration::from_millis(elapsed_ms), remaining_ms: view.remaining_ms };
        let mut holdings = Holdings::open(view.ttl, confirmed, Jitter::NONE);
        holdings.expire(self.moment(now_us));
        let key = Credential { session: view.session, secret };
        self.session = Some(Session { key, holdings, beats: BTreeMap::new() });
    }

    /// The command of an acquire; the same request on every try.
    pub(super) fn acquire(&self, domain: &Domain, request: RequestId, wait_ms: u64) -> Command {
        let key = self.session.as_ref().map(|session| session.key).expect("a worker acquires in a session");
        Command::Acquire(Box::new(Acquire {
            caller: Caller::Session(key),
            domain: domain.clone(),
            request,
            contract: Contract::Safety,
            terms: Terms::default(),
            metadata: Metadata::default(),
            renew: false,
            wait: Wait::from_millis(wait_ms).expect("a wait within the limits"),
            fresh: to_be_drawn(),
        }))
    }

    /// Takes a grant into the holder machine; the hold, if the worker may believe in it.
    pub(super) fn granted(
        &mut self,
        now_us: u64,
        sent_us: u64,
        request: RequestId,
        acquired: &Acquired,
        elapsed_ms: u64,
    ) -> Option<Hold> {
        let (now, sent) = (self.moment(now_us), self.moment(sent_us));
        let session = self.session.as_mut().filter(|session| session.key.session == acquired.session)?;
        session.holdings.granted(request, acquired, false, sent, Duration::from_millis(elapsed_ms), now);
        let grant = acquired.permission.grant()?.clone();
        Some(Hold { request, lease: acquired.lease, grant })
    }

    /// Until when the worker may believe in a hold, in virtual time.
    pub(super) fn believes_until_us(&self, hold: &Hold) -> Option<u64> {
        let deadline = self.session.as_ref()?.holdings.deadline(hold.request)?;
        Some(self.us(deadline))
    }

    pub(super) fn is_held(&self, now_us: u64, hold: &Hold) -> bool {
        let now = self.moment(now_us);
        self.session.as_ref().is_some_and(|session| session.holdings.state(hold.request, now).is_held())
    }

    /// The heartbeat that is due, if one is.
    pub(super) fn beat(&mut self, now_us: u64) -> Option<(u64, Command)> {
        let now = self.moment(now_us);
        let attempt = self.attempt();
        let session = self.session.as_mut()?;
        if session.holdings.next_heartbeat().is_none_or(|due| due > now) {
            return None;
        }
        let beat = session.holdings.heartbeat(now);
        session.holdings.unanswered(now, Jitter::NONE);
        let command = Command::Heartbeat { caller: session.key, claim: beat.claim() };
        session.beats.insert(attempt, beat);
        Some((attempt, command))
    }

    /// When the next heartbeat is due, in virtual time.
    pub(super) fn next_beat_us(&self) -> Option<u64> {
        let due = self.session.as_ref()?.holdings.next_heartbeat()?;
        Some(self.us(due))
    }

    /// Whether the answer was to a heartbeat of the present session.
    pub(super) fn heard(
        &mut self,
        now_us: u64,
        attempt: u64,
        answer: &Result<Heartbeat, HeartbeatRefusal>,
        elapsed_ms: u64,
        random: &mut Random,
    ) -> bool {
        let now = self.moment(now_us);
        let Some(session) = self.session.as_mut() else { return false };
        let Some(beat) = session.beats.remove(&attempt) else { return false };
        let jitter = Jitter::new(u16::try_from(random.between(0, 9_999)).unwrap_or(0));
        match answer {
            Ok(heartbeat) => {
                session.holdings.confirmed(&beat, heartbeat, Duration::from_millis(elapsed_ms), now, jitter);
            }
            Err(refusal) => session.holdings.refused(&beat, *refusal, now),
        }
        true
    }

    pub(super) fn operation(&mut self, grant: &Grant, value: &str) -> Operation {
        self.operations += 1;
        let id = OperationId::new(&format!("{}-{}", self.name, self.operations)).expect("an operation id");
        Operation::new(id, value.as_bytes()).born(grant.token)
    }
}

/// Ids stand in a command only once the coordinator has drawn them.
fn to_be_drawn() -> Fresh {
    let (lease, session) = (LeaseId::from_bytes([0; 16]), SessionId::from_bytes([0; 16]));
    Fresh { lease, session, secret: SecretHash::from_bytes([0; 32]) }
}
