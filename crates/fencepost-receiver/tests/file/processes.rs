//! Several processes on one file at once, some of them stopped.

use std::{
    collections::BTreeSet,
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use fencepost_core::fence::Verdict;
use fencepost_receiver::{WriteError, file::Trouble};

use crate::{
    children::{PATIENCE, Running, name_of},
    support::{Guarded, file_systems, grant, operation, token},
};

const WRITERS: usize = 8;
const WRITES: usize = 25;

#[test]
fn eight_processes_write_one_after_the_other_and_readers_see_whole_contents_only() {
    for parent in file_systems("eight processes that write") {
        let file = Guarded::under(&parent);
        let before = file.receiver.status().unwrap().incarnation.counter;
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = BTreeSet::new();
                while !done.load(Ordering::Acquire) {
                    let bytes = fs::read(file.path()).unwrap();
                    assert!(bytes == b"old" || name_of(&bytes).is_some(), "a mixture of two contents");
                    seen.insert(name_of(&bytes));
                }
                seen
            });
            let writers: Vec<_> =
                (0..WRITERS).map(|n| Running::start(file.path(), &format!("operations:0.5:w{n}:{WRITES}"))).collect();
            for writer in writers {
                let said = writer.said();
                assert!(said.iter().all(|line| line.starts_with("applied ")), "{said:?}");
                assert_eq!(said.len(), WRITES);
            }
            done.store(true, Ordering::Release);
            assert!(!reader.join().unwrap().is_empty());
        });
        let status = file.receiver.status().unwrap();
        // One save for each write: none was lost, none was written over another's sidecar.
        assert_eq!(status.incarnation.counter, before + (WRITERS * WRITES) as u64);
        assert_eq!(status.operations, (WRITERS * WRITES) as u64);
        assert_eq!(status.fence, Some(token("0.5")));
        for n in 0..WRITERS {
            let id = format!("w{n}-{}", WRITES - 1);
            let verdict = file.write_as("0.5", &operation(&id, id.as_bytes()), b"never");
            assert!(matches!(verdict, Verdict::Replayed(_)), "{id}");
        }
    }
}

#[test]
fn whoever_waits_too_long_for_the_lock_is_told_and_nothing_is_changed() {
    let file = Guarded::new();
    let lock = fs::File::open(file.beside("lock")).unwrap();
    lock.lock().unwrap();
    let before = file.dump();
    let hasty = file.receiver.clone().waiting(Duration::from_millis(30));
    let error = hasty.write(&grant("0.5"), None, &b"x"[..]).unwrap_err();
    let WriteError::Unavailable(cause) = &error else { panic!("{error}") };
    assert!(matches!(Trouble::of(cause), Some(Trouble::Busy { .. })), "{cause}");
    assert!(error.retryable() && !error.may_have_happened());
    assert_eq!(file.dump(), before);
    drop(lock);
    assert!(matches!(hasty.waiting(PATIENCE).write(&grant("0.5"), None, &b"x"[..]).unwrap(), Verdict::Applied(_)));
}

/// A real pause: the writer is stopped, its token replaced, and then it goes on.
#[test]
fn a_stopped_writer_that_goes_on_under_an_old_token_changes_nothing() {
    let file = Guarded::new();
    let mut old = Running::start(file.path(), "operations:0.7:old:100000");
    old.heard().unwrap();
    // Stopped with the lock it would keep everybody out; then it goes on for a moment and is stopped again.
    let hasty = file.receiver.clone().waiting(Duration::from_millis(200));
    loop {
        old.signal("-STOP");
        match hasty.advance_blocking(&grant("0.8")) {
            Ok(verdict) => break assert_eq!(verdict, Verdict::Applied(())),
            Err(error) => assert!(error.retryable(), "{error}"),
        }
        old.signal("-CONT");
    }
    let left = file.receiver.clone().write(&grant("0.8"), None, &b"new"[..]).unwrap();
    assert!(matches!(left, Verdict::Applied(_)));
    let before = file.dump();
    old.signal("-CONT");
    loop {
        // What it reports may be older than the pause; in the end it is refused.
        if old.heard().unwrap().starts_with("stale ") {
            break;
        }
    }
    assert_eq!(file.holds(), "new");
    old.kill();
    let _ = old.ended();
    assert_eq!(file.dump(), before);
}
