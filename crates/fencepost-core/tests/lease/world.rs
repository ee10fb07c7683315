//! A coordinator whose disk is a list of records and whose clock is a number.

use fencepost_core::{
    BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Moment, Reason, RequestId, Secret, SecretHash,
    Sequence, SessionId, Token, Ttl, Wait,
    lease::{
        Acquire, AcquireRefusal, Acquired, Answer, BreakRefusal, Broken, Caller, Claim, Command, Credential, Event,
        Filter, Fresh, Heartbeat, HeartbeatRefusal, LeaseView, Leases, LimitReached, LiveSnapshot, Output, Query,
        Record, ReleaseRefusal, Released, SessionRefusal, Start, Terms, Ticket, Version,
    },
};

pub(crate) const TTL: u64 = 3_000;

pub(crate) fn boot(n: u8) -> BootId {
    BootId::from_bytes([n; 16])
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

pub(crate) fn token(text: &str) -> Token {
    text.parse().unwrap()
}

pub(crate) fn request(n: u64) -> RequestId {
    RequestId::from_bytes(u128::from(n).to_be_bytes())
}

pub(crate) fn secret(n: u64) -> SecretHash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Secret::from_bytes(bytes).hash()
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) leases: Leases,
    pub(crate) disk: Vec<Record>,
    pub(crate) now: u64,
    pub(crate) answers: Vec<(Ticket, Answer)>,
    pub(crate) events: Vec<Event>,
    drawn: u64,
    start: u64,
    boot: BootId,
}

/// What a caller wants of an acquire; the rest is as plain as can be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) domain: Domain,
    pub(crate) request: RequestId,
    pub(crate) contract: Contract,
    pub(crate) terms: Terms,
    pub(crate) renew: bool,
    pub(crate) wait: u64,
}

pub(crate) fn want(name: &str, n: u64) -> Wanted {
    Wanted {
        domain: domain(name),
        request: request(n),
        contract: Contract::Safety,
        terms: Terms::default(),
        renew: false,
        wait: 0,
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            leases: Leases::new(Issuer::new("test").unwrap(), Epoch::ZERO),
            disk: Vec::new(),
            now: 0,
            answers: Vec::new(),
            events: Vec::new(),
            drawn: 1_000,
            start: 0,
            boot: boot(1),
        };
        world.start();
        world
    }

    fn start(&mut self) {
        self.start += 1;
        let at = Moment::from_millis(self.now);
        let start = Start { number: self.start, boot: self.boot, at, least: Sequence::FIRST };
        let output = self.leases.start(start);
        self.commit(output);
    }

    /// The process dies; what is not on the disk is gone; another one starts under `boot` at `now`.
    pub(crate) fn restart(&mut self, boot: BootId, now: u64) {
        self.leases = Leases::new(Issuer::new("test").unwrap(), Epoch::ZERO);
        for record in &self.disk {
            self.leases.replay(record);
        }
        (self.boot, self.now) = (boot, now);
        self.answers.clear();
        self.start();
    }

    /// The same through a snapshot instead of the whole log.
    pub(crate) fn restart_from_snapshot(&mut self, boot: BootId, now: u64) {
        self.leases = Leases::from_snapshot(self.leases.snapshot());
        (self.boot, self.now) = (boot, now);
        self.answers.clear();
        self.start();
    }

    fn commit(&mut self, output: Output) {
        self.disk.extend(output.records().iter().cloned());
        let spoken = output.committed();
        self.answers.extend(spoken.answers);
        self.events.extend(spoken.events);
    }

    pub(crate) fn at(&mut self, now: u64) -> &mut Self {
        self.now = now;
        let output = self.leases.tick(Moment::from_millis(now));
        self.commit(output);
        self
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    pub(crate) fn send(&mut self, command: Command) -> Ticket {
        let ticket = Ticket(self.draw());
        let output = self.leases.step(ticket, command, Moment::from_millis(self.now));
        self.commit(output);
        ticket
    }

    pub(crate) fn answer_to(&mut self, ticket: Ticket) -> Option<Answer> {
        let at = self.answers.iter().position(|(to, _)| *to == ticket)?;
        Some(self.answers.remove(at).1)
    }

    fn call(&mut self, command: Command) -> Answer {
        let ticket = self.send(command);
        self.answer_to(ticket).expect("answered at once")
    }

    /// Lets go of records and events, which a story of millions has no use for.
    pub(crate) fn forget_what_happened(&mut self) {
        self.disk.clear();
        self.events.clear();
    }

    pub(crate) fn open(&mut self, holder: &str) -> Credential {
        self.try_open(holder).expect("room for a session")
    }

    pub(crate) fn try_open(&mut self, holder: &str) -> Result<Credential, LimitReached> {
        let n = self.draw();
        let session = SessionId::from_bytes(u128::from(n).to_be_bytes());
        let (holder, ttl) = (Holder::new(holder).unwrap(), Ttl::from_millis(TTL).unwrap());
        let command = Command::OpenSession { session, secret: secret(n), holder, ttl };
        let Answer::Opened(opened) = self.call(command) else { panic!() };
        opened.map(|view| Credential { session: view.session, secret: Some(secret(n)) })
    }

    pub(crate) fn command(&mut self, caller: Caller, wanted: &Wanted) -> Command {
        let n = self.draw();
        Command::Acquire(Box::new(Acquire {
            caller,
            domain: wanted.domain.clone(),
            request: wanted.request,
            contract: wanted.contract,
            terms: wanted.terms,
            metadata: Metadata::default(),
            renew: wanted.renew,
            wait: Wait::from_millis(wanted.wait).unwrap(),
            fresh: Fresh {
                lease: LeaseId::from_bytes(u128::from(n).to_be_bytes()),
                session: SessionId::from_bytes(u128::from(n).to_be_bytes()),
                secret: secret(n),
            },
        }))
    }

    pub(crate) fn acquire(&mut self, caller: Credential, wanted: &Wanted) -> Result<Acquired, AcquireRefusal> {
        let command = self.command(Caller::Session(caller), wanted);
        acquired(self.call(command))
    }

    pub(crate) fn acquire_opening(&mut self, wanted: &Wanted) -> Result<(Acquired, Credential), AcquireRefusal> {
        let caller = Caller::Opening { holder: Holder::new("opener").unwrap(), ttl: Ttl::from_millis(TTL).unwrap() };
        let command = self.command(caller, wanted);
        let n = self.drawn;
        let acquired = acquired(self.call(command))?;
        let secret = acquired.secret_taken.then(|| secret(n));
        Ok((acquired.clone(), Credential { session: acquired.session, secret }))
    }

    /// Sends an acquire that is expected to wait.
    pub(crate) fn queue(&mut self, caller: Credential, wanted: &Wanted) -> Ticket {
        let command = self.command(Caller::Session(caller), wanted);
        let ticket = self.send(command);
        assert!(self.answers.iter().all(|(to, _)| *to != ticket), "answered instead of queued");
        ticket
    }

    pub(crate) fn acquired_by(&mut self, ticket: Ticket) -> Option<Result<Acquired, AcquireRefusal>> {
        self.answer_to(ticket).map(acquired)
    }

    pub(crate) fn heartbeat(&mut self, caller: Credential, held: &[LeaseId]) -> Result<Heartbeat, HeartbeatRefusal> {
        let claim = Claim::Held(held.to_vec());
        let Answer::Heartbeat(answer) = self.call(Command::Heartbeat { caller, claim }) else { panic!() };
        answer
    }

    pub(crate) fn heartbeat_version(
        &mut self,
        caller: Credential,
        version: Version,
    ) -> Result<Heartbeat, HeartbeatRefusal> {
        let claim = Claim::Unchanged(version);
        let Answer::Heartbeat(answer) = self.call(Command::Heartbeat { caller, claim }) else { panic!() };
        answer
    }

    pub(crate) fn release(
        &mut self,
        caller: Credential,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, ReleaseRefusal> {
        let secret = caller.secret;
        let Answer::Released(answer) = self.call(Command::Release { secret, lease, request }) else { panic!() };
        answer
    }

    pub(crate) fn end(&mut self, caller: Credential) -> Result<(), SessionRefusal> {
        let Answer::SessionEnded(answer) = self.call(Command::EndSession { caller }) else { panic!() };
        answer
    }

    pub(crate) fn read(&mut self, caller: Credential) -> Result<fencepost_core::lease::SessionView, SessionRefusal> {
        let Answer::Session(answer) = self.call(Command::ReadSession { caller }) else { panic!() };
        answer
    }

    pub(crate) fn break_lease(&mut self, lease: LeaseId) -> Result<Broken, BreakRefusal> {
        let reason = Reason::new("the host is gone").unwrap();
        let Answer::Broken(answer) = self.call(Command::Break { lease, reason }) else { panic!() };
        answer
    }

    pub(crate) fn holder_of(&mut self, name: &str) -> Option<LeaseView> {
        let query = Query::List { filter: Filter::Domain(domain(name)), after: None, limit: 1 };
        let Answer::Page(page) = self.call(Command::Query(query)) else { panic!() };
        page.rows.into_iter().next()
    }

    pub(crate) fn snapshot(&mut self) -> LiveSnapshot {
        let Answer::Snapshot(snapshot) = self.call(Command::Query(Query::Snapshot { prefix: String::new() })) else {
            panic!()
        };
        snapshot
    }
}

pub(crate) fn acquired(answer: Answer) -> Result<Acquired, AcquireRefusal> {
    let Answer::Acquired(answer) = answer else { panic!("not the answer to an acquire") };
    answer.map(|acquired| *acquired).map_err(|refusal| *refusal)
}

pub(crate) trait Tokened {
    fn token(&self) -> Token;
}

impl Tokened for Acquired {
    fn token(&self) -> Token {
        self.permission.grant().expect("contract safety").token
    }
}
