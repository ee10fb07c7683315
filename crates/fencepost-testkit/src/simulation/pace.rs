use std::{
    fmt, fs,
    time::{Duration, Instant},
};

/// How fast virtual time has to go at least for a night to be worth years, in the build that `cargo xtask simulate` makes.
const AIM: f64 = 1_000.0;

/// Measures how fast virtual time goes on this thread, on which all of a simulation runs.
#[derive(Debug)]
pub struct Stopwatch {
    began: Instant,
    before: Option<Duration>,
}

/// Virtual time against the time that it took.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    virtual_s: f64,
    real_s: f64,
    processor_s: Option<f64>,
}

impl Stopwatch {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        Self { began: Instant::now(), before: on_a_processor() }
    }

    /// Up to now, in which so much virtual time has passed.
    #[must_use]
    pub fn pace(&self, virtual_ms: u64) -> Pace {
        let took = on_a_processor().zip(self.before).map(|(now, before)| now.saturating_sub(before));
        Pace {
            virtual_s: virtual_ms as f64 / 1_000.0,
            real_s: self.began.elapsed().as_secs_f64(),
            processor_s: took.map(|took| took.as_secs_f64()),
        }
    }
}

impl Pace {
    /// How many times as fast as the time that this thread has spent on a processor, which others on the machine change
    /// least; as real time, where the kernel does not say.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.virtual_s / self.processor_s.unwrap_or(self.real_s)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { virtual_s, real_s, .. } = self;
        let which = if self.processor_s.is_some() { "its processor's" } else { "real" };
        write!(
            f,
            "{virtual_s:.0} s of virtual time: {:.0} times as fast as real time, {:.0} times as {which}: {} {AIM:.0}",
            virtual_s / real_s,
            self.ratio(),
            if self.ratio() < AIM { "BELOW" } else { "above" },
        )
    }
}

/// How long this thread has run on a processor.
fn on_a_processor() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
