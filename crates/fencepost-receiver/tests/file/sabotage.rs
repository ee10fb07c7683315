//! Deliberate defects in child processes: each must show, and without it the same story must hold.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crate::{
    children::{Running, name_of},
    support::{Guarded, in_memory},
};

const SABOTAGE: &str = "FENCEPOST_SABOTAGE";

fn told(role: &str, defect: &str) -> String {
    let file = Guarded::new();
    Running::with(file.path(), role, &[(SABOTAGE, defect)]).said().join(" ")
}

#[test]
fn a_second_write_of_one_owner_shows_an_equal_token_refused() {
    let story = "write:0.5:a write:0.5:b";
    assert_eq!(told(story, "none"), "applied applied");
    assert_ne!(told(story, "equal_token_refused"), "applied applied");
}

#[test]
fn a_retry_after_the_next_owner_shows_staleness_before_replay() {
    let story = "operation:0.5:x advance:0.6 operation:0.5:x";
    assert_eq!(told(story, "none"), "applied applied replayed");
    assert_ne!(told(story, "replay_after_staleness"), "applied applied replayed");
}

#[test]
fn a_late_write_after_an_advance_shows_that_none_was_made() {
    let story = "advance:0.6 write:0.5:late";
    assert_eq!(told(story, "none"), "applied stale");
    assert_ne!(told(story, "no_advance"), "applied stale");
}

/// Four processes whose tokens rise, and somebody who only looks: the file never goes back to an older token.
fn race(defect: &str) -> Result<(), String> {
    let file = Guarded::under(&in_memory());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut greatest = 0;
            while !done.load(Ordering::Acquire) {
                let Some(name) = name_of(&fs::read(file.path()).unwrap()) else { continue };
                let now: u64 = name.parse().unwrap();
                if now < greatest {
                    return Err(format!("{now} after {greatest}"));
                }
                greatest = now;
            }
            Ok(())
        });
        let writers: Vec<_> = (0..4).map(|_| Running::with(file.path(), "rising:150", &[(SABOTAGE, defect)])).collect();
        let ends: Vec<_> = writers.into_iter().map(Running::ended).collect();
        done.store(true, Ordering::Release);
        let watched = watcher.join().unwrap();
        if let Some((said, status)) = ends.iter().find(|(_, status)| !status.success()) {
            return Err(format!("{status} after {:?}", said.last()));
        }
        watched
    })
}

/// Mutant: the sidecar read before the lock is taken.
#[test]
fn rising_tokens_in_four_processes_show_a_fence_read_before_the_lock() {
    race("none").unwrap();
    // One race may miss it.
    assert!((0..20).any(|_| race("check_outside_transaction").is_err()), "the defect was never seen");
}
