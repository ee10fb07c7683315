use std::{
    fmt,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use fencepost_core::{
    Contract, Correlation, Domain, Grant, LeaseId, Permission, RequestId, SessionId, Token,
    holder::{LeaseState, Loss},
    lease::Released,
};
use tokio::sync::{oneshot, watch};

use crate::{ReleaseError, keeper::Command, session::Handle, shared::HoldId};

/// A lease that this process holds, or held.
///
/// What it hands out follows from its contract: `Lease` (that is `Lease<Grant>`, contract `safety`) has a
/// [`grant`](Self::grant) to write with, `Lease<Correlation>` (`admission`) a [`correlation`](Self::correlation) to
/// report with, `Lease<Advisory>` nothing.
///
/// The session's own thread keeps it alive, so a blocked async runtime does not lose it. Dropping the handle gives
/// the lease back, in a panic too, through that thread; a process that ends right afterwards may be gone before the
/// coordinator hears of it, so [`release`](Self::release) before `main` returns.
///
/// Ask [`state`](Self::state) before each step of the work: it reads the clock, so it is right even in a process that
/// was stopped for an hour a moment ago. It is no protection for the write itself; the receiver is.
///
/// ```
/// use fencepost_client::Lease;
///
/// async fn step_by_step(lease: Lease) {
///     while lease.state().is_held() {
///         // one step, writing with lease.grant()
/// #       break;
///     }
///     // Settle every write whose outcome is unknown before this, or drop the lease later: whoever is next may start.
///     if let Err(error) = lease.release().await {
///         eprintln!("{error}");
///     }
/// }
/// ```
#[must_use = "a lease that is dropped is released"]
pub struct Lease<P: Permitted = Grant> {
    hold: Hold,
    permission: P,
}

/// What a lease of contract `advisory` hands out: nothing.
///
/// ```compile_fail
/// fn token(lease: fencepost_client::Lease<fencepost_client::Advisory>) -> fencepost_core::Token {
///     lease.token() // there is none
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advisory;

/// What a lease hands out under its contract: [`Grant`], [`Correlation`] or [`Advisory`], and nothing else.
pub trait Permitted: sealed::Sealed + Send + Sync + Unpin + Sized + 'static {
    /// The contract.
    const CONTRACT: Contract;

    #[doc(hidden)]
    fn from_permission(permission: Permission) -> Option<Self>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Grant {}
    impl Sealed for super::Correlation {}
    impl Sealed for super::Advisory {}
}

impl Permitted for Grant {
    const CONTRACT: Contract = Contract::Safety;

    fn from_permission(permission: Permission) -> Option<Self> {
        match permission {
            Permission::Safety(grant) => Some(grant),
            Permission::Admission(_) | Permission::Advisory => None,
        }
    }
}

impl Permitted for Correlation {
    const CONTRACT: Contract = Contract::Admission;

    fn from_permission(permission: Permission) -> Option<Self> {
        match permission {
            Permission::Admission(correlation) => Some(correlation),
            Permission::Safety(_) | Permission::Advisory => None,
        }
    }
}

impl Permitted for Advisory {
    const CONTRACT: Contract = Contract::Advisory;

    fn from_permission(permission: Permission) -> Option<Self> {
        match permission {
            Permission::Advisory => Some(Self),
            Permission::Safety(_) | Permission::Admission(_) => None,
        }
    }
}

impl<P: Permitted> Lease<P> {
    pub(crate) fn new(hold: Hold, permission: P) -> Self {
        Self { hold, permission }
    }

    /// The domain.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.hold.domain
    }

    /// The lease's opaque id, which operators name.
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.hold.id.lease
    }

    /// The public id of the session that holds it.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.hold.handle.shared.session
    }

    /// What may be believed about it at this very moment.
    #[must_use]
    pub fn state(&self) -> LeaseState {
        self.hold.state()
    }

    /// Time to the local deadline; zero once it is lost. Heartbeats push it out; begin nothing that takes longer.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let shared = &self.hold.handle.shared;
        match (self.state(), shared.deadline(self.hold.id)) {
            (LeaseState::Held | LeaseState::InDoubt { .. }, Some(deadline)) => deadline.since(shared.now()),
            (LeaseState::Held | LeaseState::InDoubt { .. }, None) | (LeaseState::Lost(_), _) => Duration::ZERO,
        }
    }

    /// Completes when the lease is lost, and says why. It may be awaited on any runtime; a runtime that is blocked
    /// hears of it late, [`state`](Self::state) does not.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<P> {
        self.hold.lost()
    }

    /// Has the callback called once, on a thread of its own, when the lease is lost; at once when it already is. Not
    /// called when the lease is released or dropped.
    pub fn on_lost(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        self.hold.handle.shared.on_lost(self.hold.id.request, Box::new(callback));
    }

    /// Runs the work as long as the lease is held, and drops it as soon as it is not.
    ///
    /// The state is looked at before every step of the work, so a future that comes back from a pause does not go on.
    /// Work that blocks between two awaits cannot be stopped; there the receiver's check is all there is.
    ///
    /// # Errors
    /// The loss. The work was dropped at an await; what it had sent may have happened.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Loss> {
        let mut work = pin!(work);
        let mut lost = pin!(self.lost());
        std::future::poll_fn(|context| {
            if let LeaseState::Lost(loss) = self.state() {
                return Poll::Ready(Err(loss));
            }
            if let Poll::Ready(loss) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(loss));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Gives the lease back. When this returns `Ok`, the end is durable, and no heartbeat has named the lease since
    /// the call began.
    ///
    /// Settle every write whose outcome is unknown first: the next holder may start at once. Where that is not
    /// possible, [leave the lease to expire](Self::leave_to_expire).
    ///
    /// Dropping the future does not take the release back.
    ///
    /// # Errors
    /// When it is not known that it took effect. The lease is not renewed any more in any case.
    pub async fn release(self) -> Result<Released, ReleaseError> {
        self.hold.release().await
    }

    /// Neither renews nor releases the lease any more: it ends by itself within one TTL. For a holder that cannot
    /// settle a write whose outcome is unknown; nobody else is granted the domain meanwhile.
    ///
    /// A session that is closed within that time is left to expire as well.
    pub fn leave_to_expire(mut self) {
        self.hold.leave_to_expire();
    }
}

impl Lease<Grant> {
    /// What to write with.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.permission
    }

    /// The grant's token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.permission.token
    }
}

impl Lease<Correlation> {
    /// What to tell this run from others by. It is not in token form: no receiver takes it.
    #[must_use]
    pub fn correlation(&self) -> &Correlation {
        &self.permission
    }
}

impl<P: Permitted> fmt::Debug for Lease<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("domain", &self.hold.domain)
            .field("contract", &P::CONTRACT)
            .field("lease", &self.hold.id.lease)
            .field("state", &self.state())
            .finish()
    }
}

/// The part of a handle that gives the hold back when it goes, wherever it goes: in an acquire whose caller has left,
/// in a channel nobody reads, in a panic.
pub(crate) struct Hold {
    handle: Arc<Handle>,
    domain: Domain,
    id: HoldId,
    lost: watch::Receiver<Option<Loss>>,
    is_given_up: bool,
}

impl Hold {
    /// Takes charge of a hold that the machine has been told of, or is about to be.
    pub(crate) fn new(handle: Arc<Handle>, domain: Domain, lease: LeaseId, request: RequestId) -> Self {
        let lost = handle.shared.watch(request);
        Self { handle, domain, id: HoldId { lease, request }, lost, is_given_up: false }
    }

    pub(crate) fn state(&self) -> LeaseState {
        self.handle.shared.state(self.id)
    }

    fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut lost = self.lost.clone();
        async move {
            match lost.wait_for(Option::is_some).await {
                Ok(loss) => loss.unwrap_or(Loss::Released),
                Err(_) => Loss::Released,
            }
        }
    }

    fn give_up(&mut self) -> LeaseState {
        self.is_given_up = true;
        self.handle.shared.give_up(self.id)
    }

    fn leave_to_expire(&mut self) {
        self.give_up();
        self.handle.shared.leave_to_expire();
    }

    async fn release(mut self) -> Result<Released, ReleaseError> {
        self.give_up();
        let (reply, answer) = oneshot::channel();
        let command = Command::Release { hold: self.id, reply: Some(reply) };
        if self.handle.commands.send(command).is_err() {
            return Err(ReleaseError::SessionOver);
        }
        answer.await.unwrap_or(Err(ReleaseError::SessionOver))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_given_up {
            return;
        }
        let tells = match self.give_up() {
            LeaseState::Held | LeaseState::InDoubt { .. } => true,
            LeaseState::Lost(loss) => loss.may_be_live_at_the_coordinator(),
        };
        if tells {
            // Where the session's thread is gone, its end has given back everything.
            let _ = self.handle.commands.send(Command::Release { hold: self.id, reply: None });
        }
    }
}

/// A future that may move between threads.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
