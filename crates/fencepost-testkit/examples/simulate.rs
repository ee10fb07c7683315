//! Simulates fresh seeds for a while. `cargo xtask simulate` calls it.

use std::{
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use fencepost_testkit::simulation::{Deed, Deeds, Settings, Stopwatch, find, simulate};

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
    let (start, stopwatch) = (Instant::now(), Stopwatch::start());
    let (mut seeds, mut calls, mut happenings, mut deeds) = (0_u64, 0, 0, Deeds::default());
    while start.elapsed() < Duration::from_secs(args.seconds) {
        let seed = first.wrapping_add(seeds);
        let run = simulate(seed, &settings);
        if run.is_broken(&settings) {
            let failure = find([seed], &settings).expect("one seed has one run").shrink();
            eprintln!("A promise was broken.\n{failure}\nAgain: cargo xtask simulate --seed {seed}");
            return ExitCode::FAILURE;
        }
        seeds += 1;
        (calls, happenings) = (calls + run.calls, happenings + run.happenings);
        deeds.add(&run.deeds);
        if seeds % 50 == 0 {
            let (applied, stale) = (deeds.of(Deed::Applied), deeds.of(Deed::Stale));
            eprint!("\r{seeds} seeds, {calls} calls, {applied} writes applied, {stale} requests refused as stale");
        }
    }
    let virtual_ms = seeds * settings.length_ms;
    let pace = stopwatch.pace(virtual_ms);
    eprintln!();
    println!("seeds {first} to {}: nothing broken in {calls} calls", first.wrapping_add(seeds.saturating_sub(1)));
    println!("{deeds}");
    println!(
        "{:.0} happenings in a virtual second at a TTL of {} ms",
        happenings as f64 * 1_000.0 / virtual_ms as f64,
        settings.ttl_ms
    );
    println!("{pace}");
    ExitCode::SUCCESS
}
