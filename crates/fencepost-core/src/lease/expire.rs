use std::cmp::Reverse;

use crate::{Domain, LeaseId, RequestId, SessionId};

use super::{LeaseEnd, Record, SessionEnd, machine::Step, state::Timer};

impl Step<'_> {
    /// Does what time has brought, in the order in which it was due.
    pub(super) fn expire(&mut self) {
        self.forget();
        self.state.drop_void_timers();
        while let Some(Reverse((at, _))) = self.state.timers.peek() {
            if *at > self.now {
                break;
            }
            let Some(Reverse((at, timer))) = self.state.timers.pop() else { break };
            match timer {
                Timer::Session(id) => {
                    let current = self.state.sessions.get(&id).is_some_and(|session| session.timer == Some(at));
                    if current {
                        self.expire_session(id);
                    }
                }
                Timer::Reservation(domain) => self.expire_reservation(&domain),
                Timer::Wait(domain, request) => self.expire_wait(&domain, request),
            }
        }
    }

    fn expire_session(&mut self, id: SessionId) {
        let now = self.now;
        let Some(session) = self.state.sessions.get_mut(&id) else { return };
        session.timer = None;
        session.forget(now);
        if session.ends <= now {
            return self.end_session_as(id, SessionEnd::Expired);
        }
        let due = |lease: &&LeaseId| self.state.leases.get(lease).is_some_and(|lease| self.state.end_of(lease) <= now);
        let leases: Vec<LeaseId> = session_leases(self, id).iter().filter(due).copied().collect();
        for lease in leases {
            let domain = self.announce_end(lease, LeaseEnd::Expired, None, None);
            self.commit(Record::LeaseEnded { lease, end: LeaseEnd::Expired, at: now });
            if let Some(domain) = domain {
                self.serve(&domain);
            }
        }
        self.state.schedule_session(id);
    }

    fn expire_reservation(&mut self, domain: &Domain) {
        let now = self.now;
        let Some(place) = self.state.places.get_mut(domain) else { return };
        if place.reserved.is_some_and(|reservation| reservation.until <= now) {
            place.reserved = None;
            self.serve(domain);
        }
    }

    fn expire_wait(&mut self, domain: &Domain, request: RequestId) {
        let now = self.now;
        let Some(place) = self.state.places.get(domain) else { return };
        let over = place.queue.iter().any(|waiter| waiter.acquire.request == request && waiter.until <= now);
        if over {
            let waited = self.why_not(domain, request);
            self.turn_away(domain, request, waited);
        }
    }
}

fn session_leases(step: &Step<'_>, id: SessionId) -> Vec<LeaseId> {
    step.state.sessions.get(&id).map(|session| session.leases.iter().copied().collect()).unwrap_or_default()
}
