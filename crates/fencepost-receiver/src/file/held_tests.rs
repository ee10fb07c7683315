//! What can happen between two looks at a file beside the guarded one, which no other process can be made to hit.

use std::os::unix::fs::symlink;

use fencepost_core::{Domain, Epoch, Issuer, RecoveryId};
use tempfile::TempDir;

use super::*;

const WAIT: Duration = Duration::from_secs(120);

struct Fixture {
    folder: TempDir,
    place: Place,
}

impl Fixture {
    /// A guarded file, and another one, `victim`.
    fn new() -> (Self, Held) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::of(&folder.path().join("f")).unwrap();
        fs::write(folder.path().join("victim"), "victim, which is longer than what is written in place").unwrap();
        let lock = make_lock(&place, WAIT).unwrap();
        let (issuer, domain) = (Issuer::new("prod").unwrap(), Domain::new("f").unwrap());
        let recovery = RecoveryId::from_bytes([7; 16]);
        let sidecar = Sidecar::new(issuer, domain, Epoch::ZERO, recovery, lock.identity);
        let mut held = Held { sidecar, lock };
        held.save(&place).map_err(Trouble::from).unwrap();
        (Self { folder, place }, held)
    }

    fn put_link_at(&self, path: &Path) {
        let _ = fs::remove_file(path);
        symlink("victim", path).unwrap();
    }

    fn assert_victim_untouched(&self) {
        let holds = fs::read_to_string(self.folder.path().join("victim")).unwrap();
        assert_eq!(holds, "victim, which is longer than what is written in place");
    }
}

/// Mutant: a plain open in `mark`, together with the comparison of the numbers; either of them is enough.
#[test]
fn the_mark_goes_into_the_file_that_was_locked_and_into_no_other() {
    let (fixture, held) = Fixture::new();
    fixture.put_link_at(&fixture.place.lock());
    assert!(matches!(mark(&fixture.place, &held.lock), Err(Trouble::NotOurs { .. })));
    fixture.assert_victim_untouched();
    fs::remove_file(fixture.place.lock()).unwrap();
    fs::write(fixture.place.lock(), "").unwrap();
    mark(&fixture.place, &held.lock).unwrap_err();
    assert_eq!(fs::read(fixture.place.lock()).unwrap(), b"");
}

/// Mutant: a plain open in `mark_settled`.
#[test]
fn the_turn_to_settled_goes_through_no_link() {
    let (fixture, mut held) = Fixture::new();
    fixture.put_link_at(&fixture.place.sidecar());
    held.mark_settled(&fixture.place);
    fixture.assert_victim_untouched();
}

/// Mutant: a plain open in `make_lock_file`.
#[test]
fn no_lock_is_made_through_a_link_and_nobody_tries_for_ever() {
    let (fixture, _held) = Fixture::new();
    for target in ["victim", "nowhere"] {
        let _ = fs::remove_file(fixture.place.lock());
        symlink(target, fixture.place.lock()).unwrap();
        assert!(matches!(make_lock_file(&fixture.place), Err(Trouble::NotOurs { .. })));
        assert!(matches!(make_lock(&fixture.place, Duration::ZERO), Err(Trouble::NotOurs { .. })));
    }
    fixture.assert_victim_untouched();
    assert!(!fixture.folder.path().join("nowhere").exists());
}

/// A reader without the lock can be overtaken by two writers, the second of whom writes over what is being read. Mutant:
/// damage believed at the first look.
#[test]
fn a_sidecar_that_is_written_over_while_it_is_looked_at_is_looked_at_again() {
    let (fixture, held) = Fixture::new();
    let whole = fs::read(fixture.place.sidecar()).unwrap();
    for torn in 0..=GLANCES {
        let mut looks = 0;
        let found = look_again(|| {
            let bytes = if looks < torn { &whole[..40] } else { &whole[..] };
            fs::write(fixture.place.sidecar(), bytes).unwrap();
            looks += 1;
            read_sidecar(&fixture.place)
        });
        match found.unwrap().expect("there is a sidecar") {
            Ok(sidecar) => assert!(torn < GLANCES && sidecar == held.sidecar, "{torn}"),
            Err(why) => assert!(torn == GLANCES && why == Closure::MetadataMissing, "{torn}"),
        }
    }
}
