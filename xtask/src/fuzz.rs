//! `cargo xtask fuzz`: programs of every parser and of the decision, instrumented, that are given inputs a machine makes
//! up. No tool beyond the Rust toolchain and a C++ compiler, which libFuzzer is built with.

use std::{
    fmt, fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
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
    "mirror",
    "file",
];

/// Targets, and for each a defect that it has to find, or it would find nothing.
const TEETH: &[(&str, &str)] = &[
    ("decision", "equal_token_refused"),
    ("decision", "replay_after_staleness"),
    ("decision", "guard_dropped"),
    ("decision", "replay_raises_nothing"),
    ("decision", "horizon_ignored"),
    ("mirror", "equal_token_refused"),
    ("file", "no_advance"),
    ("file", "replay_raises_nothing"),
    ("guard", "other_domain_accepted"),
    ("store", "damage_taken_for_absence"),
    ("damaged", "damage_taken_for_absence"),
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

/// As many at a time as there are cores, so that none takes longer than alone. All of them, also where one has failed.
fn attack_all(root: &Path, amount: Amount, targets: &[&str]) -> Result<Vec<String>> {
    let programs = build(root)?;
    let attacks = targets.iter().map(|&target| Job { target, defect: None });
    let teeth = TEETH.iter().filter(|(target, _)| targets.contains(target));
    let teeth: Vec<_> = teeth.map(|&(target, defect)| Job { target, defect: Some(defect) }).collect();
    let said = format!("{} targets, and {} defects that were found", targets.len(), teeth.len());
    let jobs: Vec<_> = attacks.chain(teeth).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match job.run(root, &programs, amount) {
                Ok(line) => println!("{line}"),
                Err(error) => {
                    println!("{error:#}");
                    failed.lock().expect("nobody panics while it holds this").push(job.to_string());
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("nobody panics while it holds this");
    ensure!(failed.is_empty(), "failed, as told above: {}; inputs lie in {}", failed.join(", "), found(root).display());
    Ok(vec![said])
}

/// A run of a target. Under a defect it has to fail.
struct Job<'a> {
    target: &'a str,
    defect: Option<&'a str>,
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.defect {
            None => f.write_str(self.target),
            Some(defect) => write!(f, "{} under {defect}", self.target),
        }
    }
}

impl Job<'_> {
    /// How it went, in one line; the error has all that was told.
    fn run(&self, root: &Path, programs: &Path, amount: Amount) -> Result<String> {
        let mut command = self.command(root, programs, amount)?;
        let started = Instant::now();
        let outcome = command.output().with_context(|| format!("{self} does not start"))?;
        let took = started.elapsed().as_secs_f32();
        let told = String::from_utf8_lossy(&outcome.stderr);
        // By an input, and not by what it takes before the first one.
        let is_found =
            !outcome.status.success() && told.contains("panicked at") && told.contains("Test unit written to");
        let whole = |what: &str| format!("{self}: {what}, {}\n$ {command:?}\n{told}", outcome.status);
        match self.defect {
            None if outcome.status.success() => {
                let inputs = told.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
                Ok(format!("{self}: {} inputs in {took:.1} s", inputs.map_or("no", str::trim)))
            }
            None => bail!(whole("it has failed")),
            Some(_) if is_found => Ok(format!("{self}: found in {took:.1} s")),
            Some(_) => bail!(whole("the defect was not found")),
        }
    }

    fn command(&self, root: &Path, programs: &Path, amount: Amount) -> Result<Command> {
        let (found, name) = (found(root), self.to_string().replace(' ', "-"));
        // A folder of its own, for runs at the same time.
        let fresh = found.join(&name);
        let mut command = Command::new(programs.join(self.target));
        command.args(["-max_len=4096", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]);
        command.arg(format!("-artifact_prefix={}/{name}-", found.display()));
        match (amount, self.defect) {
            (Amount::Seconds(seconds), None) => command.arg(format!("-max_total_time={seconds}")),
            (Amount::Bounded, _) | (Amount::Seconds(_), Some(_)) => {
                // Nothing is kept of what an earlier run has found: it is the same every time.
                if fresh.exists() {
                    fs::remove_dir_all(&fresh)?;
                }
                command.args(["-seed=1", "-runs=20000", "-max_total_time=3"])
            }
        };
        fs::create_dir_all(&fresh)?;
        // What is new goes into the first folder: nothing is added to what lies in the repository.
        command.arg(fresh).arg(root.join("fuzz/corpus").join(self.target));
        match self.defect {
            None => command.env_remove("FENCEPOST_SABOTAGE"),
            Some(defect) => command.env("FENCEPOST_SABOTAGE", defect),
        };
        Ok(command)
    }
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

    #[test]
    fn every_target_first_shows_that_it_takes_what_it_has_to() {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/targets");
        for target in TARGETS {
            let program = fs::read_to_string(programs.join(format!("{target}.rs"))).unwrap();
            assert!(program.contains(&format!("(init: fencepost_fuzz::taken::{target}(), ")), "{program}");
        }
    }

    #[test]
    fn every_defect_is_of_a_target() {
        for (target, defect) in TEETH {
            assert!(TARGETS.contains(target), "{defect} is to be found by `{target}`");
        }
    }
}
