//! How fast Fencepost is, as ratios against a plain operation or a peer of the same run.
//!
//! `cargo xtask bench` builds what is measured and calls this. Machines are shared and noisy, so no figure stands
//! alone: what is compared runs in turns, round by round, and a ratio is the median over the rounds.
//!
//! What is measured lies in a file of its own each; [`round`] is the turn-taking, [`report`] the table.

mod child;
mod file;
mod generator;
mod hand_over;
mod handlers;
mod history;
mod http;
mod in_process;
mod many;
mod peers;
mod raw;
mod report;
mod round;
mod run;
mod sqlite;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Parser;

/// Measures Fencepost. `cargo xtask bench` calls this with what it has built.
#[derive(Parser)]
struct Args {
    /// What to measure; everything when none is named.
    #[arg(value_enum)]
    what: Vec<What>,
    /// The `fencepost` binary whose server is measured.
    #[arg(long)]
    fencepost: Option<PathBuf>,
    /// Length of one turn.
    #[arg(long, default_value_t = 500)]
    turn_ms: u64,
    /// How many rounds.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Serve the empty handler instead of measuring: the other end of `http`.
    #[arg(long, hide = true)]
    empty_handler: bool,
    /// The same with a handler that answers after a group commit in this folder.
    #[arg(long, hide = true)]
    durable_handler: Option<PathBuf>,
    /// Passed by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Acquire and release without HTTP, durable.
    InProcess,
    /// Acquire and release over HTTP on loopback, durable, beside an empty handler, etcd and Redis.
    Http,
    /// Fenced writes in SQLite, durable, beside plain updates.
    Sqlite,
    /// Fenced replacements of a file, durable, beside plain ones.
    File,
    /// The history checker on a million events.
    History,
    /// A command under a lease, from start to end, beside `flock` and `etcdctl lock`.
    Run,
    /// How soon the next in line has its command running, beside `flock` and `etcdctl lock`.
    HandOver,
    /// A million leases in ten thousand sessions: memory, latency, paging, restart. Takes some minutes.
    Many,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.empty_handler {
        return told(handlers::serve_empty());
    }
    if let Some(dir) = &args.durable_handler {
        return told(handlers::serve_durable(dir));
    }
    let every =
        [What::InProcess, What::Sqlite, What::File, What::Http, What::Run, What::HandOver, What::History, What::Many];
    let chosen: &[What] = if args.what.is_empty() { &every } else { &args.what };
    let plan = round::Plan { turn: Duration::from_millis(args.turn_ms), rounds: args.rounds };
    println!("{}", report::machine());
    let mut code = ExitCode::SUCCESS;
    for what in chosen {
        let binary = args.fencepost.as_deref().context("name the binary with --fencepost, or use `cargo xtask bench`");
        let outcome = match what {
            What::InProcess => in_process::measure(plan),
            What::Sqlite => sqlite::measure(plan),
            What::File => file::measure(plan),
            What::History => history::measure(),
            What::Http => binary.and_then(|binary| http::measure(plan, binary)),
            What::Run => binary.and_then(|binary| run::measure(plan, binary)),
            What::HandOver => binary.and_then(|binary| hand_over::measure(plan, binary)),
            What::Many => binary.and_then(|binary| many::measure(plan, binary)),
        };
        // What comes after a failure may need nothing that this one lacked.
        if told(outcome.map(|table| println!("\n{table}"))) != ExitCode::SUCCESS {
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn told(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
