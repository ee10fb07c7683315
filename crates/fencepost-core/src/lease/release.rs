use crate::{LeaseId, RequestId, SecretHash, SessionId};

use super::{
    Credential, EventKind, LeaseEnd, Leases, Record, ReleaseRefusal, Released, SessionRefusal, machine::Step,
    state::RequestPlace,
};

impl Leases {
    /// Whether a release of this hold has been decided before, so that deciding it again changes nothing. False for a
    /// hold that time has ended: that is decided anew from the clock.
    #[must_use]
    pub fn is_released(&self, secret: SecretHash, lease: LeaseId, request: RequestId) -> bool {
        let state = self.state();
        let owner = state.secrets.get(&secret).and_then(|id| state.sessions.get(id));
        match owner.filter(|session| session.claimed).and_then(|session| session.requests.get(&request)) {
            Some(RequestPlace::Ended(of, answer)) => *of == lease && answer.ended != Some(LeaseEnd::Expired),
            Some(RequestPlace::Live(_) | RequestPlace::Waiting(_)) | None => false,
        }
    }
}

impl Step<'_> {
    /// Ends one hold, and its lease with the last one. A retry gets the answer that was recorded.
    pub(super) fn release(
        &mut self,
        secret: Option<SecretHash>,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, ReleaseRefusal> {
        let owner = secret.and_then(|secret| self.state.secrets.get(&secret).copied());
        let session = owner.ok_or(SessionRefusal::Unauthenticated)?;
        match self.authenticate(Credential { session, secret }) {
            Ok(session) => self.release_in(session, lease, request),
            Err(SessionRefusal::SessionEnded(end)) => match self.state.ended_leases.get(&lease) {
                Some(memo) if memo.session == session => Ok(Released { ended: Some(memo.end), holds_left: 0 }),
                Some(_) => Err(ReleaseRefusal::NotYours),
                None => Err(SessionRefusal::SessionEnded(end).into()),
            },
            Err(refusal) => Err(refusal.into()),
        }
    }

    fn release_in(
        &mut self,
        session: SessionId,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, ReleaseRefusal> {
        match self.state.sessions[&session].requests.get(&request) {
            Some(RequestPlace::Ended(of, answer)) if *of == lease => return Ok(*answer),
            Some(RequestPlace::Live(of)) if *of == lease => {}
            Some(_) | None => return Err(self.why_not_held(session, lease)),
        }
        let at = self.now;
        let holds_left = self.state.leases[&lease].holds.len() - 1;
        if holds_left > 0 {
            self.commit(Record::HoldEnded { lease, request, at });
            return Ok(Released { ended: None, holds_left: u32::try_from(holds_left).unwrap_or(u32::MAX) });
        }
        let domain = self.announce_end(lease, LeaseEnd::Released, None, None);
        self.commit(Record::LeaseEnded { lease, end: LeaseEnd::Released, at });
        if let Some(domain) = domain {
            self.serve(&domain);
        }
        Ok(Released { ended: Some(LeaseEnd::Released), holds_left: 0 })
    }

    fn why_not_held(&self, session: SessionId, lease: LeaseId) -> ReleaseRefusal {
        let live = self.state.leases.get(&lease).map(|lease| lease.session);
        match live.or_else(|| self.state.ended_leases.get(&lease).map(|memo| memo.session)) {
            Some(owner) if owner == session => ReleaseRefusal::NeverHeld,
            Some(_) => ReleaseRefusal::NotYours,
            None => ReleaseRefusal::UnknownLease,
        }
    }

    /// Tells watchers that a lease is about to end, and names its domain.
    pub(super) fn announce_end(
        &mut self,
        id: LeaseId,
        end: LeaseEnd,
        fence_to: Option<crate::Token>,
        reason: Option<crate::Reason>,
    ) -> Option<crate::Domain> {
        let lease = self.state.leases.get(&id)?;
        let held_ms = u64::try_from(self.now.since(lease.granted).as_millis()).unwrap_or(u64::MAX);
        let domain = lease.domain.clone();
        self.event(id, EventKind::Ended { end, fence_to, reason, held_ms });
        Some(domain)
    }
}
