//! The thread of one session: heartbeats on time, and every call of its handles.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use fencepost_coordinator::{Answered, CallError, Coordinator, Opened, SessionKey};
use fencepost_core::{
    Domain, Holder, Moment, RequestId, Ttl,
    holder::{Attempt, Confirmed, Holdings},
    lease::{ConfirmedLease, Heartbeat, HeartbeatRefusal, Released, SessionEnd},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Clock, CloseError, OpenError, ReleaseError,
    acquire::Order,
    chance::Chance,
    pending::{self, Reply},
    session::Handle,
    shared::{HoldId, Shared},
};

/// What handles ask of the session's thread.
pub(crate) enum Command {
    Acquire { handle: Arc<Handle>, order: Box<Order>, reply: Reply },
    Release { hold: HoldId, reply: Option<ReleaseReply> },
    Close { reply: oneshot::Sender<Result<(), CloseError>> },
}

/// An acquire that may have been granted and that nobody waits for any more. Its lease shows up as unclaimed in the
/// answer to a heartbeat, and is given back then.
#[derive(Clone, Debug)]
pub(crate) struct Abandoned {
    pub(crate) domain: Domain,
    pub(crate) request: RequestId,
}

type ReleaseReply = oneshot::Sender<Result<Released, ReleaseError>>;
type HeartbeatAnswer = Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>>;

/// Opens the session, hands its handle to `reply`, and keeps the session alive until the last handle is gone.
pub(crate) async fn open_and_keep<C: Coordinator>(
    coordinator: Arc<C>,
    holder: Holder,
    ttl: Ttl,
    clock: Arc<dyn Clock>,
    chance: Chance,
    reply: oneshot::Sender<Result<Arc<Handle>, OpenError>>,
) {
    let sent = clock.now();
    let opening = timeout(OPEN_LIMIT, coordinator.open_session(holder.clone(), ttl));
    let opened = opening.await.unwrap_or_else(|_| {
        Err(CallError::Unreachable { why: "no answer in time".to_owned(), may_have_happened: true })
    });
    let Answered { answer: Opened { session, secret }, elapsed, .. } = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let _ = reply.send(Err(error.into()));
            return;
        }
    };
    let confirmed = Confirmed { sent, elapsed, remaining_ms: session.remaining_ms };
    let holdings = Holdings::open(ttl, confirmed, chance.jitter());
    let shared = Arc::new(Shared::new(session.session, clock, chance, holdings));
    let (sender, commands) = mpsc::unbounded_channel();
    let handle = Handle { shared: shared.clone(), commands: sender, holder, ttl };
    // Where the caller has left, the handle is dropped here, the channel is closed, and the session is ended.
    let _ = reply.send(Ok(Arc::new(handle)));
    let keeper = Keeper {
        coordinator,
        key: SessionKey { session: session.session, secret },
        ttl,
        shared,
        heartbeats: JoinSet::new(),
        acquires: JoinSet::new(),
        releases: JoinSet::new(),
        releases_due: VecDeque::new(),
        abandoned: Vec::new(),
    };
    keeper.keep(commands).await;
}

struct Keeper<C> {
    coordinator: Arc<C>,
    key: SessionKey,
    ttl: Ttl,
    shared: Arc<Shared>,
    /// At most one is under way.
    heartbeats: JoinSet<(Attempt, HeartbeatAnswer)>,
    acquires: JoinSet<Option<Abandoned>>,
    releases: JoinSet<()>,
    /// Releases that wait for one of those under way to end.
    releases_due: VecDeque<(HoldId, Option<ReleaseReply>)>,
    abandoned: Vec<Left>,
}

/// An abandoned acquire, and since when.
struct Left {
    since: Moment,
    acquire: Abandoned,
    was_sought_again: bool,
}

/// How long opening may take. It is not repeated, so it does not follow the TTL: a slow start is no failure.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Most releases under way at one time. A process that drops ten thousand leases must not open as many connections.
const RELEASES_MOST: usize = 64;

/// A request that was on its way when its caller left may be decided after the heartbeat that asks about it. This much
/// later another heartbeat asks.
const SECOND_LOOK: Duration = Duration::from_millis(500);

impl<C: Coordinator> Keeper<C> {
    async fn keep(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let reply = loop {
            let pause = self.look_at_the_clock();
            tokio::select! {
                biased;
                Some(beat) = self.heartbeats.join_next() => self.answered(beat),
                command = commands.recv() => match command {
                    Some(Command::Acquire { handle, order, reply }) => self.acquire(handle, *order, reply),
                    Some(Command::Release { hold, reply }) => self.release(hold, reply),
                    Some(Command::Close { reply }) => break Some(reply),
                    None => break None,
                },
                Some(acquired) = self.acquires.join_next() => self.acquired(acquired.ok().flatten()),
                Some(_) = self.releases.join_next() => self.start_releases(),
                () = self.shared.changed.notified() => {}
                () = sleep(pause) => {}
            }
        };
        let result = self.end().await;
        if let Some(reply) = reply {
            let _ = reply.send(result);
        }
    }

    /// Does what is due, and says for how long nothing will be.
    fn look_at_the_clock(&mut self) -> Duration {
        self.look_for_abandoned_again();
        let is_idle = self.heartbeats.is_empty();
        let (attempt, wake, now) = self.shared.with(|holdings, now| {
            holdings.expire(now);
            let is_due = is_idle && holdings.next_heartbeat().is_some_and(|due| due <= now);
            let attempt = is_due.then(|| holdings.heartbeat(now));
            let heartbeat = holdings.next_heartbeat().filter(|_| is_idle && !is_due);
            let wake = heartbeat.into_iter().chain(holdings.next_deadline()).min();
            (attempt, wake, now)
        });
        if let Some(attempt) = attempt {
            self.beat(attempt);
        }
        // The runtime's timers stand still while the machine sleeps, and its clock may be a simulated one: the thread
        // looks again every now and then, whatever it expects.
        let glance = (self.ttl.get() / 20).min(Duration::from_secs(1));
        wake.map_or(glance, |wake| wake.since(now).min(glance)).max(Duration::from_millis(1))
    }

    fn beat(&mut self, attempt: Attempt) {
        let (coordinator, key, limit) = (self.coordinator.clone(), self.key.clone(), pending::attempt_limit(self.ttl));
        self.heartbeats.spawn(async move {
            let answer = timeout(limit, coordinator.heartbeat(&key, attempt.claim())).await;
            let no_answer = CallError::Unreachable { why: "no answer in time".to_owned(), may_have_happened: true };
            (attempt, answer.unwrap_or(Err(no_answer)))
        });
    }

    fn answered(&mut self, beat: Result<(Attempt, HeartbeatAnswer), tokio::task::JoinError>) {
        let jitter = self.shared.chance.jitter();
        let Ok((attempt, answer)) = beat else {
            // The driver panicked. That is no answer, and the next attempt may fare better.
            return self.shared.with(|holdings, now| holdings.unanswered(now, jitter));
        };
        match answer {
            Ok(Answered { answer, elapsed, .. }) => {
                self.shared.with(|holdings, now| holdings.confirmed(&attempt, &answer, elapsed, now, jitter));
                self.give_back_abandoned(&answer.unclaimed);
            }
            Err(CallError::Refused(refusal)) => {
                self.shared.with(|holdings, now| holdings.refused(&attempt, refusal, now));
            }
            Err(
                CallError::Invalid(_)
                | CallError::Unavailable { .. }
                | CallError::Unreachable { .. }
                | CallError::Protocol { .. },
            ) => self.shared.with(|holdings, now| holdings.unanswered(now, jitter)),
        }
    }

    fn acquire(&mut self, handle: Arc<Handle>, order: Order, reply: Reply) {
        self.acquires.spawn(pending::acquire(self.coordinator.clone(), self.key.clone(), handle, order, reply));
    }

    fn acquired(&mut self, abandoned: Option<Abandoned>) {
        let Some(abandoned) = abandoned else { return };
        let now = self.shared.now();
        self.abandoned.push(Left { since: now, acquire: abandoned, was_sought_again: false });
        // The answer to a heartbeat will show whether there is a grant that nobody claims.
        self.shared.hurry();
    }

    fn look_for_abandoned_again(&mut self) {
        let now = self.shared.now();
        let mut is_due = false;
        for left in self.abandoned.iter_mut().filter(|left| !left.was_sought_again) {
            if now.since(left.since) >= SECOND_LOOK {
                left.was_sought_again = true;
                is_due = true;
            }
        }
        if is_due {
            self.shared.hurry();
        }
    }

    fn release(&mut self, hold: HoldId, reply: Option<ReleaseReply>) {
        if self.shared.over().is_some() {
            if let Some(reply) = reply {
                let _ = reply.send(Err(ReleaseError::SessionOver));
            }
            return;
        }
        self.releases_due.push_back((hold, reply));
        self.start_releases();
    }

    fn start_releases(&mut self) {
        while self.releases.len() < RELEASES_MOST
            && let Some((hold, reply)) = self.releases_due.pop_front()
        {
            let (coordinator, key) = (self.coordinator.clone(), self.key.clone());
            self.releases.spawn(pending::release(coordinator, key, self.ttl, hold, reply));
        }
    }

    /// A release that names the wrong hold changes nothing, so every abandoned request of the domain is tried.
    fn give_back_abandoned(&mut self, unclaimed: &[ConfirmedLease]) {
        let now = self.shared.now();
        // A grant made after this has ended by itself, or its call is still waiting somewhere on the network.
        let remembered = self.ttl.get() * 2;
        self.abandoned.retain(|left| now.since(left.since) < remembered);
        let found: Vec<HoldId> = unclaimed
            .iter()
            .flat_map(|lease| {
                let abandoned = self.abandoned.iter().map(|left| &left.acquire);
                pending::requests_of(abandoned, &lease.domain)
                    .map(|request| HoldId { lease: lease.lease, request })
                    .collect::<Vec<_>>()
            })
            .collect();
        for hold in found {
            self.release(hold, None);
        }
    }

    /// Ends the session at the coordinator, where it still lives and nothing was left to expire.
    async fn end(mut self) -> Result<(), CloseError> {
        let was_over = self.shared.over();
        self.shared.end(SessionEnd::Ended);
        self.heartbeats.shutdown().await;
        self.acquires.shutdown().await;
        let left = self.shared.left_to_expire();
        let waits_for_expiry = left.is_some_and(|left| self.shared.now().since(left) < self.ttl.get());
        if was_over.is_some() {
            return Ok(());
        }
        if waits_for_expiry {
            // Ending the session would free what is to expire; what was released goes one by one.
            while self.releases.join_next().await.is_some() {
                self.start_releases();
            }
            return Ok(());
        }
        let call = || self.coordinator.end_session(&self.key);
        let ended = pending::until_decided(pending::end_patience(self.ttl), pending::attempt_limit(self.ttl), call);
        ended.await.map_err(CloseError)
    }
}

/// Whatever ends the thread, a panic included, no handle goes on believing.
impl<C> Drop for Keeper<C> {
    fn drop(&mut self) {
        self.shared.end(SessionEnd::Ended);
    }
}
