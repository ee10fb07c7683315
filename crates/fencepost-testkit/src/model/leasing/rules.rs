//! What has to be so, computed by the rules alone, and the comparison with what the machines say.

use fencepost_core::{LeaseId, Token};

use crate::model::{
    explorer::{Property, Tale},
    names::shown,
};

use super::{B, Current, Release, Rules, State, THREADS, TTL_STEPS, Thread, at, holder_of, name};

impl Rules {
    pub(super) fn granted(&mut self, lease: LeaseId, session: usize, token: Option<Token>, now: u64, tale: &mut Tale) {
        let (last, current) = (self.last, &self.current);
        tale.expect(Property::I1, token > last, || format!("{} was granted after {}", shown(token), shown(last)));
        tale.expect(Property::I2, current.is_none(), || "the domain was granted while it was held".to_owned());
        self.last = last.max(token);
        if session == 1 {
            self.session_ends[1] = now + TTL_STEPS;
            self.session_marked[1] = false;
        }
        let holds = [false; THREADS];
        self.current = Some(Current { lease, session, ends: now + TTL_STEPS, marked: false, holds });
    }

    pub(super) fn ended(&mut self, lease: LeaseId) {
        self.current.take_if(|current| current.lease == lease);
        self.claimed.retain(|claimed| *claimed != lease);
    }

    /// A heartbeat of A renews its session and the leases that it names, and clears their marks.
    pub(super) fn heard(&mut self, named: &[LeaseId], now: u64) {
        self.session_ends[0] = self.session_ends[0].max(now + TTL_STEPS);
        self.session_marked[0] = false;
        self.claimed = named.to_vec();
        self.claimed.retain(|lease| self.current.as_ref().is_some_and(|current| current.lease == *lease));
        if let Some(current) = self.current.as_mut().filter(|current| named.contains(&current.lease)) {
            current.ends = current.ends.max(now + TTL_STEPS);
            current.marked = false;
        }
    }

    /// What has no mark gets one fresh TTL and a mark; after a reboot everything does.
    pub(super) fn start(&mut self, now: u64, rebooted: bool) {
        for (ends, marked) in self.session_ends.iter_mut().zip(&mut self.session_marked) {
            if !*marked || rebooted {
                (*ends, *marked) = (now + TTL_STEPS, true);
            }
        }
        if let Some(current) = self.current.as_mut().filter(|current| !current.marked || rebooted) {
            (current.ends, current.marked) = (now + TTL_STEPS, true);
        }
        self.claimed.clear();
    }
}

/// What has to hold in every state.
pub(super) fn check(state: &State, tale: &mut Tale) {
    let current = state.rules.current.as_ref();
    if let Some(current) = current.filter(|_| state.up && state.awake) {
        let ends = current.ends.min(state.rules.session_ends[current.session]);
        tale.expect(Property::I8, state.now < ends, || format!("the lease had to end at {ends}"));
    }
    for (thread, Thread { request, lease, .. }) in state.threads.iter().enumerate() {
        let holder = holder_of(thread);
        let (Some(request), Some(holdings)) = (request, &state.holdings[holder]) else { continue };
        let local = at(if holder == 0 { state.now - state.suspended } else { state.now });
        let believes = holdings.state(*request, local).is_held();
        let broken = lease.is_some_and(|lease| state.rules.broken.contains(&lease));
        let given = current.is_some_and(|current| current.session != holder) && !broken;
        tale.expect(Property::I9, !(believes && given), || {
            format!("{} still believes, and the domain was given to another", name(thread))
        });
    }
    if let Some(current) = current.filter(|current| current.session == 0) {
        let settled = |thread: &Thread| thread.attempts == 0 || thread.release == Release::Answered;
        let all = state.threads[..B].iter().all(settled) && state.calls[..B].iter().all(Option::is_none);
        tale.expect(Property::Freed, !all, || {
            let held = if current.holds.contains(&true) { "a hold that nobody names" } else { "no hold" };
            format!("A has released all that it asked for, and still has the lease, by {held}")
        });
    }
}
