//! Writers that die after any step: whoever comes next finds the whole write or nothing of it.

use std::{fs, os::unix::process::ExitStatusExt};

use fencepost_core::fence::Verdict;
use fencepost_receiver::file::STEPS;

use crate::{
    children::{Running, name_of, pattern},
    support::{Guarded, content, file_systems, grant, in_memory, operation, token},
};

const ABORTED: i32 = 6;
/// From this step on a write that died is finished by whoever comes next.
const ANNOUNCED: &str = "sidecar_renamed";

fn position(step: &str) -> usize {
    STEPS.iter().position(|found| *found == step).unwrap()
}

/// A file with an accepted write under 0.5.
fn written(parent: &std::path::Path) -> Guarded {
    let file = Guarded::under(parent);
    let first = operation("first", b"first");
    let _ = file.receiver.write(&grant("0.5"), Some(&first), &pattern("first")[..]).unwrap();
    file
}

fn die(file: &Guarded, role: &str, step: &str) {
    let (said, status) = Running::dying_after(file.path(), role, step).ended();
    assert_eq!(status.signal(), Some(ABORTED), "{role} was to die after {step}: {said:?}");
}

/// Mutants: the rename before the announcement; a pending write that is never looked at.
fn assert_all_or_nothing(file: &Guarded, finished: bool, story: &str) {
    let plain = name_of(&fs::read(file.path()).unwrap());
    assert!(matches!(plain.as_deref(), Some("first" | "second")), "a plain reader sees one of the two: {story}");
    // Any caller that takes the lock finishes or drops; this one asks for nothing else.
    let _ = file.receiver.advance_blocking(&grant("0.1")).unwrap();
    let status = file.receiver.status().unwrap();
    let expected = if finished { "second" } else { "first" };
    assert_eq!(name_of(&fs::read(file.path()).unwrap()).as_deref(), Some(expected), "{story}");
    assert_eq!(status.content, Some(content(&pattern(expected))), "{story}");
    assert_eq!(status.operations, if finished { 2 } else { 1 }, "{story}");
    assert!(!status.pending, "{story}");
    assert!(status.fence >= Some(token("0.5")), "{story}");
    if finished {
        assert_eq!(status.fence, Some(token("0.6")), "{story}");
    }
    let second = operation("second", b"second");
    let retry = file.write_as("0.6", &second, &pattern("second"));
    assert_eq!(matches!(retry, Verdict::Replayed(_)), finished, "{story}: {retry:?}");
    assert_eq!(name_of(&fs::read(file.path()).unwrap()).as_deref(), Some("second"), "{story}");
    assert!(file.receiver.audit().unwrap().findings.iter().all(|finding| finding.code == "in_memory"), "{story}");
    assert!(!file.beside("staged").exists(), "{story}");
}

#[test]
fn a_writer_that_dies_after_any_step_leaves_all_or_nothing() {
    for parent in file_systems("dying after each step") {
        for step in STEPS.into_iter().filter(|step| *step != "finished") {
            let file = written(&parent);
            die(&file, "operation:0.6:second", step);
            assert_all_or_nothing(&file, position(step) >= position(ANNOUNCED), step);
        }
    }
}

#[test]
fn whoever_finishes_may_die_too_after_any_step() {
    let places = file_systems("dying twice");
    let firsts = ["staged", "sidecar_renamed", "sidecar_durable", "renamed", "folder_synced"];
    let deaths = places.iter().flat_map(|place| firsts.map(|first| (place, first)));
    for (place, first) in deaths {
        for second in STEPS {
            let file = written(place);
            die(&file, "operation:0.6:second", first);
            // The second one retries the same operation, finds what the first one left, and dies on the way or succeeds.
            let (said, status) = Running::dying_after(file.path(), "operation:0.6:second", second).ended();
            let finished = position(first) >= position(ANNOUNCED) || position(second) >= position(ANNOUNCED);
            assert_all_or_nothing(&file, finished, &format!("{first}, then {second}: {said:?} {status}"));
        }
    }
}

#[test]
fn a_first_write_that_dies_is_finished_or_leaves_no_file() {
    for step in ["staged", "sidecar_durable", "renamed"] {
        let file = Guarded::unguarded(&in_memory());
        file.receiver.guard(&crate::support::domain("f"), Some(&crate::support::seed())).unwrap();
        die(&file, "operation:0.6:second", step);
        let _ = file.receiver.advance_blocking(&grant("0.1")).unwrap();
        assert_eq!(file.path().exists(), step != "staged", "{step}");
        let retry = file.write_as("0.6", &operation("second", b"second"), &pattern("second"));
        assert_eq!(matches!(retry, Verdict::Replayed(_)), step != "staged", "{step}");
    }
}

/// What a power failure can leave on a disk that reorders, or a hand that tidies up. Mutant: the record of a dropped write
/// taken in.
#[test]
fn an_announced_write_whose_content_is_damaged_or_gone_is_dropped_and_its_fence_stays() {
    for damage in ["cut", "gone"] {
        let file = written(&std::env::temp_dir());
        die(&file, "operation:0.6:second", "sidecar_durable");
        match damage {
            "cut" => fs::write(file.beside("staged"), "sec").unwrap(),
            _ => fs::remove_file(file.beside("staged")).unwrap(),
        }
        let _ = file.receiver.advance_blocking(&grant("0.1")).unwrap();
        let status = file.receiver.status().unwrap();
        assert_eq!((status.operations, status.fence), (1, Some(token("0.6"))), "{damage}: a raise alone is an advance");
        assert_eq!(name_of(&fs::read(file.path()).unwrap()).as_deref(), Some("first"), "{damage}");
        let retry = file.write_as("0.6", &operation("second", b"second"), &pattern("second"));
        assert!(matches!(retry, Verdict::Applied(_)), "{damage}: {retry:?}");
    }
}

#[test]
fn a_turn_to_settled_that_was_lost_is_found_out_again_even_after_a_foreign_write() {
    for foreign in [false, true] {
        let file = written(&std::env::temp_dir());
        die(&file, "operation:0.6:second", "folder_synced");
        if foreign {
            let other = file.folder.path().join("editor");
            fs::write(&other, "foreign").unwrap();
            fs::rename(&other, file.path()).unwrap();
        }
        let retry = file.write_as("0.6", &operation("second", b"second"), &pattern("second"));
        assert!(matches!(retry, Verdict::Replayed(_)), "{retry:?}");
        let audit = file.receiver.audit().unwrap();
        assert_eq!(audit.findings.iter().any(|finding| finding.code == "changed_outside"), foreign, "{audit:?}");
    }
}

/// Mutant: the rename before the announcement.
#[test]
fn a_writer_killed_at_any_moment_has_written_what_it_reported() {
    for parent in file_systems("being killed at any moment") {
        let file = Guarded::under(&parent);
        for round in 0..12 {
            let name = format!("r{round}");
            let mut writer = Running::start(file.path(), &format!("operations:0.{}:{name}:1000", round + 5));
            for _ in 0..=round % 4 {
                writer.heard().unwrap();
            }
            // Somewhere in the next write, wherever the scheduler has it.
            for _ in 0..round * 1_000 {
                std::hint::spin_loop();
            }
            writer.kill();
            let (said, _) = writer.ended();
            let reported = (round % 4) + said.len();
            let _ = file.receiver.advance_blocking(&grant("0.1")).unwrap();
            let last = name_of(&fs::read(file.path()).unwrap()).expect("never half a content");
            let number: usize = last.strip_prefix(&format!("{name}-")).unwrap().parse().unwrap();
            assert!(number == reported || number == reported + 1, "{last}, reported {reported}");
            for n in 0..=number {
                let id = format!("{name}-{n}");
                let token = format!("0.{}", round + 5);
                let verdict = file.write_as(&token, &operation(&id, id.as_bytes()), b"never");
                assert!(matches!(verdict, Verdict::Replayed(_)), "{id}: {verdict:?}");
            }
            assert_eq!(name_of(&fs::read(file.path()).unwrap()), Some(last));
        }
    }
}
