//! A worker: a process with the real client in it, whose sessions come and go, and with hands that work under leases.

use std::{
    collections::VecDeque,
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fencepost_client::{HttpCoordinator, HttpOptions, Lease, OpenError, Session};
use fencepost_core::{Domain, Holder, Token, Ttl, fence::Operation};
use tokio::{sync::oneshot, task::JoinSet, time::sleep};

use super::{
    deeds::{Deed, Deeds},
    hand::Hand,
    mistaken::Mistaken,
    outbox::{Outbox, Outgoing},
    process::{LocalClock, Process, RIGHT, Watch},
    record::Record,
    settings::{Mistake, Settings},
};
use crate::random::Random;

/// How many things a worker does at one time, all in one session.
const HANDS: usize = 2;
const COORDINATOR: &str = "http://localhost:7421";

/// A worker as the world sees it.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) life: u64,
    pub(super) process: Process,
    pub(super) outbox: Outbox,
    pub(super) held: Vec<Slot>,
    /// Until its [`Happening::GoOn`](super::happening::Happening::GoOn), whatever else happens at that moment.
    pub(super) stands_still: bool,
}

/// What one hand holds, for the world to look at.
pub(super) type Slot = Arc<Mutex<Option<Held>>>;

pub(super) struct Held {
    pub(super) lease: Arc<Lease>,
    /// Until when the history says that the lease may be believed in.
    pub(super) until_us: u64,
}

/// What the parts of a worker use together.
#[derive(Clone)]
pub(super) struct Desk {
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Arc<LocalClock>,
    pub(super) outbox: Outbox,
    pub(super) common: Common,
}

/// What all workers and the world use together.
#[derive(Clone, Default)]
pub(super) struct Common {
    now_us: Arc<AtomicU64>,
    record: Arc<Mutex<Record>>,
    deeds: Arc<Mutex<Deeds>>,
    settled: Arc<Mutex<VecDeque<Settled>>>,
}

/// An operation that has taken effect.
#[derive(Clone)]
pub(super) struct Settled {
    pub(super) domain: Domain,
    pub(super) operation: Operation,
    pub(super) value: String,
}

/// How many of them are remembered.
const REMEMBERED: usize = 24;

impl Common {
    /// Virtual time.
    pub(super) fn now_us(&self) -> u64 {
        self.now_us.load(Relaxed)
    }

    pub(super) fn set_now(&self, now_us: u64) {
        self.now_us.store(now_us, Relaxed);
    }

    pub(super) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, text: impl fmt::Display) {
        self.record().note(self.now_us(), text);
    }

    pub(super) fn deeds(&self) -> MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, deed: Deed) {
        self.deeds().count(deed);
    }

    fn settled(&self) -> MutexGuard<'_, VecDeque<Settled>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an operation for whoever owns the domain later.
    pub(super) fn settle(&self, settled: Settled) {
        let mut all = self.settled();
        all.truncate(REMEMBERED - 1);
        all.push_front(settled);
    }

    /// An operation of this domain that a holder under this token may name: one that was not born after it.
    pub(super) fn an_earlier_one(&self, domain: &Domain, token: Token, random: &mut Random) -> Option<Settled> {
        let fits = |settled: &&Settled| settled.domain == *domain && settled.operation.born <= Some(token);
        let all = self.settled();
        let fitting: Vec<&Settled> = all.iter().filter(fits).collect();
        let last = fitting.len().checked_sub(1)?;
        Some(fitting[random.between(0, last as u64) as usize].clone())
    }
}

impl Worker {
    pub(super) fn new(
        number: usize,
        life: u64,
        settings: &Arc<Settings>,
        common: &Common,
        random: &mut Random,
    ) -> Self {
        let name = format!("W{number}.{life}");
        // Clocks of two machines cannot be compared: each begins anywhere.
        let (zero_us, rate) = (random.between(0, 1_000_000_000), settings.rate(random));
        if rate != RIGHT {
            common.count(Deed::ClockDrifts);
        }
        let clock = LocalClock::new(common.now_us(), zero_us, rate);
        let (clock, outbox) = (Arc::new(clock), Outbox::default());
        let desk =
            Desk { settings: settings.clone(), clock: clock.clone(), outbox: outbox.clone(), common: common.clone() };
        let held: Vec<Slot> = (0..HANDS).map(|_| Slot::default()).collect();
        let process = Process::new(clock, live(name.clone(), desk, held.clone(), Random::new(random.next())));
        Self { name, life, process, outbox, held, stands_still: false }
    }

    /// Leases whose belief reaches further than the history knows, with until when.
    pub(super) fn news(&self) -> Vec<(Arc<Lease>, u64)> {
        let mut news = Vec::new();
        for slot in &self.held {
            if let Some(held) = slot.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
                && let Some(until_us) =
                    until_us(&held.lease, &self.process.clock).filter(|until| *until > held.until_us)
            {
                held.until_us = until_us;
                news.push((held.lease.clone(), until_us));
            }
        }
        news
    }

    /// What it holds at its end.
    pub(super) fn holds(&self) -> Vec<Arc<Lease>> {
        let held = |slot: &Slot| Some(slot.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.lease.clone());
        self.held.iter().filter_map(held).collect()
    }
}

/// Until when a lease may be believed in, in virtual time.
pub(super) fn until_us(lease: &Lease, clock: &LocalClock) -> Option<u64> {
    let remaining_ms = u64::try_from(lease.remaining().as_millis()).ok().filter(|ms| *ms > 0)?;
    Some(clock.global_us((clock.shown_us() / 1_000 + remaining_ms) * 1_000))
}

async fn live(name: String, desk: Desk, held: Vec<Slot>, mut random: Random) {
    loop {
        let Ok(session) = open(&name, &desk, &mut random).await else {
            sleep(Duration::from_millis(random.between(20, 200))).await;
            continue;
        };
        let mut hands = JoinSet::new();
        for (slot, letter) in held.iter().zip('a'..) {
            let hand = Hand::new(format!("{name}{letter}"), desk.clone(), slot.clone(), Random::new(random.next()));
            hands.spawn(hand.work(session.clone()));
        }
        while let Some(ended) = hands.join_next().await {
            ended.expect("a hand that panics ends its process");
        }
        if random.chance(50) {
            desk.common.count(Deed::SessionClosed);
            // Whether or not its end is known to have taken effect, nothing is held any more.
            let _ = session.close().await;
        }
    }
}

async fn open(name: &str, desk: &Desk, random: &mut Random) -> Result<Session, OpenError> {
    let outbox = desk.outbox.clone();
    let connect = move || {
        let (made, connected) = oneshot::channel();
        outbox.push(Outgoing::Connect { made });
        async { connected.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) }
    };
    let driver = HttpCoordinator::in_simulation(COORDINATOR, HttpOptions::default(), connect).expect("an address");
    let holder = Holder::new(name).expect("a worker's name is a name");
    let ttl = Ttl::from_millis(desk.settings.ttl_ms).expect("a TTL within the limits");
    let (clock, chance) = (Watch(desk.clock.clone()), Mutex::new(Random::new(random.next())));
    let chance = move |bytes: &mut [u8]| chance.lock().unwrap_or_else(PoisonError::into_inner).fill(bytes);
    if let Some(mistake @ (Mistake::FreshRequestOnRetry | Mistake::PanicInDriver)) = desk.settings.mistake {
        let mistaken = Mistaken::new(driver, mistake, random.next());
        return Session::open_in_simulation(mistaken, holder, ttl, clock, chance).await;
    }
    Session::open_in_simulation(driver, holder, ttl, clock, chance).await
}
