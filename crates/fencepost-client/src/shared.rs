//! What the handles and the thread of one session share. Locks are held for a few instructions, never across IO.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use fencepost_core::{
    LeaseId, Moment, RequestId, SessionId,
    holder::{Holdings, LeaseState, Loss},
    lease::SessionEnd,
};
use tokio::sync::{Notify, watch};

use crate::{Clock, chance::Chance};

type Callback = Box<dyn FnOnce(Loss) + Send>;

pub(crate) struct Shared {
    pub(crate) session: SessionId,
    clock: Arc<dyn Clock>,
    pub(crate) chance: Chance,
    holdings: Mutex<Holdings>,
    watchers: Mutex<HashMap<RequestId, Watcher>>,
    /// When a lease was last left to expire.
    left: Mutex<Option<Moment>>,
    /// Something is due earlier than the session's thread thought when it went to sleep.
    pub(crate) changed: Notify,
}

struct Watcher {
    lost: watch::Sender<Option<Loss>>,
    callbacks: Vec<Callback>,
}

/// One hold, as its handle names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldId {
    pub(crate) lease: LeaseId,
    pub(crate) request: RequestId,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under these locks is a bug of this crate; the state they guard is whole at every step, and refusing to
    // read it would take every lease of the process with it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(session: SessionId, clock: Arc<dyn Clock>, chance: Chance, holdings: Holdings) -> Self {
        Self {
            session,
            clock,
            chance,
            holdings: Mutex::new(holdings),
            watchers: Mutex::new(HashMap::new()),
            left: Mutex::new(None),
            changed: Notify::new(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The machine, with a moment read after nobody else can change it: moments never go back for it.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Holdings, Moment) -> T) -> T {
        let (result, losses) = {
            let mut holdings = lock(&self.holdings);
            let now = self.clock.now();
            let result = work(&mut holdings, now);
            (result, holdings.take_losses())
        };
        for (request, loss) in losses {
            self.tell(request, loss);
        }
        result
    }

    pub(crate) fn state(&self, hold: HoldId) -> LeaseState {
        let holdings = lock(&self.holdings);
        holdings.state(hold.request, self.clock.now())
    }

    pub(crate) fn deadline(&self, hold: HoldId) -> Option<Moment> {
        lock(&self.holdings).deadline(hold.request)
    }

    pub(crate) fn over(&self) -> Option<Loss> {
        lock(&self.holdings).over()
    }

    /// Makes a hold's losses known to its handle. To be called before the machine hears of the hold.
    pub(crate) fn watch(&self, request: RequestId) -> watch::Receiver<Option<Loss>> {
        let (sender, receiver) = watch::channel(None);
        lock(&self.watchers).insert(request, Watcher { lost: sender, callbacks: Vec::new() });
        receiver
    }

    pub(crate) fn on_lost(&self, request: RequestId, callback: Callback) {
        let told = {
            let mut watchers = lock(&self.watchers);
            let Some(watcher) = watchers.get_mut(&request) else { return };
            let told = *watcher.lost.borrow();
            match told {
                Some(loss) => (loss, callback),
                None => return watcher.callbacks.push(callback),
            }
        };
        let (loss, callback) = told;
        call(vec![callback], loss);
    }

    fn tell(&self, request: RequestId, loss: Loss) {
        let callbacks = {
            let mut watchers = lock(&self.watchers);
            let Some(watcher) = watchers.get_mut(&request) else { return };
            watcher.lost.send_replace(Some(loss));
            std::mem::take(&mut watcher.callbacks)
        };
        call(callbacks, loss);
    }

    /// Gives up a hold: from here on no heartbeat names it. Its state before.
    pub(crate) fn give_up(&self, hold: HoldId) -> LeaseState {
        lock(&self.watchers).remove(&hold.request);
        self.with(|holdings, now| {
            let state = holdings.state(hold.request, now);
            holdings.released(hold.request);
            state
        })
    }

    pub(crate) fn leave_to_expire(&self) {
        *lock(&self.left) = Some(self.now());
    }

    /// When a lease was last left to expire, if ever.
    pub(crate) fn left_to_expire(&self) -> Option<Moment> {
        *lock(&self.left)
    }

    pub(crate) fn end(&self, end: SessionEnd) {
        self.with(|holdings, _| holdings.session_ended(end));
        self.changed.notify_one();
    }

    pub(crate) fn hurry(&self) {
        self.with(|holdings, now| holdings.hurry(now));
        self.changed.notify_one();
    }
}

/// Callbacks are the user's code and may block: they get a thread of their own, so that no heartbeat waits for them.
fn call(callbacks: Vec<Callback>, loss: Loss) {
    for callback in callbacks {
        let started = thread::Builder::new().name("fencepost-lost".to_owned()).spawn(move || callback(loss));
        // Without a thread there is no way to run it that would not stall the session; the lost() future and state()
        // still tell.
        drop(started);
    }
}
