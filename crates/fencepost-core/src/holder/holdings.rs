use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    Domain, LeaseId, Moment, RequestId, Ttl,
    lease::{Acquired, Heartbeat, HeartbeatRefusal, SessionEnd, SessionRefusal},
};

use super::{Attempt, Confirmed, Jitter, LeaseState, Loss, heartbeat::Claimed, schedule::Schedule};

/// What one session holds, as far as its process may believe it.
///
/// Moments given to one machine must not go back; the driver reads them from a clock that counts suspended time.
#[derive(Clone, Debug)]
pub struct Holdings {
    ttl: Ttl,
    leases: BTreeMap<LeaseId, Believed>,
    holds: BTreeMap<RequestId, Hold>,
    /// No deadline is earlier. It may lag behind, so that it need not be sought at every step.
    earliest: Option<Moment>,
    schedule: Schedule,
    /// When the latest heartbeat that was confirmed had been sent.
    answered: Moment,
    attempts: u64,
    /// The number of the latest attempt that was answered: an older answer does not know the newest version.
    newest_answer: u64,
    claimed: Option<Claimed>,
    /// The number of the latest attempt when the driver wanted to know something that only a later one can tell.
    hurried: Option<u64>,
    over: Option<Loss>,
    losses: Vec<(RequestId, Loss)>,
}

/// A lease that is believed to be held. It goes at its first loss, so that nothing can confirm it again.
#[derive(Clone, Debug)]
struct Believed {
    domain: Domain,
    deadline: Moment,
    /// Those of its holds that are not lost; never empty.
    holds: Vec<RequestId>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    lease: LeaseId,
    loss: Option<Loss>,
}

impl Holdings {
    /// A session that was just opened and holds nothing.
    #[must_use]
    pub fn open(ttl: Ttl, opened: Confirmed, jitter: Jitter) -> Self {
        Self {
            ttl,
            leases: BTreeMap::new(),
            holds: BTreeMap::new(),
            earliest: None,
            schedule: Schedule::new(ttl, opened.sent, jitter),
            answered: opened.sent,
            attempts: 0,
            newest_answer: 0,
            claimed: None,
            hurried: None,
            over: None,
            losses: Vec::new(),
        }
    }

    /// An acquire was granted. The lease is claimed by a heartbeat at once: until then it lives no longer than the
    /// session did at the grant.
    ///
    /// `renew` is what the acquire asked for: a grant of it takes the place of every earlier hold of the domain.
    pub fn granted(
        &mut self,
        request: RequestId,
        acquired: &Acquired,
        renew: bool,
        sent: Moment,
        elapsed: Duration,
        now: Moment,
    ) {
        self.expire(now);
        if self.holds.contains_key(&request) {
            // A repeated answer to one acquire: it may confirm more time, and cannot revive what was lost.
            if self.holds[&request].loss.is_none() {
                self.extend(acquired.lease, sent, elapsed, acquired.remaining_ms, now);
            }
            return;
        }
        if renew {
            self.lose_domain(&acquired.domain);
        }
        let confirmed = Confirmed { sent, elapsed, remaining_ms: acquired.remaining_ms };
        let deadline = confirmed.deadline(self.ttl, now);
        let loss = self.over.or((deadline <= now).then_some(Loss::DeadlinePassed));
        self.holds.insert(request, Hold { lease: acquired.lease, loss });
        match loss {
            Some(loss) => self.losses.push((request, loss)),
            None => {
                let believed = self.leases.entry(acquired.lease).or_insert_with(|| Believed {
                    domain: acquired.domain.clone(),
                    deadline,
                    holds: Vec::new(),
                });
                believed.deadline = believed.deadline.max(deadline);
                believed.holds.push(request);
                self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
                self.schedule.at_once(now);
            }
        }
    }

    /// What to send now, and the attempt to give back with whatever comes of it.
    ///
    /// Several may be under way: an answer confirms what its own attempt named, and no more.
    pub fn heartbeat(&mut self, now: Moment) -> Attempt {
        self.expire(now);
        self.attempts += 1;
        let named: BTreeSet<LeaseId> = self.leases.keys().copied().collect();
        let version = self.claimed.as_ref().filter(|claimed| claimed.leases == named).map(|claimed| claimed.version);
        Attempt { number: self.attempts, sent: now, named, version }
    }

    /// A heartbeat was accepted: extends exactly what the answer confirms, from the moment the attempt was sent.
    pub fn confirmed(
        &mut self,
        attempt: &Attempt,
        heartbeat: &Heartbeat,
        elapsed: Duration,
        now: Moment,
        jitter: Jitter,
    ) {
        self.expire(now);
        for ended in &heartbeat.ended {
            self.lose_lease(ended.lease, ended.end.map_or(Loss::Forgotten, Loss::Ended));
        }
        let confirmed: BTreeMap<LeaseId, u64> = match (&heartbeat.leases, attempt.version) {
            (Some(leases), _) => leases
                .iter()
                .filter(|confirmed| attempt.named.contains(&confirmed.lease))
                .map(|confirmed| (confirmed.lease, confirmed.remaining_ms))
                .collect(),
            // Every lease of the version lives as long as the session does.
            (None, Some(_)) => attempt.named.iter().map(|lease| (*lease, heartbeat.remaining_ms)).collect(),
            // An answer to a list that does not confirm the list confirms nothing.
            (None, None) => BTreeMap::new(),
        };
        for (lease, remaining_ms) in &confirmed {
            self.extend(*lease, attempt.sent, elapsed, *remaining_ms, now);
        }
        if attempt.number < self.newest_answer {
            return;
        }
        self.newest_answer = attempt.number;
        self.answered = self.answered.max(attempt.sent);
        self.claimed = Some(Claimed { version: heartbeat.version, leases: confirmed.into_keys().collect() });
        self.schedule.confirmed(attempt.sent, jitter);
        self.hurried = self.hurried.filter(|latest| attempt.number <= *latest);
        if self.hurried.is_some() || self.leases.keys().any(|lease| !attempt.named.contains(lease)) {
            // A lease was granted, or the driver was in a hurry, while this heartbeat was under way.
            self.schedule.at_once(now);
        }
    }

    /// A heartbeat was refused.
    pub fn refused(&mut self, attempt: &Attempt, refusal: HeartbeatRefusal, now: Moment) {
        self.expire(now);
        match refusal {
            HeartbeatRefusal::VersionUnknown => {
                if attempt.number >= self.newest_answer {
                    self.newest_answer = attempt.number;
                    self.claimed = None;
                    self.schedule.at_once(now);
                }
            }
            HeartbeatRefusal::Session(SessionRefusal::SessionEnded(end)) => self.end(Loss::SessionEnded(end)),
            HeartbeatRefusal::Session(
                SessionRefusal::UnknownSession | SessionRefusal::Unauthenticated | SessionRefusal::NotYours,
            ) => self.end(Loss::SessionUnknown),
        }
    }

    /// A heartbeat failed, or was not answered in time. Its answer may still be given later, to `confirmed`.
    pub fn unanswered(&mut self, now: Moment, jitter: Jitter) {
        self.expire(now);
        self.schedule.failed(now, jitter);
    }

    /// Something is to be found out without delay: a heartbeat is due now. One that is under way does not count, as it
    /// may have been decided before.
    pub fn hurry(&mut self, now: Moment) {
        self.hurried = Some(self.attempts);
        self.schedule.at_once(now);
    }

    /// A hold is given back, or no longer asked about. From now on no heartbeat names its lease, unless the lease has
    /// other holds; and it is lost whatever the coordinator answers to the release.
    pub fn released(&mut self, request: RequestId) {
        let Some(hold) = self.holds.remove(&request) else { return };
        let Some(believed) = self.leases.get_mut(&hold.lease) else { return };
        believed.holds.retain(|other| *other != request);
        if believed.holds.is_empty() {
            self.leases.remove(&hold.lease);
        }
    }

    /// The session has ended, or is being ended by us: everything is lost.
    pub fn session_ended(&mut self, end: SessionEnd) {
        self.end(Loss::SessionEnded(end));
    }

    /// What may be believed about a hold at `now`. One that is not known was released.
    #[must_use]
    pub fn state(&self, request: RequestId, now: Moment) -> LeaseState {
        let Some(hold) = self.holds.get(&request) else { return LeaseState::Lost(Loss::Released) };
        if let Some(loss) = hold.loss {
            return LeaseState::Lost(loss);
        }
        match self.leases.get(&hold.lease).map(|believed| believed.deadline) {
            Some(until) if now < until => {
                if self.is_in_doubt(now) {
                    LeaseState::InDoubt { until }
                } else {
                    LeaseState::Held
                }
            }
            Some(_) | None => LeaseState::Lost(Loss::DeadlinePassed),
        }
    }

    /// The local deadline of a hold that is not lost.
    #[must_use]
    pub fn deadline(&self, request: RequestId) -> Option<Moment> {
        let hold = self.holds.get(&request).filter(|hold| hold.loss.is_none())?;
        self.leases.get(&hold.lease).map(|believed| believed.deadline)
    }

    /// When to send a heartbeat; `None` when the session is over.
    #[must_use]
    pub fn next_heartbeat(&self) -> Option<Moment> {
        match self.over {
            Some(_) => None,
            None => Some(self.schedule.next()),
        }
    }

    /// When [`expire`](Self::expire) is to be called, unless an answer comes before. It may find nothing to do then.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        self.earliest
    }

    /// Why the session is over, once it is.
    #[must_use]
    pub fn over(&self) -> Option<Loss> {
        self.over
    }

    /// Marks as lost what has passed its deadline by `now`. Losses are handed out by
    /// [`take_losses`](Self::take_losses).
    pub fn expire(&mut self, now: Moment) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        let passed: Vec<LeaseId> =
            self.leases.iter().filter(|(_, believed)| believed.deadline <= now).map(|(lease, _)| *lease).collect();
        for lease in passed {
            self.lose_lease(lease, Loss::DeadlinePassed);
        }
        self.earliest = self.leases.values().map(|believed| believed.deadline).min();
    }

    /// Losses since the last call, each once. A release by the holder is no loss.
    pub fn take_losses(&mut self) -> Vec<(RequestId, Loss)> {
        std::mem::take(&mut self.losses)
    }

    /// Heartbeats are failing, or the one that was due has not been answered for as long again.
    fn is_in_doubt(&self, now: Moment) -> bool {
        let overdue_ms = self.ttl.as_millis() * 2 / 3;
        self.schedule.is_failing() || self.answered.after_millis(overdue_ms) <= now
    }

    fn extend(&mut self, lease: LeaseId, sent: Moment, elapsed: Duration, remaining_ms: u64, now: Moment) {
        if let Some(believed) = self.leases.get_mut(&lease) {
            let deadline = Confirmed { sent, elapsed, remaining_ms }.deadline(self.ttl, now);
            // Answers come in any order, and each is true for ever: the latest end that was promised counts.
            believed.deadline = believed.deadline.max(deadline);
        }
    }

    fn lose_lease(&mut self, lease: LeaseId, loss: Loss) {
        let Some(believed) = self.leases.remove(&lease) else { return };
        for request in believed.holds {
            if let Some(hold) = self.holds.get_mut(&request) {
                hold.loss = Some(loss);
                self.losses.push((request, loss));
            }
        }
    }

    fn lose_domain(&mut self, domain: &Domain) {
        let leases: Vec<LeaseId> =
            self.leases.iter().filter(|(_, held)| held.domain == *domain).map(|(lease, _)| *lease).collect();
        for lease in leases {
            self.lose_lease(lease, Loss::Renewed);
        }
    }

    fn end(&mut self, loss: Loss) {
        self.over.get_or_insert(loss);
        let leases: Vec<LeaseId> = self.leases.keys().copied().collect();
        for lease in leases {
            self.lose_lease(lease, loss);
        }
    }
}
