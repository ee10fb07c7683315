//! The same seed first; then what must hold, and what must be found.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::{RequestId, lease::Record};

use super::{
    Deed, Deeds, Fault, Mistake, Settings, Stopwatch,
    digest::Digest,
    find,
    happening::{Address, Happening, Who},
    pipe::Side,
    simulate,
    world::{World, asked_under_several, findings},
};
use crate::history::{Did, Doing, Line, Report};

/// The seeds that run with every change.
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

/// Maps are ordered by another key in every process, memory lies elsewhere, and the wall clock has gone on.
///
/// Mutant: a map is gone through by its own order.
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

/// What differs in nothing but what it says has another digest.
///
/// Mutant: bytes are taken in by their number.
#[test]
fn the_digest_is_one_of_content() {
    let digest = |bytes: &[u8]| {
        let mut digest = Digest::default();
        Happening::Bytes { connection: 1, to: Side::Server, bytes: bytes.to_vec() }.tell(&mut digest);
        digest.get()
    };
    assert_eq!(digest(b"a request of one kind"), digest(b"a request of one kind"));
    assert_ne!(digest(b"a request of one kind"), digest(b"a request of one King"));
    assert_ne!(digest(b"a request of one kind"), digest(b"A request of one kind"));
    assert_ne!(digest(b"\0"), digest(b"\0\0"));
    let [one, other] = [0, 1].map(|life| {
        let mut digest = Digest::default();
        Happening::Look { who: Who::Worker(Address { worker: 0, life }) }.tell(&mut digest);
        digest.get()
    });
    assert_ne!(one, other);
}

#[test]
fn no_promise_is_broken_and_no_update_lost_with_a_fence_on_acquire() {
    let (mut deeds, stopwatch) = (Deeds::default(), Stopwatch::start());
    for seed in 0..SEEDS {
        let run = simulate(seed, &settings());
        if run.is_broken(&settings()) {
            let failure = find([seed], &settings()).expect("one seed has one run").shrink();
            panic!("seed {seed}\n{failure}");
        }
        deeds.add(&run.deeds);
    }
    // Told and not insisted on: these builds are not made for it, and others are at work on the machine.
    println!("{deeds}{}", stopwatch.pace(SEEDS * settings().length_ms));
    // What was not done once was not checked.
    assert_eq!(deeds.missing(), Vec::<&str>::new(), "{deeds}");
    assert!(deeds.of(Deed::Applied) > 1_000 && deeds.of(Deed::Stale) > 20, "{deeds}");
    assert!(deeds.of(Deed::Conflicting) > 20, "one id for two requests, often enough to matter\n{deeds}");
}

/// The difference that a fence on acquire makes: the same seeds under the same settings lose updates without it, and
/// nothing else is broken.
#[test]
fn updates_are_lost_without_a_fence_on_acquire() {
    let settings = Settings { fence_on_acquire: false, ..settings() };
    let runs: Vec<_> = (0..SEEDS).map(|seed| simulate(seed, &settings)).collect();
    assert!(runs.iter().all(|run| run.violations.is_empty()));
    let lost: usize = runs.iter().map(|run| run.lost_updates).sum();
    assert!(lost > 0, "the same runs lose nothing without the fence, so they prove nothing about it");
}

/// The coordinator, the workers and the resource got wrong on purpose, and by which finding they are told. A lost update
/// is one without a number.
#[test]
fn every_deliberate_mistake_is_found() {
    for (mistake, by) in [
        (Mistake::AnswerBeforeSync, &["I1", "I2"][..]),
        (Mistake::CountFromArrival, &["I2"]),
        (Mistake::NoFence, &["I3", "I6", "register"]),
        (Mistake::FreshOperationOnRetry, &["", "register"]),
        (Mistake::FreshRequestOnRetry, &["R1"]),
        (Mistake::SlowClocks, &["I2"]),
        (Mistake::NoFingerprint, &["I7"]),
        (Mistake::Unborn, &["I6"]),
        (Mistake::PanicInDriver, &["panic"]),
        (Mistake::PanicInCoordinator, &["panic"]),
    ] {
        let found = find(0..4 * SEEDS, &Settings { mistake: Some(mistake), ..settings() });
        let failure = found.unwrap_or_else(|| panic!("{mistake:?} was not found in {} seeds", 4 * SEEDS));
        let first = failure.run.violations.first();
        println!("{mistake:?}: seed {}, {first:?}", failure.seed);
        assert!(by.contains(&first.map_or("", |violation| violation.invariant)), "{mistake:?}: {first:?}");
    }
}

/// The margin has to pay for what two clocks differ by while a call waits, too. Clocks that differ by less than the margin
/// over one TTL, and no more was once asked of them, let a holder that has waited believe for too long.
#[test]
fn clocks_that_differ_by_less_than_the_margin_over_one_ttl_are_not_good_enough_for_a_call_that_waits() {
    let faults = [Fault::Partition, Fault::Delay].into();
    let settings = Settings { faults, workers: 6, domains: 1, ..settings() };
    let mistaken = Settings { mistake: Some(Mistake::DriftByTheTtlAlone), ..settings.clone() };
    // From a seed on that is near one that shows it.
    let failure = find(2 * SEEDS..4 * SEEDS, &mistaken).expect("it is found");
    println!("seed {}, {:?}", failure.seed, failure.run.violations.first());
    assert_eq!(failure.run.violations[0].invariant, "I2");
    assert!(!simulate(failure.seed, &settings).is_broken(&settings));
}

#[test]
fn a_failure_is_shrunk() {
    let found = find(0..SEEDS, &Settings { mistake: Some(Mistake::FreshRequestOnRetry), ..settings() });
    let failure = found.expect("it is found").shrink();
    assert!(failure.settings.faults.len() <= 2, "{:?}", failure.settings);
    assert!(failure.run.trace.len() < 200, "{failure}");
}

/// A task that panics is kept by its runtime, and a request that does is answered by the server: the run is over all the
/// same, and its story says who it was and where.
///
/// Mutant: without the hook of `Watching` the runs below go on to their end and find nothing.
#[test]
fn a_panic_in_any_task_is_a_finding_with_a_story() {
    for (mistake, whose) in [(Mistake::PanicInDriver, "W"), (Mistake::PanicInCoordinator, "the coordinator's process")]
    {
        let failure = find([1], &Settings { mistake: Some(mistake), ..settings() }).expect("it is found");
        let last = failure.run.trace.last().expect("a story");
        let (_, told) = last.split_once("ms  ").expect("a line of a trace");
        assert!(told.starts_with(whose) && told.contains(" panics: as a mistake, at "), "{told}");
        let story = failure.to_string();
        assert!(
            story.lines().last().is_some_and(|line| line.starts_with("panic: ") && line.contains(whose)),
            "{story}"
        );
    }
}

/// Mutant: what a report says is undecided is dropped.
#[test]
fn what_the_checker_cannot_decide_is_a_finding() {
    let report = Report { undecided: vec!["d1 at \"\"".to_owned()], ..Report::default() };
    let found = findings(report);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].invariant, "undecided");
}

/// Each acquire for itself: others that never arrived do not make up for it.
///
/// Mutant: all request ids are counted together and compared with all acquires.
#[test]
fn one_acquire_under_two_request_ids_is_found_however_many_others_never_came() {
    let id = |number: u8| RequestId::from_bytes([number; 16]);
    let line = |call| Line { who: Some(format!("W{call}")), ..Line::of(Did::Called(call, Doing::Acquire)) };
    let lines: Vec<Line> = (1..10).map(line).collect();
    let once = BTreeMap::from([("1".to_owned(), BTreeSet::from([id(1)])), ("3".to_owned(), BTreeSet::from([id(3)]))]);
    assert_eq!(asked_under_several(&once, &lines), None);
    let twice = BTreeMap::from([("3".to_owned(), BTreeSet::from([id(3), id(4)]))]);
    let found = asked_under_several(&twice, &lines).expect("it is found");
    assert!(found.invariant == "R1" && found.story[0].contains("W3"), "{found:?}");
    let unnamed = BTreeMap::from([(String::new(), BTreeSet::from([id(5)]))]);
    assert!(asked_under_several(&unnamed, &lines).is_some(), "an acquire that does not say which it is");
}

/// A process that is suspended stands still until its machine goes on, also when something else happens to it at that very
/// moment, first. One seed of a hundred thousand had it.
///
/// Mutant: a process stands still up to a moment, and not up to the happening that ends it.
#[test]
fn what_happens_at_the_moment_at_which_a_suspended_machine_goes_on_waits_for_it() {
    let settings = Settings { length_ms: 2_000, faults: BTreeSet::new(), ..settings() };
    let mut world = World::new(1, settings);
    let who = Who::Worker(Address { worker: 0, life: 0 });
    world.at(700_000, Happening::Look { who });
    world.stand_still(0, 700_000, true);
    let run = world.run_to_the_end();
    assert_eq!(run.violations, []);
    assert_eq!(run.deeds.of(Deed::Suspended), 1);
}

/// A break that a crash takes back has broken nothing, and its holder goes on to believe. One that has become durable has,
/// whether or not anybody was told.
///
/// Mutant: a break is written down when it is sent.
#[test]
fn a_break_is_in_the_history_when_it_is_durable_and_only_then() {
    let settings = Settings { faults: [Fault::Break, Fault::CoordinatorCrash].into(), ..settings() };
    let mut deeds = Deeds::default();
    for seed in 0..8 {
        let mut world = World::new(seed, settings.clone());
        world.live();
        let told = world.common.record().lines.iter().filter(|line| line.who.as_deref() == Some("operator")).count();
        let is_break = |record: &&Record| matches!(record, Record::LeaseBroken { .. });
        assert_eq!(told, world.machine().disk().iter().filter(is_break).count(), "seed {seed}");
        deeds.add(&world.finish().deeds);
    }
    assert!(deeds.of(Deed::BreakLost) > 0 && deeds.of(Deed::Broken) > 20, "{deeds}");
}

/// A grant that nobody waits for any more is given back by the client, and does not hold others up until it expires.
/// (The late copy of an acquire that was refused makes a lease that nobody gives back: it ends within one TTL.)
#[test]
fn nothing_expires_where_no_call_is_held_up_or_repeated() {
    let faults = [Fault::Drift, Fault::WallStep, Fault::Break, Fault::Collect];
    let settings = Settings { faults: faults.into(), ..settings() };
    for seed in 0..8 {
        let run = simulate(seed, &settings);
        let expired = run.deeds.of(Deed::Expired);
        assert_eq!((expired, run.lost_updates, run.violations.len()), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn without_faults_nothing_is_refused_and_nothing_expires() {
    let settings = Settings { faults: [].into(), ..settings() };
    for seed in 0..4 {
        let run = simulate(seed, &settings);
        let (stale, expired) = (run.deeds.of(Deed::Stale), run.deeds.of(Deed::Expired));
        assert_eq!((stale, expired, run.lost_updates, run.violations.len()), (0, 0, 0, 0), "seed {seed}");
        assert!(run.deeds.of(Deed::Applied) > 50);
    }
    let mistaken = Settings { mistake: Some(Mistake::UnclaimedUntold), ..settings };
    assert!(find(0..SEEDS, &mistaken).is_some(), "nobody is told of what nobody claims, and that is not found");
}
