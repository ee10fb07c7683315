//! What the coordinator remembers. Fields marked `skip` are volatile: they begin anew at a start.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque},
};

use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};

use crate::{
    BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Moment, RequestId, SecretHash, Sequence,
    SessionId, Token, Ttl, limits,
};

use super::{
    Acquire, LeaseEnd, Released, ReservedKind, SessionEnd, Terms, Ticket, Version, command::RequestDigest, record::Hold,
};

/// A hash map whose order is the same in every run: a simulation of one seed must have one trace. Its keys are drawn by
/// the coordinator or are digests, never chosen by a caller, so the hash need not resist anybody.
pub(super) type Map<K, V> = HashMap<K, V, FxBuildHasher>;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) issuer: Issuer,
    pub(super) epoch: Epoch,
    /// The next number to issue; `None` at the end of the epoch.
    pub(super) next: Option<Sequence>,
    /// The last number that is durably reserved.
    pub(super) reserved: Sequence,
    pub(super) start_number: u64,
    pub(super) boot: BootId,
    pub(super) started: Moment,
    pub(super) sessions: Map<SessionId, Session>,
    pub(super) leases: Map<LeaseId, Lease>,
    pub(super) places: BTreeMap<Domain, Place>,
    /// Every secret that is still known, of live and of remembered sessions.
    pub(super) secrets: Map<SecretHash, SessionId>,
    /// Acquires that opened a session, or wait to open one. Ordered, because callers choose the keys.
    pub(super) openings: BTreeMap<RequestId, Opening>,
    /// How many of them wait.
    pub(super) opening_waiters: usize,
    pub(super) ended_leases: Remembered<LeaseId, EndedLeaseMemo>,
    pub(super) ended_sessions: Remembered<SessionId, EndedSessionMemo>,
    pub(super) waiting: Map<Ticket, (Domain, RequestId)>,
    pub(super) timers: BinaryHeap<Reverse<(Moment, Timer)>>,
    /// How few timers there have been since the void ones were last dropped.
    timers_least: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) secret: SecretHash,
    pub(super) holder: Holder,
    pub(super) ttl: Ttl,
    pub(super) opened_by: Option<RequestId>,
    /// Whether the secret is settled: it was used, or was handed out in an answer that is not repeated.
    pub(super) claimed: bool,
    /// The end of the grace that a start gave, until the session is heard.
    pub(super) mark: Option<Moment>,
    pub(super) ends: Moment,
    pub(super) ended_holds: VecDeque<EndedHold>,
    #[serde(skip)]
    pub(super) version: Version,
    #[serde(skip)]
    pub(super) leases: BTreeSet<LeaseId>,
    #[serde(skip)]
    pub(super) requests: BTreeMap<RequestId, RequestPlace>,
    /// When its timer goes off; earlier entries of the heap are void.
    #[serde(skip)]
    pub(super) timer: Option<Moment>,
    #[serde(skip)]
    pub(super) waiters: usize,
}

/// Where a request id of a session stands.
#[derive(Clone, Debug)]
pub(super) enum RequestPlace {
    Live(LeaseId),
    Ended(LeaseId, Released),
    Waiting(Domain),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndedHold {
    pub(super) request: RequestId,
    pub(super) lease: LeaseId,
    pub(super) answer: Released,
    pub(super) at: Moment,
}

#[derive(Clone, Debug)]
pub(super) enum Opening {
    Waiting(Domain),
    Session(SessionId),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Lease {
    pub(super) domain: Domain,
    pub(super) session: SessionId,
    pub(super) token: Token,
    pub(super) contract: Contract,
    pub(super) terms: Terms,
    pub(super) metadata: Metadata,
    pub(super) granted: Moment,
    pub(super) holds: Vec<Hold>,
    /// The end of the grace that a start gave, until a heartbeat names the lease.
    pub(super) mark: Option<Moment>,
    /// Its end unless a heartbeat names it. The session's end and the greatest holding time come on top.
    pub(super) ends: Moment,
    /// Whether the session's last full heartbeat named it.
    #[serde(skip)]
    pub(super) claimed: bool,
}

/// A domain that is held, reserved or waited for. Others take no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) lease: Option<LeaseId>,
    pub(super) reserved: Option<Reservation>,
    pub(super) queue: VecDeque<Waiter>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Reservation {
    pub(super) kind: ReservedKind,
    pub(super) until: Moment,
    /// The whole time, for a start that cannot tell how much of it has passed.
    pub(super) length_ms: u64,
    /// The delay after an unclean end that lies within it: it starts anew at every start.
    pub(super) delay_ms: u64,
}

/// A place in a queue. It belongs to the request id; the ticket is the connection that waits on it at present.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) acquire: Box<Acquire>,
    pub(super) digest: RequestDigest,
    pub(super) ticket: Option<Ticket>,
    pub(super) since: Moment,
    /// End of the wait with a connection, of the kept place without one.
    pub(super) until: Moment,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndedLeaseMemo {
    pub(super) domain: Domain,
    pub(super) session: SessionId,
    pub(super) contract: Contract,
    pub(super) end: LeaseEnd,
    pub(super) fence_to: Option<Token>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct EndedSessionMemo {
    pub(super) secret: SecretHash,
    pub(super) opened_by: Option<RequestId>,
    pub(super) end: SessionEnd,
}

/// Something to look at when its moment comes. Looking too often is harmless.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(SessionId),
    Reservation(Domain),
    Wait(Domain, RequestId),
}

/// The last of what has ended, forgotten by age and by number.
#[derive(Clone, Debug)]
pub(super) struct Remembered<K, V> {
    memos: Map<K, V>,
    order: VecDeque<(Moment, K)>,
}

/// How many timers may be void without anybody looking.
const TIMERS_SPARE: usize = 4_096;

/// How many ended leases, and how many ended sessions, are remembered at most.
const REMEMBERED: usize = 10_000;

impl<K: Copy + Eq + std::hash::Hash, V> Remembered<K, V> {
    pub(super) fn new() -> Self {
        Self { memos: Map::default(), order: VecDeque::new() }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.memos.get(key)
    }

    pub(super) fn remember(&mut self, key: K, memo: V, at: Moment) {
        if self.memos.insert(key, memo).is_none() {
            self.order.push_back((at, key));
        }
    }

    /// Forgets the oldest memo when it is too old at `now`, or when there are too many.
    pub(super) fn forget_one(&mut self, now: Moment) -> Option<V> {
        let (at, key) = *self.order.front()?;
        let due = self.order.len() > REMEMBERED || now.since(at).as_millis() >= limits::ENDED_MEMORY_MS.into();
        if !due {
            return None;
        }
        self.order.pop_front();
        self.memos.remove(&key)
    }

    fn entries(&self) -> impl Iterator<Item = (Moment, K, &V)> {
        self.order.iter().filter_map(|(at, key)| Some((*at, *key, self.memos.get(key)?)))
    }

    /// Lets every memo count from `at`, because the clock it was made by is gone.
    pub(super) fn rebase(&mut self, at: Moment) {
        self.order.iter_mut().for_each(|(made, _)| *made = at);
    }
}

impl Session {
    pub(super) fn schedule(&mut self, timers: &mut BinaryHeap<Reverse<(Moment, Timer)>>, id: SessionId, at: Moment) {
        if self.timer.is_none_or(|timer| at < timer) {
            self.timer = Some(at);
            timers.push(Reverse((at, Timer::Session(id))));
        }
    }

    /// Forgets ended holds whose time is over.
    pub(super) fn forget(&mut self, now: Moment) {
        while let Some(hold) = self.ended_holds.front() {
            if u64::try_from(now.since(hold.at).as_millis()).unwrap_or(u64::MAX) < limits::ENDED_MEMORY_MS {
                break;
            }
            self.requests.remove(&hold.request);
            self.ended_holds.pop_front();
        }
    }
}

impl State {
    pub(super) fn new(issuer: Issuer, epoch: Epoch) -> Self {
        Self {
            issuer,
            epoch,
            next: Some(Sequence::FIRST),
            reserved: Sequence::ZERO,
            start_number: 0,
            boot: BootId::from_bytes([0; 16]),
            started: Moment::from_millis(0),
            sessions: Map::default(),
            leases: Map::default(),
            places: BTreeMap::new(),
            secrets: Map::default(),
            openings: BTreeMap::new(),
            opening_waiters: 0,
            ended_leases: Remembered::new(),
            ended_sessions: Remembered::new(),
            waiting: Map::default(),
            timers: BinaryHeap::new(),
            timers_least: 0,
        }
    }

    /// The moment at which a lease ends unless something is renewed.
    pub(super) fn end_of(&self, lease: &Lease) -> Moment {
        let session = self.sessions.get(&lease.session).map_or(lease.ends, |session| session.ends);
        let longest = lease.terms.max_hold.map(|max| lease.granted.after_millis(max.as_millis()));
        lease.ends.min(session).min(longest.unwrap_or(Moment::from_millis(u64::MAX)))
    }

    pub(super) fn remaining_ms(&self, lease: &Lease, now: Moment) -> u64 {
        self.end_of(lease).as_millis().saturating_sub(now.as_millis())
    }

    /// Sets the session's timer to the first end among it and its leases.
    pub(super) fn schedule_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let first = session.leases.iter().filter_map(|lease| self.leases.get(lease)).map(|lease| self.end_of(lease));
        let at = first.chain([session.ends]).min().unwrap_or(session.ends);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.schedule(&mut self.timers, id, at);
        }
    }

    /// Sets the timer of a lease's session to no later than the lease's end.
    pub(super) fn schedule_lease(&mut self, id: LeaseId) {
        let Some(lease) = self.leases.get(&id) else { return };
        let (at, session) = (self.end_of(lease), lease.session);
        if let Some(owner) = self.sessions.get_mut(&session) {
            owner.schedule(&mut self.timers, session, at);
        }
    }

    /// Sets every timer anew, after a start. One walk over all leases: asking each session for its own is a leap through
    /// memory for every lease, and there may be millions.
    pub(super) fn schedule_all(&mut self) {
        self.timers.clear();
        let mut first: Map<SessionId, Moment> = self.sessions.iter().map(|(id, session)| (*id, session.ends)).collect();
        for lease in self.leases.values() {
            let end = self.end_of(lease);
            first.entry(lease.session).and_modify(|first| *first = end.min(*first));
        }
        for (id, session) in &mut self.sessions {
            session.timer = None;
            session.schedule(&mut self.timers, *id, first[id]);
        }
        self.schedule_places();
    }

    /// Drops the timers that nothing is due by any more, when they may be most of them. A retry that takes a place over,
    /// and a connection that goes, leave one each, which would else stay for as long as the wait that was asked for.
    ///
    /// That is worth its while: since the last time there were about as many new timers as this looks at.
    pub(super) fn drop_void_timers(&mut self) {
        self.timers_least = self.timers_least.min(self.timers.len());
        if self.timers.len() <= 2 * self.timers_least + self.places.len() + TIMERS_SPARE {
            return;
        }
        let sessions = &self.sessions;
        self.timers.retain(|Reverse((at, timer))| match timer {
            Timer::Session(id) => sessions.get(id).is_some_and(|session| session.timer == Some(*at)),
            Timer::Reservation(_) | Timer::Wait(..) => false,
        });
        self.schedule_places();
        self.timers_least = self.timers.len();
    }

    fn schedule_places(&mut self) {
        for (domain, place) in &self.places {
            if let Some(reservation) = place.reserved {
                self.timers.push(Reverse((reservation.until, Timer::Reservation(domain.clone()))));
            }
            for waiter in &place.queue {
                self.timers.push(Reverse((waiter.until, Timer::Wait(domain.clone(), waiter.acquire.request))));
            }
        }
    }
}

/// The whole durable state of a coordinator, opaque but for its encoding.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    issuer: Issuer,
    epoch: Epoch,
    next: Option<Sequence>,
    reserved: Sequence,
    start_number: u64,
    boot: BootId,
    started: Moment,
    sessions: Vec<(SessionId, Session)>,
    leases: Vec<(LeaseId, Lease)>,
    reservations: Vec<(Domain, Reservation)>,
    ended_leases: Vec<(Moment, LeaseId, EndedLeaseMemo)>,
    ended_sessions: Vec<(Moment, SessionId, EndedSessionMemo)>,
}

/// The entries by key, so that one state has one encoding.
fn in_order<K: Copy + Ord, V: Clone>(map: &Map<K, V>) -> Vec<(K, V)> {
    let mut entries: Vec<_> = map.iter().map(|(key, value)| (*key, value.clone())).collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

impl State {
    pub(super) fn snapshot(&self) -> Snapshot {
        let reserved = |(domain, place): (&Domain, &Place)| Some((domain.clone(), place.reserved?));
        Snapshot {
            issuer: self.issuer.clone(),
            epoch: self.epoch,
            next: self.next,
            reserved: self.reserved,
            start_number: self.start_number,
            boot: self.boot,
            started: self.started,
            sessions: in_order(&self.sessions),
            leases: self.leases_by_domain(),
            reservations: self.places.iter().filter_map(reserved).collect(),
            ended_leases: self.ended_leases.entries().map(|(at, id, memo)| (at, id, memo.clone())).collect(),
            ended_sessions: self.ended_sessions.entries().map(|(at, id, memo)| (at, id, memo.clone())).collect(),
        }
    }

    /// In the order in which a start builds its places.
    fn leases_by_domain(&self) -> Vec<(LeaseId, Lease)> {
        let mut leases = Vec::with_capacity(self.leases.len());
        leases.extend(self.places.values().filter_map(|place| {
            let id = place.lease?;
            Some((id, self.leases.get(&id)?.clone()))
        }));
        leases
    }

    pub(super) fn from_snapshot(snapshot: Snapshot) -> Self {
        let mut state = Self::new(snapshot.issuer, snapshot.epoch);
        state.next = snapshot.next;
        state.reserved = snapshot.reserved;
        state.start_number = snapshot.start_number;
        state.boot = snapshot.boot;
        state.started = snapshot.started;
        for (at, id, memo) in snapshot.ended_sessions {
            state.secrets.insert(memo.secret, id);
            if let Some(request) = memo.opened_by {
                state.openings.insert(request, Opening::Session(id));
            }
            state.ended_sessions.remember(id, memo, at);
        }
        for (at, id, memo) in snapshot.ended_leases {
            state.ended_leases.remember(id, memo, at);
        }
        for (id, mut session) in snapshot.sessions {
            state.secrets.insert(session.secret, id);
            if let Some(request) = session.opened_by {
                state.openings.insert(request, Opening::Session(id));
            }
            let ended = session.ended_holds.iter();
            session.requests = ended.map(|hold| (hold.request, RequestPlace::Ended(hold.lease, hold.answer))).collect();
            state.sessions.insert(id, session);
        }
        let held =
            |(id, lease): &(LeaseId, Lease)| (lease.domain.clone(), Place { lease: Some(*id), ..Place::default() });
        state.places = snapshot.leases.iter().map(held).collect();
        state.leases.reserve(snapshot.leases.len());
        for (id, lease) in snapshot.leases {
            if let Some(session) = state.sessions.get_mut(&lease.session) {
                session.leases.insert(id);
                session.requests.extend(lease.holds.iter().map(|hold| (hold.request, RequestPlace::Live(id))));
            }
            state.leases.insert(id, lease);
        }
        for (domain, reservation) in snapshot.reservations {
            state.places.entry(domain).or_default().reserved = Some(reservation);
        }
        state
    }
}
