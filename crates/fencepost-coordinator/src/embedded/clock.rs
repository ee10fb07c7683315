use std::{
    fs,
    io::{Error, Result},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fencepost_core::{BootId, Moment};
use rustix::time::{ClockId, clock_gettime};

/// The clock that leases end by: monotonic, and it counts suspended time.
pub trait Clock: Send + Sync + 'static {
    /// Time since the clock's zero. Never goes back within one boot.
    fn now(&self) -> Duration;

    /// The boot whose clock this is: readings under different boots cannot be compared.
    fn boot(&self) -> BootId;

    /// How long to sleep before this clock may have reached `moment`. May be shorter than it takes, never longer.
    fn until(&self, moment: Moment) -> Duration {
        Duration::from_millis(moment.as_millis()).saturating_sub(self.now())
    }
}

/// The moment of a reading of the clock: whole milliseconds, rounded down.
pub(super) fn moment(reading: Duration) -> Moment {
    Moment::from_millis(0).after(reading)
}

/// `CLOCK_BOOTTIME` of this machine.
#[derive(Clone, Copy, Debug)]
pub struct BootClock {
    boot: BootId,
}

impl BootClock {
    /// Reads which boot this is.
    ///
    /// # Errors
    /// When the kernel does not tell, as where `/proc` is not mounted.
    pub fn new() -> Result<Self> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        Ok(Self { boot: boot_in(&text)? })
    }
}

/// The boot, as the kernel writes it.
pub(super) fn boot_in(text: &str) -> Result<BootId> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    digits.parse().map_err(Error::other)
}

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let reading = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(reading.tv_sec).expect("the time since boot is not negative");
        let nanoseconds = u32::try_from(reading.tv_nsec).expect("a second has less than 2^32 nanoseconds");
        Duration::new(seconds, nanoseconds)
    }

    fn boot(&self) -> BootId {
        self.boot
    }
}

/// The wall clock. Nothing is ordered by it: it chooses the epoch of a new store and pushes the sequence forward at a
/// start, as a second line against a restore that nobody noticed.
pub trait WallClock: Send + Sync + 'static {
    /// Milliseconds since 1970, or zero before that.
    fn unix_millis(&self) -> u64;
}

/// The wall clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemWallClock;

impl WallClock for SystemWallClock {
    fn unix_millis(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
