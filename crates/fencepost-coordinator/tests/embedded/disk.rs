//! Real files: a full disk, a file somebody changed, a connection that holds a lock, and logs that must not grow
//! without end.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator, SessionKey,
    embedded::{Embedded, InitOptions, NotReady, OpenError, Options},
};
use fencepost_core::{Epoch, Metadata, lease::Claim};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::common::{acquire, domain, holder, is_unavailable, request, session, skip, token, until};

fn init(dir: &Path) {
    Embedded::init(dir, InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() }).unwrap();
}

fn database(dir: &Path) -> Connection {
    Connection::open(dir.join("coordinator.sqlite")).unwrap()
}

/// A directory with a store in which two sessions were opened, closed again.
async fn used() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path());
    let coordinator = Embedded::open(dir.path(), Options::default()).unwrap();
    for holder in ["a", "b"] {
        session(&coordinator, holder, 60_000).await;
    }
    coordinator.shutdown().await;
    dir
}

fn large(key: &SessionKey, name: &str) -> AcquireRequest {
    let entries = BTreeMap::from([("note".to_owned(), "x".repeat(4_000))]);
    let metadata = Metadata::new(entries, 4_012).unwrap();
    AcquireRequest { metadata, ..AcquireRequest::new(key, domain(name), request()) }
}

/// Mutant: without `check` in journal.rs the first two are opened and the third is granted on.
#[tokio::test]
async fn a_log_that_somebody_changed_is_refused_and_the_error_says_what_to_do() {
    for (change, complaint) in [
        ("UPDATE log SET records = CAST(records || x'00' AS BLOB) WHERE id = 2", "does not match its checksum"),
        ("UPDATE log SET start = start + 1 WHERE id = 2", "does not match its checksum"),
        ("DELETE FROM log WHERE id = 2", "row 2 of table `log` is missing"),
        ("UPDATE store SET snapshot_parts = 1", "the snapshot has 0 parts of 1"),
        ("DELETE FROM store", "table `store` is empty"),
    ] {
        let dir = used().await;
        database(dir.path()).execute_batch(change).unwrap();
        let refused = Embedded::open(dir.path(), Options::default()).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, OpenError::Damaged { .. }), "{change}: {text}");
        assert!(text.contains(complaint) && text.contains("initialise a new one"), "{change}: {text}");
    }
}

#[tokio::test]
async fn a_store_of_another_layout_is_refused_with_both_versions() {
    let dir = used().await;
    database(dir.path()).pragma_update(None, "user_version", 99).unwrap();
    let refused = Embedded::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Layout { found: 99, known: 2, .. }), "{refused}");
    database(dir.path()).pragma_update(None, "application_id", 1).unwrap();
    let foreign = Embedded::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(foreign, OpenError::Damaged { .. }), "{foreign}");
}

#[test]
fn the_directory_is_for_its_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("made/by/init");
    init(&dir);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_connection_that_holds_the_write_lock_is_an_outage_that_ends_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path());
    let coordinator = Embedded::open(dir.path(), Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (held, _) = acquire(&coordinator, &key, "d").await;

    let other = database(dir.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let wanted = AcquireRequest::new(&key, domain("e"), request());
    assert!(is_unavailable(&coordinator.acquire(wanted.clone()).await, true));
    coordinator.heartbeat(&key, Claim::Held(vec![held.acquired.lease])).await.unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    until("service resumes", || async { coordinator.ready().is_ok() }).await;
    coordinator.acquire(wanted).await.unwrap();
}

/// A reader pins the write-ahead log, which must neither stop commits nor keep growing once the reader is gone.
#[tokio::test]
async fn a_connection_that_only_reads_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path());
    let coordinator = Embedded::open(dir.path(), Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let reader = database(dir.path());
    reader.execute_batch("BEGIN").unwrap();
    let seen: i64 = reader.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    for number in 0..20 {
        acquire(&coordinator, &key, &format!("d/{number}")).await;
    }
    let still: i64 = reader.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, still, "the reader has its snapshot");
    assert!(coordinator.ready().is_ok());
}

#[tokio::test]
async fn neither_log_grows_without_end_and_a_restart_reads_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    init(dir.path());
    let options = || Options { snapshot_log_bytes: 1024 * 1024, ..Options::default() };
    let coordinator = Embedded::open(dir.path(), options()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (kept, _) = acquire(&coordinator, &key, "kept").await;
    // About 20 MB of records, from tasks of their own so that commits are shared.
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move {
                let key = session(&coordinator, "worker", 60_000).await;
                for _ in 0..150 {
                    let wanted = large(&key, &format!("d/{task}"));
                    let hold = wanted.request;
                    let granted = coordinator.acquire(wanted).await.unwrap().answer;
                    coordinator.release(&key.secret, granted.acquired.lease, hold).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let written = coordinator.statistics().log_bytes;
    assert!(written > 18_000_000, "{written}");
    let size = |name: &str| fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    let (wal, database) = (size("coordinator.sqlite-wal"), size("coordinator.sqlite"));
    assert!(wal < 16_000_000, "the write-ahead log has {wal} bytes");
    assert!(database < 16_000_000, "the database has {database} bytes");
    assert!(coordinator.statistics().snapshots > 1);
    let last = token(&acquire(&coordinator, &key, "last").await.0);
    coordinator.shutdown().await;

    let coordinator = Embedded::open(dir.path(), options()).unwrap();
    assert_eq!(holder(&coordinator, "kept").await.unwrap().lease, kept.acquired.lease);
    assert!(token(&acquire(&coordinator, &key, "next").await.0) > last);
}

/// A filesystem of one megabyte.
struct TinyDisk {
    dir: TempDir,
}

impl TinyDisk {
    fn mount() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Self { dir }),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}

#[tokio::test]
async fn on_a_full_disk_the_process_stays_up_and_resumes_when_there_is_room() {
    let disk = match TinyDisk::mount() {
        Ok(disk) => disk,
        Err(reason) => return skip("on_a_full_disk_the_process_stays_up_and_resumes_when_there_is_room", &reason),
    };
    let dir = disk.dir.path().join("data");
    init(&dir);
    let ballast = disk.dir.path().join("ballast");
    fs::write(&ballast, vec![7; 500_000]).unwrap();
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (held, hold) = acquire(&coordinator, &key, "held").await;

    let mut granted = Vec::new();
    let failed = loop {
        let name = format!("d/{}", granted.len());
        match coordinator.acquire(large(&key, &name)).await {
            Ok(answer) => granted.push((name, answer.answer.acquired.lease)),
            Err(error) => break error,
        }
        assert!(granted.len() < 1_000, "the disk never fills up");
    };
    let CallError::Unavailable { why, may_have_happened: true } = failed else { panic!("{failed}") };
    assert!(why.contains("full"), "{why}");
    assert!(matches!(coordinator.ready(), Err(NotReady::Storage { .. })));
    assert!(is_unavailable(&coordinator.release(&key.secret, held.acquired.lease, hold).await, false));
    let claim = || Claim::Held(granted.iter().map(|(_, lease)| *lease).collect());
    assert_eq!(coordinator.heartbeat(&key, claim()).await.unwrap().answer.leases.unwrap().len(), granted.len());

    fs::remove_file(&ballast).unwrap();
    until("service resumes", || async { coordinator.ready().is_ok() }).await;
    for (name, lease) in &granted {
        assert_eq!(holder(&coordinator, name).await.map(|row| row.lease), Some(*lease));
    }
    acquire(&coordinator, &key, "after").await;
    coordinator.release(&key.secret, held.acquired.lease, hold).await.unwrap();
    coordinator.shutdown().await;
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    assert_eq!(coordinator.counts().await.unwrap().leases, granted.len() + 1);
    coordinator.shutdown().await;
}
