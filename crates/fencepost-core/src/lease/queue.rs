//! Waiting: first in, first out, per domain.
//!
//! A place belongs to the request id. Whoever waits on it is a connection, which may be gone: such a place is kept
//! for one TTL so that a retry finds it again, and is passed over meanwhile. So a dead waiter is never granted, and
//! never holds up a live one behind it.

use std::cmp::Reverse;

use crate::{Domain, Holder, Moment, RequestId, limits};

use super::{
    Acquire, AcquireRefusal, Caller, HeldBy, LimitReached, Reserved, ReservedKind, Ticket,
    acquire::acquired,
    machine::Step,
    state::{Opening, RequestPlace, State, Timer, Waiter},
};

impl Step<'_> {
    /// Gives an acquire a place in the queue of its domain, or an answer where there is no room for it.
    pub(super) fn enqueue(&mut self, ticket: Ticket, acquire: Box<Acquire>) {
        let (domain, request) = (acquire.domain.clone(), acquire.request);
        match &acquire.caller {
            Caller::Session(credential) => {
                if let Some(session) = self.state.sessions.get_mut(&credential.session) {
                    session.requests.insert(request, RequestPlace::Waiting(domain.clone()));
                    session.waiters += 1;
                }
            }
            Caller::Opening { .. } if self.state.opening_waiters >= limits::OPENING_WAITERS => {
                let full = LimitReached { limit: "opening_waiters" };
                return self.answer(ticket, acquired(Err(full.into())));
            }
            Caller::Opening { .. } => {
                self.state.openings.insert(request, Opening::Waiting(domain.clone()));
                self.state.opening_waiters += 1;
            }
        }
        let until = self.now.after_millis(acquire.wait.as_millis());
        let waiter = Waiter { digest: acquire.digest(), acquire, ticket: Some(ticket), since: self.now, until };
        self.state.places.entry(domain.clone()).or_default().queue.push_back(waiter);
        self.state.waiting.insert(ticket, (domain.clone(), request));
        self.state.timers.push(Reverse((until, Timer::Wait(domain, request))));
    }

    /// A retry takes the place of the connection that waited before it.
    pub(super) fn take_over(
        &mut self,
        ticket: Ticket,
        domain: &Domain,
        acquire: Box<Acquire>,
    ) -> Option<Result<super::Acquired, AcquireRefusal>> {
        let (now, request, digest) = (self.now, acquire.request, acquire.digest());
        let waiter = self.state.find_waiter(domain, request)?;
        if waiter.digest != digest {
            return Some(Err(AcquireRefusal::RequestConflict));
        }
        let until = now.after_millis(acquire.wait.as_millis());
        let older = waiter.ticket.replace(ticket);
        (waiter.acquire, waiter.until) = (acquire, until);
        self.state.waiting.insert(ticket, (domain.clone(), request));
        self.state.timers.push(Reverse((until, Timer::Wait(domain.clone(), request))));
        if let Some(older) = older {
            self.state.waiting.remove(&older);
            self.answer(older, acquired(Err(AcquireRefusal::Superseded)));
        }
        self.serve(domain);
        None
    }

    pub(super) fn disconnect(&mut self, ticket: Ticket) {
        let Some((domain, request)) = self.state.waiting.remove(&ticket) else { return };
        let sessions = &self.state.sessions;
        let Some(place) = self.state.places.get_mut(&domain) else { return };
        let Some(waiter) = place.queue.iter_mut().find(|waiter| waiter.acquire.request == request) else { return };
        let ttl = match &waiter.acquire.caller {
            Caller::Session(credential) => sessions.get(&credential.session).map(|session| session.ttl),
            Caller::Opening { ttl, .. } => Some(*ttl),
        };
        waiter.ticket = None;
        waiter.until = self.now.after_millis(ttl.unwrap_or_default().as_millis());
        self.state.timers.push(Reverse((waiter.until, Timer::Wait(domain, request))));
    }

    /// Grants a domain, if it is free, to the first in its queue who is there to take it.
    pub(super) fn serve(&mut self, domain: &Domain) {
        while let Some(request) = self.state.next_in_line(domain, self.now) {
            let Some(waiter) = self.state.leave(domain, request) else { return };
            let reply = self.grant(&waiter.acquire, waiter.digest, waiter.since);
            if let Some(ticket) = waiter.ticket {
                self.answer(ticket, acquired(reply));
            }
        }
        self.reenter_from_queue(domain);
        self.state.drop_if_empty(domain);
    }

    /// The holder's own further requests do not wait for it to let go: they are reentrant from now on.
    fn reenter_from_queue(&mut self, domain: &Domain) {
        let Some(place) = self.state.places.get(domain) else { return };
        let Some(lease) = place.lease else { return };
        let holder = self.state.leases[&lease].session;
        let own = |waiter: &&Waiter| match &waiter.acquire.caller {
            Caller::Session(credential) => credential.session == holder && waiter.ticket.is_some(),
            Caller::Opening { .. } => false,
        };
        let requests: Vec<RequestId> = place.queue.iter().filter(own).map(|waiter| waiter.acquire.request).collect();
        for request in requests {
            if let Some(waiter) = self.state.leave(domain, request) {
                let reply = self.reenter(lease, &waiter.acquire);
                if let Some(ticket) = waiter.ticket {
                    self.answer(ticket, acquired(reply));
                }
            }
        }
    }

    /// Takes a request out of the queue and tells its connection why.
    pub(super) fn turn_away(&mut self, domain: &Domain, request: RequestId, refusal: AcquireRefusal) {
        if let Some(Waiter { ticket: Some(ticket), .. }) = self.state.leave(domain, request) {
            self.answer(ticket, acquired(Err(refusal)));
        }
        self.state.drop_if_empty(domain);
    }
}

impl State {
    fn find_waiter(&mut self, domain: &Domain, request: RequestId) -> Option<&mut Waiter> {
        self.places.get_mut(domain)?.queue.iter_mut().find(|waiter| waiter.acquire.request == request)
    }

    /// The first request of a free domain's queue that waits on a connection, in time and in a live session.
    fn next_in_line(&self, domain: &Domain, now: Moment) -> Option<RequestId> {
        let place = self.places.get(domain)?;
        if place.lease.is_some() || place.reserved.is_some() {
            return None;
        }
        let there = |waiter: &&Waiter| {
            waiter.ticket.is_some() && waiter.until > now && {
                match &waiter.acquire.caller {
                    Caller::Opening { .. } => true,
                    Caller::Session(credential) => {
                        self.sessions.get(&credential.session).is_some_and(|session| session.ends > now)
                    }
                }
            }
        };
        place.queue.iter().find(there).map(|waiter| waiter.acquire.request)
    }

    /// Takes a request out of the queue and forgets that it waits.
    fn leave(&mut self, domain: &Domain, request: RequestId) -> Option<Waiter> {
        let queue = &mut self.places.get_mut(domain)?.queue;
        let at = queue.iter().position(|waiter| waiter.acquire.request == request)?;
        let waiter = queue.remove(at)?;
        if let Some(ticket) = waiter.ticket {
            self.waiting.remove(&ticket);
        }
        match &waiter.acquire.caller {
            Caller::Session(credential) => {
                if let Some(session) = self.sessions.get_mut(&credential.session) {
                    session.requests.remove(&request);
                    session.waiters -= 1;
                }
            }
            Caller::Opening { .. } => {
                self.openings.remove(&request);
                self.opening_waiters -= 1;
            }
        }
        Some(waiter)
    }
}

/// Why a request does not have a domain: somebody has it, or nobody may have it yet.
pub(super) fn why_not(state: &State, now: Moment, domain: &Domain, request: RequestId) -> AcquireRefusal {
    let place = state.places.get(domain);
    let own = place.and_then(|place| place.queue.iter().find(|waiter| waiter.acquire.request == request));
    // Who asks is not one of those who wait besides.
    let waiting = place.map_or(0, |place| place.queue.len()) - usize::from(own.is_some());
    let queue = u32::try_from(waiting).unwrap_or(u32::MAX);
    let waited_ms = own.map_or(0, |waiter| millis(now, waiter.since));
    let lease = place.and_then(|place| place.lease).and_then(|id| Some((id, state.leases.get(&id)?)));
    if let Some((id, lease)) = lease {
        let holder = state.sessions.get(&lease.session).map(|session| session.holder.clone());
        return AcquireRefusal::Held(Box::new(HeldBy {
            holder: holder.unwrap_or_else(nobody),
            lease: id,
            token: lease.visible_token(),
            held_ms: millis(now, lease.granted),
            remaining_ms: state.remaining_ms(lease, now),
            queue,
            waited_ms,
        }));
    }
    let reserved = place.and_then(|place| place.reserved);
    AcquireRefusal::Reserved(Reserved {
        kind: reserved.map_or(ReservedKind::LockDelay, |reservation| reservation.kind),
        remaining_ms: reserved.map_or(0, |reservation| millis(reservation.until, now)),
        queue,
        waited_ms,
    })
}

fn millis(later: Moment, earlier: Moment) -> u64 {
    u64::try_from(later.since(earlier).as_millis()).unwrap_or(u64::MAX)
}

/// A lease without a live session cannot be; should it be all the same, its holder is nobody we know.
fn nobody() -> Holder {
    Holder::new("(unknown)").expect("a valid name")
}
