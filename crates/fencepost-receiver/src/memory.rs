use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::{
    Grant, Invalid,
    fence::{Operation, Presented, RecordedResult, Register, Verdict},
};

use crate::{AdvanceError, Capabilities, Guarantee, Receiver, ReceiverSeed};

/// The reference receiver: a lock around the core's [`Register`].
///
/// What it answers is by definition right; every other receiver is compared with it. It protects state that lives in
/// the same process, and forgets everything with it. It writes no log lines: whoever calls it has the verdict.
#[derive(Debug)]
pub struct MemoryReceiver {
    register: Mutex<Register>,
}

impl MemoryReceiver {
    /// A receiver that knows what the seed says.
    #[must_use]
    pub fn guard(seed: &ReceiverSeed) -> Self {
        let mut register = Register::new(seed.issuer.clone(), seed.known_epoch);
        if let Some(floor) = seed.floor {
            register.tell(seed.known_epoch, floor);
        }
        if let Some(next) = seed.next {
            register.recover(seed.known_epoch, next, &seed.live);
        }
        Self { register: Mutex::new(register) }
    }

    /// The register, for as long as the guard is held. Each of its methods is one atomic step.
    pub fn register(&self) -> MutexGuard<'_, Register> {
        // A panicking mutation has not reached the records yet, so the register behind a poisoned lock is whole.
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `mutation` under the grant, or replays what it answered before. The mutation runs under the lock.
    ///
    /// # Errors
    /// When the input is invalid, or with the mutation's own error; nothing has changed then.
    pub fn write<E: From<Invalid>>(
        &self,
        grant: &Grant,
        operation: &Operation,
        mutation: impl FnOnce() -> Result<RecordedResult, E>,
    ) -> Result<Verdict<RecordedResult>, E> {
        let presented = Presented::grant(grant).with_operation(operation);
        self.register().write(&grant.domain, &presented, mutation)
    }

    /// Raises the fence of the grant's domain without waiting for anything.
    ///
    /// # Errors
    /// When the input is invalid.
    pub fn advance_now(&self, grant: &Grant) -> Result<Verdict<()>, Invalid> {
        self.register().advance(&grant.domain, &Presented::grant(grant))
    }
}

impl Receiver for MemoryReceiver {
    fn name(&self) -> &str {
        "memory:"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            strongest: Guarantee::FencedOnAcquire,
            operation_records: true,
            fenced_read: true,
            guard: false,
            collection: true,
            several_domains: false,
            incarnation: false,
        }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        Ok(self.advance_now(grant)?)
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::{
        Domain, Epoch, Issuer, LeaseId, OperationId, SessionId, Token,
        fence::{LiveLease, RejectedBy, Rejection},
    };

    use super::*;

    fn grant(text: &str) -> Grant {
        let (issuer, domain) = (Issuer::new("prod").unwrap(), Domain::new("d").unwrap());
        let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
        Grant { issuer, domain, token: token(text), lease, session }
    }

    fn token(text: &str) -> Token {
        text.parse().unwrap()
    }

    #[test]
    fn a_seed_shuts_out_old_tokens_and_lets_live_holders_in() {
        let seed = ReceiverSeed::new(Issuer::new("prod").unwrap(), Epoch::ZERO);
        let live = vec![LiveLease { domain: Domain::new("d").unwrap(), token: token("0.5") }];
        let receiver = MemoryReceiver::guard(&seed.clone().with_snapshot(token("0.9"), live));
        assert!(matches!(receiver.advance_now(&grant("0.4")).unwrap(), Verdict::Rejected(Rejection::Stale { .. })));
        assert_eq!(receiver.advance_now(&grant("0.5")).unwrap(), Verdict::Applied(()));
        let receiver = MemoryReceiver::guard(&seed.with_floor(token("0.7")));
        let stale = Rejection::Stale { presented: token("0.6"), least_accepted: token("0.7"), by: RejectedBy::Floor };
        assert_eq!(receiver.advance_now(&grant("0.6")).unwrap(), Verdict::Rejected(stale));
    }

    #[test]
    fn a_panicking_mutation_leaves_the_register_whole() {
        let receiver = MemoryReceiver::guard(&ReceiverSeed::new(Issuer::new("prod").unwrap(), Epoch::ZERO));
        let operation = Operation::new(OperationId::new("x").unwrap(), b"x");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            receiver.write::<Invalid>(&grant("0.5"), &operation, || panic!("in the middle"))
        }));
        assert!(panicked.is_err());
        let verdict = receiver.write::<Invalid>(&grant("0.4"), &operation, || Ok(RecordedResult::default())).unwrap();
        assert!(matches!(verdict, Verdict::Applied(_)), "neither raise nor record: {verdict:?}");
    }
}
