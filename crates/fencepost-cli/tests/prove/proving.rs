//! The correct service and the five with one mistake each.

use std::process::Command;

use fencepost_testkit::torture::skip;
use serde_json::Value;

use crate::bank::{ALL, Bank, of, prove, with};

fn everything(bank: &Bank, more: &[&str]) -> (i32, Value) {
    let restart = bank.restart_hook();
    let mut arguments = ALL.to_vec();
    arguments.extend(["--pause", "--restart-hook", &restart, "--rounds", "8"]);
    arguments.extend(more);
    let ran = prove(&bank.url(), &arguments);
    (ran.code.unwrap(), ran.json())
}

#[track_caller]
fn fails_exactly(kind: &str, scenarios: &[&str]) -> Value {
    let bank = Bank::start(kind);
    let (code, report) = everything(&bank, &["--absurd-token"]);
    assert_eq!(with(&report, "failed"), scenarios, "{report:#}");
    assert_eq!(with(&report, "not_tried"), ["restore"], "{report:#}");
    assert_eq!(code, 1);
    report
}

#[track_caller]
fn passes_everything(bank: &Bank) {
    let (backup, restore) = (bank.backup_hook(), bank.restore_hook("--floor $FENCEPOST_NEXT_TOKEN"));
    let hooks = ["--backup-hook", &backup, "--restore-hook", &restore, "--absurd-token"];
    let (code, report) = everything(bank, &hooks);
    assert_eq!(with(&report, "passed").len(), 19, "{report:#}");
    assert_eq!((code, report["failed"].as_u64(), report["not_tried"].as_u64()), (0, Some(0), Some(0)));
}

#[test]
fn a_correct_service_passes_every_scenario() {
    passes_everything(&Bank::start("correct"));
}

#[test]
fn a_correct_service_in_python_without_a_library_passes_every_scenario() {
    let version = Command::new("python3").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        skip("prove: the correct service in Python", "no python3");
        return;
    }
    passes_everything(&Bank::start_in_python());
}

#[test]
fn without_an_advance_it_is_only_fenced_on_first_write_and_a_second_proof_goes_on_where_the_first_ended() {
    let bank = Bank::start("correct");
    for _ in 0..2 {
        let ran = prove(&bank.url(), &[]).exits(0);
        let report = ran.json();
        assert_eq!(with(&report, "only_fenced_on_first_write"), ["late_before"], "{report:#}");
        assert_eq!(with(&report, "failed"), [] as [&str; 0]);
        assert_eq!(with(&report, "not_tried"), ["paused", "service_restart", "restore", "absurd_token"]);
    }
}

#[test]
fn a_check_outside_the_transaction_is_found_by_a_body_that_comes_late() {
    let report = fails_exactly("check_outside", &["half_sent", "concurrent"]);
    assert_eq!(of(&report, "half_sent")["kind"], "effect");
    assert!(of(&report, "half_sent")["meaning"].as_str().unwrap().contains("without looking again"));
}

#[test]
fn equality_instead_of_order_is_found_by_every_late_request() {
    let scenarios = [
        "late_after",
        "late_before",
        "half_sent",
        "concurrent",
        "paused",
        "retry_next_owner",
        "also",
        "coordinator_restart",
        "service_restart",
    ];
    let report = fails_exactly("equality", &scenarios);
    assert_eq!(of(&report, "late_after")["kind"], "effect");
    assert!(of(&report, "late_after")["fix"].as_str().unwrap().starts_with("compare by order, not by equality"));
}

#[test]
fn a_delete_without_a_token_is_found_where_it_is_named() {
    let report = fails_exactly("delete_unchecked", &["also"]);
    assert_eq!(of(&report, "also")["call"], "DELETE:/accounts/7");
    assert_eq!(of(&report, "also")["kind"], "effect");
}

#[test]
fn a_replay_after_the_staleness_check_is_found_by_whoever_has_lost_the_lease_and_the_answer() {
    let report = fails_exactly("replay_after_staleness", &["retry_late"]);
    assert_eq!(of(&report, "retry_late")["kind"], "refusal");
}

#[test]
fn a_fence_in_memory_is_found_by_a_restart() {
    let report = fails_exactly("fence_in_memory", &["service_restart"]);
    assert_eq!(of(&report, "service_restart")["kind"], "effect");
}

#[test]
fn a_restore_without_a_recovery_is_found() {
    let bank = Bank::start("correct");
    let (backup, restore) = (bank.backup_hook(), bank.restore_hook(""));
    let ran = prove(&bank.url(), &["--rounds", "1", "--backup-hook", &backup, "--restore-hook", &restore]).exits(1);
    let report = ran.json();
    assert_eq!(with(&report, "failed"), ["restore"], "{report:#}");
    assert_eq!(of(&report, "restore")["kind"], "effect");
}
