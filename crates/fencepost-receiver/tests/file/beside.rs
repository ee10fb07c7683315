//! Links, pipes, folders and other people's files under the names beside a guarded file: refused by name, and left as
//! they are. What an interrupted guard or write of our own has left is taken up.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use fencepost_core::fence::Verdict;
use fencepost_receiver::file::{FileReceiver, MaintenanceError};

use crate::{
    children::{Running, pattern},
    support::{Guarded, content, domain, grant, operation, seed, skip, token},
};

const NAMES: [&str; 4] = ["fence", "fence-spare", "lock", "staged"];

/// What lies in a folder: names, kinds, where links point, and what plain files hold.
fn snapshot(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let holds = match (kind.is_file(), kind.is_symlink()) {
                (true, _) => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
                (_, true) => format!("-> {}", fs::read_link(&path).unwrap().display()),
                _ => format!("{kind:?}"),
            };
            (path, holds)
        })
        .collect();
    found.sort();
    found
}

fn guard(receiver: &FileReceiver) -> Result<(), String> {
    let guarded = receiver.guard(&domain("f"), Some(&seed().with_snapshot(token("0.5"), Vec::new())));
    guarded.map(|_| ()).map_err(|error| error.to_string())
}

fn write(receiver: &FileReceiver, bytes: &[u8]) -> Result<(), String> {
    let written = receiver.write(&grant("0.9"), None, bytes);
    written.map(|verdict| assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}")).map_err(|error| {
        assert!(!error.may_have_happened(), "{error}");
        error.to_string()
    })
}

fn advance(receiver: &FileReceiver) -> Result<(), String> {
    receiver.advance_blocking(&grant("0.9")).map(|_| ()).map_err(|error| error.to_string())
}

fn recover(receiver: &FileReceiver) -> Result<(), String> {
    let seed = seed().with_snapshot(token("0.9"), Vec::new());
    let recovered = receiver.incarnation().and_then(|noted| receiver.recover(&domain("f"), &noted, &seed)).map(|_| ());
    recovered.map_err(|error| error.to_string())
}

/// Refused, in words that name the file and what to do, and nothing in the folder is another than it was.
fn assert_refused(file: &Guarded, name: &str, found: &str, story: &str, call: fn(&FileReceiver) -> Result<(), String>) {
    let before = snapshot(file.folder.path());
    let text = call(&file.receiver).expect_err(story);
    assert!(text.contains(&format!("{} is {found}", file.beside(name).display())), "{story}: {text}");
    assert!(text.contains("move it away"), "{story}: {text}");
    assert_eq!(snapshot(file.folder.path()), before, "{story}");
}

fn status(receiver: &FileReceiver) -> Result<(), String> {
    receiver.status().map(|_| ()).map_err(|error| error.to_string())
}

fn audit(receiver: &FileReceiver) -> Result<(), String> {
    receiver.audit().map(|_| ()).map_err(|error| error.to_string())
}

const WRITE: fn(&FileReceiver) -> Result<(), String> = |receiver| write(receiver, b"new");

/// Mutant: no `NOFOLLOW` in the one door, `beside::open`. Then `victim` is written over through the spare and the empty
/// file through the lock.
#[test]
fn a_link_under_a_name_beside_is_refused_by_the_first_guard_and_its_target_left_alone() {
    for name in NAMES {
        for target in ["victim", "empty", "nowhere"] {
            let file = Guarded::unguarded(&std::env::temp_dir());
            fs::write(file.folder.path().join("victim"), "victim").unwrap();
            fs::write(file.folder.path().join("empty"), "").unwrap();
            symlink(target, file.beside(name)).unwrap();
            assert_refused(&file, name, "a symbolic link", &format!("{name} to {target}"), guard);
            fs::remove_file(file.beside(name)).unwrap();
            guard(&file.receiver).unwrap();
            write(&file.receiver, b"new").unwrap();
        }
    }
}

/// A link to the very file of ours that lay there is refused too: the two names would part at the next write.
/// Mutants: a plain open in `read_at` (fence), `open_spare` (fence-spare) and `lock` (lock); no look before `remove` in
/// `name_it` (staged).
#[test]
fn a_link_that_comes_later_is_refused_by_whoever_would_use_it() {
    for name in NAMES {
        for target in ["kept", "victim", "nowhere"] {
            let file = Guarded::new();
            write(&file.receiver, b"first").unwrap();
            fs::write(file.folder.path().join("victim"), "victim").unwrap();
            if file.beside(name).exists() {
                fs::rename(file.beside(name), file.folder.path().join("kept")).unwrap();
            }
            symlink(target, file.beside(name)).unwrap();
            let story = format!("{name} to {target}");
            assert_refused(&file, name, "a symbolic link", &story, WRITE);
            if ["fence", "lock"].contains(&name) {
                for call in [guard, advance, recover, status, audit] {
                    assert_refused(&file, name, "a symbolic link", &story, call);
                }
            }
        }
    }
}

/// A pipe would be waited for, and a folder is nothing to write over. Mutant: no `NONBLOCK` in `beside::open`; then the
/// pipe as sidecar or lock is waited for and the test ends in its time limit.
#[test]
fn a_pipe_or_a_folder_under_a_name_beside_is_refused_before_and_after_the_guard() {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    for name in NAMES {
        for kind in ["pipe", "folder"] {
            for guarded in [false, true] {
                let file = if guarded { Guarded::new() } else { Guarded::unguarded(&std::env::temp_dir()) };
                let _ = fs::remove_file(file.beside(name));
                if kind == "pipe" {
                    let fifo = rustix::fs::FileType::Fifo;
                    rustix::fs::mknodat(rustix::fs::CWD, file.beside(name), fifo, mode, 0).unwrap();
                } else {
                    fs::create_dir(file.beside(name)).unwrap();
                }
                let found = if kind == "pipe" { "a device, pipe or socket" } else { "a folder" };
                let story = format!("{kind} as {name}, guarded: {guarded}");
                assert_refused(&file, name, found, &story, if guarded { WRITE } else { guard });
            }
        }
    }
}

/// Mutant: a plain open of the staged content in `settle`.
#[test]
fn announced_content_that_became_a_link_is_not_finished_through_it() {
    let file = Guarded::new();
    let (said, _) = Running::dying_after(file.path(), "operation:0.6:second", "sidecar_durable").ended();
    assert!(said.is_empty(), "{said:?}");
    let kept = file.folder.path().join("kept");
    fs::rename(file.beside("staged"), &kept).unwrap();
    symlink("kept", file.beside("staged")).unwrap();
    assert_refused(&file, "staged", "a symbolic link", "staged", advance);
    fs::remove_file(file.beside("staged")).unwrap();
    fs::rename(&kept, file.beside("staged")).unwrap();
    advance(&file.receiver).unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), pattern("second"));
}

/// Mutants: `refuse_others` without each of its names; not asked before the lock file is made, or not under the lock; any
/// text taken for the mark in `refuse_other_lock` or `without_sidecar`.
#[test]
fn a_file_of_somebody_elses_under_a_name_beside_is_neither_taken_nor_destroyed() {
    for name in NAMES {
        let file = Guarded::unguarded(&std::env::temp_dir());
        fs::write(file.beside(name), "mine\n").unwrap();
        assert_refused(&file, name, "a file that no guard has made", name, guard);
        if name == "lock" {
            for call in [recover, WRITE, advance, status] {
                assert_refused(&file, name, "a file that no guard has made", name, call);
            }
        } else {
            recover(&file.receiver).unwrap_err();
            assert_eq!(fs::read_to_string(file.beside(name)).unwrap(), "mine\n");
        }
        if name != "lock" {
            // Left by a guard that was interrupted.
            fs::write(file.beside("lock"), "").unwrap();
            assert_refused(&file, name, "a file that no guard has made", name, guard);
        }
        fs::rename(file.beside(name), file.folder.path().join("mine")).unwrap();
        guard(&file.receiver).unwrap();
        write(&file.receiver, b"new").unwrap();
        write(&file.receiver, b"newer").unwrap();
        assert_eq!(fs::read_to_string(file.folder.path().join("mine")).unwrap(), "mine\n");
    }
}

/// Somebody else's program may hold a lock on its own file, and nobody waits for it to learn that it is not ours.
#[test]
fn somebody_elses_lock_file_is_told_from_ours_without_waiting_for_it() {
    let file = Guarded::unguarded(&std::env::temp_dir());
    fs::write(file.beside("lock"), "4711\n").unwrap();
    let theirs = fs::File::open(file.beside("lock")).unwrap();
    theirs.lock().unwrap();
    assert_refused(&file, "lock", "a file that no guard has made", "held", guard);
}

/// Between a guard and its first write there is no spare, and a file that comes there is nobody's to write over. Mutant:
/// `open_spare` without the look at what it holds.
#[test]
fn a_file_of_somebody_elses_that_comes_after_the_guard_is_not_written_over() {
    let file = Guarded::new();
    fs::write(file.beside("fence-spare"), "mine\n").unwrap();
    assert_refused(&file, "fence-spare", "a file that no guard has made", "spare", WRITE);
    assert_refused(&file, "fence-spare", "a file that no guard has made", "spare", advance);
    fs::remove_file(file.beside("fence-spare")).unwrap();
    write(&file.receiver, b"new").unwrap();
}

/// A sidecar that is damaged beyond telling is closed; what is no sidecar at all is moved away by hand before a recovery,
/// which would make the next spare of it. Mutant: the recovery without the look.
#[test]
fn a_recovery_makes_no_spare_of_somebody_elses_file() {
    let file = Guarded::new();
    fs::write(file.beside("fence"), "mine\n").unwrap();
    let error = file.receiver.guard(&domain("f"), None).unwrap_err();
    assert!(matches!(error, MaintenanceError::Closed(_)), "{error}");
    assert_refused(&file, "fence", "a file that no guard has made", "fence", recover);
    fs::remove_file(file.beside("fence")).unwrap();
    recover(&file.receiver).unwrap();
    write(&file.receiver, b"new").unwrap();
}

/// A copy by hard links shares its files with the original. Mutant: `open_spare` without the look at the number of names.
#[test]
fn a_spare_with_a_second_name_is_replaced_and_not_written_over() {
    let file = Guarded::new();
    write(&file.receiver, b"first").unwrap();
    let second = file.folder.path().join("second");
    fs::hard_link(file.beside("fence-spare"), &second).unwrap();
    let before = fs::read(&second).unwrap();
    write(&file.receiver, b"new").unwrap();
    assert_eq!(fs::read(&second).unwrap(), before);
}

/// Mutant: `is_lock` without the look at the number of names.
#[test]
fn an_empty_file_with_a_second_name_is_no_lock_of_ours() {
    let file = Guarded::unguarded(&std::env::temp_dir());
    let empty = file.folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    fs::hard_link(&empty, file.beside("lock")).unwrap();
    assert_refused(&file, "lock", "a file that no guard has made", "lock", guard);
}

/// The lock file is ours by its number, whatever was written into it. Mutant: the sidecar not asked in `refuse_other_lock`.
#[test]
fn a_lock_file_that_somebody_wrote_into_is_still_the_one_that_the_sidecar_names() {
    let file = Guarded::new();
    fs::write(file.beside("lock"), "edited\n").unwrap();
    write(&file.receiver, b"new").unwrap();
    fs::remove_file(file.beside("fence")).unwrap();
    assert_refused(&file, "lock", "a file that no guard has made", "lock", recover);
}

/// Mutant: `refuse_others` takes no spare for ours.
#[test]
fn what_an_interrupted_first_guard_has_left_is_taken_up_by_the_next() {
    for step in ["sidecar_written", "sidecar_synced", "sidecar_renamed", "sidecar_durable"] {
        let file = Guarded::unguarded(&std::env::temp_dir());
        let (said, status) = Running::dying_after(file.path(), "guard", step).ended();
        assert!(said.is_empty() && !status.success(), "{step}: {said:?}");
        assert!(file.beside("lock").exists(), "{step}");
        guard(&file.receiver).expect(step);
        write(&file.receiver, b"new").expect(step);
    }
}

/// What a power failure can leave of a spare and of the mark in the lock file: nothing, zeros, a beginning.
#[test]
fn torn_files_of_our_own_are_taken_up() {
    let whole = Guarded::new();
    let (sidecar, mark) = (fs::read(whole.beside("fence")).unwrap(), fs::read(whole.beside("lock")).unwrap());
    for left in [&b""[..], &[0; 4096], &sidecar[..1], &sidecar[..100], &sidecar] {
        let file = Guarded::unguarded(&std::env::temp_dir());
        fs::write(file.beside("fence-spare"), left).unwrap();
        guard(&file.receiver).unwrap();
        fs::write(file.beside("fence-spare"), left).unwrap();
        write(&file.receiver, b"new").unwrap();
    }
    for left in [&b""[..], &mark[..1], &vec![0; mark.len()]] {
        let file = Guarded::new();
        fs::write(file.beside("lock"), left).unwrap();
        write(&file.receiver, b"new").unwrap();
        let file = Guarded::unguarded(&std::env::temp_dir());
        fs::write(file.beside("lock"), left).unwrap();
        let closed = guard(&file.receiver).err();
        assert_eq!(closed.is_some(), !left.is_empty(), "a mark means that there was a guard: {closed:?}");
        if closed.is_some() {
            recover(&file.receiver).unwrap();
            write(&file.receiver, b"new").unwrap();
        }
    }
}

/// Mutants: the look in `Place::metadata` taken away; each suffix left out of `kept_for`.
#[test]
fn a_file_beside_a_guarded_one_is_not_guarded_itself() {
    let file = Guarded::new();
    write(&file.receiver, b"first").unwrap();
    let before = snapshot(file.folder.path());
    for name in ["fence", "fence-spare", "lock", "staged", "staged-0123456789abcdef"] {
        let beside = FileReceiver::new(file.beside(name));
        let texts = [
            guard(&beside).expect_err(name),
            write(&beside, b"new").expect_err(name),
            advance(&beside).expect_err(name),
            recover(&beside).expect_err(name),
            beside.status().expect_err(name).to_string(),
            beside.audit().expect_err(name).to_string(),
            beside.open().expect_err(name).to_string(),
        ];
        for text in texts {
            assert!(text.contains(&format!("belongs to the guard of {}", file.path().display())), "{name}: {text}");
        }
    }
    assert_eq!(snapshot(file.folder.path()), before);
    for name in [".other.fence", ".f.txt.fences", ".fence", "..fence", "f.txt.fence"] {
        let free = FileReceiver::new(file.folder.path().join(name));
        guard(&free).expect(name);
        write(&free, b"new").expect(name);
    }
    assert_eq!(file.write("0.9", b"second"), Verdict::Applied(content(b"second")));
}

/// The other way round: the name was guarded first, and may not be written yet. Mutant: `refuse_others` without the look
/// for guards.
#[test]
fn a_file_is_not_guarded_where_a_name_beside_it_is_guarded_itself() {
    for name in NAMES {
        let file = Guarded::unguarded(&std::env::temp_dir());
        let beside = FileReceiver::new(file.beside(name));
        guard(&beside).unwrap();
        assert_refused(&file, name, "a guarded file", name, guard);
        write(&beside, b"new").unwrap();
        assert!(guard(&file.receiver).is_err(), "{name}");
        assert_eq!(fs::read(file.beside(name)).unwrap(), b"new");
    }
}

/// Mutant: the spare removed without a look whether there is one.
#[test]
fn who_may_not_write_is_told_so_where_there_is_no_spare_yet() {
    let name = "who_may_not_write_is_told_so_where_there_is_no_spare_yet";
    if !rustix::process::geteuid().is_root() {
        return skip(name, "only root can become somebody else");
    }
    let file = Guarded::new();
    fs::set_permissions(file.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!file.beside("fence-spare").exists());
    let said = Running::as_nobody(file.path(), "try_advance:0.5").said();
    assert!(said[0].contains("is not permitted") && said[0].contains("fence-spare"), "{said:?}");
    // With a spare of another owner it is the same.
    write(&file.receiver, b"new").unwrap();
    let said = Running::as_nobody(file.path(), "try_advance:0.10").said();
    assert!(said[0].contains("is not permitted") && said[0].contains("fence-spare"), "{said:?}");
}

/// Guards that begin at once find each other's files beside the file, and take none of them for somebody else's. Mutants,
/// told after some runs: no second look for the lock file in `enter`; a first guard that refuses what it finds although
/// there is a lock file.
#[test]
fn guards_and_writes_that_begin_together_do_not_take_each_other_for_strangers() {
    for _ in 0..20 {
        let file = Guarded::unguarded(&crate::support::in_memory());
        std::thread::scope(|threads| {
            for n in 0..4 {
                let receiver = FileReceiver::new(file.path()).waiting(Duration::from_secs(120));
                threads.spawn(move || {
                    guard(&receiver).unwrap();
                    let op = operation(&n.to_string(), b"x");
                    let verdict = receiver.write(&grant("0.9"), Some(&op), &b"x"[..]).unwrap();
                    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
                });
            }
        });
    }
}
