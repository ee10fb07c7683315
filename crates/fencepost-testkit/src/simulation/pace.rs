use std::{
    fmt, fs,
    time::{Duration, Instant},
};

/// How fast virtual time has to go at least for a night to be worth years, in the build that `cargo xtask simulate` makes.
const AIM: f64 = 1_000.0;

/// Measures how fast virtual time goes on this thread. All of a simulation runs on one.
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
    /// How many threads went through it at the same time.
    threads: f64,
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
            threads: 1.0,
        }
    }
}

impl Pace {
    /// Together with what another thread has gone through at the same time.
    #[must_use]
    pub fn beside(self, other: &Self) -> Self {
        Self {
            virtual_s: self.virtual_s + other.virtual_s,
            real_s: self.real_s.max(other.real_s),
            processor_s: self.processor_s.zip(other.processor_s).map(|(one, other)| one + other),
            threads: self.threads + other.threads,
        }
    }

    /// How many times as fast as the time that a processor has spent on it, which others on the machine change least; as
    /// real time, where the kernel does not say. What several threads went through at one time is not added up in it.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.virtual_s / self.processor_s.unwrap_or(self.real_s * self.threads)
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { virtual_s, real_s, processor_s, threads } = self;
        let real = virtual_s / real_s;
        write!(f, "{virtual_s:.0} s of virtual time on {threads} threads: {real:.0} times as fast as real time")?;
        if processor_s.is_some() {
            write!(f, ", {:.0} times as fast as the time of a processor", self.ratio())?;
        }
        write!(f, ": {} {AIM:.0}", if self.ratio() < AIM { "BELOW" } else { "above" })
    }
}

/// How long this thread has run on a processor.
fn on_a_processor() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: the ratios of several threads are added up.
    #[test]
    fn what_several_threads_do_at_one_time_is_no_faster_by_a_processor() {
        let one = Pace { virtual_s: 600.0, real_s: 0.5, processor_s: Some(0.25), threads: 1.0 };
        let both = one.beside(&Pace { virtual_s: 400.0, ..one });
        assert_eq!((one.ratio(), both.ratio()), (2_400.0, 2_000.0));
        assert!(both.to_string().starts_with("1000 s of virtual time on 2 threads: 2000 times as fast as real time"));
        // Where the kernel does not say, all of them are taken to have had a processor all the time.
        let untold = Pace { processor_s: None, ..one };
        assert_eq!(untold.beside(&untold).ratio(), 1_200.0);
    }
}
