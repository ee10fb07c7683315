//! The same seed first; then what must hold, and what must be found.

use super::{Fault, Mistake, Settings, find, simulate};

const SEEDS: u64 = 32;

fn settings() -> Settings {
    Settings { length_ms: 45_000, ..Settings::default() }
}

#[test]
fn one_seed_has_one_trace() {
    for seed in 0..5 {
        let (one, other) = (simulate(seed, &settings()), simulate(seed, &settings()));
        assert_eq!(one.trace, other.trace);
        assert_eq!(one.digest, other.digest);
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
    assert_ne!(simulate(1, &settings()).trace, simulate(2, &settings()).trace);
}

/// Maps are ordered by another key in every process, and memory lies elsewhere.
#[test]
fn one_seed_has_one_trace_in_another_process_too() {
    const OTHER: &str = "FENCEPOST_SIMULATION_OTHER";
    let digest = format!("digest {:016x}", simulate(7, &settings()).digest);
    println!("{digest}");
    if std::env::var_os(OTHER).is_some() {
        return;
    }
    let mut other = std::process::Command::new(std::env::current_exe().expect("this program"));
    other.args(["--exact", "simulation::tests::one_seed_has_one_trace_in_another_process_too", "--nocapture"]);
    let told = String::from_utf8(other.env(OTHER, "1").output().expect("it runs").stdout).expect("text");
    assert!(told.contains(&digest), "{told}");
}

#[test]
fn no_promise_is_broken_and_no_update_lost_with_a_fence_on_acquire() {
    let (mut applied, mut stale) = (0, 0);
    for seed in 0..SEEDS {
        let run = simulate(seed, &settings());
        if run.is_broken(&settings()) {
            let failure = find([seed], &settings()).expect("one seed has one run").shrink();
            panic!("seed {seed}\n{failure}");
        }
        (applied, stale) = (applied + run.applied, stale + run.stale);
    }
    assert!(applied > 1_000, "the runs do something: {applied} writes applied");
    assert!(stale > 20, "and something is refused: {stale} writes");
}

/// The difference that a fence on acquire makes: without it updates are lost, and nothing else is broken.
#[test]
fn updates_are_lost_without_a_fence_on_acquire() {
    let settings = Settings { fence_on_acquire: false, workers: 6, domains: 1, ..settings() };
    let runs: Vec<_> = (0..SEEDS).map(|seed| simulate(seed, &settings)).collect();
    assert!(runs.iter().all(|run| run.violations.is_empty()));
    let lost: usize = runs.iter().map(|run| run.lost_updates).sum();
    assert!(lost > 0, "the same runs lose nothing without the fence, so they prove nothing about it");
}

/// The coordinator, the workers and the resource got wrong on purpose.
#[test]
fn every_deliberate_mistake_is_found() {
    for mistake in [
        Mistake::AnswerBeforeSync,
        Mistake::CountFromArrival,
        Mistake::NoFence,
        Mistake::FreshOperationOnRetry,
        Mistake::FreshRequestOnRetry,
        Mistake::SlowClocks,
    ] {
        let found = find(0..4 * SEEDS, &Settings { mistake: Some(mistake), ..settings() });
        let failure = found.unwrap_or_else(|| panic!("{mistake:?} was not found in {} seeds", 4 * SEEDS));
        println!("{mistake:?}: seed {}, {:?}", failure.seed, failure.run.violations.first());
    }
}

#[test]
fn a_failure_is_shrunk() {
    let found = find(0..SEEDS, &Settings { mistake: Some(Mistake::FreshRequestOnRetry), ..settings() });
    let failure = found.expect("it is found").shrink();
    assert!(failure.settings.faults.len() <= 2, "{:?}", failure.settings);
    assert!(failure.run.trace.len() < 200, "{failure}");
}

/// A grant that nobody waits for any more is given back by the client, and does not hold others up until it expires.
/// (The late copy of an acquire that was refused makes a lease that nobody gives back: it ends within one TTL.)
#[test]
fn nothing_expires_where_no_call_is_held_up_or_repeated() {
    let faults = [Fault::Drift, Fault::WallStep, Fault::Break, Fault::Collect];
    let settings = Settings { faults: faults.into(), ..settings() };
    for seed in 0..8 {
        let run = simulate(seed, &settings);
        assert_eq!((run.expired, run.lost_updates, run.violations.len()), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn without_faults_nothing_is_refused_and_nothing_expires() {
    let settings = Settings { faults: [].into(), ..settings() };
    for seed in 0..4 {
        let run = simulate(seed, &settings);
        assert_eq!((run.stale, run.expired, run.lost_updates, run.violations.len()), (0, 0, 0, 0), "seed {seed}");
        assert!(run.applied > 50);
    }
    let mistaken = Settings { mistake: Some(Mistake::UnclaimedUntold), ..settings };
    assert!(find(0..4, &mistaken).is_some(), "nobody is told of what nobody claims, and that is not found");
}
