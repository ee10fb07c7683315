//! What a record meant, told again from the record and the state before it: the same events, in the same order, as
//! when it was decided. A history can therefore be read back from the log and needs no writing of its own.

use crate::{Contract, LeaseId, Moment, Token};

use super::{Event, EventKind, LeaseEnd, Leases, Record, SessionEnd, state::State};

impl Leases {
    /// [Replays](Self::replay) a record and tells what happened by it, and when. How long a grant had waited is not in
    /// its record and is told as zero.
    pub fn replay_telling(&mut self, record: &Record) -> Vec<(Moment, Event)> {
        match record {
            Record::Granted { lease, at, .. } | Record::Regranted { lease, at, .. } => {
                self.replay(record);
                self.state()
                    .event(*lease, EventKind::Granted { waited_ms: 0 })
                    .map(|event| (*at, event))
                    .into_iter()
                    .collect()
            }
            Record::LeaseEnded { lease, end, at } => {
                let told = self.state().ending(*lease, *end, *at);
                self.replay(record);
                told.into_iter().collect()
            }
            Record::SessionEnded { session, end, at } => {
                let told = self.state().session_ending(session, *end, *at);
                self.replay(record);
                told
            }
            Record::LeaseBroken { lease, fence_to, reason, at } => {
                let told = self.state().ending(*lease, LeaseEnd::Revoked, *at).map(|(at, event)| {
                    let safety = event.contract == Contract::Safety;
                    (at, event.revoked(Some(*fence_to).filter(|_| safety), reason))
                });
                self.replay(record);
                told.into_iter().collect()
            }
            Record::Started { .. }
            | Record::SequenceReserved { .. }
            | Record::SessionOpened { .. }
            | Record::SecretReplaced { .. }
            | Record::SessionClaimed { .. }
            | Record::SessionHeard { .. }
            | Record::HoldAdded { .. }
            | Record::HoldEnded { .. } => {
                self.replay(record);
                Vec::new()
            }
        }
    }
}

impl State {
    fn event(&self, id: LeaseId, kind: EventKind) -> Option<Event> {
        let lease = self.leases.get(&id)?;
        let holder = self.sessions.get(&lease.session)?.holder.clone();
        let (domain, contract, token) = (lease.domain.clone(), lease.contract, lease.visible_token());
        Some(Event { domain, lease: id, contract, token, holder, kind })
    }

    fn ending(&self, id: LeaseId, end: LeaseEnd, at: Moment) -> Option<(Moment, Event)> {
        let granted = self.leases.get(&id)?.granted;
        let held_ms = u64::try_from(at.since(granted).as_millis()).unwrap_or(u64::MAX);
        let event = self.event(id, EventKind::Ended { end, fence_to: None, reason: None, held_ms })?;
        Some((at, event))
    }

    fn session_ending(&self, session: &crate::SessionId, end: SessionEnd, at: Moment) -> Vec<(Moment, Event)> {
        let leases = self.sessions.get(session).map(|session| session.leases.iter());
        leases.into_iter().flatten().filter_map(|lease| self.ending(*lease, end.of_leases(), at)).collect()
    }
}

impl Event {
    fn revoked(mut self, token: Option<Token>, why: &crate::Reason) -> Self {
        if let EventKind::Ended { fence_to, reason, .. } = &mut self.kind {
            (*fence_to, *reason) = (token, Some(why.clone()));
        }
        self
    }
}
