use std::{fmt, sync::Arc, thread};

use fencepost_coordinator::Coordinator;
use fencepost_core::{Correlation, Domain, Grant, Holder, SessionId, Ttl, holder::Loss, sabotage};
use tokio::sync::{mpsc, oneshot};

use crate::{
    Acquire, Advisory, BootClock, Clock, CloseError, OpenError,
    chance::Chance,
    keeper::{self, Command},
    shared::Shared,
};

/// This process's liveness at a coordinator. All leases it acquires hang on it.
///
/// One thread per session sends the heartbeats and makes every call; the caller's runtime only waits for answers. The
/// handle can be cloned, and leases hold on to the session: it ends when the last handle and the last lease are gone,
/// or at [`close`](Self::close). A process that ends right after dropping it may be gone before the coordinator hears
/// of it; then the leases end by themselves within one TTL.
///
/// ```
/// use fencepost_client::Session;
/// use fencepost_coordinator::Coordinator;
/// use fencepost_core::{Domain, Holder, Ttl};
///
/// async fn leader(coordinator: impl Coordinator) -> Result<(), Box<dyn std::error::Error>> {
///     let session = Session::open(coordinator, Holder::new("node-1")?, Ttl::from_millis(5_000)?).await?;
///     let lease = session.acquire_admission(Domain::new("leader")?).await?;
///     println!("leading as {}", lease.correlation());
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

/// What keeps a session open: handles, leases and acquires under way. The thread ends when the last of them is gone.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) holder: Holder,
    pub(crate) ttl: Ttl,
}

impl Session {
    /// Opens a session and starts its thread.
    ///
    /// # Errors
    /// When the coordinator cannot be reached or cannot commit. Opening again is safe.
    pub async fn open(coordinator: impl Coordinator, holder: Holder, ttl: Ttl) -> Result<Self, OpenError> {
        Self::open_with_clock(coordinator, holder, ttl, BootClock).await
    }

    /// Opens a session that reads the time from `clock`; for tests and simulations.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_clock(
        coordinator: impl Coordinator,
        holder: Holder,
        ttl: Ttl,
        clock: impl Clock,
    ) -> Result<Self, OpenError> {
        let (reply, opened) = oneshot::channel();
        let (coordinator, clock) = (Arc::new(coordinator), Arc::new(clock));
        let keeping = keeper::open_and_keep(coordinator, holder, ttl, clock, Chance::System, reply);
        if sabotage::active("heartbeat_on_worker_runtime") {
            drop(tokio::runtime::Handle::current().spawn(keeping));
        } else {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(OpenError::Thread)?;
            thread::Builder::new()
                .name("fencepost-keep".to_owned())
                .spawn(move || runtime.block_on(keeping))
                .map_err(OpenError::Thread)?;
        }
        Self::once(opened).await
    }

    /// Opens a session that is kept alive on the caller's own runtime, by the caller's clock and chance; for simulations,
    /// whose time is virtual and whose every run follows from a seed. What a thread of its own protects from does not
    /// happen there.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(feature = "simulation")]
    pub async fn open_in_simulation(
        coordinator: impl Coordinator,
        holder: Holder,
        ttl: Ttl,
        clock: impl Clock,
        chance: impl Fn(&mut [u8]) + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let (reply, opened) = oneshot::channel();
        let (coordinator, clock, chance) = (Arc::new(coordinator), Arc::new(clock), Chance::Given(Box::new(chance)));
        drop(tokio::spawn(keeper::open_and_keep(coordinator, holder, ttl, clock, chance, reply)));
        Self::once(opened).await
    }

    async fn once(opened: oneshot::Receiver<Result<Arc<Handle>, OpenError>>) -> Result<Self, OpenError> {
        let handle = opened.await.unwrap_or_else(|_| {
            Err(OpenError::Thread(std::io::Error::other("it stopped while the session was being opened")))
        })?;
        Ok(Self { handle })
    }

    /// Acquires a domain under contract `safety`: the lease has a grant with a token, and receivers accept it.
    /// Nothing is sent before the builder is awaited.
    pub fn acquire(&self, domain: Domain) -> Acquire<Grant> {
        Acquire::new(self.handle.clone(), domain)
    }

    /// Acquires a domain under contract `admission`: decides who may start. No token, so nothing to write with.
    pub fn acquire_admission(&self, domain: Domain) -> Acquire<Correlation> {
        Acquire::new(self.handle.clone(), domain)
    }

    /// Acquires a domain under contract `advisory`: an optimisation, and no more.
    pub fn acquire_advisory(&self, domain: Domain) -> Acquire<Advisory> {
        Acquire::new(self.handle.clone(), domain)
    }

    /// The public id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.handle.shared.session
    }

    /// What the holder calls itself.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.handle.holder
    }

    /// How long it lives without a heartbeat.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.handle.ttl
    }

    /// Why the session is over, once this process knows. Open a new one to go on.
    #[must_use]
    pub fn over(&self) -> Option<Loss> {
        self.handle.shared.over()
    }

    /// Ends the session cleanly, and every lease of it, whoever still has handles. Safe to repeat through a clone.
    ///
    /// # Errors
    /// When it is not known that the end took effect. Nothing is renewed any more in any case.
    pub async fn close(self) -> Result<(), CloseError> {
        let (reply, closed) = oneshot::channel();
        if self.handle.commands.send(Command::Close { reply }).is_err() {
            return Ok(());
        }
        closed.await.unwrap_or(Ok(()))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("session", &self.id())
            .field("holder", self.holder())
            .field("ttl", &self.ttl())
            .field("over", &self.over())
            .finish()
    }
}
