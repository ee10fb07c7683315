use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use fencepost_coordinator::CallError;
use fencepost_core::{
    Contract, Domain, Grant, Invalid, LockDelay, MaxHold, Metadata, MinHold, RequestId, Rule, Wait,
    holder::{LeaseState, Loss},
    lease::Terms,
    limits,
};
use tokio::sync::oneshot;

use crate::{
    AcquireError, Lease, Permitted,
    keeper::Command,
    lease::{Boxed, Hold},
    session::Handle,
};

/// An acquire to be awaited. It is made once, under one request id, and repeated under that id when answers are lost,
/// so it never makes two grants.
///
/// Dropping the future while it waits leaves the queue; a grant that was made all the same is given back by the
/// session's thread, or at the latest ends one TTL later, because nobody claims it.
///
/// ```
/// use fencepost_client::{AcquireError, Lease, Session};
/// use fencepost_core::{Domain, MaxHold, Wait};
///
/// async fn nightly(session: &Session) -> Result<Lease, Box<dyn std::error::Error>> {
///     let acquire = session.acquire(Domain::new("reports/nightly")?);
///     let lease = acquire.wait(Wait::from_millis(60_000)?).max_hold(MaxHold::from_millis(3_600_000)?).await;
///     if let Some(held) = lease.as_ref().err().and_then(AcquireError::held_by) {
///         println!("{} has had it for {} ms", held.holder, held.held_ms);
///     }
///     Ok(lease?)
/// }
/// ```
#[must_use = "nothing is acquired before it is awaited"]
pub struct Acquire<P: Permitted = Grant> {
    handle: Arc<Handle>,
    order: Order,
    hands_out: PhantomData<fn() -> P>,
}

/// What is asked for, without on whose behalf.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) domain: Domain,
    pub(crate) request: RequestId,
    pub(crate) contract: Contract,
    pub(crate) terms: Terms,
    pub(crate) metadata: Metadata,
    pub(crate) renew: bool,
    pub(crate) wait: Duration,
    pub(crate) patience: Duration,
}

impl<P: Permitted> Acquire<P> {
    pub(crate) fn new(handle: Arc<Handle>, domain: Domain) -> Self {
        let order = Order {
            domain,
            request: handle.shared.chance.request(),
            contract: P::CONTRACT,
            terms: Terms::default(),
            metadata: Metadata::default(),
            renew: false,
            wait: Duration::ZERO,
            patience: handle.ttl.get(),
        };
        Self { handle, order, hands_out: PhantomData }
    }

    /// How long to stand in the queue when the domain is held. Not at all, unless it is said.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.order.wait = wait.get();
        self
    }

    /// How much longer than the wait to repeat the call while the coordinator does not answer. One TTL, unless it is
    /// said; zero makes one attempt.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.order.patience = patience;
        self
    }

    /// Greatest holding time: the lease ends then, whatever the heartbeats.
    pub fn max_hold(mut self, max_hold: MaxHold) -> Self {
        self.order.terms.max_hold = Some(max_hold);
        self
    }

    /// Least holding time: the domain is not granted again before, even when the lease is given back.
    pub fn min_hold(mut self, min_hold: MinHold) -> Self {
        self.order.terms.min_hold = Some(min_hold);
        self
    }

    /// Delay after an unclean end before the domain is granted again.
    pub fn lock_delay(mut self, lock_delay: LockDelay) -> Self {
        self.order.terms.lock_delay = Some(lock_delay);
        self
    }

    /// How many holds this session may have of the lease, 1 to 1000. One, unless it is said.
    pub fn reentrancy_limit(mut self, limit: u32) -> Self {
        self.order.terms.reentrancy_limit = limit;
        self
    }

    /// What to show beside the lease.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.order.metadata = metadata;
        self
    }

    /// Forces a greater token where this session holds the domain already; its earlier holds are lost. What to do
    /// after `Stale` by an unfenced floor.
    pub fn renew(mut self) -> Self {
        self.order.renew = true;
        self
    }

    /// The request id that names the hold.
    #[must_use]
    pub fn request(&self) -> RequestId {
        self.order.request
    }

    async fn made(self) -> Result<Lease<P>, AcquireError> {
        let Self { handle, order, .. } = self;
        reentrancy_limit(order.terms.reentrancy_limit).map_err(CallError::from)?;
        let (reply, answer) = oneshot::channel();
        let over = || handle.shared.over().unwrap_or(Loss::Released);
        let command = Command::Acquire { handle: handle.clone(), order: Box::new(order), reply };
        if handle.commands.send(command).is_err() {
            return Err(AcquireError::SessionOver(over()));
        }
        let (hold, permission): (Hold, _) = answer.await.unwrap_or_else(|_| Err(AcquireError::SessionOver(over())))?;
        let permission = P::from_permission(permission)
            .ok_or_else(|| CallError::Protocol { why: "it grants under another contract".to_owned() })?;
        // The caller's runtime may have come to this late: what is handed over is held now.
        match hold.state() {
            LeaseState::Held | LeaseState::InDoubt { .. } => Ok(Lease::new(hold, permission)),
            LeaseState::Lost(loss) => Err(AcquireError::Lost(loss)),
        }
    }
}

/// The one number of an acquire that has no type of its own. Refused here in the words of the API.
fn reentrancy_limit(limit: u32) -> Result<(), Invalid> {
    let most = limits::REENTRANCY_LIMIT;
    if (1..=most).contains(&limit) {
        return Ok(());
    }
    let rule = Rule::Range { least: 1, most: most.into(), found: Some(limit.into()), unit: "holds" };
    Err(Invalid::new("reentrancy_limit", rule))
}

impl<P: Permitted> IntoFuture for Acquire<P> {
    type Output = Result<Lease<P>, AcquireError>;
    type IntoFuture = Boxed<Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.made())
    }
}

impl<P: Permitted> fmt::Debug for Acquire<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").field("session", &self.handle.shared.session).field("order", &self.order).finish()
    }
}
