//! What a worker does: acquires, raises the fence or does not, reads, thinks, writes and gives back, again and again.
//!
//! It is as careless as real workers are: half of the time it looks at its lease at every step by `Lease::run`, half of
//! the time its last look lies before it began to think; it gives up acquires under way, drops handles, and leaves
//! leases to expire. It asks again for what it or others have done before, and now and then for something else under an
//! operation id that is in use.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use fencepost_client::{AcquireError, Lease, Session};
use fencepost_coordinator::CallError;
use fencepost_core::{
    Domain, LockDelay, MaxHold, Metadata, OperationId, Wait,
    fence::{Fingerprint, Operation, Verdict},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{
    coordinator::CALL,
    deeds::Deed,
    outbox::{Answered, Outgoing, ToResource, Wish},
    resource::NOTHING,
    settings::{Fault, Mistake},
    worker::{Desk, Held, Settled, Slot, until_us},
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

/// What became of a write.
enum Wrote {
    /// It took effect, now or before, with this value.
    Value(String),
    /// It was refused.
    Nothing,
    /// Nobody knows.
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
        let mut acquire = session.acquire(domain).wait(wait).metadata(which(call));
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
            common.note(format_args!("{} gives up its acquire of d{nth}", self.name));
            common.count(Deed::GivenUp);
            return None;
        };
        match made {
            Ok(lease) => Some(self.take(call, lease)),
            Err(error) => {
                common.count(Deed::NotGranted);
                common.record().answer(common.now_us(), call, outcome(&error));
                None
            }
        }
    }

    /// Writes down that a lease is held, and until when.
    fn take(&mut self, call: u64, lease: Lease) -> Lease {
        let common = &self.desk.common;
        common.count(Deed::Granted);
        let mut record = common.record();
        let line = record.answer(common.now_us(), call, Got::Granted);
        (line.token, line.lease) = (Some(lease.token().to_decimal()), Some(lease.id().to_string()));
        line.until_us = until_us(&lease, &self.desk.clock);
        record.note(common.now_us(), format_args!("{} holds {} under {}", self.name, lease.domain(), lease.token()));
        lease
    }

    async fn hold(&mut self, lease: Lease) {
        let lease = Arc::new(lease);
        let until_us = until_us(&lease, &self.desk.clock).unwrap_or_default();
        self.show(Some(Held { lease: lease.clone(), until_us }));
        let end = if self.random.chance(50) {
            // A loss drops the work at an await; what it had sent may have happened.
            lease.run(self.job(&lease)).await.unwrap_or_else(|_| {
                self.desk.common.count(Deed::Cancelled);
                End::Unsettled
            })
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
            End::Unsettled => {
                common.count(Deed::LeftToExpire);
                lease.leave_to_expire();
            }
            End::Settled if self.random.chance(25) => {
                common.count(Deed::Dropped);
                drop(lease);
            }
            End::Settled => {
                common.count(Deed::Released);
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
            match self.write(lease, &found).await {
                Wrote::Value(value) => found = value,
                Wrote::Nothing => break,
                Wrote::Unsettled => return End::Unsettled,
            }
            if !lease.state().is_held() {
                break;
            }
        }
        if self.random.chance(30) {
            self.ask_for_an_earlier_one(lease).await;
        }
        End::Settled
    }

    /// A late retry, by whoever owns the domain by now, of something that has taken effect; or something else under its id.
    /// Neither may change anything.
    async fn ask_for_an_earlier_one(&mut self, lease: &Lease) {
        let common = self.desk.common.clone();
        let earlier = common.an_earlier_one(lease.domain(), lease.token(), &mut self.random);
        let Some(Settled { domain: _, mut operation, mut value }) = earlier else { return };
        if self.random.chance(50) {
            value = self.fresh_value();
            operation.fingerprint = Fingerprint::of(value.as_bytes());
        }
        // What it is based on was read long ago, so where it takes effect once more an update is lost as well.
        let wish = Wish::Write { operation, value, based_on: NOTHING.to_owned() };
        self.ask(&Arc::new(ToResource { grant: lease.grant().clone(), wish })).await;
    }

    /// One that nobody has written: between two of one hand there is always some time.
    fn fresh_value(&self) -> String {
        format!("{}@{}", self.name, self.desk.common.now_us())
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

    async fn write(&mut self, lease: &Lease, based_on: &str) -> Wrote {
        let mut value = self.fresh_value();
        let mut operation = self.operation(lease, &value);
        for _ in 0..TRIES {
            let wish =
                Wish::Write { operation: operation.clone(), value: value.clone(), based_on: based_on.to_owned() };
            let request = Arc::new(ToResource { grant: lease.grant().clone(), wish });
            match self.ask(&request).await {
                Some((Verdict::Applied(_) | Verdict::Replayed(_), _)) => {
                    let domain = lease.domain().clone();
                    self.desk.common.settle(Settled { domain, operation, value: value.clone() });
                    return Wrote::Value(value);
                }
                Some((Verdict::Rejected(_), _)) => return Wrote::Nothing,
                None => {}
            }
            if self.desk.settings.mistake == Some(Mistake::FreshOperationOnRetry) {
                operation = self.operation(lease, &value);
            } else if self.random.chance(15) {
                // Something else, while nobody knows whether the first request has taken effect, or may yet.
                value = self.fresh_value();
                operation.fingerprint = Fingerprint::of(value.as_bytes());
            }
        }
        Wrote::Unsettled
    }

    fn operation(&mut self, lease: &Lease, value: &str) -> Operation {
        self.operations += 1;
        let id = format!("{}-{}-{}", self.name, lease.token(), self.operations);
        let operation = Operation::new(OperationId::new(&id).expect("an operation id"), value.as_bytes());
        match self.desk.settings.mistake {
            Some(Mistake::Unborn) => operation,
            _ => operation.born(lease.token()),
        }
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
                line.name_operation(operation);
                line.value = Some(value.clone());
            }
            (call, line.clone())
        };
        let (answer, answered) = oneshot::channel();
        self.desk.outbox.push(Outgoing::Ask { request: request.clone(), line: Box::new(line), answer });
        let patience = Duration::from_millis(self.desk.settings.ttl_ms / 8);
        let Ok(Ok(answered)) = timeout(patience, answered).await else {
            common.count(Deed::Unheard);
            return None;
        };
        self.heard(call, &request.wish, &answered);
        Some(answered)
    }

    fn heard(&self, call: u64, wish: &Wish, answered: &Answered) {
        let common = &self.desk.common;
        let (now_us, mut record) = (common.now_us(), common.record());
        record.hear(now_us, call, wish, answered);
        match (&answered.0, wish) {
            (Verdict::Rejected(rejection), _) => {
                record.note(now_us, format_args!("{} is refused: {rejection}", self.name));
            }
            (Verdict::Applied(_), Wish::Write { value, .. }) => {
                record.note(now_us, format_args!("{} has written {value}", self.name));
            }
            (Verdict::Replayed(_), Wish::Write { value, .. }) => {
                record.note(now_us, format_args!("{} had written {value} before", self.name));
            }
            (Verdict::Applied(_) | Verdict::Replayed(_), Wish::Advance | Wish::Read { .. }) => {}
        }
    }
}

/// Says at the coordinator which acquire a request is of.
fn which(call: u64) -> Metadata {
    Metadata::new([(CALL.to_owned(), call.to_string())].into(), 64).expect("a short object of plain strings")
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
