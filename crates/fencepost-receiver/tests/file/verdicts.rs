//! What each presented grant gets, and what it leaves behind.

use std::{
    io::{self, Read},
    sync::Barrier,
    thread,
};

use fencepost_core::{
    Issuer, OperationId,
    fence::{Closure, RejectedBy, Rejection, Verdict},
};
use fencepost_receiver::{Receiver, WriteError, file::Trouble};

use crate::support::{Guarded, content, domain, grant, operation, rejected, seed, stale, token};

#[test]
fn a_greater_and_an_equal_token_write_and_an_older_one_changes_nothing() {
    let file = Guarded::new();
    assert_eq!(file.write("0.5", b"five"), Verdict::Applied(content(b"five")));
    assert_eq!(file.write("0.5", b"again"), Verdict::Applied(content(b"again")));
    assert_eq!(file.write("0.6", b"six"), Verdict::Applied(content(b"six")));
    let before = file.dump();
    assert_eq!(rejected(&file.write("0.5", b"late")), Some(stale("0.5", "0.6", RejectedBy::Fence)));
    assert_eq!(file.dump(), before);
}

#[test]
fn a_late_write_before_the_new_owners_first_lands_unless_the_fence_was_advanced() {
    let file = Guarded::new();
    let _ = file.write("0.7", b"seven");
    assert_eq!(file.write("0.7", b"late"), Verdict::Applied(content(b"late")));
    assert_eq!(file.receiver.advance_blocking(&grant("0.8")).unwrap(), Verdict::Applied(()));
    let before = file.dump();
    assert_eq!(rejected(&file.write("0.7", b"later")), Some(stale("0.7", "0.8", RejectedBy::Fence)));
    assert_eq!(file.dump(), before);
}

#[test]
fn a_fenced_read_raises_the_fence_and_its_handle_stays_on_what_was_read() {
    let file = Guarded::new();
    let mut handle = file.receiver.read(&grant("0.6")).unwrap().result().unwrap().unwrap();
    assert_eq!(rejected(&file.write("0.5", b"late")), Some(stale("0.5", "0.6", RejectedBy::Fence)));
    let _ = file.write("0.6", b"new");
    let mut read = String::new();
    handle.read_to_string(&mut read).unwrap();
    assert_eq!(read, "old");
    let verdict = file.receiver.read(&grant("0.5")).unwrap();
    assert_eq!(rejected(&verdict), Some(stale("0.5", "0.6", RejectedBy::Fence)));
}

#[test]
fn a_grant_of_something_else_is_refused_with_the_reason() {
    let file = Guarded::new();
    let before = file.dump();
    let other = fencepost_core::Grant { domain: domain("g"), ..grant("0.5") };
    let verdict = file.receiver.write(&other, None, &b"x"[..]).unwrap();
    assert_eq!(rejected(&verdict), Some(Rejection::WrongDomain));
    let other = fencepost_core::Grant { issuer: Issuer::new("test").unwrap(), ..grant("0.5") };
    let verdict = file.receiver.write(&other, None, &b"x"[..]).unwrap();
    assert_eq!(rejected(&verdict), Some(Rejection::WrongIssuer));
    assert!(matches!(rejected(&file.write("2.1", b"x")), Some(Rejection::UnknownEpoch { .. })));
    assert_eq!(file.dump(), before);
}

#[test]
fn an_operation_takes_effect_once_for_the_same_and_for_the_next_owner() {
    let file = Guarded::new();
    let x = operation("x", b"pay");
    assert_eq!(file.write_as("0.5", &x, b"paid"), Verdict::Applied(content(b"paid")));
    assert_eq!(file.write_as("0.5", &x, b"paid"), Verdict::Replayed(content(b"paid")));
    let _ = file.write("0.6", b"next");
    assert_eq!(file.write_as("0.6", &x, b"other bytes"), Verdict::Replayed(content(b"paid")));
    assert_eq!(file.write_as("0.5", &x, b"paid"), Verdict::Replayed(content(b"paid")), "stale by now, and it happened");
    assert_eq!(
        rejected(&file.write_as("0.5", &operation("y", b"y"), b"y")),
        Some(stale("0.5", "0.6", RejectedBy::Fence))
    );
    assert_eq!(rejected(&file.write_as("0.6", &operation("x", b"pay more"), b"x")), Some(Rejection::OperationConflict));
    assert_eq!(file.holds(), "next");
}

#[test]
fn a_replay_under_a_greater_token_raises_the_fence() {
    let file = Guarded::new();
    let x = operation("x", b"x");
    let _ = file.write_as("0.5", &x, b"x");
    assert_eq!(file.write_as("0.6", &x, b"x"), Verdict::Replayed(content(b"x")));
    assert_eq!(rejected(&file.write("0.5", b"y")), Some(stale("0.5", "0.6", RejectedBy::Fence)));
}

#[test]
fn an_operation_from_staged_content_conflicts_with_other_content_under_its_id() {
    let file = Guarded::new();
    let id = || OperationId::new("x").unwrap();
    let staged = file.receiver.stage(&b"one"[..]).unwrap();
    let one = staged.operation(id());
    let _ = file.receiver.write_staged(&grant("0.5"), Some(&one), staged).unwrap();
    let staged = file.receiver.stage(&b"two"[..]).unwrap();
    let two = staged.operation(id());
    let verdict = file.receiver.write_staged(&grant("0.5"), Some(&two), staged).unwrap();
    assert_eq!(rejected(&verdict), Some(Rejection::OperationConflict));
}

#[test]
fn an_operation_born_after_its_token_is_invalid_and_nothing_is_changed() {
    let file = Guarded::new();
    let before = file.dump();
    let later = operation("x", b"x").born(token("0.9"));
    let error = file.receiver.write(&grant("0.5"), Some(&later), &b"x"[..]).unwrap_err();
    assert!(matches!(error, WriteError::Invalid(_)) && !error.may_have_happened());
    assert_eq!(file.dump(), before);
}

struct Fails;

impl Read for Fails {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Something comes first, as from a pipe whose producer dies in the middle.
        if buffer.len() > 1_000 { Err(io::Error::other("the producer died")) } else { Ok(0) }
    }
}

#[test]
fn a_source_that_fails_in_the_middle_leaves_everything_as_it_was_and_the_id_free() {
    let file = Guarded::new();
    let before = file.dump();
    let x = operation("x", b"x");
    let source = (&b"half"[..]).chain(Fails);
    let error = file.receiver.write(&grant("0.5"), Some(&x), source).unwrap_err();
    assert!(matches!(&error, WriteError::Mutation(cause) if cause.to_string() == "the producer died"), "{error}");
    assert_eq!(file.dump(), before);
    assert_eq!(file.write_as("0.5", &x, b"whole"), Verdict::Applied(content(b"whole")));
}

#[test]
fn empty_content_is_refused_unless_it_is_allowed() {
    let file = Guarded::new();
    let before = file.dump();
    let error = file.receiver.write(&grant("0.5"), None, &b""[..]).unwrap_err();
    let WriteError::Invalid(invalid) = &error else { panic!("{error}") };
    assert_eq!(invalid.field(), "content");
    assert_eq!(file.dump(), before);
    let allowing = file.receiver.clone().allowing_empty(true);
    assert_eq!(allowing.write(&grant("0.5"), None, &b""[..]).unwrap(), Verdict::Applied(content(b"")));
    assert_eq!(file.holds(), "");
}

#[test]
fn content_larger_than_any_buffer_arrives_whole() {
    let file = Guarded::new();
    let bytes: Vec<u8> = (0..5_000_011_u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(file.write("0.5", &bytes), Verdict::Applied(content(&bytes)));
    assert_eq!(std::fs::read(file.path()).unwrap(), bytes);
}

#[test]
fn of_a_hundred_requests_under_one_id_one_payload_is_applied_and_the_other_conflicts() {
    let file = Guarded::new();
    let start = Barrier::new(100);
    let receiver = file.receiver.clone().waiting(std::time::Duration::from_secs(120));
    let verdicts: Vec<(usize, Verdict<_>)> = thread::scope(|scope| {
        let runs: Vec<_> = (0..100)
            .map(|n| {
                let (start, receiver) = (&start, &receiver);
                scope.spawn(move || {
                    let payload = [&b"P"[..], b"Q"][n % 2];
                    let operation = operation("x", payload);
                    start.wait();
                    (n % 2, receiver.write(&grant("0.5"), Some(&operation), payload).unwrap())
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let applied: Vec<_> = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Applied(_))).collect();
    assert_eq!(applied.len(), 1);
    let winner = applied[0].0;
    for (payload, verdict) in &verdicts {
        match rejected(verdict) {
            None => assert_eq!(*payload, winner),
            Some(rejection) => assert_eq!((rejection, *payload == winner), (Rejection::OperationConflict, false)),
        }
    }
    assert_eq!(file.holds(), ["P", "Q"][winner]);
}

#[test]
fn records_are_bounded_and_what_is_forgotten_is_too_old() {
    let file = Guarded::new();
    let receiver = file.receiver.clone().keeping(3);
    let write = |text: &str, id: &str, born: &str| {
        let operation = operation(id, b"x").born(token(born));
        receiver.write(&grant(text), Some(&operation), &b"x"[..])
    };
    for id in ["a", "b"] {
        assert!(matches!(write("0.5", id, "0.5").unwrap(), Verdict::Applied(_)));
    }
    for id in ["c", "d"] {
        assert!(matches!(write("0.6", id, "0.6").unwrap(), Verdict::Applied(_)));
    }
    assert_eq!(rejected(&write("0.6", "a", "0.5").unwrap()), Some(Rejection::OperationTooOld));
    assert!(matches!(write("0.6", "d", "0.6").unwrap(), Verdict::Replayed(_)));
    assert!(matches!(write("0.6", "e", "0.6").unwrap(), Verdict::Applied(_)));
    // Three records of the current token: forgetting one of them would let its retry apply again.
    let error = write("0.6", "f", "0.6").unwrap_err();
    let WriteError::Unavailable(cause) = &error else { panic!("{error}") };
    assert!(matches!(Trouble::of(cause), Some(Trouble::RecordsFull { kept: 3 })), "{cause}");
    assert!(matches!(write("0.7", "f", "0.7").unwrap(), Verdict::Applied(_)));
}

#[test]
fn records_without_birth_are_kept_for_the_last_so_many() {
    let file = Guarded::new();
    let receiver = file.receiver.clone().keeping(2);
    let write = |id: &str| receiver.write(&grant("0.5"), Some(&operation(id, b"x")), &b"x"[..]).unwrap();
    for id in ["a", "b", "c"] {
        assert!(matches!(write(id), Verdict::Applied(_)));
    }
    assert!(matches!(write("c"), Verdict::Replayed(_)));
    assert!(matches!(write("a"), Verdict::Applied(_)), "retention is over, as documented");
}

#[test]
fn a_file_that_was_never_guarded_is_closed_and_nothing_is_made_beside_it() {
    let file = Guarded::unguarded(&std::env::temp_dir());
    std::fs::write(file.path(), "plain").unwrap();
    let before = file.dump();
    assert_eq!(rejected(&file.write("0.5", b"x")), Some(Rejection::Closed(Closure::NotGuarded)));
    let verdict = file.receiver.advance_blocking(&grant("0.5")).unwrap();
    assert_eq!(rejected(&verdict), Some(Rejection::Closed(Closure::NotGuarded)));
    let error = file.receiver.status().unwrap_err();
    assert!(error.to_string().contains("fencepost guard file:PATH --domain NAME"), "{error}");
    assert_eq!(file.dump(), before);
}

#[test]
fn a_guard_keeps_what_it_knows_and_unguarding_ends_writes_only() {
    let file = Guarded::new();
    let _ = file.write("0.5", b"x");
    let again = file.receiver.guard(&domain("f"), Some(&seed().with_snapshot(token("0.4"), vec![]))).unwrap();
    assert!(!again.receiver_created);
    file.receiver.unguard().unwrap();
    assert_eq!(rejected(&file.write("0.6", b"y")), Some(Rejection::Closed(Closure::NotGuarded)));
    file.receiver.guard(&domain("f"), None).unwrap();
    assert_eq!(rejected(&file.write("0.4", b"y")), Some(stale("0.4", "0.5", RejectedBy::Fence)));
    assert_eq!(file.write("0.5", b"y"), Verdict::Applied(content(b"y")));
    let error = file.receiver.guard(&domain("g"), None).unwrap_err();
    assert_eq!(error.to_string(), "this file belongs to domain f, not to g");
}

#[test]
fn guarding_shuts_out_what_the_coordinator_no_longer_lists() {
    let file = Guarded::unguarded(&std::env::temp_dir());
    let seed = seed().with_snapshot(token("0.9"), vec![crate::support::live("f", "0.7")]);
    let guarded = file.receiver.guard(&domain("f"), Some(&seed)).unwrap();
    assert!(guarded.receiver_created && guarded.refused.is_empty());
    assert_eq!(rejected(&file.write("0.6", b"x")), Some(stale("0.6", "0.7", RejectedBy::Fence)));
    assert_eq!(file.write("0.7", b"x"), Verdict::Applied(content(b"x")));
    assert!(matches!(
        Guarded::unguarded(&std::env::temp_dir()).receiver.guard(&domain("f"), None).unwrap_err(),
        fencepost_receiver::file::MaintenanceError::SeedNeeded
    ));
}

#[test]
fn names_of_any_form_come_back_as_they_were() {
    for name in ["f/../..", "%2F?#", "a:b{}'\";", "🦀", "f\u{a0}\u{202e}"] {
        let file = Guarded::unguarded(&std::env::temp_dir());
        file.receiver.guard(&domain(name), Some(&seed())).unwrap();
        let grant = fencepost_core::Grant { domain: domain(name), ..grant("0.5") };
        let operation = operation(name, name.as_bytes());
        let verdict = file.receiver.write(&grant, Some(&operation), name.as_bytes()).unwrap();
        assert!(matches!(verdict, Verdict::Applied(_)));
        assert_eq!(file.receiver.status().unwrap().domain.as_str(), name);
        assert!(matches!(file.receiver.write(&grant, Some(&operation), &b"x"[..]).unwrap(), Verdict::Replayed(_)));
    }
}

#[test]
fn an_advance_is_a_future_that_needs_no_runtime() {
    use std::{
        future::Future,
        pin::pin,
        sync::Arc,
        task::{Context, Poll, Wake, Waker},
    };
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let file = Guarded::new();
    let grant = grant("0.5");
    let mut advance = pin!(file.receiver.advance(&grant));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let verdict = loop {
        match advance.as_mut().poll(&mut context) {
            Poll::Ready(verdict) => break verdict.unwrap(),
            Poll::Pending => thread::park(),
        }
    };
    assert_eq!(verdict, Verdict::Applied(()));
    assert_eq!(file.receiver.status().unwrap().fence, Some(token("0.5")));
    assert!(file.receiver.name().starts_with("file:/"));
}
