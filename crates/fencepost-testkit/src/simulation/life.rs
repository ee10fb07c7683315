//! What a worker does when it wakes and when it is answered.

use fencepost_core::{
    Domain, RequestId, SecretHash, Ttl,
    fence::{RecordedResult, Rejection, Verdict},
    lease::{AcquireRefusal, Acquired, Answer, Command},
};

use super::{
    settings::{Fault, Mistake},
    wishes::{Happening, ToCoordinator, ToResource, ToWorker, Wish},
    worker::{Hold, Phase},
    world::World,
};
use crate::history::{Answer as Got, Doing};

/// How often a worker sends the same thing before it gives up.
const TRIES: u32 = 4;
const ACQUIRE_WAIT_MS: u64 = 400;
const PATIENCE_US: u64 = 120_000;

impl World {
    /// Time has come for what the worker waits for.
    pub(super) fn woken(&mut self, worker: usize) {
        match std::mem::replace(&mut self.workers[worker].phase, Phase::Idle) {
            Phase::Idle | Phase::Opening { .. } => self.begin(worker),
            Phase::Acquiring { request, domain, call, tries, .. } if tries < TRIES => {
                self.send_acquire(worker, request, domain, call, tries + 1);
            }
            Phase::Acquiring { .. } => self.rest(worker),
            Phase::Asking { hold, wish, call, tries, .. } => self.ask_again(worker, hold, wish, call, tries),
            // It goes on exactly where it was: the last look at the lease was before it began to think.
            Phase::Thinking { hold, based_on } => {
                let now_us = self.now_us;
                let value = format!("{}@{now_us}", self.workers[worker].name);
                let operation = self.workers[worker].operation(&hold.grant, &value);
                self.ask(worker, hold, Wish::Write { operation, value, based_on }, 1);
            }
            Phase::Releasing { hold, call, tries, .. } if tries < TRIES => {
                self.send_release(worker, hold, call, tries + 1)
            }
            Phase::Releasing { .. } => self.rest(worker),
        }
    }

    /// The gap between reading and writing is where a pause does most harm.
    fn maybe_pause_in_thought(&mut self, worker: usize) {
        if self.settings.faults.contains(&Fault::Pause) && self.random.chance(12) {
            let ttl_us = self.settings.ttl_ms * 1_000;
            let long_us = self.random.between(ttl_us / 2, 3 * ttl_us);
            self.workers[worker].paused_until_us = self.now_us + long_us;
            let name = &self.workers[worker].name;
            self.record.note(self.now_us, format!("{name} stands still in thought for {} ms", long_us / 1_000));
        }
    }

    fn rest(&mut self, worker: usize) {
        self.workers[worker].enter(Phase::Idle);
        let delay_us = self.random.between(5_000, 150_000);
        self.wake(worker, delay_us);
    }

    fn begin(&mut self, worker: usize) {
        let over = self.workers[worker].session.as_ref().is_none_or(|session| session.holdings.over().is_some());
        if over {
            let ttl = Ttl::from_millis(self.settings.ttl_ms).expect("a TTL within the limits");
            self.workers[worker].session = None;
            let (attempt, command) = self.workers[worker].open(self.now_us, ttl);
            self.call_coordinator(worker, attempt, command);
            return self.wake(worker, PATIENCE_US);
        }
        let nth = self.random.between(1, self.settings.domains as u64);
        let domain = Domain::new(&format!("d{nth}")).expect("a domain");
        let request = RequestId::from_bytes(self.random.bytes());
        let name = self.workers[worker].name.clone();
        let (call, _) = self.record.call(self.now_us, &name, Doing::Acquire, domain.as_str());
        self.send_acquire(worker, request, domain, call, 1);
    }

    fn send_acquire(&mut self, worker: usize, request: RequestId, domain: Domain, call: u64, tries: u32) {
        if self.workers[worker].session.is_none() {
            return self.rest(worker);
        }
        let command = self.workers[worker].acquire(&domain, request, ACQUIRE_WAIT_MS);
        let attempt = self.workers[worker].attempt();
        let sent_us = self.now_us;
        self.workers[worker].enter(Phase::Acquiring { request, domain, call, attempt, sent_us, tries });
        self.call_coordinator(worker, attempt, command);
        self.wake(worker, ACQUIRE_WAIT_MS * 1_000 + PATIENCE_US);
    }

    fn call_coordinator(&mut self, worker: usize, attempt: u64, command: Command) {
        let from = self.address(worker);
        self.send_to_coordinator(ToCoordinator { from, attempt, command });
    }

    pub(super) fn beat(&mut self, worker: usize) {
        if let Some((attempt, command)) = self.workers[worker].beat(self.now_us) {
            self.call_coordinator(worker, attempt, command);
        }
        self.schedule_beat(worker);
    }

    fn schedule_beat(&mut self, worker: usize) {
        if let Some(at_us) = self.workers[worker].next_beat_us() {
            let who = self.address(worker);
            self.at(at_us.max(self.now_us + 1_000), Happening::Beat { who });
        }
    }

    /// Wants something of the resource.
    fn ask(&mut self, worker: usize, hold: Hold, wish: Wish, tries: u32) {
        let name = self.workers[worker].name.clone();
        let token = Some(hold.grant.token.to_decimal());
        let (doing, token) = match &wish {
            Wish::Advance => (Doing::Advance, token),
            Wish::Read { fenced } => (Doing::Read, token.filter(|_| *fenced)),
            Wish::Write { .. } => (Doing::Write, token),
        };
        let (call, line) = self.record.call(self.now_us, &name, doing, hold.grant.domain.as_str());
        line.token = token;
        if let Wish::Write { operation, value, .. } = &wish {
            (line.operation, line.value) = (Some(operation.id.to_string()), Some(value.clone()));
        }
        let repeated = self.record.lines.last().cloned();
        let attempt = self.workers[worker].attempt();
        let (from, grant) = (self.address(worker), hold.grant.clone());
        let copies = self.send_to_resource(ToResource { from, attempt, grant, wish: wish.clone() });
        if let Some(line) = repeated.filter(|line| copies > 1 && line.operation.is_some()) {
            // To the resource a copy is a call of its own, which nobody hears the answer of.
            self.record.repeat(line);
        }
        self.workers[worker].enter(Phase::Asking { hold, wish, call, attempt, tries });
        self.wake(worker, PATIENCE_US);
    }

    /// The resource has not answered: the same once more, as long as that makes sense.
    fn ask_again(&mut self, worker: usize, hold: Hold, wish: Wish, _call: u64, tries: u32) {
        let held = self.workers[worker].is_held(self.now_us, &hold);
        match wish {
            Wish::Write { operation, value, based_on } if tries < TRIES => {
                let fresh = self.settings.mistake == Some(Mistake::FreshOperationOnRetry);
                let operation = if fresh { self.workers[worker].operation(&hold.grant, &value) } else { operation };
                self.ask(worker, hold, Wish::Write { operation, value, based_on }, tries + 1);
            }
            // Nobody knows what became of the write: the lease is left to expire.
            Wish::Write { .. } => {
                self.abandon(worker, &hold);
                self.rest(worker);
            }
            Wish::Advance | Wish::Read { .. } if held && tries < TRIES => self.ask(worker, hold, wish, tries + 1),
            Wish::Advance | Wish::Read { .. } => self.release(worker, hold),
        }
    }

    fn release(&mut self, worker: usize, hold: Hold) {
        let name = self.workers[worker].name.clone();
        let (call, line) = self.record.call(self.now_us, &name, Doing::Release, hold.grant.domain.as_str());
        line.lease = Some(hold.lease.to_string());
        self.forget_hold(worker, &hold);
        self.send_release(worker, hold, call, 1);
    }

    fn send_release(&mut self, worker: usize, hold: Hold, call: u64, tries: u32) {
        let Some(key) = self.workers[worker].session.as_ref().map(|session| session.key) else {
            return self.rest(worker);
        };
        let attempt = self.workers[worker].attempt();
        let command = Command::Release { secret: key.secret, lease: hold.lease, request: hold.request };
        self.workers[worker].enter(Phase::Releasing { hold, call, attempt, tries });
        self.call_coordinator(worker, attempt, command);
        self.wake(worker, PATIENCE_US);
    }

    /// A holder that does not release says at least that it no longer relies on the lease.
    fn abandon(&mut self, worker: usize, hold: &Hold) {
        let name = self.workers[worker].name.clone();
        let (_, line) = self.record.call(self.now_us, &name, Doing::Release, hold.grant.domain.as_str());
        line.lease = Some(hold.lease.to_string());
        self.forget_hold(worker, hold);
    }

    fn forget_hold(&mut self, worker: usize, hold: &Hold) {
        if let Some(session) = self.workers[worker].session.as_mut() {
            session.holdings.released(hold.request);
        }
    }

    /// A worker is gone, and its belief with it.
    pub(super) fn give_up_belief(&mut self, worker: usize) {
        let hold = match &self.workers[worker].phase {
            Phase::Asking { hold, .. } | Phase::Thinking { hold, .. } => Some(hold.clone()),
            Phase::Idle | Phase::Opening { .. } | Phase::Acquiring { .. } | Phase::Releasing { .. } => None,
        };
        if let Some(hold) = hold {
            self.abandon(worker, &hold);
        }
    }

    pub(super) fn answered(&mut self, worker: usize, answer: ToWorker) {
        match answer {
            ToWorker::Coordinator { attempt, answer, elapsed_ms, secret } => {
                self.told(worker, attempt, answer, elapsed_ms, secret);
            }
            ToWorker::Resource { attempt, verdict, value } => self.ruled(worker, attempt, verdict, value),
        }
    }

    /// From when a worker counts what an answer confirms.
    fn counted_from(&self, sent_us: u64) -> u64 {
        if self.settings.mistake == Some(Mistake::CountFromArrival) { self.now_us } else { sent_us }
    }

    fn told(&mut self, worker: usize, attempt: u64, answer: Answer, elapsed_ms: u64, secret: Option<SecretHash>) {
        let now_us = self.now_us;
        match (answer, &self.workers[worker].phase) {
            (Answer::Opened(Ok(view)), Phase::Opening { attempt: sent, sent_us }) if *sent == attempt => {
                let sent_us = self.counted_from(*sent_us);
                self.workers[worker].opened(now_us, sent_us, &view, elapsed_ms, secret);
                self.schedule_beat(worker);
                self.rest(worker);
            }
            (Answer::Heartbeat(answer), _) => {
                if self.workers[worker].heard(now_us, attempt, &answer, elapsed_ms, &mut self.random) {
                    self.note_belief(worker);
                    self.schedule_beat(worker);
                }
            }
            (Answer::Acquired(answer), Phase::Acquiring { attempt: sent, .. }) if *sent == attempt => match answer {
                Ok(acquired) => self.take_grant(worker, *acquired, elapsed_ms),
                Err(refusal) => self.refused(worker, *refusal),
            },
            (Answer::Released(answer), Phase::Releasing { attempt: sent, call, .. }) if *sent == attempt => {
                let got = if answer.is_ok() { Got::Released } else { Got::Refused };
                let call = *call;
                self.record.answer(now_us, call, got);
                self.rest(worker);
            }
            (_, _) => {}
        }
    }

    fn take_grant(&mut self, worker: usize, acquired: Acquired, elapsed_ms: u64) {
        let Phase::Acquiring { request, call, sent_us, .. } = &self.workers[worker].phase else { return };
        let (request, call, sent_us) = (*request, *call, self.counted_from(*sent_us));
        let now_us = self.now_us;
        let Some(hold) = self.workers[worker].granted(now_us, sent_us, request, &acquired, elapsed_ms) else {
            self.record.answer(now_us, call, Got::Unknown);
            return self.rest(worker);
        };
        let until_us = self.workers[worker].believes_until_us(&hold);
        let line = self.record.answer(now_us, call, Got::Granted);
        (line.token, line.lease) = (Some(hold.grant.token.to_decimal()), Some(hold.lease.to_string()));
        line.until_us = until_us;
        let (name, domain, token) = (&self.workers[worker].name, &hold.grant.domain, hold.grant.token);
        self.record.note(now_us, format!("{name} holds {domain} under {token}"));
        self.schedule_beat(worker);
        if until_us.is_none() {
            return self.release(worker, hold);
        }
        let first = match (self.settings.fence_on_acquire, self.random.chance(50)) {
            (true, true) => Wish::Advance,
            (true, false) => Wish::Read { fenced: true },
            (false, _) => Wish::Read { fenced: false },
        };
        self.ask(worker, hold, first, 1);
    }

    fn refused(&mut self, worker: usize, refusal: AcquireRefusal) {
        let Phase::Acquiring { call, .. } = &self.workers[worker].phase else { return };
        let call = *call;
        match refusal {
            // The newer attempt is the one that waits.
            AcquireRefusal::Superseded => return,
            AcquireRefusal::Session(_) => self.workers[worker].session = None,
            AcquireRefusal::Held(_)
            | AcquireRefusal::Reserved(_)
            | AcquireRefusal::HoldEnded
            | AcquireRefusal::RequestConflict
            | AcquireRefusal::LeaseMismatch
            | AcquireRefusal::ReentrancyLimit { .. }
            | AcquireRefusal::LimitReached { .. }
            | AcquireRefusal::TokenSpaceExhausted => {}
        }
        self.record.answer(self.now_us, call, Got::Refused);
        self.rest(worker);
    }

    /// Writes down until when a worker may believe in what it holds now.
    fn note_belief(&mut self, worker: usize) {
        let hold = match &self.workers[worker].phase {
            Phase::Asking { hold, .. } | Phase::Thinking { hold, .. } => hold.clone(),
            Phase::Idle | Phase::Opening { .. } | Phase::Acquiring { .. } | Phase::Releasing { .. } => return,
        };
        let Some(until_us) = self.workers[worker].believes_until_us(&hold) else { return };
        let name = self.workers[worker].name.clone();
        let (call, line) = self.record.call(self.now_us, &name, Doing::Renew, hold.grant.domain.as_str());
        line.lease = Some(hold.lease.to_string());
        self.record.answer(self.now_us, call, Got::Renewed).until_us = Some(until_us);
    }

    /// The resource has decided.
    fn ruled(&mut self, worker: usize, attempt: u64, verdict: Verdict<RecordedResult>, value: String) {
        match &self.workers[worker].phase {
            Phase::Asking { attempt: sent, .. } if *sent == attempt => {}
            Phase::Idle
            | Phase::Opening { .. }
            | Phase::Acquiring { .. }
            | Phase::Asking { .. }
            | Phase::Thinking { .. }
            | Phase::Releasing { .. } => return,
        }
        let Phase::Asking { hold, wish, call, .. } = std::mem::replace(&mut self.workers[worker].phase, Phase::Idle)
        else {
            return;
        };
        let now_us = self.now_us;
        let name = self.workers[worker].name.clone();
        match (&verdict, wish) {
            (Verdict::Rejected(rejection), _) => {
                self.stale += usize::from(matches!(rejection, Rejection::Stale { .. }));
                self.record.note(now_us, format!("{name} is refused: {rejection}"));
                let line = self.record.answer(now_us, call, Got::Rejected);
                line.reason = Some(rejection.code().to_owned());
                if let Rejection::Stale { by, .. } = rejection {
                    line.by = Some(by.as_str().to_owned());
                }
                self.release(worker, hold);
            }
            (Verdict::Applied(_) | Verdict::Replayed(_), Wish::Advance) => {
                self.record.answer(now_us, call, Got::Applied);
                match self.workers[worker].is_held(now_us, &hold) {
                    true => self.ask(worker, hold, Wish::Read { fenced: false }, 1),
                    false => self.release(worker, hold),
                }
            }
            (Verdict::Applied(_) | Verdict::Replayed(_), Wish::Read { .. }) => {
                self.record.answer(now_us, call, Got::Value).value = Some(value.clone());
                if !self.workers[worker].is_held(now_us, &hold) {
                    return self.release(worker, hold);
                }
                self.workers[worker].enter(Phase::Thinking { hold, based_on: value });
                self.maybe_pause_in_thought(worker);
                let thought_us = self.random.between(500, 80_000);
                self.wake(worker, thought_us);
            }
            (Verdict::Applied(_), Wish::Write { value, .. }) => {
                self.record.note(now_us, format!("{name} has written {value}"));
                self.record.answer(now_us, call, Got::Applied);
                self.release(worker, hold);
            }
            (Verdict::Replayed(_), Wish::Write { value, .. }) => {
                self.record.note(now_us, format!("{name} had written {value} before"));
                self.record.answer(now_us, call, Got::Replayed);
                self.release(worker, hold);
            }
        }
    }
}
