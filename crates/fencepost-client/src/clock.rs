use fencepost_core::Moment;

/// Where a session reads the time.
///
/// It must never go back and must count suspended time; the wall clock will not do.
///
/// ```
/// use fencepost_client::Clock;
/// use fencepost_core::Moment;
///
/// /// A clock for a simulation.
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> Moment {
///         Moment::from_millis(1_000)
///     }
/// }
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Moment;
}

/// The operating system's `CLOCK_BOOTTIME`: unlike `CLOCK_MONOTONIC` it goes on while the machine sleeps, as the
/// coordinator's does.
///
/// ```
/// use fencepost_client::{BootClock, Clock as _};
///
/// let earlier = BootClock.now();
/// assert!(BootClock.now() >= earlier);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).expect("this clock starts at zero");
        let nanoseconds = u64::try_from(time.tv_nsec).expect("a second has no negative parts");
        Moment::from_millis(seconds * 1_000 + nanoseconds / 1_000_000)
    }
}
