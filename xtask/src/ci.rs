//! `cargo xtask ci`: the steps in order, each announced and timed, the first failure the last step.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    command::{Stream, cargo, on_path, run as run_command, watch},
    fuzz,
    servers::{self, Program},
    skips::Skips,
    tidy, tools,
};

/// What a step has to tell in the summary, beyond that it passed.
type Told = Vec<String>;

struct Step {
    name: &'static str,
    run: fn(&Path, &Skips) -> Result<Told>,
}

const STEPS: &[Step] = &[
    Step { name: "format", run: format },
    Step { name: "lints", run: lints },
    Step { name: "fewer features", run: fewer_features },
    Step { name: "programs the tests need", run: programs },
    Step { name: "tests", run: tests },
    Step { name: "doc tests", run: doc_tests },
    Step { name: "fuzzing", run: fuzz::bounded },
    Step { name: "docs", run: docs },
    Step { name: "tidy", run: |root, _| Ok(vec![tidy::run(root)?]) },
    Step { name: "licences", run: licences },
];

struct Done {
    name: &'static str,
    took: Duration,
    outcome: Result<Told>,
}

/// Runs every step and prints the summary, whatever happens.
pub(crate) fn run(root: &Path) -> Result<()> {
    let skips = Skips::in_folder(&root.join("target/xtask"))?;
    let mut done = Vec::new();
    for step in STEPS {
        println!("\n=== {} ===", step.name);
        let started = Instant::now();
        let outcome = (step.run)(root, &skips);
        let failed = outcome.is_err();
        done.push(Done { name: step.name, took: started.elapsed(), outcome });
        if failed {
            break;
        }
    }
    let skipped = skips.read()?;
    println!("\n{}", summary(&done, &skipped));
    match done.into_iter().find_map(|step| step.outcome.err().map(|error| (step.name, error))) {
        Some((name, error)) => Err(error.context(format!("step `{name}` failed"))),
        None => Ok(()),
    }
}

fn summary(done: &[Done], skipped: &[String]) -> String {
    let width = STEPS.iter().map(|step| step.name.len()).max().unwrap_or_default();
    let mut text = String::from("=== summary ===\n");
    for step in done {
        let (state, told) = match &step.outcome {
            Ok(told) => ("passed", told.join("; ")),
            Err(_) => ("FAILED", String::new()),
        };
        let line = format!("{:width$}  {state}  {:>7.1} s  {told}", step.name, step.took.as_secs_f64());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for step in &STEPS[done.len()..] {
        text.push_str(&format!("{:width$}  not run\n", step.name));
    }
    let total: Duration = done.iter().map(|step| step.took).sum();
    text.push_str(&format!("{:width$}          {:>7.1} s\n", "all", total.as_secs_f64()));
    match skipped {
        [] => text.push_str("no test was skipped"),
        _ => {
            text.push_str(&format!("{} tests were skipped:\n", skipped.len()));
            text.push_str(&skipped.join("\n"));
        }
    }
    text
}

fn format(root: &Path, _: &Skips) -> Result<Told> {
    run_command(cargo(root).args(["fmt", "--all", "--check"]))?;
    run_command(cargo(root).args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    Ok(Told::new())
}

/// `--locked` here and not in the later steps: this one resolves, and a lock file that does not fit must stop the run.
fn lints(root: &Path, _: &Skips) -> Result<Told> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    run_command(cargo(root).args(arguments))?;
    Ok(Told::new())
}

/// What users build with fewer features than the tests have, as the pages show it.
fn fewer_features(root: &Path, _: &Skips) -> Result<Told> {
    let pages = [
        ["fencepost", "embedded,sqlite", "--example=rejected_write"],
        ["fencepost", "http", "--example=http_worker"],
        ["fencepost-testkit", "conformance", "--lib"],
    ];
    for [package, features, target] in pages {
        run_command(cargo(root).args(["check", "-p", package, "--no-default-features", "-F", features, target]))?;
    }
    Ok(Told::new())
}

fn programs(_: &Path, _: &Skips) -> Result<Told> {
    let mut told = servers::ensure(&[Program::Sqlite3, Program::Kill])?;
    let wishes = [Program::Nft, Program::Faketime, Program::Zsh, Program::Fish, Program::Man, Program::SystemdAnalyze];
    told.extend(servers::wish(&wishes));
    told.dedup();
    Ok(told)
}

fn tests(root: &Path, skips: &Skips) -> Result<Told> {
    let mut command = cargo(root);
    command.env(crate::skips::VARIABLE, skips.path());
    if on_path("cargo-nextest") {
        command.args(["nextest", "run", "--workspace", "--all-features", "--no-fail-fast"]);
        let told = watch(&mut command, Stream::Errors, |line| line.trim_start().starts_with("Summary ["))?;
        if told.is_empty() {
            bail!("nextest passed without saying how many tests it ran");
        }
        return Ok(told);
    }
    command.args(["test", "--workspace", "--all-features", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    counted(watch(&mut command, Stream::Output, is_result)?)
}

fn doc_tests(root: &Path, skips: &Skips) -> Result<Told> {
    let mut command = cargo(root);
    command.env(crate::skips::VARIABLE, skips.path());
    command.args(["test", "--doc", "--workspace", "--all-features"]);
    counted(watch(&mut command, Stream::Output, is_result)?)
}

fn docs(root: &Path, _: &Skips) -> Result<Told> {
    let mut command = cargo(root);
    command.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps", "--all-features"]);
    run_command(&mut command)?;
    Ok(Told::new())
}

/// Without `advisories`: their database is a clone from a host that a build machine may not reach.
fn licences(root: &Path, _: &Skips) -> Result<Told> {
    let mut deny = tools::cargo_deny(root)?;
    run_command(deny.args(["--all-features", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]))?;
    Ok(Told::new())
}

fn is_result(line: &str) -> bool {
    line.starts_with("test result:")
}

/// One line out of the many that `cargo test` writes, one per target.
fn counted(results: Vec<String>) -> Result<Told> {
    let passed: u64 = results.iter().filter_map(|line| number_before(line, " passed")).sum();
    let ignored: u64 = results.iter().filter_map(|line| number_before(line, " ignored")).sum();
    Ok(vec![format!("{passed} tests passed, {ignored} ignored")])
}

fn number_before(line: &str, word: &str) -> Option<u64> {
    let before = &line[..line.find(word)?];
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(name: &'static str, outcome: Result<Told>) -> Done {
        Done { name, took: Duration::from_millis(1500), outcome }
    }

    #[test]
    fn the_summary_names_every_step_every_failure_and_every_skip() {
        let steps = [
            done("format", Ok(vec![])),
            done("lints", Ok(vec!["three tests".into(), "one more".into()])),
            done("programs the tests need", Err(anyhow::anyhow!("broken"))),
        ];
        let text = summary(&steps, &["SKIPPED: a_test: no netns".to_owned()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + STEPS.len() + 1 + 2);
        assert!(lines[1].starts_with("format ") && lines[1].ends_with("passed      1.5 s"), "{text}");
        assert!(lines[2].ends_with("three tests; one more"), "{text}");
        assert!(lines[3].contains("FAILED"), "{text}");
        assert!(lines[4..=STEPS.len()].iter().all(|line| line.ends_with("not run")), "{text}");
        assert!(lines[1 + STEPS.len()].contains("4.5 s"), "{text}");
        assert_eq!(lines[2 + STEPS.len()..], ["1 tests were skipped:", "SKIPPED: a_test: no netns"]);
    }

    #[test]
    fn the_counts_of_all_targets_are_added() {
        let lines = vec![
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out".to_owned(),
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out".to_owned(),
        ];
        assert_eq!(counted(lines).unwrap(), ["15 tests passed, 1 ignored"]);
    }
}
