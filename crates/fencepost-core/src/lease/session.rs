use crate::{Holder, SecretHash, SessionId, Ttl, limits};

use super::{
    ConfirmedLease, Credential, LimitReached, Record, SessionEnd, SessionRefusal, SessionView,
    machine::Step,
    state::{Lease, RequestPlace},
};

impl Step<'_> {
    pub(super) fn open_session(
        &mut self,
        session: SessionId,
        secret: SecretHash,
        holder: Holder,
        ttl: Ttl,
    ) -> Result<SessionView, LimitReached> {
        self.room_for_a_session()?;
        let at = self.now;
        self.commit(Record::SessionOpened { session, secret, holder: holder.clone(), ttl, opened_by: None, at });
        Ok(SessionView { session, holder, ttl, remaining_ms: ttl.as_millis(), leases: Vec::new() })
    }

    pub(super) fn room_for_a_session(&self) -> Result<(), LimitReached> {
        match self.state.sessions.len() < limits::SESSIONS {
            true => Ok(()),
            false => Err(LimitReached { limit: "sessions" }),
        }
    }

    pub(super) fn read_session(&mut self, caller: Credential) -> Result<SessionView, SessionRefusal> {
        let id = self.authenticate(caller)?;
        let session = &self.state.sessions[&id];
        Ok(SessionView {
            session: id,
            holder: session.holder.clone(),
            ttl: session.ttl,
            remaining_ms: session.ends.as_millis().saturating_sub(self.now.as_millis()),
            leases: self.confirmed(id, |_| true),
        })
    }

    pub(super) fn end_session(&mut self, caller: Credential) -> Result<(), SessionRefusal> {
        match self.authenticate(caller) {
            Ok(id) => {
                self.end_session_as(id, SessionEnd::Ended);
                Ok(())
            }
            Err(SessionRefusal::SessionEnded(_)) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }

    /// Ends a session, its leases and its waiting requests, and lets others have the domains.
    pub(super) fn end_session_as(&mut self, id: SessionId, end: SessionEnd) {
        let Some(session) = self.state.sessions.get(&id) else { return };
        let waiting: Vec<_> = session
            .requests
            .iter()
            .filter_map(|(request, place)| match place {
                RequestPlace::Waiting(domain) => Some((domain.clone(), *request)),
                RequestPlace::Live(_) | RequestPlace::Ended(..) => None,
            })
            .collect();
        let leases: Vec<_> = session.leases.iter().copied().collect();
        for (domain, request) in waiting {
            self.turn_away(&domain, request, SessionRefusal::SessionEnded(end).into());
        }
        let mut domains = Vec::with_capacity(leases.len());
        for id in leases {
            domains.extend(self.announce_end(id, end.of_leases(), None, None));
        }
        self.commit(Record::SessionEnded { session: id, end, at: self.now });
        for domain in domains {
            self.serve(&domain);
        }
    }

    /// The leases of a session that pass, with their remaining time.
    pub(super) fn confirmed(&self, session: SessionId, pass: impl Fn(&Lease) -> bool) -> Vec<ConfirmedLease> {
        let Some(session) = self.state.sessions.get(&session) else { return Vec::new() };
        let leases = session.leases.iter().filter_map(|id| Some((*id, self.state.leases.get(id)?)));
        leases
            .filter(|(_, lease)| pass(lease))
            .map(|(id, lease)| ConfirmedLease {
                lease: id,
                domain: lease.domain.clone(),
                token: lease.visible_token(),
                remaining_ms: self.state.remaining_ms(lease, self.now),
            })
            .collect()
    }
}
