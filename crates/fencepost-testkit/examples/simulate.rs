//! Simulates fresh seeds for a while. `cargo xtask simulate` calls it.

use std::{
    num::NonZero,
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use fencepost_testkit::simulation::{Deed, Deeds, Pace, Settings, Stopwatch, find, simulate};

/// Runs client, server and machines on virtual time, network and disk, one seed after the other.
#[derive(Parser)]
struct Args {
    /// For how many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first seed; drawn from the clock where none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// Only that one seed, with its whole trace.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// The TTL of the workers' sessions, in milliseconds.
    #[arg(long, default_value_t = Settings::default().ttl_ms)]
    ttl_ms: u64,
    /// Fail where virtual time goes slower than this many times the time that a processor has spent on it.
    #[arg(long)]
    pace: Option<u32>,
    /// On how many threads; as many as there are processors where it is not said.
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let settings = Settings { ttl_ms: args.ttl_ms, ..Settings::default() };
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let first = args.seed.unwrap_or(drawn);
    if args.trace {
        let run = simulate(first, &settings);
        run.trace.iter().for_each(|line| println!("{line}"));
        println!("{} calls, {:?}\n{}", run.calls, run.violations, run.deeds);
        return if run.is_broken(&settings) { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let threads = args.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get)).max(1);
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let work = Work { first, until, settings, taken: AtomicU64::new(0), broken: Mutex::new(None) };
    let done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(|| work.run(false))).collect();
        let mine = work.run(true);
        others.into_iter().fold(mine, |all, other| all.beside(&other.join().expect("a run catches its panics")))
    });
    eprintln!();
    let settings = &work.settings;
    if let Some(seed) = *work.broken.lock().expect("nobody panics while it holds this") {
        let failure = find([seed], settings).expect("one seed has one run").shrink();
        eprintln!("A promise was broken.\n{failure}\nAgain: cargo xtask simulate --seed {seed}");
        return ExitCode::FAILURE;
    }
    let last = first.wrapping_add(done.seeds.saturating_sub(1));
    println!("seeds {first} to {last}: nothing broken in {} calls", done.calls);
    println!("{}", done.deeds);
    println!(
        "{:.0} happenings in a virtual second at a TTL of {} ms",
        done.happenings as f64 * 1_000.0 / (done.seeds * settings.length_ms) as f64,
        settings.ttl_ms
    );
    println!("{}", done.pace);
    match args.pace {
        Some(least) if done.pace.ratio() < f64::from(least) => {
            eprintln!("TOO SLOW: {:.0} times, and {least} were asked for", done.pace.ratio());
            ExitCode::FAILURE
        }
        Some(_) | None => ExitCode::SUCCESS,
    }
}

/// Seeds for several threads, each of which runs whole seeds.
struct Work {
    first: u64,
    until: Instant,
    settings: Settings,
    taken: AtomicU64,
    /// A seed in which a promise was broken: it ends all work.
    broken: Mutex<Option<u64>>,
}

/// What has come of it.
struct Done {
    seeds: u64,
    calls: usize,
    happenings: u64,
    deeds: Deeds,
    pace: Pace,
}

impl Work {
    /// One seed after the other, until the time is up or something is broken. One thread tells how far it is.
    fn run(&self, is_telling: bool) -> Done {
        let stopwatch = Stopwatch::start();
        let (mut seeds, mut calls, mut happenings, mut deeds) = (0, 0, 0, Deeds::default());
        while Instant::now() < self.until && self.broken.lock().expect("nobody panics while it holds this").is_none() {
            let seed = self.first.wrapping_add(self.taken.fetch_add(1, Ordering::Relaxed));
            let run = simulate(seed, &self.settings);
            if run.is_broken(&self.settings) {
                *self.broken.lock().expect("nobody panics while it holds this") = Some(seed);
                break;
            }
            seeds += 1;
            (calls, happenings) = (calls + run.calls, happenings + run.happenings);
            deeds.add(&run.deeds);
            if is_telling && seeds % 25 == 0 {
                let (applied, stale) = (deeds.of(Deed::Applied), deeds.of(Deed::Stale));
                let all = self.taken.load(Ordering::Relaxed);
                eprint!("\r{all} seeds; of them {seeds} had {calls} calls, {applied} writes, {stale} refused as stale");
            }
        }
        Done { seeds, calls, happenings, deeds, pace: stopwatch.pace(seeds * self.settings.length_ms) }
    }
}

impl Done {
    /// With what another thread has done at the same time.
    fn beside(mut self, other: &Self) -> Self {
        (self.seeds, self.calls) = (self.seeds + other.seeds, self.calls + other.calls);
        self.happenings += other.happenings;
        self.deeds.add(&other.deeds);
        self.pace = self.pace.beside(&other.pace);
        self
    }
}
