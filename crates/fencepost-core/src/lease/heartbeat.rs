use std::collections::BTreeSet;

use crate::{LeaseId, SessionId};

use super::{Claim, Credential, EndedLease, Heartbeat, HeartbeatRefusal, Record, machine::Step};

impl Step<'_> {
    /// Renews the session and exactly the leases that the claim names. Nothing else renews anything.
    pub(super) fn heartbeat(&mut self, caller: Credential, claim: Claim) -> Result<Heartbeat, HeartbeatRefusal> {
        let id = self.authenticate(caller)?;
        let (in_full, ended) = match claim {
            Claim::Unchanged(version) if version != self.state.sessions[&id].version => {
                return Err(HeartbeatRefusal::VersionUnknown);
            }
            Claim::Unchanged(_) => (false, Vec::new()),
            Claim::Held(named) => (true, self.claim(id, named)),
        };
        let all_end_with_session = self.renew(id);
        let session = &self.state.sessions[&id];
        let (version, remaining_ms) = (session.version, session.ttl.as_millis());
        let listed = in_full || !all_end_with_session;
        Ok(Heartbeat {
            version,
            leases: listed.then(|| self.confirmed(id, |lease| lease.claimed)),
            unclaimed: self.confirmed(id, |lease| !lease.claimed),
            ended,
            remaining_ms,
        })
    }

    /// Makes the named leases the claimed set, and says of those that are not live how they ended.
    fn claim(&mut self, id: SessionId, named: Vec<LeaseId>) -> Vec<EndedLease> {
        let named: BTreeSet<LeaseId> = named.into_iter().collect();
        let Some(session) = self.state.sessions.get_mut(&id) else { return Vec::new() };
        let mut changed = false;
        for lease_id in &session.leases {
            if let Some(lease) = self.state.leases.get_mut(lease_id) {
                let claimed = named.contains(lease_id);
                changed |= lease.claimed != claimed;
                lease.claimed = claimed;
            }
        }
        if changed {
            session.version.0 += 1;
        }
        let gone: Vec<LeaseId> = named.difference(&session.leases).copied().collect();
        let end_of =
            |lease: LeaseId| self.state.ended_leases.get(&lease).filter(|memo| memo.session == id).map(|memo| memo.end);
        gone.into_iter().map(|lease| EndedLease { lease, end: end_of(lease) }).collect()
    }

    /// Gives the session and its claimed leases one TTL from now, and says whether all of them end with the session.
    fn renew(&mut self, id: SessionId) -> bool {
        let Some(session) = self.state.sessions.get_mut(&id) else { return true };
        let ends = self.now.after_millis(session.ttl.as_millis());
        session.ends = session.ends.max(ends);
        let mut heard_first = session.mark.is_some();
        let mut named = Vec::new();
        let mut all_end_with_session = true;
        for lease_id in &session.leases {
            let Some(lease) = self.state.leases.get_mut(lease_id).filter(|lease| lease.claimed) else { continue };
            lease.ends = lease.ends.max(ends);
            heard_first |= lease.mark.is_some();
            all_end_with_session &= lease.terms.max_hold.is_none();
            named.push(*lease_id);
        }
        if heard_first {
            self.commit(Record::SessionHeard { session: id, leases: named });
        }
        all_end_with_session
    }
}
