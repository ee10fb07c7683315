//! Torture: the real server, worker processes that write through the real client and every receiver that processes can
//! share, and a nemesis that stops, kills, cuts off, fills disks and steps clocks.
//!
//! `cargo xtask torture --for 10m` runs it for longer; [`as_long_as_asked`] is what that calls.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod arena;
mod binary;
mod clock;
mod copying;
mod gates;
mod losing;
mod nemesis;
mod noted;
mod rights;
mod scenes;
mod sessions;
mod subject;
mod worker;

use std::{
    env,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arena::{Mistake, Orders, torture};
use fencepost_testkit::torture::{Discipline, Kind, Verdict, skip};

/// Every kind of fault, and a scene for every kind of set.
fn everything(seed: u64) -> Orders {
    Orders {
        seed,
        workers: 5,
        chaos_blocks: 8,
        overtakes: (0..6).collect(),
        races: vec![0, 1],
        kills: vec![2],
        losses: vec![2],
        copy_back: true,
        mistake: None,
        only_the_clock: false,
        defect: None,
        aloud: false,
    }
}

/// A good run: nothing was broken, and the attack bit where there was no fence.
#[track_caller]
fn insist(verdict: &Verdict) {
    assert!(verdict.broken.is_empty(), "a promise was broken\n{verdict}");
    assert_eq!(verdict.lost_under(Discipline::FencedOnAcquire), 0, "{verdict}");
    if let Some(why) = verdict.proves_nothing() {
        panic!("the run proves nothing: {why}\n{verdict}");
    }
    insist_on_the_deeds(verdict);
    // The guard's own words, at the end of every run, when nothing else can keep an intruder off.
    assert!(verdict.notes.of("intruder refused") >= 1, "nobody has tried the guard\n{verdict}");
}

/// What the machine must let the nemesis do for deeds of this kind, by the name that a skip of it has.
const fn right_to(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::RequestsDropped | Kind::AnswersDropped | Kind::BothDropped => Some("packets dropped by nftables"),
        Kind::ClockStepped => Some("wall clock stepped"),
        Kind::ServersDiskFilled | Kind::ResourcesDiskFilled => Some("full disks"),
        Kind::ServerStopped
        | Kind::WorkerStopped
        | Kind::ServerKilled
        | Kind::WorkerKilled
        | Kind::ConnectionsCut
        | Kind::RequestsDelayed
        | Kind::AnswersDelayed
        | Kind::RequestsRepeated
        | Kind::AnswersLost
        | Kind::RequestsSwallowed
        | Kind::Intrusion => None,
    }
}

/// Each kind of deed was done, or could not be here and was skipped by name.
///
/// Mutant: the nemesis does not count, or does not do, one of them.
#[track_caller]
fn insist_on_the_deeds(verdict: &Verdict) {
    let is_skipped = |kind: Kind| right_to(kind).is_some_and(|right| verdict.skipped.contains_key(right));
    let not_done = |kind: &&Kind| verdict.deeds.of(kind.as_str()) == 0 && !is_skipped(**kind);
    let missing: Vec<&str> = Kind::ALL.iter().filter(not_done).map(|kind| kind.as_str()).collect();
    assert!(missing.is_empty(), "not done once, and not skipped: {missing:?}\n{verdict}");
}

/// Everything that was to be attacked was attacked. A machine that does not let the nemesis do all that it can may be one on
/// which a scene does not come off either: it is a skip then, with its name.
#[track_caller]
fn insist_on_the_scenes(verdict: &Verdict) {
    let scenes = ["overtake", "neck and neck", "kill in the act", "lose the store", "copy back and recover"];
    let played = scenes.map(|scene| (format!("scene: {scene}"), verdict.deeds.of(&format!("scene: {scene}"))));
    let refused = [worker::OLDER_REFUSED, losing::LOST_EPOCH_REFUSED, losing::UNTOLD_EPOCH_REFUSED];
    let refused = refused.map(|note| (note.to_owned(), verdict.notes.of(note)));
    let missing: Vec<String> =
        played.into_iter().chain(refused).filter(|(_, count)| *count == 0).map(|it| it.0).collect();
    if missing.is_empty() {
        return;
    }
    assert!(!verdict.skipped.is_empty(), "not once in the whole run: {missing:?}\n{verdict}");
    missing
        .iter()
        .for_each(|what| skip(&format!("torture: {what}"), "it did not come off, on a machine with fewer rights"));
}

/// Mutants: the defects below, each of which this run would notice; workers that never ask for something else under an
/// operation id that is in use, without whom the run proves nothing.
#[test]
fn no_stale_write_lands_and_no_update_is_lost_whatever_the_nemesis_does() {
    let verdict = torture(&everything(20_261_129));
    insist(&verdict);
    insist_on_the_scenes(&verdict);
    eprintln!("{verdict}");
}

/// Else the runs above might pass because nobody looks at the wall clock's jumps.
#[test]
fn a_wall_clock_that_jumps_neither_ends_nor_prolongs_a_lease() {
    let verdict = torture(&Orders { only_the_clock: true, ..everything(1) });
    assert!(verdict.broken.is_empty(), "{verdict}");
    assert!(
        verdict.deeds.of("wall clock stepped") > 5 || verdict.skipped.contains_key("wall clock stepped"),
        "{verdict}"
    );
}

/// What `cargo xtask torture` runs: round after round from fresh seeds. Without its variable there is nothing to do.
#[test]
fn as_long_as_asked() {
    let Ok(seconds) = env::var("FENCEPOST_TORTURE_SECONDS") else { return };
    let (seconds, began) = (seconds.parse().unwrap(), Instant::now());
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let first: u64 = env::var("FENCEPOST_TORTURE_SEED").map_or(drawn, |seed| seed.parse().unwrap());
    let mut all = Verdict { seed: first, ..Verdict::default() };
    let mut rounds = 0;
    while rounds == 0 || began.elapsed() < Duration::from_secs(seconds) {
        let seed = first + rounds;
        eprintln!("round {}: seed {seed}; again: cargo xtask torture --for 1s --seed {seed}", rounds + 1);
        let verdict = torture(&Orders { aloud: true, ..everything(seed) });
        insist(&verdict);
        all.add(verdict);
        rounds += 1;
    }
    insist_on_the_scenes(&all);
    eprintln!("{rounds} rounds in {} s\n{all}", began.elapsed().as_secs());
}

/// Ways to bring a coordinator back that no page allows. That the run above passes shows nothing unless these fail.
mod mistakes {
    use super::*;

    /// Beginning again may take longer than somebody goes on believing, on a busy machine: it is tried more than once.
    #[track_caller]
    fn is_found(mistake: Mistake, what: &str) {
        for attempt in 1..=5 {
            let verdict = torture(&Orders { losses: vec![2; 2], mistake: Some(mistake), ..nothing() });
            if mistake == Mistake::OlderCopy && verdict.skipped.contains_key("wall clock stepped") {
                return;
            }
            if verdict.broken.iter().any(|broken| broken.contains(what)) {
                return;
            }
            assert!(attempt < 5, "{mistake:?} goes unnoticed\n{verdict}");
        }
    }

    #[test]
    fn a_coordinator_that_begins_again_in_the_epoch_that_was_lost_is_noticed() {
        is_found(Mistake::SameEpoch, "I1: ");
    }

    #[test]
    fn a_coordinator_that_begins_again_while_somebody_believes_is_noticed() {
        is_found(Mistake::TooEarly, "two leases were held");
    }

    #[test]
    fn a_receiver_that_is_told_of_the_epoch_and_of_no_floor_is_noticed() {
        is_found(Mistake::NoFloor, "I11: ");
    }

    /// With the clock right, what a start pushes the sequence by would save it: nothing that anybody may count on. So it
    /// takes a clock that can be stepped, and is skipped with that where there is none.
    #[test]
    fn an_older_copy_of_the_store_that_is_served_again_is_noticed() {
        is_found(Mistake::OlderCopy, "I1: ");
    }
}

fn nothing() -> Orders {
    Orders {
        overtakes: Vec::new(),
        races: Vec::new(),
        kills: Vec::new(),
        losses: Vec::new(),
        copy_back: false,
        chaos_blocks: 1,
        ..everything(1)
    }
}

/// The deliberate defects that a run shows. One does not show here: heartbeats on the worker's own runtime cost leases and
/// no promise, which the demo measures.
#[cfg(feature = "sabotage")]
mod defects {
    use super::*;

    #[track_caller]
    fn is_found(defect: &str, orders: Orders, what: &str) {
        let verdict = torture(&Orders { defect: Some(defect.to_owned()), ..orders });
        assert!(verdict.broken.iter().any(|broken| broken.contains(what)), "{defect} goes unnoticed\n{verdict}");
    }

    #[test]
    fn an_acquire_that_does_not_advance_is_noticed() {
        is_found("no_advance", Orders { overtakes: vec![0, 1], ..nothing() }, "lost update");
    }

    #[test]
    fn a_row_checked_outside_the_transaction_is_noticed() {
        is_found("check_outside_transaction", Orders { races: vec![0; 6], ..nothing() }, "no order");
    }

    #[test]
    fn a_grant_that_leaves_before_the_commit_is_noticed() {
        is_found("reply_before_fsync", Orders { kills: [2, 3].repeat(4), ..nothing() }, "two leases were held");
    }

    #[test]
    fn a_receiver_that_refuses_an_equal_token_is_noticed() {
        is_found("equal_token_refused", Orders { chaos_blocks: 2, ..nothing() }, "a rightful holder was refused");
    }

    #[test]
    fn a_receiver_that_looks_at_staleness_before_its_records_is_noticed() {
        is_found("replay_after_staleness", Orders { chaos_blocks: 4, ..nothing() }, "stale");
    }

    #[test]
    fn a_receiver_that_takes_another_request_under_an_id_for_a_retry_is_noticed() {
        is_found("fingerprint_ignored", Orders { chaos_blocks: 4, ..nothing() }, "I7");
    }

    #[test]
    fn a_table_without_its_guard_is_noticed() {
        is_found("guard_dropped", nothing(), "a write without a token was not refused");
    }
}
