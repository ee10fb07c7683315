use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// A point on a monotonic clock that also counts suspended time (on Linux `CLOCK_BOOTTIME`), in milliseconds.
///
/// Moments of one machine and one boot can be compared; nothing else about them means anything. The wall clock is
/// never a moment: a jump of it neither ends nor prolongs a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(u64);

impl Moment {
    /// The moment `ms` milliseconds after the clock's zero.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds after the clock's zero.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `ms` milliseconds later.
    #[must_use]
    pub const fn after_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The moment `time` later, rounded down to a millisecond.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        self.after_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment `ms` milliseconds earlier, at the earliest the clock's zero.
    #[must_use]
    pub const fn before_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Time from `earlier` to here; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}ms", self.0)
    }
}
