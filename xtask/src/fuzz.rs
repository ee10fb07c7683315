//! `cargo xtask fuzz`: programs of every parser and of the decision, instrumented, that are given inputs a machine makes
//! up. No tool beyond the Rust toolchain and a C++ compiler, which libFuzzer is built with.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    command::{cargo, run},
    servers::{self, Program},
};

/// What is attacked, each by a program of this name in `fuzz/targets`.
const TARGETS: &[&str] = &["names", "wire", "history", "log", "sidecar", "expression", "decision"];

/// The target of the decision, and a defect that it has to find, or it would find nothing.
const TEETH: (&str, &str) = ("decision", "equal_token_refused");

/// Counters at every edge and at every comparison, which is what libFuzzer steers by.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                            -Cllvm-args=-sanitizer-coverage-pc-table \
                            -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// How long each target is attacked.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// The saved corpus and as many inputs again, always the same: for every change.
    Bounded,
    /// Fresh inputs for this many seconds; what is new is added to the corpus.
    Seconds(u64),
}

/// Attacks all targets, or the one that is named.
pub(crate) fn fuzz(root: &Path, amount: Amount, only: Option<&str>) -> Result<Vec<String>> {
    let targets: Vec<&str> = TARGETS.iter().copied().filter(|target| only.is_none_or(|only| only == *target)).collect();
    ensure!(!targets.is_empty(), "no such target; there are: {}", TARGETS.join(", "));
    servers::ensure(&[Program::Cxx])?;
    let programs = build(root)?;
    for target in &targets {
        run(&mut attack(root, &programs, target, amount)?).with_context(|| {
            format!("`{target}` failed: the input lies in {}, and the run above says how", found(root).display())
        })?;
    }
    if targets.contains(&TEETH.0) {
        bite(root, &programs)?;
    }
    Ok(vec![format!("{} targets, and a defect that was found", targets.len())])
}

/// A run that must fail: the same target under a defect.
fn bite(root: &Path, programs: &Path) -> Result<()> {
    let (target, defect) = TEETH;
    let mut command = attack(root, programs, target, Amount::Bounded)?;
    command.env("FENCEPOST_SABOTAGE", defect).arg(format!("-artifact_prefix={}/defect-", found(root).display()));
    println!("$ {command:?}");
    let outcome = command.output().context("the target does not start")?;
    let told = String::from_utf8_lossy(&outcome.stderr);
    if outcome.status.success() || !told.contains("panicked at") {
        bail!("`{target}` did not find the defect `{defect}`: {}\n{told}", outcome.status);
    }
    Ok(())
}

fn build(root: &Path) -> Result<PathBuf> {
    let target = "x86_64-unknown-linux-gnu";
    let folder = root.join("target/fuzz");
    let mut command = cargo(root);
    command.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", target]);
    command.env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", INSTRUMENTED);
    run(&mut command)?;
    Ok(folder.join(target).join("release"))
}

fn found(root: &Path) -> PathBuf {
    root.join("target/fuzz/found")
}

fn attack(root: &Path, programs: &Path, target: &str, amount: Amount) -> Result<Command> {
    let corpus = root.join("fuzz/corpus").join(target);
    let fresh = found(root).join(target);
    fs::create_dir_all(&fresh)?;
    let mut command = Command::new(programs.join(target));
    command.args(["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-artifact_prefix={}/{target}-", found(root).display()));
    match amount {
        Amount::Bounded => {
            // One folder: nothing is added to what lies in the repository.
            fs::remove_dir_all(&fresh)?;
            fs::create_dir_all(&fresh)?;
            command.args(["-seed=1", "-runs=20000", "-max_total_time=15"]);
            command.arg(&fresh).arg(&corpus);
        }
        Amount::Seconds(seconds) => {
            command.arg(format!("-max_total_time={seconds}")).arg(&fresh).arg(&corpus);
        }
    }
    command.env_remove("FENCEPOST_SABOTAGE");
    Ok(command)
}

/// Keeps of old and new inputs what is needed to reach everything that they reach.
pub(crate) fn minimise(root: &Path) -> Result<()> {
    let programs = build(root)?;
    for target in TARGETS {
        let corpus = root.join("fuzz/corpus").join(target);
        let small = root.join("target/fuzz/small").join(target);
        let _ = fs::remove_dir_all(&small);
        fs::create_dir_all(&small)?;
        let mut command = Command::new(programs.join(target));
        run(command.arg("-merge=1").arg(&small).arg(&corpus).arg(found(root).join(target)))?;
        fs::remove_dir_all(&corpus)?;
        fs::rename(&small, &corpus)?;
    }
    Ok(())
}
