//! Everything of this repository that has logic and is not the product: `cargo xtask ci` is the one command that
//! says whether a change is good, `cargo xtask tidy` the part of it that no compiler checks.
//!
//! Steps and checks are small and independent. A check is a pure function over the texts of the repository
//! (`tidy::Tree`), so its tests run on made-up trees; only `ci`, `bench`, `fuzz`, `torture`, `command`,
//! `tools` and `servers` touch the machine.

mod bench;
mod ci;
mod command;
mod fuzz;
mod servers;
mod skips;
mod tidy;
mod tools;
mod torture;

use std::{path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

/// The chores of this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Format, lints, tests, doc tests, fuzzing, docs, tidy and licences: what must be green before a change lands
    Ci,
    /// Measure, as ratios inside one run; `cargo xtask bench -- --help` names what there is to measure
    Bench {
        /// Passed on to the benchmark
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run client, server and machines on virtual time from fresh seeds; a failing seed is shrunk and told
    Simulate {
        /// For how long, e.g. 90s or 10m
        #[arg(long = "for", default_value = "60s", value_parser = seconds)]
        seconds: u64,
        /// Begin with this seed instead of a fresh one
        #[arg(long)]
        seed: Option<u64>,
        /// Run that one seed and print everything that happens
        #[arg(long, requires = "seed")]
        trace: bool,
        /// The TTL of the simulated sessions, e.g. 1s; three seconds where none is given
        #[arg(long, value_parser = seconds)]
        ttl: Option<u64>,
        /// Fail where virtual time goes slower than this many times the processor's, e.g. 1000
        #[arg(long)]
        pace: Option<u32>,
    },
    /// Stop, kill and cut off real processes from fresh seeds, and have their history checked
    Torture {
        /// For how long, e.g. 90s or 10m; a round that has begun is finished
        #[arg(long = "for", default_value = "60s", value_parser = seconds)]
        seconds: u64,
        /// Begin with this seed instead of a fresh one
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Give every parser and the decision inputs that a machine makes up, each target for a while
    Fuzz {
        /// For how long each, e.g. 90s or 10m
        #[arg(long = "for", default_value = "60s", value_parser = seconds)]
        seconds: u64,
        /// Only this target
        target: Option<String>,
    },
    /// Borders between crates, file sizes, dead paths, glossary and the other rules that no compiler checks
    Tidy,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace");
    let outcome = match Cli::parse().chore {
        Chore::Ci => ci::run(root),
        Chore::Bench { arguments } => bench::run(root, &arguments),
        Chore::Simulate { seconds, seed, trace, ttl, pace } => {
            let rest = [("--seed", seed), ("--ttl-ms", ttl.map(|ttl| ttl * 1_000)), ("--pace", pace.map(u64::from))];
            simulate(root, seconds, trace, &rest)
        }
        Chore::Torture { seconds, seed } => torture::torture(root, seconds, seed),
        Chore::Fuzz { seconds, target } => {
            fuzz::fuzz(root, fuzz::Amount::Seconds(seconds), target.as_deref()).map(drop)
        }
        Chore::Tidy => tidy::run(root).map(|summary| println!("{summary}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A length of time as people type it: 90s, 10m.
fn seconds(text: &str) -> Result<u64, String> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        _ => return Err("must be like 90s or 10m".to_owned()),
    };
    number.parse::<u64>().map(|number| number * factor).map_err(|_| "must be like 90s or 10m".to_owned())
}

fn simulate(root: &Path, seconds: u64, trace: bool, rest: &[(&str, Option<u64>)]) -> anyhow::Result<()> {
    let mut run = command::cargo(root);
    run.args(["run", "--release", "--quiet", "--package", "fencepost-testkit", "--features", "simulation"]);
    run.args(["--example", "simulate", "--"]);
    run.args(["--seconds", &seconds.to_string()]);
    if trace {
        run.arg("--trace");
    }
    for (name, value) in rest.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        run.args([*name, &value.to_string()]);
    }
    command::run(&mut run)
}
