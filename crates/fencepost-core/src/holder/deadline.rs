use std::time::Duration;

use crate::{Moment, Ttl};

/// The times of one answer that confirms something.
///
/// ```
/// use std::time::Duration;
///
/// use fencepost_core::{Moment, Ttl, holder::Confirmed};
///
/// let sent = Moment::from_millis(2_000);
/// let confirmed = Confirmed { sent, elapsed: Duration::from_millis(5), remaining_ms: 1_000 };
/// let deadline = confirmed.deadline(Ttl::from_millis(3_000)?, Moment::from_millis(2_100));
/// assert_eq!(deadline, Moment::from_millis(2_000 + 5 + 1_000 - 300));
/// # Ok::<(), fencepost_core::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// When this very attempt was sent, on the holder's clock; not when an earlier attempt was, nor a later one.
    pub sent: Moment,
    /// From receiving the call to deciding it, as the coordinator says.
    pub elapsed: Duration,
    /// Milliseconds that were left at the decision, as the coordinator says.
    pub remaining_ms: u64,
}

impl Confirmed {
    /// Until when the holder may believe it, where the answer came at `arrived`.
    ///
    /// The call was received no earlier than it was sent, so the coordinator's own end is no earlier than sent +
    /// elapsed + remaining. The margin, a tenth of the TTL, pays for clocks that do not run at the same rate and for
    /// readings rounded to a millisecond. Everything is rounded towards earlier.
    #[must_use]
    pub fn deadline(self, ttl: Ttl, arrived: Moment) -> Moment {
        let margin_ms = ttl.as_millis().div_ceil(10);
        // A call cannot have lasted longer at the coordinator than here, and more than a TTL is never left: an answer
        // that says otherwise is believed only that far.
        let elapsed = self.elapsed.min(arrived.since(self.sent));
        let remaining_ms = self.remaining_ms.min(ttl.as_millis());
        self.sent.after(elapsed).after_millis(remaining_ms).before_millis(margin_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadline(sent: u64, elapsed: Duration, remaining_ms: u64, ttl_ms: u64) -> u64 {
        let confirmed = Confirmed { sent: Moment::from_millis(sent), elapsed, remaining_ms };
        confirmed.deadline(Ttl::from_millis(ttl_ms).unwrap(), Moment::from_millis(sent + 50)).as_millis()
    }

    #[test]
    fn a_deadline_is_sent_plus_elapsed_plus_remaining_less_a_tenth_of_the_ttl() {
        assert_eq!(deadline(1_000, Duration::from_millis(7), 15_000, 15_000), 1_000 + 7 + 15_000 - 1_500);
    }

    #[test]
    fn every_rounding_goes_towards_earlier() {
        assert_eq!(deadline(0, Duration::from_micros(999), 1_001, 1_001), 1_001 - 101);
    }

    #[test]
    fn less_than_the_margin_left_is_lost_at_once() {
        assert_eq!(deadline(1_000, Duration::ZERO, 50, 1_000), 950);
    }

    #[test]
    fn absurd_times_are_believed_only_as_far_as_they_are_possible() {
        assert_eq!(deadline(0, Duration::ZERO, u64::MAX, 1_000), 900);
        assert_eq!(deadline(0, Duration::MAX, 1_000, 1_000), 950);
    }
}
