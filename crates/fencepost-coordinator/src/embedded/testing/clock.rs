use std::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use fencepost_core::{BootId, Moment};

use crate::embedded::{Clock, WallClock};

/// How often the writer looks at a clock that stands still.
const LOOK: Duration = Duration::from_millis(1);

/// A clock that moves when it is told.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicU64,
    boot: BootId,
}

impl ManualClock {
    /// A clock at `millis` under the boot whose id is sixteen times `boot`.
    #[must_use]
    pub fn new(boot: u8, millis: u64) -> Self {
        Self { millis: AtomicU64::new(millis), boot: BootId::from_bytes([boot; 16]) }
    }

    /// Lets time pass. What it brings is done within a few real milliseconds.
    pub fn advance(&self, millis: u64) {
        self.millis.fetch_add(millis, SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(SeqCst))
    }

    fn boot(&self) -> BootId {
        self.boot
    }

    fn until(&self, _moment: Moment) -> Duration {
        LOOK
    }
}

/// A wall clock that moves when it is told, in both directions.
#[derive(Debug)]
pub struct ManualWallClock(AtomicU64);

impl ManualWallClock {
    /// A clock that stands at this many milliseconds after 1970.
    #[must_use]
    pub fn new(unix_millis: u64) -> Self {
        Self(AtomicU64::new(unix_millis))
    }

    /// Steps the clock.
    pub fn set(&self, unix_millis: u64) {
        self.0.store(unix_millis, SeqCst);
    }
}

impl WallClock for ManualWallClock {
    fn unix_millis(&self) -> u64 {
        self.0.load(SeqCst)
    }
}
