//! The demo proves something only if it fails when Fencepost is defective: each defect that it can meet is built into
//! this binary and switched on by a variable, and the demo has to notice.
//!
//! The seventh defect, an answer before the commit, shows only when the coordinator is killed between the two; the kill
//! loop of `fencepost-coordinator` catches that one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(feature = "sabotage")]

mod playing;

use playing::{demo, objects, text};
use serde_json::Value;

/// Runs the demo under a defect. The claims that were not kept.
fn broken_under(defect: &str) -> Vec<String> {
    let room = tempfile::tempdir().unwrap();
    let output = demo(room.path()).arg("--json").env("FENCEPOST_SABOTAGE", defect).output().unwrap();
    assert_eq!(output.status.code(), Some(70), "{defect} goes unnoticed\n{}", text(&output));
    let events = objects(&output);
    let finished = events.last().unwrap();
    assert_eq!(finished["passed"], false, "{}", text(&output));
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0, "files were left behind");
    let checked = finished["checked"].as_array().unwrap();
    let claim = |checked: &Value| checked["claim"].as_str().unwrap().to_owned();
    checked.iter().filter(|checked| checked["kept"] == false).map(claim).collect()
}

#[test]
fn a_fence_checked_outside_the_transaction_is_noticed() {
    let broken = broken_under("check_outside_transaction");
    assert_eq!(broken, ["no fence on acquire: A's write during B's first"]);
}

#[test]
fn an_acquire_that_does_not_advance_is_noticed() {
    let broken = broken_under("no_advance");
    assert!(broken.iter().any(|claim| claim == "fence on acquire: A's write before B's first"), "{broken:?}");
    assert!(broken.iter().any(|claim| claim == "fence on acquire: updates lost"), "{broken:?}");
}

#[test]
fn a_table_without_its_guard_is_noticed() {
    let broken = broken_under("guard_dropped");
    assert!(broken.iter().filter(|claim| *claim == "plain SQL without a token").count() >= 3, "{broken:?}");
}

#[test]
fn a_receiver_that_refuses_an_equal_token_is_noticed() {
    let broken = broken_under("equal_token_refused");
    assert!(broken.iter().any(|claim| claim == "another operation, equal token"), "{broken:?}");
}

#[test]
fn a_receiver_that_looks_at_staleness_before_its_records_is_noticed() {
    let broken = broken_under("replay_after_staleness");
    assert_eq!(broken, ["retry under a token that is stale by now"]);
}

#[test]
fn heartbeats_on_the_workers_own_runtime_are_noticed() {
    let broken = broken_under("heartbeat_on_worker_runtime");
    assert!(broken.iter().any(|claim| claim == "B asks while A's runtime is blocked"), "{broken:?}");
}

/// Else the defects would be noticed by a binary that always fails.
#[test]
fn a_defect_that_nobody_has_changes_nothing() {
    let room = tempfile::tempdir().unwrap();
    let output = demo(room.path()).env("FENCEPOST_SABOTAGE", "none_of_these").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}
