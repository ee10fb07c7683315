use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::{
    Grant, Invalid,
    fence::{Operation, Presented, RecordedResult, Register, Verdict},
};

use crate::{AdvanceError, Capabilities, Guarantee, Receiver, ReceiverSeed};

/// The reference receiver: a lock around the core's [`Register`].
///
/// What it answers is by definition right; every other receiver is compared with it. It protects state that lives in
/// the same process, and forgets everything with it.
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
