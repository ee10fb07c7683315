//! What happened lately, for streams of events: a bounded memory that a reader can come back to.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use fencepost_coordinator::WatchedEvent;
use fencepost_core::lease::{Event, EventKind, LeaseEnd};
use fencepost_wire::RejectedData;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{Metrics, stop::Stopping};

/// How far a reader of a stream may lie behind before it misses events.
const READER_BUFFER: usize = 1_024;

/// One event of a stream, numbered by the hub.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) number: u64,
    pub(crate) what: Happened,
}

#[derive(Clone, Debug)]
pub(crate) enum Happened {
    Lease(Arc<WatchedEvent>),
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

    fn publish(&self, what: Happened) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
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
        mut events: broadcast::Receiver<Arc<WatchedEvent>>,
        metrics: &Metrics,
        mut stopping: Stopping,
    ) {
        let mut rejections = metrics.watch_rejections();
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Ok(event) => {
                        note(&event.event, metrics);
                        self.publish(Happened::Lease(event));
                    }
                    Err(RecvError::Lagged(missed)) => {
                        metrics.missed_events(missed);
                        self.publish(Happened::Missed(missed));
                    }
                    Err(RecvError::Closed) => return,
                },
                rejected = rejections.recv() => match rejected {
                    Ok(rejected) => self.publish(Happened::Rejected(rejected)),
                    Err(RecvError::Lagged(missed)) => self.publish(Happened::Missed(missed)),
                    Err(RecvError::Closed) => return,
                },
                () = stopping.begun() => return,
            }
        }
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
