//! Calls under way on the session's thread: each repeated, by the same ids, for as long as that is of use.

use std::{sync::Arc, time::Duration};

use fencepost_coordinator::{AcquireRequest, Answered, CallError, Coordinator, Granted, SessionKey};
use fencepost_core::{
    Permission, RequestId, Ttl, Wait,
    lease::{AcquireRefusal, Released, SessionRefusal},
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    AcquireError, ReleaseError, acquire::Order, keeper::Abandoned, lease::Hold, session::Handle, shared::HoldId,
};

const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_MOST: Duration = Duration::from_secs(1);
const RELEASE_PATIENCE_MOST: Duration = Duration::from_secs(30);

/// How long one attempt of a call may take, beside the time that it is meant to wait. A third of the TTL, so that an
/// attempt that hangs leaves time for another.
pub(crate) fn attempt_limit(ttl: Ttl) -> Duration {
    (ttl.get() / 3).min(Duration::from_secs(10))
}

/// How long ends are repeated; afterwards the lease has ended by itself, or nearly so.
pub(crate) fn end_patience(ttl: Ttl) -> Duration {
    ttl.get().min(RELEASE_PATIENCE_MOST)
}

struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Self(BACKOFF_FIRST)
    }

    async fn pause(&mut self, left: Duration) {
        sleep(self.0.min(left)).await;
        self.0 = (self.0 * 2).min(BACKOFF_MOST);
    }
}

/// Repeats an idempotent call until it is decided or the patience is over.
pub(crate) async fn until_decided<T, R, F>(
    patience: Duration,
    limit: Duration,
    mut call: impl FnMut() -> F,
) -> Result<T, CallError<R>>
where
    F: Future<Output = Result<T, CallError<R>>>,
{
    let started = tokio::time::Instant::now();
    let mut backoff = Backoff::new();
    loop {
        let answer = timeout(limit, call()).await.unwrap_or_else(|_| Err(no_answer()));
        match answer {
            Err(error) if error.is_worth_repeating() && started.elapsed() < patience => {
                backoff.pause(patience.saturating_sub(started.elapsed())).await;
            }
            answer => return answer,
        }
    }
}

fn no_answer<R>() -> CallError<R> {
    CallError::Unreachable { why: "no answer in time".to_owned(), may_have_happened: true }
}

/// What an acquire comes to, for the caller who waits for it.
pub(crate) type Reply = oneshot::Sender<Result<(Hold, Permission), AcquireError>>;

/// One acquire from its first attempt to the caller's hands. What it returns is a request whose grant, should there
/// be one, nobody wants any more.
pub(crate) async fn acquire<C: Coordinator>(
    coordinator: Arc<C>,
    key: SessionKey,
    handle: Arc<Handle>,
    order: Order,
    mut reply: Reply,
) -> Option<Abandoned> {
    if let Some(over) = handle.shared.over() {
        let _ = reply.send(Err(AcquireError::SessionOver(over)));
        return None;
    }
    let abandoned = Abandoned { domain: order.domain.clone(), request: order.request };
    let granted = tokio::select! {
        biased;
        () = reply.closed() => return Some(abandoned),
        granted = granted(&*coordinator, &key, &handle, &order) => granted,
    };
    match granted {
        Ok((hold, permission)) => {
            // A reply that is not taken drops the hold, and that gives it back.
            let _ = reply.send(Ok((hold, permission)));
            None
        }
        Err(GaveUp { error, may_be_granted }) => {
            if let CallError::Refused(refusal) = &error
                && let AcquireRefusal::Session(SessionRefusal::SessionEnded(end)) = refusal.as_ref()
            {
                handle.shared.end(*end);
            }
            let _ = reply.send(Err(error.into()));
            may_be_granted.then_some(abandoned)
        }
    }
}

struct GaveUp {
    error: CallError<Box<AcquireRefusal>>,
    may_be_granted: bool,
}

async fn granted<C: Coordinator>(
    coordinator: &C,
    key: &SessionKey,
    handle: &Arc<Handle>,
    order: &Order,
) -> Result<(Hold, Permission), GaveUp> {
    let limit = attempt_limit(handle.ttl);
    let started = tokio::time::Instant::now();
    let mut backoff = Backoff::new();
    let mut may_be_granted = false;
    loop {
        let wait = order.wait.saturating_sub(started.elapsed());
        let request = AcquireRequest {
            caller: key.into(),
            domain: order.domain.clone(),
            request: order.request,
            contract: order.contract,
            terms: order.terms,
            metadata: order.metadata.clone(),
            renew: order.renew,
            wait: Wait::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
                .map_err(|invalid| GaveUp { error: invalid.into(), may_be_granted })?,
        };
        let sent = handle.shared.now();
        let answer = timeout(wait + limit, coordinator.acquire(request)).await.unwrap_or_else(|_| Err(no_answer()));
        let error = match answer.and_then(|answered| plausible(answered, key, order)) {
            Ok(Answered { answer, elapsed, .. }) => {
                let acquired = answer.acquired;
                let hold = Hold::new(handle.clone(), order.domain.clone(), acquired.lease, order.request);
                handle.shared.with(|holdings, now| {
                    holdings.granted(order.request, &acquired, order.renew, sent, elapsed, now);
                });
                handle.shared.changed.notify_one();
                return Ok((hold, acquired.permission));
            }
            Err(error) => error,
        };
        may_be_granted |= error.may_have_happened();
        let left = (order.wait + order.patience).saturating_sub(started.elapsed());
        if !error.is_worth_repeating() || left.is_zero() || handle.shared.over().is_some() {
            return Err(GaveUp { error, may_be_granted });
        }
        backoff.pause(left).await;
    }
}

/// A grant for somebody or something else is no grant.
fn plausible(
    answered: Answered<Granted>,
    key: &SessionKey,
    order: &Order,
) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
    let acquired = &answered.answer.acquired;
    let why = if acquired.domain != order.domain {
        "it grants another domain"
    } else if acquired.session != key.session {
        "it grants to another session"
    } else if acquired.permission.contract() != order.contract {
        "it grants under another contract"
    } else if let Permission::Safety(grant) = &acquired.permission
        && (grant.domain != order.domain || grant.session != key.session || grant.lease != acquired.lease)
    {
        "its grant is for something else"
    } else {
        return Ok(answered);
    };
    Err(CallError::Protocol { why: why.to_owned() })
}

/// Gives a hold back, repeating it while that is of use.
pub(crate) async fn release<C: Coordinator>(
    coordinator: Arc<C>,
    key: SessionKey,
    ttl: Ttl,
    hold: HoldId,
    reply: Option<oneshot::Sender<Result<Released, ReleaseError>>>,
) {
    let call = || coordinator.release(&key.secret, hold.lease, hold.request);
    let released = until_decided(end_patience(ttl), attempt_limit(ttl), call).await;
    if let Some(reply) = reply {
        let _ = reply.send(released.map_err(ReleaseError::Call));
    }
}

/// The request ids of one domain whose grants nobody wants, if there are any.
pub(crate) fn requests_of<'a>(
    abandoned: impl Iterator<Item = &'a Abandoned> + 'a,
    domain: &'a fencepost_core::Domain,
) -> impl Iterator<Item = RequestId> + 'a {
    abandoned.filter(move |abandoned| abandoned.domain == *domain).map(|abandoned| abandoned.request)
}
