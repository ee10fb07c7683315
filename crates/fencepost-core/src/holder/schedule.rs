use crate::{Moment, Ttl};

/// A random fraction of one, drawn by the driver for every attempt, so that sessions opened together drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter(u16);

impl Jitter {
    /// No jitter.
    pub const NONE: Self = Self(0);

    /// The fraction `numerator / 65536`.
    #[must_use]
    pub const fn new(numerator: u16) -> Self {
        Self(numerator)
    }

    fn of(self, ms: u64) -> u64 {
        // A TTL is at most a day, so the product is far from the end of 64 bits.
        ms * u64::from(self.0) / (1 << 16)
    }
}

/// When the next heartbeat is due.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    ttl: Ttl,
    next: Moment,
    failures: u32,
}

const FIRST_BACKOFF_MOST_MS: u64 = 1_000;
const BACKOFF_MOST_MS: u64 = 10_000;

impl Schedule {
    pub(super) fn new(ttl: Ttl, sent: Moment, jitter: Jitter) -> Self {
        let mut schedule = Self { ttl, next: sent, failures: 0 };
        schedule.confirmed(sent, jitter);
        schedule
    }

    pub(super) fn next(&self) -> Moment {
        self.next
    }

    pub(super) fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// A third of the TTL after the confirmed attempt was sent, up to a tenth of that earlier.
    pub(super) fn confirmed(&mut self, sent: Moment, jitter: Jitter) {
        self.failures = 0;
        let interval_ms = self.ttl.as_millis() / 3;
        self.next = sent.after_millis(interval_ms - jitter.of(interval_ms / 10));
    }

    /// Soon at first, so that one lost packet costs little; then ever more slowly, so that a coordinator that comes
    /// back is not run down.
    pub(super) fn failed(&mut self, now: Moment, jitter: Jitter) {
        let ttl_ms = self.ttl.as_millis();
        let first_ms = (ttl_ms / 24).min(FIRST_BACKOFF_MOST_MS);
        let most_ms = (ttl_ms / 6).min(BACKOFF_MOST_MS);
        let backoff_ms = (first_ms << self.failures.min(10)).min(most_ms);
        self.failures = self.failures.saturating_add(1);
        self.next = now.after_millis(backoff_ms - jitter.of(backoff_ms / 2));
    }

    pub(super) fn at_once(&mut self, now: Moment) {
        self.next = self.next.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Jitter = Jitter::new(u16::MAX);

    fn ttl(ms: u64) -> Ttl {
        Ttl::from_millis(ms).unwrap()
    }

    #[test]
    fn heartbeats_come_every_third_of_the_ttl_or_a_little_earlier() {
        let at = |jitter| Schedule::new(ttl(15_000), Moment::from_millis(100), jitter).next().as_millis();
        assert_eq!(at(Jitter::NONE), 5_100);
        assert_eq!(at(FULL), 4_601);
    }

    #[test]
    fn after_failures_heartbeats_come_sooner_than_usual_and_back_off() {
        let mut schedule = Schedule::new(ttl(15_000), Moment::from_millis(0), Jitter::NONE);
        let mut waits = Vec::new();
        for _ in 0..6 {
            schedule.failed(Moment::from_millis(0), Jitter::NONE);
            waits.push(schedule.next().as_millis());
        }
        assert_eq!(waits, [625, 1_250, 2_500, 2_500, 2_500, 2_500]);
        assert!(schedule.is_failing());
        schedule.confirmed(Moment::from_millis(0), Jitter::NONE);
        assert!(!schedule.is_failing());
    }

    #[test]
    fn the_longest_ttl_still_notices_a_coordinator_that_comes_back() {
        let mut schedule = Schedule::new(ttl(86_400_000), Moment::from_millis(0), Jitter::NONE);
        for _ in 0..100 {
            schedule.failed(Moment::from_millis(0), FULL);
        }
        assert!(schedule.next().as_millis() <= BACKOFF_MOST_MS);
    }
}
