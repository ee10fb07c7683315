use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Rule, limits};

macro_rules! duration {
    ($(#[$doc:meta])* $name:ident, $field:literal, $least:expr, $most:expr) => {
        $(#[$doc])*
        ///
        /// Whole milliseconds.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name(u64);

        impl $name {
            /// Takes a number of milliseconds.
            ///
            /// # Errors
            /// When it lies outside the limits.
            pub fn from_millis(ms: u64) -> Result<Self, Invalid> {
                if !($least..=$most).contains(&ms) {
                    let rule = Rule::Range { least: $least, most: $most, found: Some(ms), unit: "ms" };
                    return Err(Invalid::new($field, rule));
                }
                Ok(Self(ms))
            }

            /// The number of milliseconds.
            #[must_use]
            pub const fn as_millis(self) -> u64 {
                self.0
            }

            /// The time as a standard duration.
            #[must_use]
            pub const fn get(self) -> Duration {
                Duration::from_millis(self.0)
            }
        }

        impl TryFrom<u64> for $name {
            type Error = Invalid;

            fn try_from(ms: u64) -> Result<Self, Invalid> {
                Self::from_millis(ms)
            }
        }

        impl From<$name> for u64 {
            fn from(duration: $name) -> Self {
                duration.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}ms", self.0)
            }
        }
    };
}

duration!(
    /// Time to live: how long a session lives without a heartbeat.
    Ttl,
    "ttl_ms",
    limits::TTL_LEAST_MS,
    limits::TTL_MOST_MS
);
duration!(
    /// How long an acquire may stand in the queue.
    Wait,
    "wait_ms",
    0,
    limits::WAIT_MOST_MS
);
duration!(
    /// Greatest holding time: the lease ends this long after the grant, whatever the heartbeats.
    MaxHold,
    "max_hold_ms",
    limits::TTL_LEAST_MS,
    limits::HOLD_MOST_MS
);
duration!(
    /// Least holding time: the domain is not granted again before this long after the grant.
    MinHold,
    "min_hold_ms",
    0,
    limits::HOLD_MOST_MS
);
duration!(
    /// Delay after an unclean end before the domain is granted again.
    LockDelay,
    "lock_delay_ms",
    0,
    limits::HOLD_MOST_MS
);

impl Default for Ttl {
    /// 15 seconds.
    fn default() -> Self {
        Self(limits::TTL_DEFAULT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_one_second_to_one_day() {
        for (ms, taken) in [(0, false), (999, false), (1_000, true), (86_400_000, true), (86_400_001, false)] {
            assert_eq!(Ttl::from_millis(ms).is_ok(), taken, "{ms}");
        }
        let refused = Ttl::from_millis(u64::MAX).unwrap_err().to_string();
        assert_eq!(refused, "ttl_ms: must be 1000 to 86400000 ms, found 18446744073709551615");
    }
}
