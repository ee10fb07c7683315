use std::cmp::Reverse;

use crate::{BootId, Epoch, Invalid, Issuer, Moment, Sequence, SessionId, Token};

use super::{
    Answer, Command, Credential, Event, EventKind, Output, Record, SessionRefusal, Snapshot, Ticket, state::State,
};

/// How many numbers are reserved at a time: what a crash skips at most.
const BLOCK: u64 = 10_000;

/// The coordinator's state and its rules.
#[derive(Clone, Debug)]
pub struct Leases {
    pub(super) state: State,
}

/// What a start of the coordinator brings.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Greater than at every earlier start of this store.
    pub number: u64,
    /// The boot it runs under.
    pub boot: BootId,
    /// The present moment.
    pub at: Moment,
    /// The least number to issue, pushed forward by the driver as a second line against an unnoticed restore.
    pub least: Sequence,
}

/// One step: the state, the present moment, and what is to be done about it.
pub(super) struct Step<'a> {
    pub(super) state: &'a mut State,
    pub(super) now: Moment,
    pub(super) output: Output,
}

/// There is no token left in the epoch.
pub(super) struct Exhausted;

impl Leases {
    /// An empty coordinator. It grants nothing before it is [started](Self::start).
    #[must_use]
    pub fn new(issuer: Issuer, epoch: Epoch) -> Self {
        Self { state: State::new(issuer, epoch) }
    }

    /// The state that a snapshot was taken of.
    #[must_use]
    pub fn from_snapshot(snapshot: Snapshot) -> Self {
        Self { state: State::from_snapshot(snapshot) }
    }

    /// The whole durable state; records before it are no longer needed.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// Applies a record read back from the store.
    pub fn replay(&mut self, record: &Record) {
        self.state.apply(record);
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Starts: its record is to be durable before any command is taken.
    pub fn start(&mut self, start: Start) -> Output {
        let Start { number, boot, at, least } = start;
        let unused = self.state.reserved.checked_add(1);
        let next = unused.map(|unused| unused.max(least).max(Sequence::FIRST));
        let mut step = self.at(at);
        step.commit(Record::Started { number, boot, at, next });
        let output = step.output;
        self.state.schedule_all();
        output
    }

    /// Decides one command. What has expired by `now` is expired before the command is looked at.
    pub fn step(&mut self, ticket: Ticket, command: Command, now: Moment) -> Output {
        self.step_after(Output::default(), ticket, command, now)
    }

    /// The same as the next step of a batch: its output is that of the earlier steps with this one's joined to it.
    pub fn step_after(&mut self, earlier: Output, ticket: Ticket, command: Command, now: Moment) -> Output {
        let mut step = Step { state: &mut self.state, now, output: earlier };
        step.expire();
        step.decide(ticket, command);
        step.output
    }

    /// Does what time brings: ends, grants to waiters, answers whose wait is over.
    pub fn tick(&mut self, now: Moment) -> Output {
        let mut step = self.at(now);
        step.expire();
        step.output
    }

    /// When [`tick`](Self::tick) has something to look at. A call at another moment is harmless.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.state.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// The connection of a call is gone. A waiting request keeps its place for one TTL and is not granted meanwhile.
    pub fn disconnect(&mut self, ticket: Ticket, now: Moment) {
        self.at(now).disconnect(ticket);
    }

    /// The calls that wait in a queue.
    pub fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.state.waiting.keys().copied()
    }

    /// Takes over what heartbeats have renewed from the state before a failed commit, into the state that the store
    /// was found to hold: their answers have been sent and stay true. Versions are void, so that the next heartbeat
    /// names its leases.
    pub fn keep_renewals_of(&mut self, before: &Self) {
        for (id, session) in &mut self.state.sessions {
            if let Some(earlier) = before.state.sessions.get(id) {
                session.ends = session.ends.max(earlier.ends);
                session.version = super::Version(earlier.version.0 + 1);
            }
        }
        for (id, lease) in &mut self.state.leases {
            // A lease that only the lost records ended may be believed in for as long as its session.
            let earlier = before.state.leases.get(id).map(|earlier| earlier.ends);
            let session = before.state.sessions.get(&lease.session).map(|earlier| earlier.ends);
            lease.ends = lease.ends.max(earlier.or(session).unwrap_or(lease.ends));
        }
        self.state.schedule_all();
    }

    /// The issuer.
    #[must_use]
    pub fn issuer(&self) -> &Issuer {
        &self.state.issuer
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// The last number that is durably reserved: a start issues none up to it.
    #[must_use]
    pub fn reserved(&self) -> Sequence {
        self.state.reserved
    }

    /// The number of the present start.
    #[must_use]
    pub fn start_number(&self) -> u64 {
        self.state.start_number
    }

    fn at(&mut self, now: Moment) -> Step<'_> {
        Step { state: &mut self.state, now, output: Output::default() }
    }
}

impl Step<'_> {
    fn decide(&mut self, ticket: Ticket, command: Command) {
        let answer = match command {
            Command::OpenSession { session, secret, holder, ttl } => {
                Some(Answer::Opened(self.open_session(session, secret, holder, ttl)))
            }
            Command::Heartbeat { caller, claim } => Some(Answer::Heartbeat(self.heartbeat(caller, claim))),
            Command::ReadSession { caller } => Some(Answer::Session(self.read_session(caller))),
            Command::EndSession { caller } => Some(Answer::SessionEnded(self.end_session(caller))),
            Command::Acquire(acquire) => self.acquire(ticket, acquire),
            Command::Release { secret, lease, request } => Some(Answer::Released(self.release(secret, lease, request))),
            Command::Break { lease, reason } => Some(Answer::Broken(self.break_lease(lease, reason))),
            Command::Query(query) => Some(self.query(query)),
        };
        if let Some(answer) = answer {
            self.answer(ticket, answer);
        }
    }

    /// Applies a record and has it made durable.
    pub(super) fn commit(&mut self, record: Record) {
        self.state.apply(&record);
        self.output.records.push(record);
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.output.answers.push((ticket, answer));
    }

    /// Finds the session that a call is made for, and settles its secret.
    pub(super) fn authenticate(&mut self, caller: Credential) -> Result<SessionId, SessionRefusal> {
        let secret = caller.secret.ok_or(SessionRefusal::Unauthenticated)?;
        let owner = self.state.secrets.get(&secret);
        let known = if let Some(session) = self.state.sessions.get(&caller.session) {
            Ok(session.claimed)
        } else if let Some(memo) = self.state.ended_sessions.get(&caller.session) {
            Err(SessionRefusal::SessionEnded(memo.end))
        } else {
            return Err(SessionRefusal::UnknownSession);
        };
        match owner {
            None => return Err(SessionRefusal::Unauthenticated),
            Some(owner) if *owner != caller.session => return Err(SessionRefusal::NotYours),
            Some(_) => {}
        }
        if !known? {
            self.commit(Record::SessionClaimed { session: caller.session });
        }
        Ok(caller.session)
    }

    /// The next token, reserved before it is used.
    pub(super) fn draw(&mut self) -> Result<Token, Exhausted> {
        let next = self.state.next.ok_or(Exhausted)?;
        if next > self.state.reserved {
            let through = next.checked_add(BLOCK - 1).unwrap_or(Sequence::MAX);
            self.commit(Record::SequenceReserved { through });
        }
        Token::new(self.state.epoch, next).map_err(|_: Invalid| Exhausted)
    }

    /// Tells watchers what happens to a live lease.
    pub(super) fn event(&mut self, id: crate::LeaseId, kind: EventKind) {
        let Some(lease) = self.state.leases.get(&id) else { return };
        let Some(session) = self.state.sessions.get(&lease.session) else { return };
        self.output.events.push(Event {
            domain: lease.domain.clone(),
            lease: id,
            contract: lease.contract,
            token: lease.visible_token(),
            holder: session.holder.clone(),
            kind,
        });
    }

    /// Forgets what has been remembered long enough.
    pub(super) fn forget(&mut self) {
        while self.state.ended_leases.forget_one(self.now).is_some() {}
        while let Some(memo) = self.state.ended_sessions.forget_one(self.now) {
            self.state.secrets.remove(&memo.secret);
            if let Some(request) = memo.opened_by {
                self.state.openings.remove(&request);
            }
        }
    }
}
