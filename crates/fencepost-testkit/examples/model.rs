//! Explores every model and prints what it came to: `cargo run -p fencepost-testkit --example model`.
//!
//! `--deep` widens the bounds of the rules as they are (minutes, and gigabytes of memory); `--seconds=N` gives up each of
//! them after that time and says so; `--stories` prints the shortest story of every mutant; further words choose the studies
//! whose names contain one of them.

use std::{process::ExitCode, time::Duration};

use fencepost_testkit::model::{Bounds, Line, studies};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (flags, names): (Vec<&String>, Vec<&String>) = words.iter().partition(|word| word.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| *given == flag);
    let bounds = if has("--deep") { Bounds::Deep } else { Bounds::Standard };
    let seconds = flags.iter().find_map(|flag| flag.strip_prefix("--seconds="));
    let time = seconds.map(|seconds| Duration::from_secs(seconds.parse().expect("--seconds=N, in whole seconds")));
    let mut failed = false;
    for study in studies() {
        let title = study.to_string();
        if !names.is_empty() && !names.iter().any(|name| title.contains(name.as_str())) {
            continue;
        }
        let explored = study.explore_for(bounds, time);
        println!("{}", Line(&study, &explored));
        if let Some(found) = explored.counterexample.as_ref().filter(|_| has("--stories")) {
            println!("{found}\n");
        }
        if let Err(why) = study.judge(&explored) {
            println!("{why}\n");
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}
