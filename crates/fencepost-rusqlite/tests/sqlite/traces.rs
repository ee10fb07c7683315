//! What went wrong before there was a rule, told on a real database. Each story is the shortest one there is.

use fencepost_core::{
    Grant,
    fence::{LiveLease, RejectedBy, Rejection, Verdict},
};
use fencepost_rusqlite::{SqliteReceiver, WriteError, collect};
use rusqlite::Connection;

use crate::support::{Database, add, domain, grant, operation, token};

fn stale(presented: &str, least: &str, by: RejectedBy) -> Rejection {
    Rejection::Stale { presented: token(presented), least_accepted: token(least), by }
}

fn write(connection: &mut Connection, grant: &Grant, id: &str) -> Verdict<String> {
    let name = grant.domain.as_str();
    let verdict = SqliteReceiver::new().write(connection, grant, &operation(id), add(name, 1)).unwrap();
    verdict.map(|result| String::from_utf8(result.into_bytes()).unwrap())
}

fn set(connection: &mut Connection, grant: &Grant, n: i64) -> Verdict<usize> {
    let sql = "UPDATE counter SET n = ?1 WHERE name = 'a'";
    SqliteReceiver::new().mutate(connection, grant, |tx| tx.execute(sql, [n])).unwrap()
}

fn fenced_read(connection: &mut Connection, grant: &Grant) -> Verdict<i64> {
    let read =
        |tx: &rusqlite::Transaction<'_>| tx.query_row("SELECT n FROM counter WHERE name = 'a'", [], |row| row.get(0));
    SqliteReceiver::new().read(connection, grant, read).unwrap()
}

/// A(5) reads 0 and is paused; B(6) reads 0; A writes 1: applied; B writes 1: applied. One update is lost, and no token
/// was stale: a fence that is raised by writes alone orders writes, not a read before them.
#[test]
fn m1_fenced_on_first_write_an_update_read_before_can_be_lost() {
    let database = Database::with_counters();
    let (mut a, mut b) = (database.connect(), database.connect());
    assert_eq!((database.count("a"), database.count("a")), (0, 0));
    assert_eq!(set(&mut a, &grant("a", "0.5"), 1), Verdict::Applied(1));
    assert_eq!(set(&mut b, &grant("a", "0.6"), 1), Verdict::Applied(1));
    assert_eq!(database.count("a"), 1);
}

/// The same with B advancing after its read: the advance comes too late for what was read.
#[test]
fn m2_advancing_after_the_read_does_not_help() {
    let database = Database::with_counters();
    let (mut a, mut b) = (database.connect(), database.connect());
    let read_by_b = database.count("a");
    assert_eq!(set(&mut a, &grant("a", "0.5"), 1), Verdict::Applied(1));
    assert!(matches!(SqliteReceiver::new().advance(&mut b, &grant("a", "0.6")), Ok(Verdict::Applied(()))));
    assert_eq!(set(&mut b, &grant("a", "0.6"), read_by_b + 1), Verdict::Applied(1));
    assert_eq!(database.count("a"), 1, "two applied updates, one of them lost");
}

/// The cure: the fence is at B's token before the first read. Mutant: `read` without its raise lets A's write in.
#[test]
fn m1_and_m2_do_not_happen_when_the_fence_is_raised_before_the_read() {
    let database = Database::with_counters();
    let (mut a, mut b) = (database.connect(), database.connect());
    assert_eq!(fenced_read(&mut b, &grant("a", "0.6")), Verdict::Applied(0));
    assert_eq!(set(&mut a, &grant("a", "0.5"), 1), Verdict::Rejected(stale("0.5", "0.6", RejectedBy::Fence)));
    assert_eq!(set(&mut b, &grant("a", "0.6"), 1), Verdict::Applied(1));
    assert_eq!(fenced_read(&mut a, &grant("a", "0.5")), Verdict::Rejected(stale("0.5", "0.6", RejectedBy::Fence)));
}

/// The holder has not written yet when the collector comes by. Mutant: fences of live leases not inserted.
#[test]
fn w2_a_live_holder_that_has_not_written_yet_survives_a_collection() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let live = [LiveLease { domain: domain("a"), token: token("1.1") }];
    assert!(collect(&mut connection, token("1.5"), &live, None).unwrap().refused.is_empty());
    assert_eq!(write(&mut connection, &grant("a", "1.1"), "x"), Verdict::Applied("1".into()));
    assert_eq!(write(&mut connection, &grant("b", "1.4"), "x"), {
        Verdict::Rejected(stale("1.4", "1.5", RejectedBy::UnfencedFloor))
    });
}

/// Read at the coordinator: 1.1 is live. Then 1.2 is granted, writes, is collected; now the old message arrives.
/// Mutant: the fence of a live lease inserted without deciding.
#[test]
fn w2_a_late_collection_does_not_readmit_an_old_token() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let late = [LiveLease { domain: domain("a"), token: token("1.1") }];
    assert_eq!(write(&mut connection, &grant("a", "1.2"), "x"), Verdict::Applied("1".into()));
    assert_eq!(collect(&mut connection, token("1.9"), &[], None).unwrap().fences, 1);
    assert_eq!(collect(&mut connection, token("1.2"), &late, None).unwrap().refused, late);
    assert_eq!(write(&mut connection, &grant("a", "1.1"), "y"), {
        Verdict::Rejected(stale("1.1", "1.9", RejectedBy::UnfencedFloor))
    });
}

/// Mutant: records deleted without raising the horizon.
#[test]
fn w3_an_operation_whose_record_was_collected_is_too_old_and_not_new() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let pay = operation("pay").born(token("1.1"));
    let mut attempt = |text: &str| {
        SqliteReceiver::new().write(&mut connection, &grant("a", text), &pay, add("a", 1)).unwrap().map(|_| ())
    };
    assert_eq!(attempt("1.1"), Verdict::Applied(()));
    assert_eq!(attempt("1.2"), Verdict::Replayed(()));
    let collected = collect(&mut database.connect(), token("1.1"), &[], Some(token("1.2"))).unwrap();
    assert_eq!(collected.operations, 1);
    assert_eq!(attempt("1.2"), Verdict::Rejected(Rejection::OperationTooOld));
    assert_eq!(database.count("a"), 1);
}

/// Operation ids are scoped by domain, so one over both domains is another operation than one over either.
#[test]
fn w4_the_set_of_domains_belongs_to_the_operation() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let both = [grant("b", "0.6"), grant("a", "0.5")];
    let receiver = SqliteReceiver::new();
    let mut over = |grants: &[Grant]| {
        let mutation = |tx: &rusqlite::Transaction<'_>| {
            add("a", 1)(tx)?;
            add("b", 1)(tx)
        };
        receiver.write_all(&mut connection, grants, &operation("pay"), mutation).unwrap().map(|_| ())
    };
    assert_eq!(over(&both), Verdict::Applied(()));
    let [b, a] = both.clone();
    assert_eq!(over(&[a.clone(), b]), Verdict::Replayed(()), "in whatever order");
    assert_eq!(over(&[a]), Verdict::Rejected(Rejection::OperationConflict));
    assert_eq!(over(&[grant("a", "0.5"), grant("c", "0.7")]), Verdict::Rejected(Rejection::OperationConflict));
    assert_eq!((database.count("a"), database.count("b")), (1, 1));
}

/// Records of one operation go together: a horizon between the tokens of its domains must not leave one behind, which
/// would look like a record that was removed. Mutant: each record kept by its own domain's token.
#[test]
fn a_collection_removes_all_records_of_an_operation_or_none() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let both = [grant("a", "0.1"), grant("b", "0.2")];
    let mut pay = || {
        let mutation = |tx: &rusqlite::Transaction<'_>| {
            add("a", 1)(tx)?;
            add("b", 1)(tx)
        };
        SqliteReceiver::new().write_all(&mut connection, &both, &operation("pay"), mutation).unwrap().map(|_| ())
    };
    assert_eq!(pay(), Verdict::Applied(()));
    let collected = collect(&mut database.connect(), token("0.1"), &[], Some(token("0.2"))).unwrap();
    assert_eq!(collected.operations, 0);
    assert_eq!(pay(), Verdict::Replayed(()));
}

/// B(6) replays X of A(5); A(5) writes Y. Mutant: a replay that raises nothing lets Y in.
#[test]
fn w5_a_replay_under_a_greater_token_shuts_out_the_older_owner() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "x"), Verdict::Applied("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.6"), "x"), Verdict::Replayed("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "y"), {
        Verdict::Rejected(stale("0.5", "0.6", RejectedBy::Fence))
    });
}

/// Shared leases under two tokens on one fence make a rightful holder stale, which is why there are none under `safety`.
#[test]
fn s1_of_two_live_tokens_on_one_fence_only_the_greater_can_write() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write(&mut connection, &grant("a", "0.2"), "x"), Verdict::Applied("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.1"), "y"), {
        Verdict::Rejected(stale("0.1", "0.2", RejectedBy::Fence))
    });
}

/// A lost answer, retried by the same owner and, after the lease has moved on, by the stale one: the effect is there, so
/// the answer is the recorded result. Mutant: staleness checked before the record.
#[test]
fn an_operation_that_took_effect_is_replayed_whoever_asks_and_however_late() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "x"), Verdict::Applied("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "x"), Verdict::Replayed("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.6"), "z"), Verdict::Applied("2".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "x"), Verdict::Replayed("1".into()));
    assert_eq!(write(&mut connection, &grant("a", "0.5"), "y"), {
        Verdict::Rejected(stale("0.5", "0.6", RejectedBy::Fence))
    });
    assert_eq!(database.count("a"), 2);
}

/// Mutant: an equal token refused.
#[test]
fn a_holder_writes_as_often_as_it_likes_under_one_token() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    for n in 1..=3 {
        assert_eq!(write(&mut connection, &grant("a", "0.5"), &format!("x{n}")), Verdict::Applied(n.to_string()));
    }
}

#[test]
fn a_write_over_several_domains_is_applied_under_all_tokens_or_none() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write(&mut connection, &grant("b", "0.9"), "x"), Verdict::Applied("1".into()));
    let before = database.dump();
    let receiver = SqliteReceiver::new();
    let grants = [grant("a", "0.5"), grant("b", "0.6")];
    let verdict = receiver.mutate_all(&mut connection, &grants, |tx| add("a", 1)(tx)).unwrap();
    assert_eq!(verdict.map(|_| ()), Verdict::Rejected(stale("0.6", "0.9", RejectedBy::Fence)));
    assert_eq!(database.dump(), before, "the fence of a is not raised either");
    for grants in [vec![], vec![grant("a", "0.5"), grant("a", "0.6")]] {
        let refused = receiver.mutate_all(&mut connection, &grants, |tx| add("a", 1)(tx));
        assert!(matches!(refused, Err(WriteError::Invalid(_))), "{grants:?}");
    }
}

#[test]
fn another_issuers_grant_and_one_of_an_untold_epoch_change_nothing() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let before = database.dump();
    let mut foreign = grant("a", "0.5");
    foreign.issuer = fencepost_core::Issuer::new("staging").unwrap();
    assert_eq!(write(&mut connection, &foreign, "x"), Verdict::Rejected(Rejection::WrongIssuer));
    let verdict = write(&mut connection, &grant("a", "2.1"), "x");
    assert!(matches!(verdict, Verdict::Rejected(Rejection::UnknownEpoch { .. })), "{verdict:?}");
    assert_eq!(database.dump(), before);
}
