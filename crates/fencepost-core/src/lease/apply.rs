//! The one place where the durable state changes. Live decisions and replay after a crash both come through here.

use crate::{LeaseId, Moment, SessionId, Token};

use super::{
    LeaseEnd, Record, Released, ReservedKind, SessionEnd, Version,
    record::Hold,
    state::{
        EndedHold, EndedLeaseMemo, EndedSessionMemo, Lease, Opening, Place, RequestPlace, Reservation, Session, State,
    },
};

impl State {
    pub(super) fn apply(&mut self, record: &Record) {
        match record {
            Record::Started { number, boot, at, next } => {
                assert!(*number > self.start_number, "every start has a greater number");
                let same_boot = *boot == self.boot && self.start_number > 0;
                (self.start_number, self.boot, self.started) = (*number, *boot, *at);
                self.next = *next;
                self.give_grace(*at, same_boot);
            }
            Record::SequenceReserved { through } => {
                assert!(*through > self.reserved, "reservations only grow");
                self.reserved = *through;
            }
            Record::SessionOpened { session, secret, holder, ttl, opened_by, at } => {
                if let Some(request) = opened_by {
                    self.openings.insert(*request, Opening::Session(*session));
                }
                self.secrets.insert(*secret, *session);
                let opened = Session {
                    secret: *secret,
                    holder: holder.clone(),
                    ttl: *ttl,
                    opened_by: *opened_by,
                    claimed: opened_by.is_none(),
                    mark: None,
                    ends: at.after_millis(ttl.as_millis()),
                    ended_holds: Default::default(),
                    version: self.first_version(),
                    leases: Default::default(),
                    requests: Default::default(),
                    timer: None,
                    waiters: 0,
                };
                let before = self.sessions.insert(*session, opened);
                assert!(before.is_none(), "a session is opened once");
                self.schedule_session(*session);
            }
            Record::SecretReplaced { session, secret } => {
                if let Some(opened) = self.sessions.get_mut(session) {
                    self.secrets.remove(&opened.secret);
                    self.secrets.insert(*secret, *session);
                    opened.secret = *secret;
                }
            }
            Record::SessionClaimed { session } => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.claimed = true;
                }
            }
            Record::SessionHeard { session, leases } => {
                if let Some(session) = self.sessions.get_mut(session) {
                    session.mark = None;
                }
                for lease in leases {
                    if let Some(lease) = self.leases.get_mut(lease) {
                        lease.mark = None;
                    }
                }
            }
            Record::SessionEnded { session, end, at } => self.end_session(*session, *end, *at),
            Record::Granted { lease, session, domain, token, contract, terms, metadata, hold, at } => {
                self.take(*token);
                let ttl = self.sessions.get(session).map_or(0, |session| session.ttl.as_millis());
                let granted = Lease {
                    domain: domain.clone(),
                    session: *session,
                    token: *token,
                    contract: *contract,
                    terms: *terms,
                    metadata: metadata.clone(),
                    granted: *at,
                    holds: Vec::new(),
                    mark: None,
                    ends: at.after_millis(ttl),
                    claimed: false,
                };
                let place = self.places.entry(domain.clone()).or_default();
                assert!(place.lease.is_none(), "a domain is granted to one session at a time");
                (place.lease, place.reserved) = (Some(*lease), None);
                let before = self.leases.insert(*lease, granted);
                assert!(before.is_none(), "a lease is granted once");
                if let Some(session) = self.sessions.get_mut(session) {
                    session.leases.insert(*lease);
                }
                self.add_hold(*lease, *hold);
                self.schedule_lease(*lease);
            }
            Record::Regranted { lease, token, hold, at } => {
                self.take(*token);
                self.end_holds(*lease, *at, Released { ended: None, holds_left: 1 });
                if let Some(lease) = self.leases.get_mut(lease) {
                    assert!(lease.token < *token, "a grant is greater than the one before");
                    let ttl = self.sessions.get(&lease.session).map_or(0, |session| session.ttl.as_millis());
                    lease.token = *token;
                    lease.granted = *at;
                    lease.mark = None;
                    lease.ends = lease.ends.max(at.after_millis(ttl));
                }
                self.add_hold(*lease, *hold);
            }
            Record::HoldAdded { lease, hold } => self.add_hold(*lease, *hold),
            Record::HoldEnded { lease, request, at } => self.end_hold(*lease, *request, *at),
            Record::LeaseEnded { lease, end, at } => self.end_lease(*lease, *end, None, *at),
            Record::LeaseBroken { lease, fence_to, reason: _, at } => {
                self.take(*fence_to);
                self.end_lease(*lease, LeaseEnd::Revoked, Some(*fence_to), *at);
            }
        }
    }

    pub(super) fn first_version(&self) -> Version {
        Version(self.start_number << 32)
    }

    /// A number is issued or burned, and never again.
    fn take(&mut self, token: Token) {
        let sequence = token.sequence();
        assert!(token.epoch() == self.epoch, "a token is of the coordinator's own epoch");
        assert!(self.next.is_some_and(|next| sequence >= next), "a token is never issued twice");
        assert!(sequence <= self.reserved, "a token is reserved before it is issued");
        self.next = sequence.checked_add(1);
    }

    /// Gives every session that has not had it one fresh TTL. A session keeps the end of a grace it had before, so
    /// that restarts do not keep a dead holder alive; of a grace under another boot nobody knows how much is left.
    fn give_grace(&mut self, at: Moment, same_boot: bool) {
        let version = self.first_version();
        for session in self.sessions.values_mut() {
            let kept = session.mark.filter(|_| same_boot);
            session.ends = kept.unwrap_or(at.after_millis(session.ttl.as_millis()));
            session.mark = Some(session.ends);
            session.version = version;
            if !same_boot {
                session.ended_holds.iter_mut().for_each(|hold| hold.at = at);
            }
        }
        for lease in self.leases.values_mut() {
            let ttl = self.sessions.get(&lease.session).map_or(0, |session| session.ttl.as_millis());
            let kept = lease.mark.filter(|_| same_boot);
            lease.ends = kept.unwrap_or(at.after_millis(ttl));
            lease.mark = Some(lease.ends);
            lease.claimed = false;
            if !same_boot {
                lease.granted = at;
            }
        }
        for place in self.places.values_mut() {
            if let Some(reservation) = &mut place.reserved {
                reservation.begin_anew(at, same_boot);
            }
        }
        if !same_boot {
            self.ended_leases.rebase(at);
            self.ended_sessions.rebase(at);
        }
    }

    fn add_hold(&mut self, id: LeaseId, hold: Hold) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.holds.push(hold);
        if let Some(session) = self.sessions.get_mut(&lease.session) {
            session.requests.insert(hold.request, RequestPlace::Live(id));
        }
    }

    fn end_hold(&mut self, id: LeaseId, request: crate::RequestId, at: Moment) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.holds.retain(|hold| hold.request != request);
        let answer = Released { ended: None, holds_left: u32::try_from(lease.holds.len()).unwrap_or(u32::MAX) };
        let session = lease.session;
        self.remember_hold(session, EndedHold { request, lease: id, answer, at });
    }

    fn end_holds(&mut self, id: LeaseId, at: Moment, answer: Released) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        let session = lease.session;
        for hold in std::mem::take(&mut lease.holds) {
            self.remember_hold(session, EndedHold { request: hold.request, lease: id, answer, at });
        }
    }

    fn remember_hold(&mut self, session: SessionId, hold: EndedHold) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.requests.insert(hold.request, RequestPlace::Ended(hold.lease, hold.answer));
            session.ended_holds.push_back(hold);
        }
    }

    fn end_lease(&mut self, id: LeaseId, end: LeaseEnd, fence_to: Option<Token>, at: Moment) {
        self.end_holds(id, at, Released { ended: Some(end), holds_left: 0 });
        let Some(lease) = self.leases.remove(&id) else { return };
        if let Some(session) = self.sessions.get_mut(&lease.session) {
            session.leases.remove(&id);
            if lease.claimed {
                session.version.0 += 1;
            }
        }
        let reserved = reservation_after(&lease, end, at);
        let place = self.places.entry(lease.domain.clone()).or_default();
        (place.lease, place.reserved) = (None, reserved);
        if let Some(reservation) = reserved {
            let timer = super::state::Timer::Reservation(lease.domain.clone());
            self.timers.push(std::cmp::Reverse((reservation.until, timer)));
        }
        self.drop_if_empty(&lease.domain);
        let (domain, session, contract) = (lease.domain, lease.session, lease.contract);
        let memo = EndedLeaseMemo { domain, session, contract, end, fence_to };
        self.ended_leases.remember(id, memo, at);
    }

    fn end_session(&mut self, id: SessionId, end: SessionEnd, at: Moment) {
        let Some(session) = self.sessions.get(&id) else { return };
        for lease in session.leases.clone() {
            self.end_lease(lease, end.of_leases(), None, at);
        }
        if let Some(session) = self.sessions.remove(&id) {
            let memo = EndedSessionMemo { secret: session.secret, opened_by: session.opened_by, end };
            self.ended_sessions.remember(id, memo, at);
        }
    }

    /// Lets go of a domain that is neither held nor reserved nor waited for.
    pub(super) fn drop_if_empty(&mut self, domain: &crate::Domain) {
        let empty = |place: &Place| place.lease.is_none() && place.reserved.is_none() && place.queue.is_empty();
        if self.places.get(domain).is_some_and(empty) {
            self.places.remove(domain);
        }
    }
}

impl SessionEnd {
    /// How the leases of a session end that ends so.
    pub(super) const fn of_leases(self) -> LeaseEnd {
        match self {
            Self::Ended => LeaseEnd::Released,
            Self::Expired => LeaseEnd::Expired,
            Self::Recovered => LeaseEnd::Recovered,
        }
    }
}

/// What keeps the domain from being granted again at once: the later of the least holding time, which counts from
/// the grant, and the delay after an unclean end.
fn reservation_after(lease: &Lease, end: LeaseEnd, at: Moment) -> Option<Reservation> {
    let clean = match end {
        LeaseEnd::Released => true,
        LeaseEnd::Expired | LeaseEnd::Revoked | LeaseEnd::Recovered => false,
    };
    let least = lease.terms.min_hold.map(|min| Reservation {
        kind: ReservedKind::MinHold,
        until: lease.granted.after_millis(min.as_millis()),
        length_ms: min.as_millis(),
        delay_ms: 0,
    });
    let delay = lease.terms.lock_delay.filter(|_| !clean).map(|delay| Reservation {
        kind: ReservedKind::LockDelay,
        until: at.after_millis(delay.as_millis()),
        length_ms: delay.as_millis(),
        delay_ms: delay.as_millis(),
    });
    let delay_ms = delay.map_or(0, |delay| delay.delay_ms);
    let later = [least, delay].into_iter().flatten().max_by_key(|reservation| reservation.until);
    later.filter(|reservation| reservation.until > at).map(|later| Reservation { delay_ms, ..later })
}

impl Reservation {
    /// After a start: a least holding time goes on where the clock does, a delay after an unclean end starts anew.
    fn begin_anew(&mut self, at: Moment, same_boot: bool) {
        if self.kind == ReservedKind::MinHold && !same_boot {
            self.until = at.after_millis(self.length_ms);
        }
        let delayed = at.after_millis(self.delay_ms);
        if self.delay_ms > 0 && (self.kind == ReservedKind::LockDelay || delayed > self.until) {
            (self.kind, self.until, self.length_ms) = (ReservedKind::LockDelay, delayed, self.delay_ms);
        }
    }
}
