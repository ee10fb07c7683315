use std::collections::BTreeSet;

use crate::{
    BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Moment, Reason, Secret, SecretHash, Sequence,
    SessionId, Ttl, Wait, lease,
    lease::{Acquire, Caller, Command, Credential, Filter, Fresh, Leases, Query, Record, Start, Terms, Ticket},
};

use super::{Answer, Coordinator, Message, TTL_MS, id, request};

const HOLDER: u8 = 9;
const RIVAL: u8 = 8;
/// The holder comes back to the same domains again and again, and the rival wants the same.
const DOMAINS: u8 = 5;

/// The machine that every coordinator runs, with what its driver would have made durable.
pub(super) struct Real {
    leases: Leases,
    records: Vec<Record>,
    starts: u64,
    rivals: u8,
}

impl Real {
    pub(super) fn opened(now: u64) -> Self {
        let mut real = Self { leases: empty(), records: Vec::new(), starts: 0, rivals: 0 };
        real.start(now);
        for (session, ttl_ms) in [(HOLDER, TTL_MS), (RIVAL, 3_600_000)] {
            let open = Command::OpenSession {
                session: SessionId::from_bytes([session; 16]),
                secret: secret(session),
                holder: Holder::new("h").unwrap(),
                ttl: Ttl::from_millis(ttl_ms).unwrap(),
            };
            real.step(open, now);
        }
        real
    }

    fn start(&mut self, now: u64) {
        self.starts += 1;
        let boot = BootId::from_bytes([1; 16]);
        let at = Moment::from_millis(now);
        let output = self.leases.start(Start { number: self.starts, boot, at, least: Sequence::FIRST });
        self.records.extend(output.records().iter().cloned());
        let _ = output.committed();
    }

    fn step(&mut self, command: Command, now: u64) -> lease::Answer {
        let output = self.leases.step(Ticket(0), command, Moment::from_millis(now));
        self.records.extend(output.records().iter().cloned());
        output.committed().answers.into_iter().find(|(ticket, _)| *ticket == Ticket(0)).expect("nothing waits here").1
    }

    fn acquire(&mut self, session: u8, n: u8, lease: LeaseId, now: u64) -> lease::Answer {
        let name = if session == HOLDER { request(n) } else { crate::RequestId::from_bytes([self.rivals; 16]) };
        let acquire = Acquire {
            caller: Caller::Session(credential(session)),
            domain: Domain::new(&format!("d{}", n % DOMAINS)).unwrap(),
            request: name,
            contract: Contract::Safety,
            terms: Terms::default(),
            metadata: Metadata::default(),
            renew: false,
            wait: Wait::from_millis(0).unwrap(),
            fresh: Fresh { lease, session: SessionId::from_bytes([0; 16]), secret: secret(0) },
        };
        self.step(Command::Acquire(Box::new(acquire)), now)
    }
}

fn empty() -> Leases {
    Leases::new(Issuer::new("prod").unwrap(), Epoch::ZERO)
}

fn secret(session: u8) -> SecretHash {
    Secret::from_bytes([session; 32]).hash()
}

fn credential(session: u8) -> Credential {
    Credential { session: SessionId::from_bytes([session; 16]), secret: Some(secret(session)) }
}

impl Coordinator for Real {
    fn live(&mut self, now: u64) -> BTreeSet<LeaseId> {
        let all = Query::List { filter: Filter::Prefix(String::new()), after: None, limit: 100 };
        let lease::Answer::Page(page) = self.step(Command::Query(all), now) else { unreachable!() };
        let mine = page.rows.iter().filter(|row| row.session == SessionId::from_bytes([HOLDER; 16]));
        mine.map(|row| row.lease).collect()
    }

    fn decide(&mut self, message: Message, now: u64) -> Option<Answer> {
        match message {
            Message::Acquire(n) => match self.acquire(HOLDER, n, id(n), now) {
                lease::Answer::Acquired(Ok(acquired)) => Some(Answer::Granted(n, *acquired)),
                _ => None,
            },
            Message::Heartbeat(attempt) => {
                let heartbeat = Command::Heartbeat { caller: credential(HOLDER), claim: attempt.claim() };
                match self.step(heartbeat, now) {
                    lease::Answer::Heartbeat(Ok(heartbeat)) => Some(Answer::Confirmed(attempt, heartbeat)),
                    lease::Answer::Heartbeat(Err(refusal)) => Some(Answer::Refused(attempt, refusal)),
                    _ => None,
                }
            }
            Message::Release(n) => {
                let release = Command::Release { secret: Some(secret(HOLDER)), lease: id(n), request: request(n) };
                self.step(release, now);
                None
            }
            Message::Break(n) => {
                self.step(Command::Break { lease: id(n), reason: Reason::new("test").unwrap() }, now);
                None
            }
            Message::Rival(n) => {
                self.rivals += 1;
                self.acquire(RIVAL, n, LeaseId::from_bytes([100 + self.rivals; 16]), now);
                None
            }
            Message::Restart => {
                self.leases = empty();
                for record in &self.records {
                    self.leases.replay(record);
                }
                self.start(now);
                None
            }
        }
    }
}
