//! What happened lately, for streams of events: a bounded memory that a reader can come back to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fencepost_coordinator::WatchedEvents;
use fencepost_core::lease::{Event, EventKind, LeaseEnd};
use fencepost_wire::RejectedData;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::yield_now,
    time::sleep,
};

use crate::{Metrics, stop::Stopping};

/// How far a reader of a stream may lie behind before it misses events.
const READER_BUFFER: usize = 1_024;

/// How many events of one commit are published before their readers get a turn: fewer than the runtime lets a reader take
/// in one, so that whoever keeps up misses nothing of a commit that is larger than its buffer.
const PIECE: usize = 64;

/// How long the hub looks away after it has taken what there was. Without it every commit would wake a thread for
/// hints that nobody waits for to the millisecond, and answers would wait for that thread's core.
const PAUSE: Duration = Duration::from_millis(2);

/// One event of a stream, numbered by the hub.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) number: u64,
    pub(crate) what: Happened,
}

#[derive(Clone, Debug)]
pub(crate) enum Happened {
    /// The event of a commit at this place.
    Lease(Arc<WatchedEvents>, usize),
    Rejected(Arc<RejectedData>),
    /// The hub itself came too late for this many.
    Missed(u64),
}

/// The memory and its readers.
pub(crate) struct Hub {
    /// Tells the numbers of this run from those of another, so that a reader of an earlier run is told of a gap.
    run: u64,
    recent: Mutex<Recent>,
    keep: usize,
}

struct Recent {
    next: u64,
    events: VecDeque<Arc<Published>>,
    readers: broadcast::Sender<Arc<Published>>,
}

/// Where a new reader starts.
pub(crate) struct Subscription {
    pub(crate) replay: Vec<Arc<Published>>,
    /// Whether events between the reader's last and the first replayed one are gone.
    pub(crate) gap: bool,
    /// The number of the last event before what the reader gets live.
    pub(crate) before: u64,
    pub(crate) live: broadcast::Receiver<Arc<Published>>,
}

impl Hub {
    pub(crate) fn new(run: u64, keep: usize) -> Self {
        let recent = Recent { next: 1, events: VecDeque::new(), readers: broadcast::channel(READER_BUFFER).0 };
        Self { run, recent: Mutex::new(recent), keep }
    }

    pub(crate) fn publish(&self, happened: impl IntoIterator<Item = Happened>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        for what in happened {
            let published = Arc::new(Published { number: recent.next, what });
            recent.next += 1;
            if recent.events.len() >= self.keep {
                recent.events.pop_front();
            }
            if self.keep > 0 {
                recent.events.push_back(published.clone());
            }
            // Nobody may be reading, which is no error.
            let _ = recent.readers.send(published);
        }
    }

    /// Starts a reader behind `last_seen`, which is an id that [`id`](Self::id) made, or with what happens from now on.
    pub(crate) fn subscribe(&self, last_seen: Option<&str>) -> Subscription {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, before) = (recent.readers.subscribe(), recent.next - 1);
        let Some(last_seen) = last_seen else { return Subscription { replay: Vec::new(), gap: false, before, live } };
        let oldest = recent.events.front().map_or(recent.next, |event| event.number);
        match self.number_of(last_seen).filter(|number| *number < recent.next) {
            Some(number) => {
                let replay = recent.events.iter().filter(|event| event.number > number).cloned().collect();
                Subscription { replay, gap: number + 1 < oldest, before, live }
            }
            None => Subscription { replay: Vec::new(), gap: true, before, live },
        }
    }

    pub(crate) fn id(&self, number: u64) -> String {
        format!("{:016x}-{number}", self.run)
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        let (run, number) = id.split_once('-')?;
        (run == format!("{:016x}", self.run)).then(|| number.parse().ok())?
    }

    /// Takes what the coordinator and the receivers of this process tell, until the server stops.
    pub(crate) async fn follow(
        &self,
        mut events: broadcast::Receiver<Arc<WatchedEvents>>,
        metrics: &Metrics,
        mut stopping: Stopping,
    ) {
        let mut rejections = metrics.watch_rejections();
        // The coordinator's own numbers begin with 1, so that the first events of all can be missed noticeably too.
        let mut seen = 0;
        loop {
            tokio::select! {
                watched = events.recv() => match watched {
                    Ok(watched) => seen = self.take(seen, &watched, metrics).await,
                    // The numbers of what comes next tell how many events that was.
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return,
                },
                rejected = rejections.recv() => match rejected {
                    Ok(rejected) => self.publish([Happened::Rejected(rejected)]),
                    Err(RecvError::Lagged(missed)) => self.publish([Happened::Missed(missed)]),
                    Err(RecvError::Closed) => return,
                },
                () = stopping.begun() => return,
            }
            if events.is_empty() {
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    () = stopping.begun() => return,
                }
            }
        }
    }

    /// Publishes what one commit brought about; the number of its last event. `seen` is the last number before it.
    async fn take(&self, seen: u64, watched: &Arc<WatchedEvents>, metrics: &Metrics) -> u64 {
        let missed = watched.first.saturating_sub(seen + 1);
        if missed > 0 {
            metrics.missed_events(missed);
            self.publish([Happened::Missed(missed)]);
        }
        let all = watched.events.len();
        for from in (0..all).step_by(PIECE) {
            let piece = from..all.min(from + PIECE);
            watched.events[piece.clone()].iter().for_each(|event| note(event, metrics));
            self.publish(piece.map(|at| Happened::Lease(watched.clone(), at)));
            yield_now().await;
        }
        watched.first + all as u64 - 1
    }
}

fn note(event: &Event, metrics: &Metrics) {
    match &event.kind {
        EventKind::Granted { waited_ms } => metrics.waited(event.contract, *waited_ms),
        EventKind::Ended { end: LeaseEnd::Released, .. } => {}
        EventKind::Ended {
            end: end @ (LeaseEnd::Expired | LeaseEnd::Revoked | LeaseEnd::Recovered),
            fence_to,
            reason,
            held_ms,
        } => {
            metrics.lost(*end);
            tracing::warn!(
                target: "fencepost::lost",
                domain = %event.domain,
                reason = end.as_str(),
                contract = event.contract.as_str(),
                token = event.token.map(tracing::field::display),
                least_accepted = fence_to.map(tracing::field::display),
                lease = %event.lease,
                holder = %event.holder,
                held_ms,
                because = reason.as_ref().map(tracing::field::display),
                "a lease was lost"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::{Contract, Domain, Holder, LeaseId};

    use super::*;

    fn commit(first: u64, events: usize) -> Arc<WatchedEvents> {
        let event = Event {
            domain: Domain::new("d").unwrap(),
            lease: LeaseId::from_bytes([1; 16]),
            contract: Contract::Safety,
            token: None,
            holder: Holder::new("h").unwrap(),
            kind: EventKind::Granted { waited_ms: 0 },
        };
        Arc::new(WatchedEvents { first, events: vec![event; events] })
    }

    /// Mutant: `take` that does not compare the numbers, or `follow` that takes the first as it comes: readers would see
    /// no gap.
    #[tokio::test]
    async fn events_that_the_hub_itself_missed_are_told_by_their_number() {
        let (hub, metrics) = (Hub::new(7, 10), Metrics::new());
        let (commits, watched) = broadcast::channel(2);
        // Three commits where two are kept: the first has gone before the hub has looked.
        for (first, events) in [(1, 3), (4, 2), (9, 1)] {
            commits.send(commit(first, events)).unwrap();
        }
        drop(commits);
        let (_stop, stopping) = crate::stop::stop();
        hub.follow(watched, &metrics, stopping).await;
        let told: Vec<_> = hub.subscribe(Some(&hub.id(0))).replay.iter().map(|event| event.what.clone()).collect();
        assert!(
            matches!(
                told[..],
                [
                    Happened::Missed(3),
                    Happened::Lease(_, 0),
                    Happened::Lease(_, 1),
                    Happened::Missed(3),
                    Happened::Lease(_, 0)
                ]
            ),
            "{told:?}"
        );
        assert!(metrics.render().contains("fencepost_events_missed_total 6"), "{}", metrics.render());
    }

    /// Mutant: without the yield in `take` the reader is woken when all of it is published, and most is gone by then.
    #[tokio::test]
    async fn a_reader_that_keeps_up_misses_nothing_of_a_commit_larger_than_its_buffer() {
        let (hub, metrics) = (Hub::new(7, 0), Metrics::new());
        let (events, mut live) = (5 * READER_BUFFER, hub.subscribe(None).live);
        let reader = tokio::spawn(async move {
            for number in 1..=events as u64 {
                assert_eq!(live.recv().await.unwrap().number, number);
            }
        });
        assert_eq!(hub.take(0, &commit(1, events), &metrics).await, events as u64);
        reader.await.unwrap();
    }
}
