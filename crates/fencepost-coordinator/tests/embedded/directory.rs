//! The data directory: what is taken for empty and what is not, who may read it, and what becomes of a coordinator whose
//! files are taken away.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator,
    embedded::{Embedded, InitOptions, NotReady, OpenError, Options, testing},
};
use fencepost_core::{Epoch, lease::Claim};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{acquire, domain, holder, is_unavailable, request, session, token, until};

const DIRECTORY: &str = "FENCEPOST_DIRECTORY_OF_CHILD";
const DATABASE: &str = "coordinator.sqlite";
/// Names and contents.
type Files<'a> = &'a [(&'a str, &'a [u8])];

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

fn at_epoch_zero() -> InitOptions {
    InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() }
}

fn initialised() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    Embedded::init(&dir, at_epoch_zero()).unwrap();
    (parent, dir)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// What is in a directory, with the content of each file; a lock file may be left behind by whoever looked.
fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap_or_default()))
        .filter(|(name, _)| name != "lock")
        .collect();
    found.sort();
    found
}

/// Not a test by itself: run as a user who may do nothing, it says how opening and initialising go.
#[test]
fn the_user_who_may_do_nothing() {
    let Ok(dir) = env::var(DIRECTORY) else { return };
    let say = |what: &str, error: OpenError| {
        let kind = match error {
            OpenError::Denied { .. } => "denied",
            _ => "something else",
        };
        println!("\nsaid {what}: {kind}: {error}");
    };
    say("open", Embedded::open(&dir, Options::default()).unwrap_err());
    say("init", Embedded::init(&dir, at_epoch_zero()).unwrap_err());
}

/// Asks somebody who owns nothing to open and to initialise. `None` where this process may not become another user.
fn as_nobody(dir: &Path) -> Option<Vec<String>> {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let program = place.path().join("story");
    fs::copy(env::current_exe().unwrap(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["directory::the_user_who_may_do_nothing", "--exact", "--nocapture", "--test-threads=1"]);
    let ran = command.env(DIRECTORY, dir).current_dir("/").uid(NOBODY).gid(NOBODY).output();
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        Err(error) => panic!("{error}"),
    };
    let text = String::from_utf8_lossy(&ran.stdout);
    Some(text.lines().filter_map(|line| line.strip_prefix("said ")).map(str::to_owned).collect())
}

/// Mutant: `is_file()` for the look at the database, which is false as well where nobody can tell.
#[test]
fn a_store_that_may_not_be_read_is_not_an_empty_directory() {
    for (of_directory, of_files) in [(0o700, 0o600), (0o755, 0o600), (0o755, 0o644)] {
        let (parent, dir) = initialised();
        set_mode(parent.path(), 0o755);
        for name in [DATABASE, "lock"] {
            set_mode(&dir.join(name), of_files);
        }
        set_mode(&dir, of_directory);
        let Some(said) = as_nobody(&dir) else {
            return crate::common::skip("a_store_that_may_not_be_read", "this user may not become another one");
        };
        assert_eq!(said.len(), 2, "{said:?}");
        for line in said {
            assert!(line.contains(": denied: "), "{of_directory:o} {of_files:o} {line}");
            assert!(!line.contains("initialise"), "{line}");
        }
    }
}

#[test]
fn a_path_that_is_no_directory_is_told_so() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "mine").unwrap();
    let nowhere = parent.path().join("link");
    symlink(parent.path().join("missing"), &nowhere).unwrap();
    for path in [file.clone(), file.join("data"), nowhere] {
        for refused in [
            Embedded::open(&path, Options::default()).unwrap_err(),
            Embedded::init(&path, at_epoch_zero()).unwrap_err(),
        ] {
            assert!(matches!(refused, OpenError::NotADirectory { .. }), "{refused:?}");
        }
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

/// Only a database under its name says that there is a store, and only its absence, with nothing beside it, that there is
/// none: the state may be in the write-ahead log.
/// Mutant: without the look at what lies beside a database the third and fourth are initialised over.
#[test]
fn what_may_be_the_remains_of_a_store_is_neither_opened_nor_initialised_over() {
    let foreign = tempfile::tempdir().unwrap();
    let connection = Connection::open(foreign.path().join("x")).unwrap();
    connection.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(connection);
    let foreign = fs::read(foreign.path().join("x")).unwrap();
    let cases: [(&str, Files<'_>); 8] = [
        ("is empty", &[(DATABASE, b"")]),
        ("is empty", &[(DATABASE, b""), ("coordinator.sqlite-wal", b"state")]),
        ("is missing", &[("coordinator.sqlite-wal", b"state")]),
        ("is missing", &[("coordinator.sqlite-shm", b"state")]),
        ("is missing", &[("coordinator.sqlite-journal", b"state")]),
        ("cut short", &[(DATABASE, b"SQLite format 3\0")]),
        ("some other program's", &[(DATABASE, foreign.as_slice())]),
        ("some other program's", &[(DATABASE, foreign.as_slice()), ("coordinator.sqlite-wal", b"")]),
    ];
    for (complaint, files) in cases {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let before = content(dir.path());
        for refused in [
            Embedded::init(dir.path(), at_epoch_zero()).unwrap_err(),
            Embedded::open(dir.path(), Options::default()).unwrap_err(),
        ] {
            assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
            assert!(refused.to_string().contains(complaint), "{complaint}: {refused}");
        }
        assert_eq!(content(dir.path()), before, "nothing was changed");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(DATABASE)).unwrap();
    assert!(matches!(Embedded::open(dir.path(), Options::default()), Err(OpenError::Damaged { .. })));
}

/// Mutant: without the look for a link the log is sought where it is not, and the error says that it is missing.
#[test]
fn a_database_that_is_a_link_is_refused_untouched() {
    let (parent, dir) = initialised();
    let linked = parent.path().join("linked");
    fs::create_dir(&linked).unwrap();
    symlink(dir.join(DATABASE), linked.join(DATABASE)).unwrap();
    let before = content(&dir);
    for refused in [
        Embedded::open(&linked, Options::default()).unwrap_err(),
        Embedded::init(&linked, at_epoch_zero()).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("is a symbolic link"), "{refused}");
    }
    assert_eq!(content(&dir), before);
}

/// What is open is then not what lies under the name, or what lies there is not what was locked.
/// Mutant: without the comparison in `Whereabouts::of` all three are served.
#[tokio::test]
async fn a_directory_that_is_replaced_while_it_is_opened_is_not_served() {
    for when in ["noted", "locked", "connected"] {
        let (parent, dir) = initialised();
        let replace = |step: &str| {
            if step == when {
                fs::rename(&dir, parent.path().join("aside")).unwrap();
                Embedded::init(&dir, at_epoch_zero()).unwrap();
            }
        };
        let refused = testing::open_telling(&dir, Options::default(), &replace).map(drop).expect_err(when);
        assert!(matches!(refused, OpenError::Store { .. }), "{when}: {refused:?}");
        assert!(refused.to_string().contains("was replaced while this process opened it"), "{when}: {refused}");
        // Nothing is left that keeps either of the two from being opened.
        for whole in [dir.clone(), parent.path().join("aside")] {
            Embedded::open(&whole, Options::default()).unwrap().shutdown().await;
        }
    }
}

/// Not a test by itself: initialises, says each step, and is killed after one of them.
#[test]
fn the_init_that_is_killed() {
    let Ok(dir) = env::var(DIRECTORY) else { return };
    let tell = |step: &str| {
        let _ = std::io::stdout().lock().write_all(format!("\nsaid {step}\n").as_bytes());
        let mut go_on = String::new();
        let _ = std::io::stdin().read_line(&mut go_on);
    };
    testing::init_telling(&dir, at_epoch_zero(), &tell).unwrap();
}

/// Runs an init until it has said `steps` steps, and kills it there. Returns what it has said.
fn killed_after(steps: usize, dir: &Path) -> Vec<String> {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["directory::the_init_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut go_on = process.stdin.take().unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let Some(step) = line.unwrap().strip_prefix("said ").map(str::to_owned) else { continue };
        said.push(step);
        if said.len() == steps {
            process.kill().unwrap();
        } else {
            go_on.write_all(b"\n").unwrap();
        }
    }
    process.wait().unwrap();
    said
}

/// A store appears under its name only when it is complete, so whatever lies there without being complete is not the
/// trace of an init, and what an init left under another name was never answered from.
/// Mutant: the database made under its own name; killed before its tables are there, neither way on is open.
#[test]
fn an_init_that_was_killed_may_be_repeated_until_the_store_has_its_name_and_not_after_that() {
    let steps = {
        let parent = tempfile::tempdir().unwrap();
        killed_after(usize::MAX, &parent.path().join("data"))
    };
    assert!(steps.len() >= 6, "{steps:?}");
    let named = steps.iter().position(|step| step == "named").unwrap();
    for killed in 0..steps.len() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        assert_eq!(killed_after(killed + 1, &dir), steps[..=killed]);
        let again = Embedded::init(&dir, at_epoch_zero());
        if killed < named {
            again.unwrap_or_else(|error| panic!("killed when it was {}: {error}", steps[killed]));
        } else {
            assert!(matches!(again, Err(OpenError::Initialised { .. })), "{}: {again:?}", steps[killed]);
        }
        Embedded::open(&dir, Options::default()).unwrap();
        let left: Vec<_> = content(&dir).into_iter().map(|(name, _)| name).filter(|name| name != DATABASE).collect();
        assert_eq!(left, [] as [&str; 0], "killed when it was {}", steps[killed]);
    }
}

/// Mutant: the file made by SQLite itself, which gives it to the whole world where the umask does not forbid it.
#[tokio::test]
async fn every_file_of_the_store_is_for_its_owner_only() {
    let (_parent, dir) = initialised();
    let check = |when: &str| {
        assert_eq!(mode(&dir), 0o700);
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{when}: {}", path.display());
        }
    };
    check("initialised");
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    acquire(&coordinator, &key, "d").await;
    assert!(dir.join("coordinator.sqlite-wal").exists() && dir.join("coordinator.sqlite-shm").exists());
    check("open");
    coordinator.shutdown().await;

    // As a version before this one left them.
    for name in [DATABASE, "lock"] {
        set_mode(&dir.join(name), 0o644);
    }
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    acquire(&coordinator, &key, "e").await;
    check("opened again");
    coordinator.shutdown().await;
}

/// A directory that somebody else made keeps the mode that it was given.
#[test]
fn the_mode_of_a_directory_that_was_there_before_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    set_mode(dir.path(), 0o755);
    Embedded::init(dir.path(), at_epoch_zero()).unwrap();
    assert_eq!(mode(dir.path()), 0o755);
}

/// Acquires one domain after another until one is refused, and returns why.
async fn until_refused(coordinator: &Embedded, key: &fencepost_coordinator::SessionKey) -> String {
    for number in 0..2_000 {
        let wanted = AcquireRequest::new(key, domain(&format!("d/{number}")), request());
        match coordinator.acquire(wanted).await {
            Ok(_) => {}
            Err(CallError::Unavailable { why, .. }) => return why,
            Err(other) => panic!("{other}"),
        }
        // bounded: the coordinator looks once a second
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("every acquire was granted, for much longer than a second")
}

/// Mutant: without the look at the files every grant goes into a file that nobody will ever open again.
#[tokio::test]
async fn a_coordinator_whose_files_are_taken_away_answers_nothing() {
    for taken in ["", DATABASE, "coordinator.sqlite-wal", "coordinator.sqlite-shm"] {
        let (_parent, dir) = initialised();
        let coordinator = Embedded::open(&dir, Options::default()).unwrap();
        let key = session(&coordinator, "a", 60_000).await;
        let (held, _) = acquire(&coordinator, &key, "held").await;
        if taken.is_empty() {
            fs::remove_dir_all(&dir).unwrap();
        } else {
            fs::remove_file(dir.join(taken)).unwrap();
        }
        let why = until_refused(&coordinator, &key).await;
        assert!(why.contains("removed"), "{taken}: {why}");
        assert!(matches!(coordinator.ready(), Err(NotReady::Storage { .. })));
        let beat = coordinator.heartbeat(&key, Claim::Held(vec![held.acquired.lease])).await;
        assert!(is_unavailable(&beat, false), "a renewal would hold against nobody: {beat:?}");
        assert!(is_unavailable(&coordinator.counts().await, false));
    }
}

/// Another store in the same place grants what this one believes to be held.
#[tokio::test]
async fn a_coordinator_whose_directory_was_replaced_stops_and_one_whose_directory_comes_back_goes_on() {
    let (parent, dir) = initialised();
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (held, _) = acquire(&coordinator, &key, "held").await;
    let aside = parent.path().join("aside");
    fs::rename(&dir, &aside).unwrap();
    Embedded::init(&dir, at_epoch_zero()).unwrap();
    let other = Embedded::open(&dir, Options::default()).unwrap();
    let why = until_refused(&coordinator, &key).await;
    assert!(why.contains("replaced"), "{why}");
    let theirs = session(&other, "b", 60_000).await;
    acquire(&other, &theirs, "held").await;
    other.shutdown().await;

    fs::remove_dir_all(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    until("service resumes", || async { coordinator.ready().is_ok() }).await;
    assert_eq!(holder(&coordinator, "held").await.unwrap().lease, held.acquired.lease);
    let (after, _) = acquire(&coordinator, &key, "after").await;
    assert!(token(&after) > token(&held));
    assert_eq!(fs::metadata(dir.join(DATABASE)).unwrap().nlink(), 1);
}
