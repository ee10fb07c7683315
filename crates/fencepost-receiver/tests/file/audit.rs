//! What an audit finds, and that it finds nothing where nothing is.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::support::{Guarded, in_memory};

fn codes(file: &Guarded) -> Vec<&'static str> {
    let audit = file.receiver.audit().unwrap();
    assert!(audit.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.severity)), "worst first");
    audit.findings.iter().map(|finding| finding.code).collect()
}

#[test]
fn a_file_that_only_fenced_writes_have_changed_is_clean() {
    let file = Guarded::new();
    assert!(file.receiver.audit().unwrap().is_clean());
    let _ = file.write("0.5", b"five");
    assert!(file.receiver.audit().unwrap().is_clean());
}

#[test]
fn a_plain_write_is_found_until_the_next_accepted_one() {
    let file = Guarded::new();
    let _ = file.write("0.5", b"five");
    fs::write(file.path(), "plain").unwrap();
    assert_eq!(codes(&file), ["changed_outside"]);
    let _ = file.write("0.5", b"six");
    assert!(codes(&file).is_empty());
    fs::remove_file(file.path()).unwrap();
    assert_eq!(codes(&file), ["changed_outside"]);
    let finding = file.receiver.audit().unwrap().findings.remove(0);
    assert!(finding.found.contains("the file is gone"), "{}", finding.found);
}

#[test]
fn what_could_go_around_is_listed() {
    let file = Guarded::new();
    fs::hard_link(file.path(), file.folder.path().join("second")).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(file.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::write(file.beside("staged-0123456789abcdef"), "half").unwrap();
    let mut found = codes(&file);
    found.sort_unstable();
    assert_eq!(found, ["folder_writable", "hard_linked", "left_behind", "writable"]);
}

#[test]
fn a_closed_and_an_unguarded_file_are_findings() {
    let file = Guarded::new();
    file.receiver.unguard().unwrap();
    assert_eq!(codes(&file), ["not_guarded"]);
    let file = Guarded::new();
    fs::remove_file(file.beside("fence")).unwrap();
    assert_eq!(codes(&file), ["closed"]);
    assert_eq!(codes(&Guarded::unguarded(&std::env::temp_dir())), ["not_guarded"]);
}

#[test]
fn a_file_in_memory_is_a_notice() {
    let file = Guarded::under(&in_memory());
    if file.folder.path().starts_with("/dev/shm") {
        assert_eq!(codes(&file), ["in_memory"]);
    }
}
