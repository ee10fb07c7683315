//! What the holders send, what the coordinator decides about it, and what arrives.

use std::time::Duration;

use fencepost_core::{
    Contract, Holder, LeaseId, Metadata, RequestId, Wait,
    holder::{Attempt, Confirmed, Holdings, Jitter},
    lease::{Acquire, Answer, Caller, Claim, Command, Credential, Fresh, Terms},
};

use crate::model::{
    explorer::{Property, Tale},
    names::{NAMES, shown},
};

use super::{
    B, Call, Leasing, Mistake, Release, STEP_MS, State, THREADS, TTL_MS, Thread, What, at, call_of, holder_of, name,
    secret, session, ttl,
};

impl Leasing {
    pub(super) fn send_acquire(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let attempts = state.threads[thread].attempts;
        let idle = state.calls[thread].is_none() && state.threads[thread].lease.is_none();
        if !idle || attempts >= self.attempts {
            return false;
        }
        let request = self.request(thread, attempts);
        state.threads[thread].attempts += 1;
        let sent = self.local(state, holder_of(thread)).as_millis() / STEP_MS;
        state.calls[thread] = Some(Call { what: What::Acquire(request), sent, answer: None });
        tale.say(|| format!("{} sends an acquire", name(thread)));
        true
    }

    /// The same on every attempt, as the rules have it.
    fn request(&self, thread: usize, attempt: u8) -> RequestId {
        let attempt = if self.has(Mistake::RequestIdPerAttempt) { attempt } else { 0 };
        RequestId::from_bytes([u8::try_from(thread).expect("few") + 1 + 16 * attempt; 16])
    }

    pub(super) fn send_heartbeat(&self, state: &mut State, tale: &mut Tale) -> bool {
        if state.heartbeats >= self.heartbeats || state.calls[THREADS].is_some() {
            return false;
        }
        let now = self.local(state, 0);
        let Some(holdings) = &mut state.holdings[0] else { return false };
        let attempt = holdings.heartbeat(now);
        state.heartbeats += 1;
        let sent = now.as_millis() / STEP_MS;
        state.calls[THREADS] = Some(Call { what: What::Heartbeat(attempt), sent, answer: None });
        tale.say(|| "A sends a heartbeat".to_owned());
        true
    }

    pub(super) fn receive(&self, state: &mut State, slot: usize, tale: &mut Tale) -> bool {
        let Some(call) = state.calls[slot].clone() else { return false };
        tale.say(|| format!("the coordinator decides {}", call_of(&call, slot)));
        let answer = match &call.what {
            What::Acquire(request) => self.acquire(state, slot, *request, call.sent, tale),
            What::Release => self.release(state, slot, call.sent, tale),
            What::Heartbeat(attempt) => self.heartbeat(state, attempt, call.sent, tale),
        };
        state.calls[slot] = Some(Call { answer, ..call });
        true
    }

    fn acquire(
        &self,
        state: &mut State,
        thread: usize,
        request: RequestId,
        sent: u64,
        tale: &mut Tale,
    ) -> Option<Answer> {
        let grants = state.threads[thread].grants;
        let number = u8::try_from(thread).expect("few") + 1;
        let fresh = Fresh {
            lease: LeaseId::from_bytes([number + 16 * grants; 16]),
            session: session(1),
            secret: secret(1 + state.threads[thread].attempts),
        };
        let caller = match state.threads[thread].credential.filter(|_| thread != B) {
            Some(credential) => Caller::Session(credential),
            None => Caller::Opening { holder: Holder::new("B").expect("a name"), ttl: ttl() },
        };
        let acquire = Acquire {
            caller,
            domain: NAMES.domains[0].clone(),
            request,
            contract: Contract::Safety,
            terms: Terms { reentrancy_limit: 2, ..Terms::default() },
            metadata: Metadata::default(),
            renew: false,
            wait: Wait::from_millis(0).expect("no wait"),
            fresh,
        };
        let mut answer = self.decide(state, Command::Acquire(Box::new(acquire)), sent, tale);
        if let Some(Answer::Acquired(Ok(acquired))) = &mut answer {
            let token = acquired.permission.grant().map(|grant| grant.token);
            tale.say(|| format!("granted under {} for {} ms", shown(token), acquired.remaining_ms));
            if acquired.lease == fresh.lease {
                state.threads[thread].grants += 1;
            }
            if let Some(current) = state.rules.current.as_mut().filter(|current| current.lease == acquired.lease) {
                current.holds[thread] = true;
            }
            if self.has(Mistake::WholeTtl) {
                acquired.remaining_ms = TTL_MS;
            }
        } else {
            tale.say(|| "refused".to_owned());
        }
        answer
    }

    fn release(&self, state: &mut State, thread: usize, sent: u64, tale: &mut Tale) -> Option<Answer> {
        let Thread { lease: Some(mut lease), request: Some(mut request), credential, .. } = state.threads[thread]
        else {
            return None;
        };
        let mut secret = credential.and_then(|credential| credential.secret);
        let before = state.rules.current.clone();
        if let Some(current) = &before {
            let other = (0..THREADS).find(|other| current.holds[*other]);
            let of_another = other.and_then(|other| Some((other, state.threads[other].request?)));
            let counted = self.has(Mistake::HoldsCounted) && current.lease == lease && !current.holds[thread];
            let by_domain = self.has(Mistake::ReleaseNamesTheDomain);
            if let Some((other, theirs)) = of_another.filter(|_| counted || by_domain) {
                (lease, request) = (current.lease, theirs);
                secret = state.threads[other].credential.and_then(|credential| credential.secret);
            }
        }
        let named = state.threads[thread].lease;
        if let Some(current) = state.rules.current.as_mut().filter(|current| Some(current.lease) == named) {
            current.holds[thread] = false;
        }
        let answer = self.decide(state, Command::Release { secret, lease, request }, sent, tale);
        if let Some(before) = before {
            let others = (0..THREADS).any(|other| other != thread && before.holds[other]);
            let meant = Some(before.lease) == named && !others;
            let touched = state.rules.current.as_ref().map(|current| current.lease) != Some(before.lease);
            tale.expect(Property::I10, meant || !touched, || {
                format!("the release of {} ended a lease that others hold", name(thread))
            });
        }
        answer
    }

    fn heartbeat(&self, state: &mut State, attempt: &Attempt, sent: u64, tale: &mut Tale) -> Option<Answer> {
        let caller = state.threads[0].credential?;
        let mut claim = attempt.claim();
        let named = match &claim {
            Claim::Held(named) => named.clone(),
            Claim::Unchanged(_) => state.rules.claimed.clone(),
        };
        if self.has(Mistake::GrantsGuessedReceived) {
            let current = state.rules.current.iter().filter(|current| current.session == 0);
            claim = Claim::Held(current.map(|current| current.lease).collect());
        }
        let ended =
            state.rules.current.as_ref().is_none_or(|current| current.session != 0 || current.ends <= state.now);
        let answer = self.decide(state, Command::Heartbeat { caller, claim }, sent, tale);
        if let Some(Answer::Heartbeat(Ok(heartbeat))) = &answer {
            let confirms = heartbeat.leases.as_ref().is_some_and(|leases| !leases.is_empty());
            tale.expect(Property::I8, !(ended && confirms), || "a lease was renewed after its end".to_owned());
            tale.say(|| if confirms { "renewed".to_owned() } else { "accepted".to_owned() });
            state.rules.heard(&named, state.now);
            state.rules.version = (heartbeat.version.0, state.rules.claimed.clone());
        } else {
            tale.say(|| "refused".to_owned());
        }
        answer
    }

    pub(super) fn arrive(&self, state: &mut State, slot: usize, tale: &mut Tale) -> bool {
        let Some(Call { what, sent, answer: Some(answer) }) = state.calls[slot].take() else { return false };
        let holder = if slot == THREADS { 0 } else { holder_of(slot) };
        let now = self.local(state, holder);
        let sent = if self.has(Mistake::DeadlineFromArrival) { now } else { at(sent) };
        match (what, answer) {
            (What::Acquire(request), Answer::Acquired(Ok(acquired))) => {
                tale.say(|| format!("{} has its answer", name(slot)));
                if holder == 1 && state.holdings[1].is_none() {
                    let confirmed = Confirmed { sent, elapsed: Duration::ZERO, remaining_ms: TTL_MS };
                    state.holdings[1] = Some(Holdings::open(ttl(), confirmed, Jitter::NONE));
                }
                if let Some(holdings) = &mut state.holdings[holder] {
                    holdings.granted(request, &acquired, false, sent, Duration::ZERO, now);
                }
                let thread = &mut state.threads[slot];
                (thread.lease, thread.request) = (Some(acquired.lease), Some(request));
                if acquired.secret_taken {
                    let secret = Some(secret(1 + thread.attempts));
                    thread.credential = Some(Credential { session: acquired.session, secret });
                }
            }
            (What::Release, Answer::Released(_)) => {
                tale.say(|| format!("{} has the answer to its release", name(slot)));
                state.threads[slot].release = Release::Answered;
            }
            (What::Heartbeat(attempt), Answer::Heartbeat(answer)) => {
                tale.say(|| "A has the answer to its heartbeat".to_owned());
                let Some(holdings) = &mut state.holdings[0] else { return false };
                match answer {
                    Ok(heartbeat) => holdings.confirmed(&attempt, &heartbeat, Duration::ZERO, now, Jitter::NONE),
                    Err(refusal) => holdings.refused(&attempt, refusal, now),
                }
            }
            (What::Acquire(_) | What::Release | What::Heartbeat(_), _) => {
                tale.say(|| format!("{} learns that it was refused", if slot == THREADS { "A" } else { name(slot) }));
            }
        }
        true
    }

    /// A copy of an acquire that was sent before, and whose answer nobody waits for.
    pub(super) fn late_acquire(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let attempts = state.threads[thread].attempts;
        if attempts == 0 {
            return false;
        }
        state.late += 1;
        tale.say(|| format!("a copy of the acquire of {} arrives", name(thread)));
        let forgotten = self.has(Mistake::IdsForgottenAtRelease) && state.threads[thread].release == Release::Answered;
        let request = if forgotten { RequestId::from_bytes([99; 16]) } else { self.request(thread, attempts - 1) };
        let sent = state.now;
        self.acquire(state, thread, request, sent, tale);
        true
    }

    pub(super) fn late_release(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        if state.threads[thread].release == Release::No {
            return false;
        }
        state.late += 1;
        tale.say(|| format!("a copy of the release of {} arrives", name(thread)));
        let sent = state.now;
        self.release(state, thread, sent, tale);
        true
    }

    pub(super) fn break_lease(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let Some(named) = state.threads[thread].lease else { return false };
        state.breaks += 1;
        let before = state.rules.current.as_ref().map(|current| current.lease);
        let lease = before.filter(|_| self.has(Mistake::BreakNamesTheDomain)).unwrap_or(named);
        tale.say(|| format!("an operator breaks the lease of {}", name(thread)));
        let reason = fencepost_core::Reason::new("it hangs").expect("a reason");
        let sent = state.now;
        let answer = self.decide(state, Command::Break { lease, reason }, sent, tale);
        if let Some(Answer::Broken(Ok(broken))) = answer {
            state.rules.last = state.rules.last.max(broken.fence_to);
            if self.breaks_excuse {
                state.rules.broken.push(lease);
            }
        }
        let after = state.rules.current.as_ref().map(|current| current.lease);
        tale.expect(Property::I10, before == Some(named) || before == after, || {
            "a break of an ended lease ended another".to_owned()
        });
        true
    }
}

pub(super) fn send_release(state: &mut State, thread: usize, tale: &mut Tale) -> bool {
    let Thread { lease, request, release, .. } = &mut state.threads[thread];
    if lease.is_none() || *release == Release::Answered || state.calls[thread].is_some() {
        return false;
    }
    *release = Release::Sent;
    if let (Some(holdings), Some(request)) = (&mut state.holdings[holder_of(thread)], request) {
        holdings.released(*request);
    }
    state.calls[thread] = Some(Call { what: What::Release, sent: state.now, answer: None });
    tale.say(|| format!("{} sends its release", name(thread)));
    true
}
