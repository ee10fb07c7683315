use crate::{Contract, Correlation, Domain, Grant, LeaseId, Moment, Permission, SessionId, Token, limits};

use super::{
    Acquire, AcquireRefusal, Acquired, Answer, Caller, EventKind, LimitReached, Record, SessionRefusal, Ticket,
    command::RequestDigest,
    machine::Step,
    record::Hold,
    state::{Lease, Opening, RequestPlace},
};

/// What a call gets now, if anything: a waiting one is answered later.
type Reply = Option<Result<Acquired, AcquireRefusal>>;

impl Lease {
    /// The token, where the contract lets anybody see it.
    pub(super) fn visible_token(&self) -> Option<Token> {
        match self.contract {
            Contract::Safety => Some(self.token),
            Contract::Admission | Contract::Advisory => None,
        }
    }
}

impl Step<'_> {
    pub(super) fn acquire(&mut self, ticket: Ticket, acquire: Box<Acquire>) -> Option<Answer> {
        let reply = match &acquire.caller {
            Caller::Session(credential) => match self.authenticate(*credential) {
                Ok(session) => self.acquire_in(ticket, session, acquire),
                Err(refusal) => Some(Err(refusal.into())),
            },
            Caller::Opening { .. } => self.acquire_opening(ticket, acquire),
        };
        reply.map(acquired)
    }

    fn acquire_in(&mut self, ticket: Ticket, id: SessionId, acquire: Box<Acquire>) -> Reply {
        let now = self.now;
        let session = self.state.sessions.get_mut(&id)?;
        session.forget(now);
        match session.requests.get(&acquire.request).cloned() {
            Some(RequestPlace::Live(lease)) => return Some(self.repeat(lease, &acquire)),
            Some(RequestPlace::Ended(..)) => return Some(Err(AcquireRefusal::HoldEnded)),
            Some(RequestPlace::Waiting(domain)) => return self.take_over(ticket, &domain, acquire),
            None => {}
        }
        if session.ended_holds.len() >= limits::ENDED_HOLDS {
            return Some(Err(LimitReached { limit: "ended_holds" }.into()));
        }
        let held_here = self.state.places.get(&acquire.domain).and_then(|place| place.lease);
        if let Some(lease) = held_here.filter(|lease| self.state.leases[lease].session == id) {
            return Some(self.reenter(lease, &acquire));
        }
        if let Err(refusal) = self.room_in(id) {
            return Some(Err(refusal.into()));
        }
        self.grant_or_queue(ticket, acquire)
    }

    /// What waits counts as held already: it becomes a lease without being asked again.
    fn room_in(&self, id: SessionId) -> Result<(), LimitReached> {
        let session = &self.state.sessions[&id];
        match session.leases.len() + session.waiters < limits::SESSION_LEASES {
            true => Ok(()),
            false => Err(LimitReached { limit: "session_leases" }),
        }
    }

    fn acquire_opening(&mut self, ticket: Ticket, acquire: Box<Acquire>) -> Reply {
        match self.state.openings.get(&acquire.request).cloned() {
            Some(Opening::Waiting(domain)) => self.take_over(ticket, &domain, acquire),
            Some(Opening::Session(id)) => Some(self.repeat_opening(id, &acquire)),
            None => self.grant_or_queue(ticket, acquire),
        }
    }

    /// A retry of the acquire that opened a session. As long as nobody has used the secret its answer may have been
    /// lost, so the retry gets a new one and the old one dies.
    fn repeat_opening(&mut self, id: SessionId, acquire: &Acquire) -> Result<Acquired, AcquireRefusal> {
        let Some(session) = self.state.sessions.get(&id) else {
            let end = self.state.ended_sessions.get(&id).map(|memo| memo.end);
            return Err(end.map_or(SessionRefusal::UnknownSession, SessionRefusal::SessionEnded).into());
        };
        let settled = session.claimed;
        let lease = match session.requests.get(&acquire.request) {
            Some(RequestPlace::Live(lease)) => *lease,
            Some(RequestPlace::Ended(..)) | Some(RequestPlace::Waiting(_)) | None => {
                return Err(AcquireRefusal::HoldEnded);
            }
        };
        let repeated = self.repeat(lease, acquire)?;
        if !settled {
            self.commit(Record::SecretReplaced { session: id, secret: acquire.fresh.secret });
        }
        Ok(Acquired { secret_taken: !settled, ..repeated })
    }

    /// The same grant again, to a retry that names the same.
    fn repeat(&mut self, lease: LeaseId, acquire: &Acquire) -> Result<Acquired, AcquireRefusal> {
        let hold = self.state.leases[&lease].holds.iter().find(|hold| hold.request == acquire.request);
        match hold {
            Some(hold) if hold.digest == acquire.digest() => Ok(Acquired { again: true, ..self.granted(lease) }),
            Some(_) | None => Err(AcquireRefusal::RequestConflict),
        }
    }

    /// An acquire of a domain that the session holds already: one more hold of the same lease under the same token,
    /// or, where `renew` asks for it, a greater token and an end to the earlier holds.
    pub(super) fn reenter(&mut self, id: LeaseId, acquire: &Acquire) -> Result<Acquired, AcquireRefusal> {
        let lease = &self.state.leases[&id];
        if lease.contract != acquire.contract || lease.terms != acquire.terms {
            return Err(AcquireRefusal::LeaseMismatch);
        }
        let hold = Hold { request: acquire.request, digest: acquire.digest() };
        if acquire.renew {
            let token = self.draw().map_err(|_| AcquireRefusal::TokenSpaceExhausted)?;
            self.commit(Record::Regranted { lease: id, token, hold, at: self.now });
            self.announce_grant(id, 0);
        } else {
            let limit = lease.terms.reentrancy_limit;
            if lease.holds.len() >= limit as usize {
                return Err(AcquireRefusal::ReentrancyLimit { limit });
            }
            self.commit(Record::HoldAdded { lease: id, hold });
        }
        Ok(self.granted(id))
    }

    fn grant_or_queue(&mut self, ticket: Ticket, acquire: Box<Acquire>) -> Reply {
        let place = self.state.places.get(&acquire.domain);
        if place.is_none() && self.state.places.len() >= limits::DOMAINS {
            return Some(Err(LimitReached { limit: "domains" }.into()));
        }
        if place.is_none_or(|place| place.lease.is_none() && place.reserved.is_none()) {
            let digest = acquire.digest();
            return Some(self.grant(&acquire, digest, self.now));
        }
        if acquire.wait.as_millis() == 0 {
            return Some(Err(self.why_not(&acquire.domain, acquire.request)));
        }
        self.enqueue(ticket, acquire);
        None
    }

    /// Grants a free domain.
    pub(super) fn grant(
        &mut self,
        acquire: &Acquire,
        digest: RequestDigest,
        since: Moment,
    ) -> Result<Acquired, AcquireRefusal> {
        let at = self.now;
        if matches!(acquire.caller, Caller::Opening { .. }) {
            self.room_for_a_session()?;
        }
        let token = self.draw().map_err(|_| AcquireRefusal::TokenSpaceExhausted)?;
        let (session, opened) = match &acquire.caller {
            Caller::Session(credential) => (credential.session, false),
            Caller::Opening { holder, ttl } => {
                let session = acquire.fresh.session;
                self.commit(Record::SessionOpened {
                    session,
                    secret: acquire.fresh.secret,
                    holder: holder.clone(),
                    ttl: *ttl,
                    opened_by: Some(acquire.request),
                    at,
                });
                (session, true)
            }
        };
        self.commit(Record::Granted {
            lease: acquire.fresh.lease,
            session,
            domain: acquire.domain.clone(),
            token,
            contract: acquire.contract,
            terms: acquire.terms,
            metadata: acquire.metadata.clone(),
            hold: Hold { request: acquire.request, digest },
            at,
        });
        let waited_ms = u64::try_from(at.since(since).as_millis()).unwrap_or(u64::MAX);
        self.announce_grant(acquire.fresh.lease, waited_ms);
        Ok(Acquired { secret_taken: opened, ..self.granted(acquire.fresh.lease) })
    }

    fn announce_grant(&mut self, id: LeaseId, waited_ms: u64) {
        self.event(id, EventKind::Granted { waited_ms });
    }

    /// What is handed out for a live lease, under its contract.
    fn granted(&self, id: LeaseId) -> Acquired {
        let lease = &self.state.leases[&id];
        let permission = match lease.contract {
            Contract::Safety => Permission::Safety(Grant {
                issuer: self.state.issuer.clone(),
                domain: lease.domain.clone(),
                token: lease.token,
                lease: id,
                session: lease.session,
            }),
            Contract::Admission => Permission::Admission(Correlation::of(id)),
            Contract::Advisory => Permission::Advisory,
        };
        Acquired {
            lease: id,
            domain: lease.domain.clone(),
            permission,
            session: lease.session,
            ttl: self.state.sessions[&lease.session].ttl,
            remaining_ms: self.state.remaining_ms(lease, self.now),
            again: false,
            secret_taken: false,
        }
    }

    /// Why this request does not have the domain now.
    pub(super) fn why_not(&self, domain: &Domain, request: crate::RequestId) -> AcquireRefusal {
        super::queue::why_not(self.state, self.now, domain, request)
    }
}

pub(super) fn acquired(reply: Result<Acquired, AcquireRefusal>) -> Answer {
    Answer::Acquired(reply.map(Box::new).map_err(Box::new))
}
