use std::ops::Deref;

use fencepost_client::{Lease, ReleaseError};
use fencepost_core::lease::Released;
use fencepost_receiver::Guarantee;

/// A lease whose token the named receivers know already: no older token is accepted there any more
/// ([`Guarantee::FencedOnAcquire`]). At every other receiver it is a [`Lease`] like any other.
///
/// ```
/// use fencepost::{Advance, Domain, FencedLease, Guarantee, Guaranteed, MemoryReceiver, Session};
///
/// async fn fenced(session: &Session, receiver: &MemoryReceiver) -> Result<(), Box<dyn std::error::Error>> {
///     let lease: FencedLease = session.acquire(Domain::new("counter")?).advance(receiver).await?;
///     assert_eq!(lease.guarantee(), Guarantee::FencedOnAcquire);
///     assert_eq!(lease.advanced(), ["memory:"]);
///     let plain = session.acquire(Domain::new("other")?).await?;
///     assert_eq!(plain.guarantee(), Guarantee::FencedOnFirstWrite);
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "a lease that is dropped is released"]
pub struct FencedLease {
    lease: Lease,
    advanced: Vec<String>,
}

impl FencedLease {
    pub(crate) fn new(lease: Lease, advanced: Vec<String>) -> Self {
        Self { lease, advanced }
    }

    /// The receivers that were advanced.
    #[must_use]
    pub fn advanced(&self) -> &[String] {
        &self.advanced
    }

    /// Gives the lease back, as [`Lease::release`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        self.lease.release().await
    }

    /// Neither renews nor releases the lease any more, as [`Lease::leave_to_expire`].
    pub fn leave_to_expire(self) {
        self.lease.leave_to_expire();
    }
}

impl Deref for FencedLease {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

/// What a way of acquiring promises at receivers.
pub trait Guaranteed {
    /// When older tokens stop working.
    fn guarantee(&self) -> Guarantee;
}

impl Guaranteed for Lease {
    fn guarantee(&self) -> Guarantee {
        Guarantee::FencedOnFirstWrite
    }
}

impl Guaranteed for FencedLease {
    /// At the receivers that were [`advanced`](Self::advanced).
    fn guarantee(&self) -> Guarantee {
        Guarantee::FencedOnAcquire
    }
}
