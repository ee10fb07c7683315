//! Lost, damaged, copied and restored files beside the file: closed, until a recovery has learnt what is live.

use std::fs;

use fencepost_core::{
    Epoch,
    fence::{Closure, RejectedBy, Rejection, Verdict},
};
use fencepost_receiver::{
    ReceiverSeed, Seen,
    file::{FileReceiver, MaintenanceError},
};

use crate::support::{Guarded, content, domain, grant, live, operation, rejected, seed, stale, token};

fn closed(file: &Guarded) -> Closure {
    let before = file.dump();
    let verdicts = [file.write("0.8", b"x"), file.write("0.10", b"x")];
    let advance = rejected(&file.receiver.advance_blocking(&grant("0.10")).unwrap());
    assert_eq!(file.dump(), before, "a closed receiver changes nothing");
    match verdicts.iter().map(rejected).chain([advance]).collect::<Vec<_>>().as_slice() {
        [Some(Rejection::Closed(a)), Some(Rejection::Closed(b)), Some(Rejection::Closed(c))] if a == b && b == c => *a,
        other => panic!("{other:?}"),
    }
}

/// Recovers with 0.11 as the coordinator's next token and a live lease at 0.10, then shows what is accepted.
fn assert_recovers(file: &Guarded) {
    let noted = file.receiver.incarnation().unwrap();
    let seed = seed().with_snapshot(token("0.11"), vec![live("f", "0.10"), live("g", "0.3")]);
    let recovered = file.receiver.recover(&domain("f"), &noted, &seed).unwrap();
    assert!(recovered.refused.is_empty());
    assert_ne!(recovered.incarnation.recovery, noted.recovery);
    assert_eq!(rejected(&file.write("0.9", b"x")), Some(stale("0.9", "0.10", RejectedBy::Fence)));
    assert_eq!(file.write("0.10", b"ten"), Verdict::Applied(content(b"ten")));
    let again = file.receiver.incarnation().unwrap();
    file.receiver.recover(&domain("f"), &again, &seed).unwrap();
    assert_eq!(file.write("0.10", b"again"), Verdict::Applied(content(b"again")));
}

/// I11. Mutants: `least_accepted` gives the seed's floor alone, or `collect` raises none; the file's own fence lets a token
/// of the lost epoch pass.
#[test]
fn a_read_of_a_coordinator_in_a_later_epoch_ends_the_earlier_ones() {
    let collected = Guarded::new();
    assert_eq!(collected.write("0.5", b"a"), Verdict::Applied(content(b"a")));
    collected.receiver.collect(token("2.7"), &[live("f", "2.3")], None).unwrap();
    assert_eq!(rejected(&collected.write("0.9", b"x")), Some(stale("0.9", "2.0", RejectedBy::Floor)));

    let file = Guarded::new();
    assert_eq!(file.write("0.5", b"a"), Verdict::Applied(content(b"a")));
    let later = ReceiverSeed::new(seed().issuer, Epoch::new(2).unwrap());
    // By hand and without a floor, which ends nothing; the read that comes after does.
    file.receiver.guard(&domain("f"), Some(&later)).unwrap();
    assert_eq!(file.write("0.6", b"a"), Verdict::Applied(content(b"a")));
    file.receiver.guard(&domain("f"), Some(&later.clone().with_snapshot(token("2.7"), Vec::new()))).unwrap();
    for lost in ["0.5", "0.9", "1.9"] {
        assert_eq!(rejected(&file.write(lost, b"x")), Some(stale(lost, "2.0", RejectedBy::Floor)));
    }
    assert_eq!(file.write("2.8", b"b"), Verdict::Applied(content(b"b")));
    file.receiver.guard(&domain("f"), Some(&later.with_snapshot(token("2.9"), Vec::new()))).unwrap();
    assert_eq!(file.write("2.8", b"c"), Verdict::Applied(content(b"c")), "a read of the same epoch ends nobody");
}

#[test]
fn a_raise_that_was_acknowledged_is_there_for_the_next_process() {
    let file = Guarded::new();
    let _ = file.write("0.9", b"nine");
    let next = FileReceiver::new(file.path());
    let verdict = next.write(&grant("0.8"), None, &b"x"[..]).unwrap();
    assert_eq!(rejected(&verdict), Some(stale("0.8", "0.9", RejectedBy::Fence)));
    assert!(matches!(next.write(&grant("0.10"), None, &b"x"[..]).unwrap(), Verdict::Applied(_)));
}

#[test]
fn a_sidecar_that_is_gone_is_missed() {
    let file = Guarded::new();
    let _ = file.write("0.9", b"nine");
    fs::remove_file(file.beside("fence")).unwrap();
    assert_eq!(closed(&file), Closure::MetadataMissing);
    let error = file.receiver.guard(&domain("f"), Some(&seed())).unwrap_err();
    assert!(matches!(error, MaintenanceError::Closed(Closure::MetadataMissing)), "guarding is no way around: {error}");
    assert_recovers(&file);
}

#[test]
fn a_lock_file_that_is_gone_or_was_replaced_is_missed() {
    let file = Guarded::new();
    let _ = file.write("0.9", b"nine");
    let kept = file.folder.path().join("kept");
    fs::rename(file.beside("lock"), &kept).unwrap();
    assert_eq!(closed(&file), Closure::OtherIncarnation);
    fs::copy(&kept, file.beside("lock")).unwrap();
    assert_eq!(closed(&file), Closure::OtherIncarnation);
    assert_recovers(&file);
    fs::remove_file(file.beside("lock")).unwrap();
    assert_eq!(closed(&file), Closure::OtherIncarnation);
    assert_recovers(&file);
}

#[test]
fn files_beside_that_are_all_gone_leave_a_file_that_was_never_guarded() {
    let file = Guarded::new();
    fs::remove_file(file.beside("fence")).unwrap();
    fs::remove_file(file.beside("lock")).unwrap();
    assert_eq!(closed(&file), Closure::NotGuarded);
    let noted = file.receiver.incarnation().unwrap();
    let error = file.receiver.recover(&domain("f"), &noted, &seed().with_floor(token("0.9"))).unwrap_err();
    assert!(matches!(error, MaintenanceError::Closed(Closure::NotGuarded)), "{error}");
}

#[test]
fn a_folder_that_was_copied_is_another_incarnation() {
    let original = Guarded::new();
    let _ = original.write("0.9", b"nine");
    let copy = Guarded::unguarded(&std::env::temp_dir());
    for (name, bytes) in original.dump() {
        fs::write(copy.folder.path().join(name), bytes).unwrap();
    }
    assert_eq!(closed(&copy), Closure::OtherIncarnation);
    assert_recovers(&copy);
}

#[test]
fn a_folder_that_was_moved_is_the_same_receiver() {
    let file = Guarded::new();
    let _ = file.write("0.9", b"nine");
    let elsewhere = tempfile::tempdir().unwrap();
    let moved = elsewhere.path().join("moved");
    fs::rename(file.folder.path(), &moved).unwrap();
    let receiver = FileReceiver::new(moved.join("f.txt"));
    assert!(matches!(receiver.write(&grant("0.9"), None, &b"x"[..]).unwrap(), Verdict::Applied(_)));
}

#[test]
fn a_sidecar_that_was_copied_back_is_noticed_by_whoever_has_seen_a_later_one() {
    let file = Guarded::new();
    let _ = file.write("0.8", b"eight");
    let backup = fs::read(file.beside("fence")).unwrap();
    let _ = file.write("0.9", b"nine");
    fs::write(file.beside("fence"), backup).unwrap();
    assert_eq!(closed(&file), Closure::WentBack);
    let seen = file.receiver.seen().greatest();
    let next = FileReceiver::new(file.path()).with_seen(Seen::from_counter(seen));
    assert_eq!(
        rejected(&next.write(&grant("0.8"), None, &b"x"[..]).unwrap()),
        Some(Rejection::Closed(Closure::WentBack))
    );
    assert_recovers(&file);
}

#[test]
fn a_sidecar_of_which_anything_was_changed_is_closed() {
    let file = Guarded::new();
    let _ = file.write_as("0.9", &operation("x", b"x"), b"nine");
    let text = fs::read_to_string(file.beside("fence")).unwrap();
    assert!(text.starts_with("{\n  \"state\": \"settled\",\n  \"layout\": 1,"), "{text}");
    assert!(text.contains("\"fence\": \"9\"") && text.contains("\"domain\": \"f\""), "{text}");
    for (from, to) in
        [("\"fence\": \"9\"", "\"fence\": \"8\""), ("\"id\": \"x\"", "\"id\": \"y\""), ("\"prod\"", "\"test\"")]
    {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text);
        fs::write(file.beside("fence"), edited).unwrap();
        assert_eq!(closed(&file), Closure::MetadataMissing, "{to}");
    }
    let end = text.trim_end().len();
    for cut in [0, 1, end / 2, end - 1] {
        fs::write(file.beside("fence"), &text[..cut]).unwrap();
        assert_eq!(closed(&file), Closure::MetadataMissing, "{cut}");
    }
    fs::write(file.beside("fence"), text.replacen("\"layout\": 1", "\"layout\": 2", 1)).unwrap();
    let error = file.receiver.write(&grant("0.9"), None, &b"x"[..]).unwrap_err();
    assert!(error.to_string().contains("layout 2"), "{error}");
    fs::write(file.beside("fence"), &text).unwrap();
    assert!(matches!(file.write("0.9", b"x"), Verdict::Applied(_)));
}

#[test]
fn a_recovery_that_was_overtaken_changes_nothing() {
    let file = Guarded::new();
    let noted = file.receiver.incarnation().unwrap();
    let seed = seed().with_snapshot(token("0.11"), vec![]);
    file.receiver.recover(&domain("f"), &noted, &seed).unwrap();
    let before = file.dump();
    let error = file.receiver.recover(&domain("f"), &noted, &seed).unwrap_err();
    assert!(matches!(error, MaintenanceError::Overtaken), "{error}");
    assert_eq!(file.dump(), before);
}

#[test]
fn what_a_collection_forgot_stays_shut_out() {
    let file = Guarded::new();
    let x = operation("x", b"x").born(token("0.5"));
    let _ = file.write_as("0.5", &x, b"x");
    let collected = file.receiver.collect(token("0.9"), &[], Some(token("0.6"))).unwrap();
    assert_eq!((collected.fences, collected.operations), (1, 1));
    assert_eq!(rejected(&file.write("0.8", b"y")), Some(stale("0.8", "0.9", RejectedBy::UnfencedFloor)));
    assert_eq!(rejected(&file.write_as("0.9", &x, b"x")), Some(Rejection::OperationTooOld));
    let collected = file.receiver.collect(token("0.9"), &[live("f", "0.3")], None).unwrap();
    assert_eq!(collected.refused, [live("f", "0.3")]);
    assert_eq!(file.write("0.9", b"z"), Verdict::Applied(content(b"z")));
}

/// What has taken effect is still there when only the sidecar is lost, so a retry of it must not be taken for new.
/// Mutant: the horizon not raised where the sidecar was lost.
#[test]
fn an_operation_whose_record_was_lost_takes_no_second_effect_after_the_recovery() {
    let file = Guarded::new();
    let op = operation("x", b"first").born(token("0.9"));
    let first = file.receiver.write(&grant("0.9"), Some(&op), &b"first"[..]).unwrap();
    assert!(matches!(first, Verdict::Applied(_)));
    assert!(matches!(file.write("0.9", b"second"), Verdict::Applied(_)));
    fs::remove_file(file.beside("fence")).unwrap();

    let noted = file.receiver.incarnation().unwrap();
    file.receiver.recover(&domain("f"), &noted, &seed().with_snapshot(token("0.11"), Vec::new())).unwrap();
    let again = file.receiver.write(&grant("0.12"), Some(&op), &b"first"[..]).unwrap();
    assert_eq!(rejected(&again), Some(Rejection::OperationTooOld));
}

/// A sidecar copied back knows nothing of what was written since, and the file still holds it. Whether the caller has seen
/// a later sidecar or has seen nothing, a retry must not be taken for new.
#[test]
fn an_operation_takes_no_second_effect_when_an_older_sidecar_was_copied_back() {
    for seen_it in [true, false] {
        let file = Guarded::new();
        let backup = fs::read(file.beside("fence")).unwrap();
        let op = operation("x", b"first").born(token("0.9"));
        assert!(matches!(file.write_as("0.9", &op, b"first"), Verdict::Applied(_)));
        fs::write(file.beside("fence"), backup).unwrap();

        let receiver = if seen_it { file.receiver.clone() } else { FileReceiver::new(file.path()) };
        let noted = receiver.incarnation().unwrap();
        receiver.recover(&domain("f"), &noted, &seed().with_snapshot(token("0.11"), Vec::new())).unwrap();
        let again = receiver.write(&grant("0.12"), Some(&op), &b"first"[..]).unwrap();
        assert_eq!(rejected(&again), Some(Rejection::OperationTooOld));
    }
}

/// The spare sidecar that is left shows that there was a guard.
#[test]
fn an_operation_takes_no_second_effect_when_sidecar_and_lock_file_were_removed_and_the_file_is_guarded_anew() {
    let file = Guarded::new();
    let op = operation("x", b"first").born(token("0.9"));
    let _ = file.write_as("0.9", &op, b"first");
    for gone in ["fence", "lock"] {
        fs::remove_file(file.beside(gone)).unwrap();
    }
    file.receiver.guard(&domain("f"), Some(&seed().with_snapshot(token("0.11"), Vec::new()))).unwrap();
    assert_eq!(rejected(&file.write_as("0.12", &op, b"first")), Some(Rejection::OperationTooOld));
}

/// Nothing was lost with the lock file, so what was not applied before may be applied now.
#[test]
fn a_recovery_that_lost_no_record_shuts_no_operation_out() {
    let file = Guarded::new();
    let _ = file.write("0.9", b"nine");
    fs::remove_file(file.beside("lock")).unwrap();
    let noted = file.receiver.incarnation().unwrap();
    file.receiver.recover(&domain("f"), &noted, &seed().with_snapshot(token("0.11"), Vec::new())).unwrap();
    let op = operation("x", b"x").born(token("0.9"));
    assert!(matches!(file.write_as("0.12", &op, b"x"), Verdict::Applied(_)));
}
