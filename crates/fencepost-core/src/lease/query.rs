use std::ops::Bound;

use crate::{Contract, Domain, Holder, Token, fence::LiveLease};

use super::{
    Answer, Caller, Counts, Filter, LeaseView, LiveSnapshot, Page, Query, QueueView, WaiterView,
    machine::Step,
    state::{Place, Waiter},
};

impl Step<'_> {
    pub(super) fn query(&self, query: Query) -> Answer {
        match query {
            Query::Check { domain, token } => {
                let lease = self.state.places.get(&domain).and_then(|place| place.lease);
                Answer::Current(lease.is_some_and(|lease| self.state.leases[&lease].visible_token() == Some(token)))
            }
            Query::List { filter, after, limit } => Answer::Page(self.list(filter, after, limit)),
            Query::Snapshot { prefix } => Answer::Snapshot(self.live(&prefix)),
            Query::Queue { domain, limit } => Answer::Queue(self.queue(domain, limit)),
            Query::Counts => Answer::Counts(Counts {
                sessions: self.state.sessions.len(),
                leases: self.state.leases.len(),
                waiting: self.state.waiting.len(),
            }),
        }
    }

    fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Page {
        let prefix = match filter {
            Filter::Domain(domain) => {
                let row = self.state.places.get(&domain).and_then(|place| self.view(&domain, place));
                return Page { rows: row.into_iter().collect(), next: None };
            }
            Filter::Prefix(prefix) => prefix,
        };
        let start = match &after {
            Some(after) if after.as_str() >= prefix.as_str() => Bound::Excluded(after.as_str()),
            Some(_) | None => Bound::Included(prefix.as_str()),
        };
        let mut rows = Vec::new();
        let mut next = None;
        for (domain, place) in self.state.places.range::<str, _>((start, Bound::Unbounded)) {
            if !domain.as_str().starts_with(&prefix) {
                break;
            }
            let Some(row) = self.view(domain, place) else { continue };
            if rows.len() == limit {
                next = rows.last().map(|row: &LeaseView| row.domain.clone());
                break;
            }
            rows.push(row);
        }
        Page { rows, next }
    }

    fn view(&self, domain: &Domain, place: &Place) -> Option<LeaseView> {
        let id = place.lease?;
        let lease = self.state.leases.get(&id)?;
        let session = self.state.sessions.get(&lease.session)?;
        Some(LeaseView {
            lease: id,
            domain: domain.clone(),
            contract: lease.contract,
            token: lease.visible_token(),
            session: lease.session,
            holder: session.holder.clone(),
            held_ms: u64::try_from(self.now.since(lease.granted).as_millis()).unwrap_or(u64::MAX),
            remaining_ms: self.state.remaining_ms(lease, self.now),
            holds: u32::try_from(lease.holds.len()).unwrap_or(u32::MAX),
            queue: u32::try_from(place.queue.len()).unwrap_or(u32::MAX),
            metadata: lease.metadata.clone(),
        })
    }

    fn queue(&self, domain: Domain, limit: usize) -> QueueView {
        let place = self.state.places.get(&domain);
        let reserved = place.filter(|place| place.lease.is_none()).and_then(|place| place.reserved);
        let left = |until: crate::Moment| until.as_millis().saturating_sub(self.now.as_millis());
        let queue = place.map(|place| &place.queue);
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        QueueView {
            reserved: reserved.map(|reservation| (reservation.kind, left(reservation.until))),
            waiters: queue.into_iter().flatten().take(limit).filter_map(|waiter| self.waiter(waiter)).collect(),
            waiting: queue.map_or(0, |queue| number(queue.len())),
            connected: number(queue.into_iter().flatten().filter(|waiter| waiter.ticket.is_some()).count()),
            domain,
        }
    }

    fn waiter(&self, waiter: &Waiter) -> Option<WaiterView> {
        let (holder, session): (&Holder, _) = match &waiter.acquire.caller {
            Caller::Session(credential) => {
                (&self.state.sessions.get(&credential.session)?.holder, Some(credential.session))
            }
            Caller::Opening { holder, .. } => (holder, None),
        };
        Some(WaiterView {
            holder: holder.clone(),
            session,
            waited_ms: u64::try_from(self.now.since(waiter.since).as_millis()).unwrap_or(u64::MAX),
            remaining_ms: waiter.until.as_millis().saturating_sub(self.now.as_millis()),
            connected: waiter.ticket.is_some(),
        })
    }

    /// Every lease that can write, beside the bound below which every token has been granted or skipped. Both are of
    /// one moment and durable, because answers leave only after the commit of everything decided before them.
    fn live(&self, prefix: &str) -> LiveSnapshot {
        let next_token = self.state.next.and_then(|next| Token::new(self.state.epoch, next).ok());
        let places = self.state.places.range::<str, _>((Bound::Included(prefix), Bound::Unbounded));
        let leases = places
            .take_while(|(domain, _)| domain.as_str().starts_with(prefix))
            .filter_map(|(_, place)| self.state.leases.get(&place.lease?))
            .filter(|lease| lease.contract == Contract::Safety)
            .map(|lease| LiveLease { domain: lease.domain.clone(), token: lease.token })
            .collect();
        let (issuer, epoch, boot) = (self.state.issuer.clone(), self.state.epoch, self.state.boot);
        LiveSnapshot { issuer, next_token, epoch, boot, leases }
    }
}
