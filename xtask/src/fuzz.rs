//! `cargo xtask fuzz`: programs of every parser and of the decision, instrumented, that are given inputs a machine makes
//! up. No tool beyond the Rust toolchain and a C++ compiler, which libFuzzer is built with.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    command::{cargo, on_path, output, run},
    servers::{self, Program},
    skips::Skips,
};

/// What is attacked, each by a program of this name in `fuzz/targets`.
const TARGETS: &[&str] = &[
    "names",
    "addresses",
    "typed",
    "command",
    "wire",
    "http",
    "calls",
    "events",
    "answer",
    "relay",
    "history",
    "log",
    "store",
    "rows",
    "damaged",
    "sidecar",
    "expression",
    "guard",
    "decision",
    "file",
];

/// Targets, and for each a defect that it has to find, or it would find nothing.
const TEETH: &[(&str, &str)] = &[
    ("decision", "equal_token_refused"),
    ("decision", "replay_after_staleness"),
    ("decision", "guard_dropped"),
    ("decision", "replay_raises_nothing"),
    ("decision", "horizon_ignored"),
    ("file", "no_advance"),
    ("file", "replay_raises_nothing"),
    ("guard", "other_domain_accepted"),
];

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
    /// Fresh inputs for this many seconds; what reaches something new is kept beside the build.
    Seconds(u64),
}

/// Attacks all targets, or the one that is named.
pub(crate) fn fuzz(root: &Path, amount: Amount, only: Option<&str>) -> Result<Vec<String>> {
    let targets: Vec<&str> = TARGETS.iter().copied().filter(|target| only.is_none_or(|only| only == *target)).collect();
    ensure!(!targets.is_empty(), "no such target; there are: {}", TARGETS.join(", "));
    servers::ensure(&[Program::Cxx])?;
    attack_all(root, amount, &targets)
}

/// The bounded run of every target. Where there is no C++ compiler, and none can be installed, it is a skip with its name:
/// the tests need a C compiler only.
pub(crate) fn bounded(root: &Path, skips: &Skips) -> Result<Vec<String>> {
    if let Err(why) = servers::ensure(&[Program::Cxx]) {
        skips.note("fuzzing", &format!("{why:#}"))?;
        return Ok(vec!["skipped for want of a C++ compiler".to_owned()]);
    }
    attack_all(root, Amount::Bounded, TARGETS)
}

fn attack_all(root: &Path, amount: Amount, targets: &[&str]) -> Result<Vec<String>> {
    let programs = build(root)?;
    for target in targets {
        run(&mut attack(root, &programs, target, amount)?).with_context(|| {
            format!("`{target}` failed: the input lies in {}, and the run above says how", found(root).display())
        })?;
    }
    let teeth: Vec<_> = TEETH.iter().filter(|(target, _)| targets.contains(target)).collect();
    for (target, defect) in &teeth {
        bite(root, &programs, target, defect)?;
    }
    Ok(vec![format!("{} targets, and {} defects that were found", targets.len(), teeth.len())])
}

/// A run that must fail: the same target under a defect.
fn bite(root: &Path, programs: &Path, target: &str, defect: &str) -> Result<()> {
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
    let target = host()?;
    let folder = root.join("target/fuzz");
    let mut command = cargo(root);
    command.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", &target]);
    command.env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", INSTRUMENTED);
    if on_path("clippy-driver") {
        // The compiler of this workspace's own code, so that its lints cost no second look at what it depends on.
        command.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    }
    run(&mut command)?;
    Ok(folder.join(target).join("release"))
}

/// The machine that this toolchain builds for, named to cargo: only then the flags stay away from build scripts.
fn host() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
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
            command.args(["-seed=1", "-runs=20000", "-max_total_time=3"]);
            command.arg(&fresh).arg(&corpus);
        }
        Amount::Seconds(seconds) => {
            command.arg(format!("-max_total_time={seconds}")).arg(&fresh).arg(&corpus);
        }
    }
    command.env_remove("FENCEPOST_SABOTAGE");
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_has_a_program_and_a_saved_corpus_and_every_program_is_a_target() {
        let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
        let programs = fs::read_dir(fuzz.join("targets")).unwrap();
        let programs: BTreeSet<String> =
            programs.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(programs, TARGETS.iter().map(|target| (*target).to_owned()).collect());
        for target in TARGETS {
            let saved = fs::read_dir(fuzz.join("corpus").join(target)).map_or(0, Iterator::count);
            assert!(saved > 0, "`{target}` has no saved corpus");
        }
    }
}
