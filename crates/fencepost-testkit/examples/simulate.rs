//! Simulates fresh seeds for a while. `cargo xtask simulate` calls it.

use std::{
    process::ExitCode,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use fencepost_testkit::simulation::{Deed, Deeds, Settings, find, simulate};

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
    let start = Instant::now();
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
    let (virtual_s, real_s) = (seeds as f64 * settings.length_ms as f64 / 1_000.0, start.elapsed().as_secs_f64());
    eprintln!();
    println!("seeds {first} to {}: nothing broken in {calls} calls", first.wrapping_add(seeds.saturating_sub(1)));
    println!("{deeds}");
    println!(
        "{virtual_s:.0} s of virtual time at a TTL of {} ms: {:.0} times as fast as real time{}",
        settings.ttl_ms,
        virtual_s / real_s,
        processor_s().map_or_else(String::new, |took| format!(", {:.0} times as its processor's", virtual_s / took))
    );
    println!(
        "{:.0} happenings in a virtual second, {:.0} in a real one",
        happenings as f64 / virtual_s,
        happenings as f64 / real_s
    );
    ExitCode::SUCCESS
}

/// How long this program has run on a processor, which others on the machine change less than the time that passes.
fn processor_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(text.split_ascii_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}
