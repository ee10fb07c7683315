//! The same seed first; then what must hold, and what must be found.

use super::{Fault, Mistake, Settings, find, simulate};

const SEEDS: u64 = 40;

fn settings() -> Settings {
    Settings { length_ms: 20_000, ..Settings::default() }
}

#[test]
fn one_seed_has_one_trace() {
    for seed in 0..5 {
        let (one, other) = (simulate(seed, &settings()), simulate(seed, &settings()));
        assert_eq!(one.trace, other.trace);
        assert_eq!(format!("{one:?}"), format!("{other:?}"));
    }
    assert_ne!(simulate(1, &settings()).trace, simulate(2, &settings()).trace);
}

#[test]
fn no_promise_is_broken_and_no_update_lost_with_a_fence_on_acquire() {
    let (mut applied, mut stale) = (0, 0);
    for seed in 0..SEEDS {
        let run = simulate(seed, &settings());
        if run.is_broken(&settings()) {
            let failure = find([seed], &settings()).expect("one seed has one run");
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

#[test]
fn every_deliberate_mistake_is_found() {
    for mistake in
        [Mistake::AnswerBeforeSync, Mistake::CountFromArrival, Mistake::NoFence, Mistake::FreshOperationOnRetry]
    {
        let failure = find(0..2 * SEEDS, &Settings { mistake: Some(mistake), length_ms: 10_000, ..settings() });
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} was not found in {} seeds", 2 * SEEDS));
        assert!(failure.settings.faults.len() < Fault::ALL.len(), "{mistake:?} was not shrunk: {:?}", failure.settings);
        println!("{mistake:?}: seed {}, {:?}", failure.seed, failure.settings);
    }
}

#[test]
fn without_faults_nothing_is_refused() {
    let settings = Settings { faults: [].into(), ..settings() };
    let run = simulate(1, &settings);
    assert_eq!((run.stale, run.lost_updates, run.violations.len()), (0, 0, 0));
    assert!(run.applied > 50);
}
