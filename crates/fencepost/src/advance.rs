use std::{fmt, future::Future, pin::Pin, time::Duration};

use fencepost_client::{Acquire, Lease, LeaseState};
use fencepost_core::{
    Grant,
    fence::{Rejection, Verdict},
    sabotage,
};
use fencepost_receiver::{AdvanceError, Guarantee, Receiver};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{AdvancingError, FencedLease};

const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_MOST: Duration = Duration::from_secs(1);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Acquiring that includes advancing: by the time the lease is handed over, the named receivers accept no older token.
///
/// Only an acquire of contract `safety` can do it; the others have no token to advance to.
///
/// ```compile_fail
/// # use fencepost::*;
/// fn admission(session: &Session, receiver: &MemoryReceiver) {
///     let _ = session.acquire_admission(Domain::new("d").unwrap()).advance(receiver);
/// }
/// ```
pub trait Advance {
    /// Names a receiver to advance. More are named with [`Advancing::advance`].
    fn advance<R: Receiver>(self, receiver: &R) -> Advancing<'_>;
}

impl Advance for Acquire<Grant> {
    fn advance<R: Receiver>(self, receiver: &R) -> Advancing<'_> {
        Advancing { acquire: self, receivers: vec![Box::new(receiver)] }
    }
}

/// An acquire with receivers to advance, to be awaited on a tokio runtime with its timer.
///
/// First the grant, then an advance at each receiver, then a look at the clock, and only then the lease. An advance
/// that fails, or whose outcome is unknown, is repeated until the local deadline that the grant came with; after that,
/// and after a refusal, the lease is given back and the error says so. Dropping the future gives the lease back too.
#[must_use = "nothing is acquired before it is awaited"]
pub struct Advancing<'a> {
    acquire: Acquire<Grant>,
    receivers: Vec<Box<dyn Erased + 'a>>,
}

/// A receiver of any kind.
trait Erased: Send + Sync {
    fn name(&self) -> &str;
    fn strongest(&self) -> Guarantee;
    fn advance<'a>(&'a self, grant: &'a Grant) -> Boxed<'a, Result<Verdict<()>, AdvanceError>>;
}

impl<R: Receiver> Erased for &R {
    fn name(&self) -> &str {
        Receiver::name(*self)
    }

    fn strongest(&self) -> Guarantee {
        self.capabilities().strongest
    }

    fn advance<'a>(&'a self, grant: &'a Grant) -> Boxed<'a, Result<Verdict<()>, AdvanceError>> {
        Box::pin(Receiver::advance(*self, grant))
    }
}

enum Failed {
    Rejected(Rejection),
    NotAdvanced(Option<AdvanceError>),
}

async fn advance(receiver: &dyn Erased, grant: &Grant, deadline: Instant) -> Result<(), Failed> {
    let mut backoff = BACKOFF_FIRST;
    let mut last = None;
    loop {
        match timeout_at(deadline, receiver.advance(grant)).await {
            // An advance names no operation, so nothing can be replayed for it; either way the fence is there.
            Ok(Ok(Verdict::Applied(()) | Verdict::Replayed(()))) => return Ok(()),
            Ok(Ok(Verdict::Rejected(rejection))) => return Err(Failed::Rejected(rejection)),
            Ok(Err(error)) if error.retryable() => last = Some(error),
            Ok(Err(error)) => return Err(Failed::NotAdvanced(Some(error))),
            Err(_) => return Err(Failed::NotAdvanced(last)),
        }
        if Instant::now() + backoff >= deadline {
            return Err(Failed::NotAdvanced(last));
        }
        sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MOST);
    }
}

async fn give_back(lease: Lease) -> bool {
    lease.release().await.is_ok()
}

impl<'a> IntoFuture for Advancing<'a> {
    type Output = Result<FencedLease, AdvancingError>;
    type IntoFuture = Boxed<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.made())
    }
}

impl<'a> Advancing<'a> {
    /// Names one more receiver; they are advanced in the order they were named.
    pub fn advance<R: Receiver>(mut self, receiver: &'a R) -> Self {
        self.receivers.push(Box::new(receiver));
        self
    }

    async fn made(self) -> Result<FencedLease, AdvancingError> {
        for receiver in &self.receivers {
            if receiver.strongest() < Guarantee::FencedOnAcquire {
                let strongest = receiver.strongest();
                return Err(AdvancingError::Incapable { receiver: receiver.name().to_owned(), strongest });
            }
        }
        let lease = self.acquire.await?;
        // Heartbeats push the lease's own deadline out meanwhile. The one it came with bounds how long a receiver out
        // of reach may keep a domain from others.
        let deadline = Instant::now() + lease.remaining();
        let mut advanced = Vec::with_capacity(self.receivers.len());
        for receiver in &self.receivers {
            let name = receiver.name().to_owned();
            if sabotage::active("no_advance") {
                advanced.push(name);
                continue;
            }
            match advance(receiver.as_ref(), lease.grant(), deadline).await {
                Ok(()) => advanced.push(name),
                Err(Failed::Rejected(rejection)) => {
                    let released = give_back(lease).await;
                    return Err(AdvancingError::Rejected { receiver: name, rejection, released });
                }
                Err(Failed::NotAdvanced(error)) => {
                    let released = give_back(lease).await;
                    return Err(AdvancingError::NotAdvanced { receiver: name, error, released });
                }
            }
        }
        match lease.state() {
            LeaseState::Held | LeaseState::InDoubt { .. } => Ok(FencedLease::new(lease, advanced)),
            LeaseState::Lost(loss) => Err(AdvancingError::Lost(loss)),
        }
    }
}

impl fmt::Debug for Advancing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let receivers: Vec<&str> = self.receivers.iter().map(|receiver| receiver.name()).collect();
        f.debug_struct("Advancing").field("acquire", &self.acquire).field("receivers", &receivers).finish()
    }
}
