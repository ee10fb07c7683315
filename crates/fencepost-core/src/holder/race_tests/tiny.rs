use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Correlation, Domain, LeaseId, Permission, SessionId, Ttl,
    lease::{
        Acquired, Claim, ConfirmedLease, EndedLease, Heartbeat, HeartbeatRefusal, LeaseEnd, SessionEnd, SessionRefusal,
        Version,
    },
};

use super::{Answer, Coordinator, Message, TTL_MS, id};

/// The coordinator: a session's end, and the ends of its leases. All on its own clock, in milliseconds.
#[derive(Default)]
pub(super) struct Tiny {
    session_end: u64,
    leases: BTreeMap<LeaseId, u64>,
    version: u64,
    claimed: Vec<LeaseId>,
}

impl Tiny {
    pub(super) fn opened(now: u64) -> Self {
        Self { session_end: now + TTL_MS, ..Self::default() }
    }

    fn is_live(&self, lease: LeaseId, now: u64) -> bool {
        self.session_end > now && self.leases.get(&lease).is_some_and(|end| *end > now)
    }
}

impl Coordinator for Tiny {
    fn live(&mut self, now: u64) -> BTreeSet<LeaseId> {
        self.leases.keys().copied().filter(|lease| self.is_live(*lease, now)).collect()
    }

    fn decide(&mut self, message: Message, now: u64) -> Option<Answer> {
        match message {
            Message::Acquire(n) => {
                let lease = id(n);
                if self.session_end <= now {
                    return None;
                }
                let end = *self.leases.entry(lease).or_insert(self.session_end);
                let acquired = Acquired {
                    lease,
                    domain: Domain::new(&format!("d{n}")).unwrap(),
                    permission: Permission::Admission(Correlation::of(lease)),
                    session: SessionId::from_bytes([9; 16]),
                    ttl: Ttl::from_millis(TTL_MS).unwrap(),
                    remaining_ms: end.checked_sub(now)?,
                    again: false,
                    secret_taken: false,
                };
                Some(Answer::Granted(n, acquired))
            }
            Message::Heartbeat(attempt) => {
                if self.session_end <= now {
                    let ended = SessionRefusal::SessionEnded(SessionEnd::Expired);
                    return Some(Answer::Refused(attempt, HeartbeatRefusal::Session(ended)));
                }
                let named = match attempt.claim() {
                    Claim::Held(leases) => leases,
                    Claim::Unchanged(version) if version.0 == self.version => self.claimed.clone(),
                    Claim::Unchanged(_) => {
                        return Some(Answer::Refused(attempt, HeartbeatRefusal::VersionUnknown));
                    }
                };
                self.session_end = now + TTL_MS;
                let (live, ended): (Vec<_>, Vec<_>) = named.into_iter().partition(|lease| self.is_live(*lease, now));
                for lease in &live {
                    self.leases.insert(*lease, now + TTL_MS);
                }
                if live != self.claimed {
                    self.version += 1;
                    self.claimed.clone_from(&live);
                }
                let confirmed = |lease: &LeaseId| ConfirmedLease {
                    lease: *lease,
                    domain: Domain::new("d").unwrap(),
                    token: None,
                    remaining_ms: TTL_MS,
                };
                let by_version = matches!(attempt.claim(), Claim::Unchanged(_)) && ended.is_empty();
                let heartbeat = Heartbeat {
                    version: Version(self.version),
                    leases: (!by_version).then(|| live.iter().map(confirmed).collect()),
                    unclaimed: vec![],
                    ended: ended.into_iter().map(|lease| EndedLease { lease, end: Some(LeaseEnd::Expired) }).collect(),
                    remaining_ms: TTL_MS,
                };
                Some(Answer::Confirmed(attempt, heartbeat))
            }
            Message::Release(n) => {
                self.leases.insert(id(n), 0);
                None
            }
            Message::Break(n) => {
                self.leases.insert(id(n), 0);
                None
            }
            // Nobody else is known here, and nothing is forgotten.
            Message::Rival(_) | Message::Restart => None,
        }
    }
}
