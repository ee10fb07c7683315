//! What a worker does: acquires, raises the fence or does not, reads, thinks, writes and gives back, again and again.
//!
//! It is as careless as real workers are: half of the time it looks at its lease at every step by `Lease::run`, half of
//! the time its last look lies before it began to think; it gives up acquires under way, drops handles, and leaves
//! leases to expire.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use fencepost_client::{AcquireError, Lease, Session};
use fencepost_coordinator::CallError;
use fencepost_core::{
    Domain, LockDelay, MaxHold, OperationId, Wait,
    fence::{Operation, Rejection, Verdict},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    outbox::{Answered, Outgoing, ToResource, Wish},
    settings::{Fault, Mistake},
    worker::{Desk, Held, Slot, until_us},
};
use crate::history::{Answer as Got, Doing};
use crate::random::Random;

/// How often the same thing is asked of the resource before it is given up.
const TRIES: u32 = 4;

pub(super) struct Hand {
    name: String,
    desk: Desk,
    slot: Slot,
    random: Random,
    operations: u64,
}

/// How work under a lease has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Settled,
    /// Nobody knows what became of a write.
    Unsettled,
}

impl Hand {
    pub(super) fn new(name: String, desk: Desk, slot: Slot, random: Random) -> Self {
        Self { name, desk, slot, random, operations: 0 }
    }

    /// Works for a while, or until the session is over.
    pub(super) async fn work(mut self, session: Session) {
        for _ in 0..self.random.between(5, 40) {
            let rest_ms = self.random.between(5, self.desk.settings.ttl_ms / 5);
            sleep(Duration::from_millis(rest_ms)).await;
            if session.over().is_some() {
                return;
            }
            if let Some(lease) = self.acquire(&session).await {
                self.hold(lease).await;
            }
        }
    }

    async fn acquire(&mut self, session: &Session) -> Option<Lease> {
        let (ttl_ms, common) = (self.desk.settings.ttl_ms, self.desk.common.clone());
        let nth = self.random.between(1, self.desk.settings.domains as u64);
        let domain = Domain::new(&format!("d{nth}")).expect("a domain");
        let wait_ms = if self.random.chance(80) { self.random.between(ttl_ms / 10, 2 * ttl_ms) } else { 0 };
        let wait = Wait::from_millis(wait_ms).expect("a wait within the limits");
        let (call, _) = common.record().call(common.now_us(), &self.name, Doing::Acquire, domain.as_str());
        common.acquires.fetch_add(1, Relaxed);
        let mut acquire = session.acquire(domain).wait(wait);
        if self.random.chance(10) {
            let most = self.random.between(ttl_ms, 3 * ttl_ms);
            acquire = acquire.max_hold(MaxHold::from_millis(most).expect("a time within the limits"));
        }
        if self.random.chance(10) {
            let delay = self.random.between(1, ttl_ms / 4);
            acquire = acquire.lock_delay(LockDelay::from_millis(delay).expect("a time within the limits"));
        }
        let given_up_ms = if self.random.chance(8) { self.random.between(1, ttl_ms / 2) } else { 10 * ttl_ms };
        let Ok(made) = timeout(Duration::from_millis(given_up_ms), acquire).await else {
            common.note(format!("{} gives up its acquire of d{nth}", self.name));
            return None;
        };
        match made {
            Ok(lease) => Some(self.take(call, lease)),
            Err(error) => {
                common.record().answer(common.now_us(), call, outcome(&error));
                None
            }
        }
    }

    /// Writes down that a lease is held, and until when.
    fn take(&mut self, call: u64, lease: Lease) -> Lease {
        let common = &self.desk.common;
        let mut record = common.record();
        let line = record.answer(common.now_us(), call, Got::Granted);
        (line.token, line.lease) = (Some(lease.token().to_decimal()), Some(lease.id().to_string()));
        line.until_us = until_us(&lease, &self.desk.clock);
        record.note(common.now_us(), format!("{} holds {} under {}", self.name, lease.domain(), lease.token()));
        lease
    }

    async fn hold(&mut self, lease: Lease) {
        let lease = Arc::new(lease);
        let until_us = until_us(&lease, &self.desk.clock).unwrap_or_default();
        self.show(Some(Held { lease: lease.clone(), until_us }));
        let end = if self.random.chance(50) {
            // A loss drops the work at an await; what it had sent may have happened.
            lease.run(self.job(&lease)).await.unwrap_or(End::Unsettled)
        } else {
            self.job(&lease).await
        };
        let common = self.desk.common.clone();
        let call = {
            let mut record = common.record();
            let (call, line) = record.call(common.now_us(), &self.name, Doing::Release, lease.domain().as_str());
            line.lease = Some(lease.id().to_string());
            call
        };
        self.show(None);
        let lease = Arc::into_inner(lease).expect("nobody else has it");
        match end {
            End::Unsettled => lease.leave_to_expire(),
            End::Settled if self.random.chance(25) => drop(lease),
            End::Settled => {
                let got = if lease.release().await.is_ok() { Got::Released } else { Got::Unknown };
                common.record().answer(common.now_us(), call, got);
            }
        }
    }

    fn show(&self, held: Option<Held>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    async fn job(&mut self, lease: &Lease) -> End {
        let Some(mut found) = self.read(lease).await else { return End::Settled };
        for _ in 0..self.random.between(1, 2) {
            self.think().await;
            let value = format!("{}@{}", self.name, self.desk.common.now_us());
            if self.write(lease, &value, &found).await == End::Unsettled {
                return End::Unsettled;
            }
            found = value;
            if !lease.state().is_held() {
                break;
            }
        }
        End::Settled
    }

    /// The gap between the last look and the write.
    async fn think(&mut self) {
        if self.desk.settings.faults.contains(&Fault::Pause) && self.random.chance(12) {
            let ttl_us = self.desk.settings.ttl_ms * 1_000;
            let for_us = self.random.between(ttl_us / 2, 3 * ttl_us);
            self.desk.outbox.push(Outgoing::StandStill { for_us });
        }
        let thought_ms = self.random.between(1, self.desk.settings.ttl_ms / 12);
        sleep(Duration::from_millis(thought_ms)).await;
    }

    /// What the next write is to be based on; nothing where the fence says no, or the lease is lost meanwhile.
    async fn read(&mut self, lease: &Lease) -> Option<String> {
        let fenced = self.desk.settings.fence_on_acquire;
        if fenced && self.random.chance(50) {
            self.until_applied(lease, Wish::Advance).await?;
            return self.until_applied(lease, Wish::Read { fenced: false }).await;
        }
        self.until_applied(lease, Wish::Read { fenced }).await
    }

    async fn until_applied(&mut self, lease: &Lease, wish: Wish) -> Option<String> {
        let request = Arc::new(ToResource { grant: lease.grant().clone(), wish });
        for _ in 0..TRIES {
            if !lease.state().is_held() {
                return None;
            }
            match self.ask(&request).await {
                Some((Verdict::Applied(_) | Verdict::Replayed(_), value)) => {
                    return Some(value).filter(|_| lease.state().is_held());
                }
                Some((Verdict::Rejected(_), _)) => return None,
                None => {}
            }
        }
        None
    }

    async fn write(&mut self, lease: &Lease, value: &str, based_on: &str) -> End {
        let mut operation = self.operation(lease, value);
        for _ in 0..TRIES {
            let (value, based_on) = (value.to_owned(), based_on.to_owned());
            let wish = Wish::Write { operation: operation.clone(), value: value.clone(), based_on };
            let request = Arc::new(ToResource { grant: lease.grant().clone(), wish });
            if self.ask(&request).await.is_some() {
                return End::Settled;
            }
            if self.desk.settings.mistake == Some(Mistake::FreshOperationOnRetry) {
                operation = self.operation(lease, &value);
            }
        }
        End::Unsettled
    }

    fn operation(&mut self, lease: &Lease, value: &str) -> Operation {
        self.operations += 1;
        let id = format!("{}-{}-{}", self.name, lease.token(), self.operations);
        Operation::new(OperationId::new(&id).expect("an operation id"), value.as_bytes()).born(lease.token())
    }

    /// Asks the resource once, and waits for an answer no longer than is of use.
    async fn ask(&mut self, request: &Arc<ToResource>) -> Option<Answered> {
        let common = self.desk.common.clone();
        let token = Some(request.grant.token.to_decimal());
        let (doing, token) = match &request.wish {
            Wish::Advance => (Doing::Advance, token),
            Wish::Read { fenced } => (Doing::Read, token.filter(|_| *fenced)),
            Wish::Write { .. } => (Doing::Write, token),
        };
        let (call, line) = {
            let mut record = common.record();
            let (call, line) = record.call(common.now_us(), &self.name, doing, request.grant.domain.as_str());
            line.token = token;
            if let Wish::Write { operation, value, .. } = &request.wish {
                (line.operation, line.value) = (Some(operation.id.to_string()), Some(value.clone()));
            }
            (call, line.clone())
        };
        let (answer, answered) = oneshot::channel();
        self.desk.outbox.push(Outgoing::Ask { request: request.clone(), line: Box::new(line), answer });
        let patience = Duration::from_millis(self.desk.settings.ttl_ms / 8);
        let answered = timeout(patience, answered).await.ok()?.ok()?;
        self.heard(call, &request.wish, &answered);
        Some(answered)
    }

    fn heard(&self, call: u64, wish: &Wish, answered: &Answered) {
        let common = &self.desk.common;
        let (now_us, mut record) = (common.now_us(), common.record());
        record.hear(now_us, call, wish, answered);
        match (&answered.0, wish) {
            (Verdict::Rejected(rejection), _) => {
                record.note(now_us, format!("{} is refused: {rejection}", self.name));
                if matches!(rejection, Rejection::Stale { .. }) {
                    common.stale.fetch_add(1, Relaxed);
                }
            }
            (Verdict::Applied(_), Wish::Write { value, .. }) => {
                record.note(now_us, format!("{} has written {value}", self.name));
            }
            (Verdict::Replayed(_), Wish::Write { value, .. }) => {
                record.note(now_us, format!("{} had written {value} before", self.name));
            }
            (Verdict::Applied(_) | Verdict::Replayed(_), Wish::Advance | Wish::Read { .. }) => {}
        }
    }
}

/// What an acquire that gave no lease means for the history.
fn outcome(error: &AcquireError) -> Got {
    match error {
        AcquireError::Call(CallError::Refused(_) | CallError::Invalid(_)) | AcquireError::SessionOver(_) => {
            Got::Refused
        }
        AcquireError::Call(
            CallError::Unavailable { .. } | CallError::Unreachable { .. } | CallError::Protocol { .. },
        )
        | AcquireError::Lost(_) => Got::Unknown,
    }
}
