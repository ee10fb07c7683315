//! Initialising, opening, and what a start does to what was there before: locks, boots, graces, wall clocks.

use std::{fs, path::PathBuf, sync::Arc};

use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator,
    embedded::{
        Embedded, InitOptions, OpenError, Options,
        testing::{ManualClock, ManualWallClock, MemoryStore},
    },
};
use fencepost_core::{
    Epoch, Issuer,
    lease::{AcquireRefusal, Claim, LeaseEnd},
};
use tempfile::TempDir;

use crate::common::{
    NOON, acquire, clock, domain, holder, is_unavailable, on, refusal, request, session, token, until,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
const YEAR_2026_MS: u64 = 1_767_225_600_000;

fn initialised(options: InitOptions) -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    Embedded::init(&dir, options).unwrap();
    (parent, dir)
}

fn at_epoch_zero() -> InitOptions {
    InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() }
}

fn under_boot(boot: u8, millis: u64) -> Options {
    on(&Arc::new(ManualClock::new(boot, millis)))
}

#[test]
fn an_empty_directory_is_never_taken_for_a_new_coordinator() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let refused = Embedded::open(&path, Options::default()).unwrap_err();
        assert!(matches!(refused, OpenError::NotInitialised { .. }), "{refused}");
        assert!(refused.to_string().contains("initialise it first"), "{refused}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_directory_that_holds_anything_is_not_initialised() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let again = Embedded::init(&dir, at_epoch_zero()).unwrap_err();
    assert!(matches!(again, OpenError::Initialised { .. }), "{again}");
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "mine").unwrap();
    let refused = Embedded::init(other.path(), at_epoch_zero()).unwrap_err();
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
}

#[test]
fn init_chooses_an_issuer_nobody_has_and_the_hours_since_2026_as_epoch() {
    let wall = ManualWallClock::new(YEAR_2026_MS + 10 * DAY_MS);
    let options = || InitOptions {
        wall_clock: Some(Arc::new(ManualWallClock::new(YEAR_2026_MS + 10 * DAY_MS))),
        ..InitOptions::default()
    };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Embedded::init(first.path(), options()).unwrap(), Embedded::init(second.path(), options()).unwrap());
    assert_eq!((a.epoch.get(), b.epoch.get()), (240, 240));
    assert_ne!(a.issuer, b.issuer);
    assert!(a.issuer.as_str().starts_with("fp-") && a.issuer.as_str().len() == 35, "{}", a.issuer);
    let opened = Embedded::open(first.path(), Options::default()).unwrap();
    assert_eq!((opened.issuer(), opened.epoch()), (&a.issuer, a.epoch));

    wall.set(YEAR_2026_MS - 1);
    let early = InitOptions { wall_clock: Some(Arc::new(wall)), ..InitOptions::default() };
    let third = tempfile::tempdir().unwrap();
    assert!(matches!(Embedded::init(third.path(), early), Err(OpenError::ClockBehind)));
    let named = InitOptions { issuer: Some(Issuer::new("prod").unwrap()), ..at_epoch_zero() };
    assert_eq!(Embedded::init(third.path(), named).unwrap().issuer.as_str(), "prod");
}

#[test]
fn a_second_opener_is_refused_and_told_which_process_is_in_the_way() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let first = Embedded::open(&dir, Options::default()).unwrap();
    let refused = Embedded::open(&dir, Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::InUse { pid: Some(pid), .. } if pid == std::process::id()), "{refused}");
    drop(first);
    assert_eq!(Embedded::open(&dir, Options::default()).unwrap().start_number(), 2);
}

/// Mutant: without `WHERE start = ?2` in the statement that appends (store/layout.rs) the first one's commit meets the
/// second one's row and fails like any other, so nobody can tell that it has not happened.
#[tokio::test]
async fn the_lock_proves_nothing_and_the_start_number_in_the_file_does() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let first = Embedded::open(&dir, Options::default()).unwrap();
    let a = session(&first, "a", 60_000).await;
    let (held, _) = acquire(&first, &a, "d").await;
    let second = Embedded::open_without_lock(&dir, Options::default()).unwrap();
    assert!(second.start_number() > first.start_number());

    assert!(is_unavailable(&first.acquire(AcquireRequest::new(&a, domain("e"), request())).await, false));
    assert!(is_unavailable(&first.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await, false));
    assert!(is_unavailable(&first.counts().await, false));
    assert!(first.ready().is_err());
    assert_eq!(holder(&second, "d").await.unwrap().lease, held.acquired.lease);
    assert!(token(&acquire(&second, &a, "e").await.0) > token(&held));
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart_and_tokens_go_on_above_it() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (kept, kept_request) = acquire(&coordinator, &key, "kept").await;
    let (released, released_request) = acquire(&coordinator, &key, "released").await;
    coordinator.release(&key.secret, released.acquired.lease, released_request).await.unwrap();
    drop(coordinator);

    let coordinator = Embedded::open(&dir, Options::default()).unwrap();
    let row = holder(&coordinator, "kept").await.unwrap();
    assert_eq!((row.lease, row.token), (kept.acquired.lease, Some(token(&kept))));
    assert!(holder(&coordinator, "released").await.is_none());
    // A late copy of an acquire, or of a release, meets what it left behind.
    let late = AcquireRequest::new(&key, domain("released"), released_request);
    assert_eq!(refusal(coordinator.acquire(late).await), AcquireRefusal::HoldEnded);
    let again = coordinator.release(&key.secret, released.acquired.lease, released_request).await.unwrap();
    assert_eq!(again.ended, Some(LeaseEnd::Released));
    let repeated = coordinator.acquire(AcquireRequest::new(&key, domain("kept"), kept_request)).await.unwrap().answer;
    assert!(repeated.acquired.again && token(&repeated) == token(&kept));
    assert!(token(&acquire(&coordinator, &key, "next").await.0) > token(&released));
}

/// Mutant: a fresh TTL at every start, whatever the session's mark, keeps the dead holder's session for ever.
#[tokio::test]
async fn restarts_give_a_dead_holder_one_grace_and_no_second_one() {
    let store = MemoryStore::new();
    let coordinator = store.open(under_boot(1, NOON)).unwrap();
    let dead = session(&coordinator, "dead", 10_000).await;
    acquire(&coordinator, &dead, "d").await;
    drop(coordinator);
    for later in [2_000, 5_000, 8_000, 11_000] {
        let coordinator = store.open(under_boot(1, NOON + later)).unwrap();
        let row = holder(&coordinator, "d").await.expect("the grace of the first restart lasts");
        assert_eq!(row.remaining_ms, 12_000 - later);
    }
    let coordinator = store.open(under_boot(1, NOON + 12_000)).unwrap();
    let counts = coordinator.counts().await.unwrap();
    assert_eq!((counts.sessions, counts.leases), (0, 0));
}

/// What had ended stays ended, whatever a start gives to those that still live. Mutant: no `expire` in a step and in a
/// tick (core's lease/machine.rs).
#[tokio::test]
async fn a_renewal_after_the_end_fails_with_and_without_a_restart_in_between() {
    for (taken, restarted) in [(false, false), (true, false), (false, true), (true, true)] {
        let (store, clock) = (MemoryStore::new(), clock());
        let mut coordinator = store.open(on(&clock)).unwrap();
        let a = session(&coordinator, "a", 2_000).await;
        let (held, _) = acquire(&coordinator, &a, "d").await;
        let mut greatest = token(&held);
        clock.advance(2_500);
        if taken {
            let b = session(&coordinator, "b", 2_000).await;
            let (between, request) = acquire(&coordinator, &b, "d").await;
            greatest = token(&between);
            coordinator.release(&b.secret, between.acquired.lease, request).await.unwrap();
        } else if restarted {
            // An end that was told is durable. One that nobody has seen yet is the next story's.
            assert!(holder(&coordinator, "d").await.is_none());
        }
        if restarted {
            drop(coordinator);
            coordinator = store.open(on(&clock)).unwrap();
        }
        let late = coordinator.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await;
        assert!(matches!(late, Err(CallError::Refused(_))), "taken {taken}, restarted {restarted}: {late:?}");
        let again = session(&coordinator, "a", 2_000).await;
        assert!(token(&acquire(&coordinator, &again, "d").await.0) > greatest);
    }
}

/// The grace of a start covers the gap: the lease has not ended, so its token stays.
#[tokio::test]
async fn a_renewal_within_the_grace_of_a_restart_keeps_lease_and_token() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let a = session(&coordinator, "a", 2_000).await;
    let (held, _) = acquire(&coordinator, &a, "d").await;
    drop(coordinator);
    clock.advance(2_500);
    let coordinator = store.open(on(&clock)).unwrap();
    let beat = coordinator.heartbeat(&a, Claim::Held(vec![held.acquired.lease])).await.unwrap().answer;
    assert_eq!(beat.leases.unwrap()[0].remaining_ms, 2_000);
    assert_eq!(holder(&coordinator, "d").await.unwrap().token, Some(token(&held)));
    assert!(coordinator.check(domain("d"), token(&held)).await.unwrap());
}

/// Mutant: without the record of a session's first heartbeat after a start (its mark stays), the healthy holder loses
/// its lease at the second restart.
#[tokio::test]
async fn a_holder_that_is_heard_between_two_restarts_gets_a_new_grace() {
    let store = MemoryStore::new();
    let coordinator = store.open(under_boot(1, NOON)).unwrap();
    let key = session(&coordinator, "healthy", 10_000).await;
    let (held, _) = acquire(&coordinator, &key, "d").await;
    drop(coordinator);
    for restart in 1..=5 {
        let coordinator = store.open(under_boot(1, NOON + restart * 9_000)).unwrap();
        let beat = coordinator.heartbeat(&key, Claim::Held(vec![held.acquired.lease])).await.unwrap().answer;
        assert_eq!(beat.leases.unwrap()[0].remaining_ms, 10_000, "restart {restart}");
    }
}

/// Nobody knows how long the machine was down, and its clock began anew: one fresh TTL, whatever the numbers say.
#[tokio::test]
async fn under_another_boot_every_session_gets_one_fresh_ttl() {
    let store = MemoryStore::new();
    let coordinator = store.open(under_boot(1, NOON)).unwrap();
    let key = session(&coordinator, "a", 10_000).await;
    let (held, _) = acquire(&coordinator, &key, "d").await;
    drop(coordinator);
    drop(store.open(under_boot(1, NOON + 9_000)).unwrap());
    for (boot, now) in [(2, 5), (3, NOON * 1_000), (4, 0)] {
        let coordinator = store.open(under_boot(boot, now)).unwrap();
        let row = holder(&coordinator, "d").await.expect("still held");
        assert_eq!((row.lease, row.remaining_ms), (held.acquired.lease, 10_000), "boot {boot}");
    }
}

#[tokio::test]
async fn the_wall_clock_pushes_the_sequence_forward_at_a_start_and_never_back() {
    let (store, wall) = (MemoryStore::new(), Arc::new(ManualWallClock::new(0)));
    let options = |push_far| Options { wall_clock: Some(Arc::clone(&wall) as _), push_far, ..on(&clock()) };
    let mut before = 0;
    for (unix_ms, at_least) in [(0, 1), (30 * DAY_MS, 30 * DAY_MS), (DAY_MS, 30 * DAY_MS)] {
        wall.set(unix_ms);
        let coordinator = store.open(options(false)).unwrap();
        let key = session(&coordinator, "a", 60_000).await;
        let now = token(&acquire(&coordinator, &key, &format!("d/{unix_ms}")).await.0).sequence().get();
        assert!(now >= at_least && now > before, "{before}, then {now} at {unix_ms}");
        before = now;
    }
    // A clock that stands a hundred years ahead does not burn the sequence unless it is told to.
    wall.set(100 * 366 * DAY_MS);
    let coordinator = store.open(options(false)).unwrap();
    assert_eq!(coordinator.withheld_push().unwrap().get(), 100 * 366 * DAY_MS);
    let key = session(&coordinator, "a", 60_000).await;
    let next = token(&acquire(&coordinator, &key, "next").await.0).sequence().get();
    assert!(next > before && next < before + DAY_MS);
    let coordinator = store.open(options(true)).unwrap();
    assert_eq!(coordinator.withheld_push(), None);
    let far = token(&acquire(&coordinator, &key, "far").await.0).sequence().get();
    assert!(far >= 100 * 366 * DAY_MS);
}

/// Mutant: the writer's clock made from the wall clock (embedded/open.rs).
#[tokio::test]
async fn steps_of_the_wall_clock_neither_end_nor_prolong_a_lease() {
    let (store, clock, wall) = (MemoryStore::new(), clock(), Arc::new(ManualWallClock::new(DAY_MS)));
    let coordinator = store.open(Options { wall_clock: Some(Arc::clone(&wall) as _), ..on(&clock) }).unwrap();
    let silent = session(&coordinator, "silent", 30_000).await;
    acquire(&coordinator, &silent, "silent").await;
    let mut renewing = Vec::new();
    for number in 0..20 {
        let key = session(&coordinator, &format!("renewing {number}"), 30_000).await;
        let (held, _) = acquire(&coordinator, &key, &format!("d/{number}")).await;
        renewing.push((key, held.acquired.lease));
    }
    let renew = async || {
        for (key, lease) in &renewing {
            let beat = coordinator.heartbeat(key, Claim::Held(vec![*lease])).await.unwrap().answer;
            assert_eq!(beat.leases.unwrap()[0].remaining_ms, 30_000);
        }
    };
    let hour = 3_600_000;
    for (step, remaining) in [(DAY_MS + hour, 20_000), (DAY_MS - 2 * hour, 10_000), (0, 1)] {
        clock.advance(holder(&coordinator, "silent").await.unwrap().remaining_ms - remaining);
        wall.set(step);
        assert_eq!(holder(&coordinator, "silent").await.unwrap().remaining_ms, remaining, "{step}");
        renew().await;
    }
    wall.set(DAY_MS + 3 * 24 * hour);
    assert!(holder(&coordinator, "silent").await.is_some(), "a millisecond is left");
    clock.advance(1);
    assert!(holder(&coordinator, "silent").await.is_none(), "its moment has come");
    renew().await;
    assert_eq!(coordinator.counts().await.unwrap().leases, 20);
}

#[test]
fn a_file_of_some_other_program_is_refused() {
    let (_parent, dir) = initialised(at_epoch_zero());
    fs::write(dir.join("coordinator.sqlite"), "not a database, and long enough to be looked at: ".repeat(99)).unwrap();
    let refused = Embedded::open(&dir, Options::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
}

/// What is in the write-ahead log may never have reached the disk, and a reader keeps it from being copied back and synced.
/// Mutant: the answer of the checkpoint not read.
#[tokio::test]
async fn a_store_that_another_program_reads_is_not_opened_until_its_log_can_be_copied_back() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let reader = rusqlite::Connection::open(dir.join("coordinator.sqlite")).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM store").unwrap();
    let log = rusqlite::Connection::open(dir.join("coordinator.sqlite")).unwrap();
    log.execute_batch("CREATE TABLE t (x)").unwrap();

    let refused = Embedded::open(&dir, under_boot(1, 1_000)).err().unwrap();
    assert!(matches!(&refused, OpenError::Store { why, .. } if why.contains("another program")), "{refused}");
    reader.execute_batch("COMMIT").unwrap();
    Embedded::open(&dir, under_boot(1, 1_000)).unwrap();
}

/// The row that says who the coordinator is has no checksum, so what has one must agree with it. Mutants: each of the
/// comparisons; the store would open with tokens that were granted before, or end in a panic.
#[tokio::test]
async fn a_store_whose_row_about_itself_does_not_agree_with_the_others_is_refused() {
    let (_parent, dir) = initialised(at_epoch_zero());
    let options = |snapshot_log_bytes| Options { snapshot_log_bytes, ..on(&clock()) };
    let damaged = |damage: &str, says: &str| {
        let copy = tempfile::tempdir().unwrap();
        let database = copy.path().join("coordinator.sqlite");
        fs::copy(dir.join("coordinator.sqlite"), &database).unwrap();
        rusqlite::Connection::open(&database).unwrap().execute_batch(damage).unwrap();
        let refused = Embedded::open(copy.path(), options(u64::MAX)).unwrap_err();
        assert!(matches!(refused, OpenError::Damaged { .. }), "{damage}: {refused}");
        assert!(refused.to_string().contains(says), "{damage}: {refused}");
    };
    let coordinator = Embedded::open(&dir, options(u64::MAX)).unwrap();
    let key = session(&coordinator, "h", 60_000).await;
    acquire(&coordinator, &key, "d").await;
    coordinator.shutdown().await;
    damaged("UPDATE store SET snapshot_covers = 2", "by a snapshot of no parts");
    damaged("UPDATE store SET snapshot_covers = 9223372036854775807", "by a snapshot of no parts");
    damaged("UPDATE store SET epoch = 3", "epoch 3");

    let coordinator = Embedded::open(&dir, options(1)).unwrap();
    acquire(&coordinator, &key, "e").await;
    until("there is a snapshot", || async { coordinator.statistics().snapshots > 0 }).await;
    coordinator.shutdown().await;
    damaged("UPDATE store SET epoch = 3", "epoch 3");
    damaged("UPDATE store SET issuer = 'another'", "of another");
    damaged("UPDATE store SET start = 0; DELETE FROM log", "was written by start 2, which has not been");
    damaged("UPDATE store SET start = 1; DELETE FROM log", "start 2 has been");
}
