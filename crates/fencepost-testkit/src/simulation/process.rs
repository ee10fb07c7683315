//! One process: a runtime whose time is virtual, on a machine with a clock of its own.
//!
//! Everything that the process has begun runs on its runtime and nowhere else, so a process that is not run stands
//! still, all of it, and goes on exactly where it was. One that is dropped is gone as after a SIGKILL.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use fencepost_client::Clock;
use fencepost_core::Moment;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// The clock of a machine: it counts suspended time, begins anywhere and runs at a rate of its own.
pub(super) struct LocalClock {
    /// Virtual time at which the machine was started, in microseconds.
    born_us: u64,
    /// What the clock showed then.
    zero_us: u64,
    /// Millionths of virtual time.
    rate: u64,
    /// What it shows while the process runs.
    shown_us: AtomicU64,
}

/// A rate that is right.
pub(super) const RIGHT: u64 = 1_000_000;

impl LocalClock {
    pub(super) fn new(born_us: u64, zero_us: u64, rate: u64) -> Self {
        Self { born_us, zero_us, rate, shown_us: AtomicU64::new(zero_us) }
    }

    /// What it shows at a moment of virtual time.
    pub(super) fn local_us(&self, now_us: u64) -> u64 {
        self.zero_us + (now_us - self.born_us) * self.rate / RIGHT
    }

    /// The first moment of virtual time at which it shows this.
    pub(super) fn global_us(&self, local_us: u64) -> u64 {
        self.born_us + (local_us.saturating_sub(self.zero_us) * RIGHT).div_ceil(self.rate)
    }

    /// What it shows to the process that runs.
    pub(super) fn shown_us(&self) -> u64 {
        self.shown_us.load(Relaxed)
    }
}

/// The clock as the client reads it.
#[derive(Clone)]
pub(super) struct Watch(pub(super) Arc<LocalClock>);

impl Clock for Watch {
    fn now(&self) -> Moment {
        Moment::from_millis(self.0.shown_us() / 1_000)
    }
}

pub(super) struct Process {
    pub(super) clock: Arc<LocalClock>,
    runtime: Runtime,
    main: JoinHandle<()>,
    idle: Arc<Idle>,
    /// How far its timers have come on its clock. They do not count suspended time.
    timers_us: u64,
}

/// Notices that a runtime has nothing left to do at its present moment.
#[derive(Default)]
struct Idle {
    looks: AtomicU32,
    waker: Mutex<Option<Waker>>,
}

/// The second time that a runtime wants to sleep, what its timers woke at the first has been done.
const LOOKS: u32 = 2;

impl Idle {
    fn looked(&self) {
        self.looks.fetch_add(1, Relaxed);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn settled(&self) {
        self.looks.store(0, Relaxed);
        poll_fn(|context| {
            if self.looks.load(Relaxed) >= LOOKS {
                return Poll::Ready(());
            }
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Process {
    /// A process that runs `main`, which does not end.
    pub(super) fn new(clock: Arc<LocalClock>, main: impl Future<Output = ()> + Send + 'static) -> Self {
        let idle = Arc::<Idle>::default();
        let looking = idle.clone();
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || looking.looked())
            .build()
            .expect("a runtime without IO needs nothing of the system");
        let (main, timers_us) = (runtime.spawn(main), clock.zero_us);
        Self { clock, runtime, main, idle, timers_us }
    }

    /// Does everything that there is to do at this moment of virtual time.
    pub(super) fn run(&mut self, now_us: u64) {
        let local_us = self.clock.local_us(now_us);
        assert!(local_us >= self.timers_us, "a process that is suspended is not run before its machine goes on");
        self.clock.shown_us.store(local_us, Relaxed);
        let passed = Duration::from_micros(local_us - self.timers_us);
        self.timers_us = local_us;
        if !passed.is_zero() {
            // Between two turns of the runtime: awaited inside, it would take a turn of its own, in which nothing is done.
            let _inside = self.runtime.enter();
            let _ = pin!(tokio::time::advance(passed)).poll(&mut Context::from_waker(Waker::noop()));
        }
        self.runtime.block_on(self.idle.settled());
        assert!(!self.main.is_finished(), "a process ends by being killed, or by a bug");
    }

    /// The machine was suspended until now: its clock has gone on, its timers have not.
    pub(super) fn resume(&mut self, suspended_us: u64) {
        self.timers_us += suspended_us * self.clock.rate / RIGHT;
    }

    /// The process is gone.
    pub(super) fn kill(self) {
        // Dropped outside of its runtime, nothing that its tasks wish for on their way out is done any more.
        drop(self.runtime);
    }
}
