//! The receiver's own records: removed, lowered, copied, restored, recovered, collected, and names of every kind in them.

use std::fs;

use fencepost_core::{
    Epoch, Issuer, OperationId,
    fence::{Closure, Condition, LiveLease, Operation, RejectedBy, Rejection, Verdict},
};
use fencepost_rusqlite::{
    DomainExpression, Incarnation, MaintenanceError, Mode, ReceiverSeed, Seen, SqliteFile, SqliteReceiver, collect,
    fences, guard, incarnation, recover, status, unguard,
};
use rusqlite::Connection;

use crate::support::{Database, add, domain, dump, grant, issuer, operation, result, seed, token};

fn write_a(connection: &mut Connection, text: &str) -> Verdict<()> {
    SqliteReceiver::new().mutate(connection, &grant("a", text), add("a", 1)).unwrap().map(|_| ())
}

fn closed<T>(why: Closure) -> Verdict<T> {
    Verdict::Rejected(Rejection::Closed(why))
}

/// Takes a trigger of Fencepost's own off, as somebody with the file in his hands can.
fn without(connection: &Connection, trigger: &str) {
    connection.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
}

#[test]
fn a_database_that_was_never_guarded_is_closed() {
    let database = Database::new("CREATE TABLE counter (name TEXT, n INTEGER)");
    let mut connection = database.connect();
    assert_eq!(write_a(&mut connection, "0.5"), closed(Closure::NotGuarded));
    assert!(matches!(status(&connection), Err(MaintenanceError::Closed(Closure::NotGuarded))));
    let unseeded = guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, None);
    assert!(matches!(unseeded, Err(MaintenanceError::SeedNeeded)));
}

/// Mutant: a domain without a fence taken for one that was never written to.
#[test]
fn a_fence_removed_behind_the_receivers_back_closes_it_for_domains_without_one() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write_a(&mut connection, "0.9"), Verdict::Applied(()));
    without(&connection, "fencepost_fence_stays");
    connection.execute("DELETE FROM fencepost_fence", []).unwrap();
    let before = database.dump();
    assert_eq!(write_a(&mut connection, "0.8"), closed(Closure::FenceMissing));
    assert_eq!(write_a(&mut connection, "0.10"), closed(Closure::FenceMissing));
    assert_eq!(database.dump(), before);
    assert_eq!(status(&connection).unwrap().condition, Condition::Closed(Closure::FenceMissing));
}

#[test]
fn removed_tables_and_a_removed_row_close_the_receiver_for_good() {
    for damage in [
        "DROP TABLE fencepost_fence",
        "DROP TABLE fencepost_operation",
        "DROP TABLE fencepost_entry",
        "DROP TABLE fencepost_receiver",
        "DROP TRIGGER fencepost_receiver_stays; DELETE FROM fencepost_receiver",
        "DROP TRIGGER fencepost_counter_stays; DELETE FROM fencepost_entry",
    ] {
        let database = Database::with_counters();
        let mut connection = database.connect();
        assert_eq!(write_a(&mut connection, "0.9"), Verdict::Applied(()));
        connection.execute_batch(damage).unwrap();
        let write = SqliteReceiver::new().write(&mut connection, &grant("a", "0.8"), &operation("x"), add("a", 1));
        assert_eq!(write.unwrap(), closed(Closure::MetadataMissing), "{damage}");
        let expression = DomainExpression::new("name").unwrap();
        let guarded_again = guard(&mut connection, "counter", &expression, Mode::Enforce, Some(&seed()));
        assert!(matches!(guarded_again, Err(MaintenanceError::Closed(Closure::MetadataMissing))), "{damage}");
    }
}

#[test]
fn damaged_columns_close_the_receiver() {
    for damage in ["recovery = x'01'", "known_epoch = 9999999", "layout = 2", "floor = -1", "issuer = ''"] {
        let database = Database::with_counters();
        let mut connection = database.connect();
        without(&connection, "fencepost_receiver_rises");
        connection.pragma_update(None, "ignore_check_constraints", true).unwrap();
        connection.execute(&format!("UPDATE fencepost_receiver SET {damage}"), []).unwrap();
        let verdict = write_a(&mut connection, "0.9");
        if damage != "layout = 2" {
            assert_eq!(verdict, closed(Closure::MetadataMissing), "{damage}");
        }
    }
}

#[test]
fn nothing_that_a_receiver_knows_can_be_lowered_or_removed_by_plain_sql() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let op = operation("x").born(token("1.1"));
    assert!(SqliteReceiver::new().write(&mut connection, &grant("a", "1.1"), &op, add("a", 1)).is_ok());
    collect(&mut connection, token("0.5"), &[], Some(token("0.5"))).unwrap();
    let before = dump(&connection);
    for sql in [
        "UPDATE fencepost_fence SET token = 1",
        "UPDATE fencepost_fence SET domain = 'z'",
        "DELETE FROM fencepost_fence",
        "REPLACE INTO fencepost_fence VALUES ('a', 1)",
        "INSERT INTO fencepost_fence VALUES ('a', 1) ON CONFLICT DO UPDATE SET token = excluded.token",
        "UPDATE fencepost_receiver SET known_epoch = 0",
        "UPDATE fencepost_receiver SET unfenced_floor = NULL",
        "UPDATE fencepost_receiver SET unfenced_floor = 1",
        "UPDATE fencepost_receiver SET horizon = 1",
        "UPDATE fencepost_entry SET counter = counter - 1 WHERE slot = 0",
        "UPDATE fencepost_entry SET slot = 9 WHERE slot = 0",
        "DELETE FROM fencepost_entry",
        "REPLACE INTO fencepost_entry VALUES (0, NULL, 1)",
        "UPDATE fencepost_receiver SET issuer = 'me'",
        "DELETE FROM fencepost_receiver",
        "REPLACE INTO fencepost_receiver SELECT * FROM fencepost_receiver",
        "UPDATE fencepost_operation SET result = x'00'",
        "DELETE FROM fencepost_operation",
        "REPLACE INTO fencepost_operation SELECT * FROM fencepost_operation",
    ] {
        let refused = connection.execute(sql, []).expect_err(sql);
        assert!(refused.to_string().starts_with("fencepost: "), "{sql}: {refused}");
        assert_eq!(dump(&connection), before, "{sql}");
    }
}

#[test]
fn a_copy_of_the_file_is_closed_until_it_is_recovered_and_the_original_is_not() {
    let database = Database::with_counters();
    let mut original = database.connect();
    assert_eq!(write_a(&mut original, "1.5"), Verdict::Applied(()));
    let copied = database.path.with_file_name("copy.db");
    original.execute("VACUUM INTO ?1", [copied.to_str().unwrap()]).unwrap();
    let mut copy = Connection::open(&copied).unwrap();
    assert_eq!(write_a(&mut copy, "1.6"), closed(Closure::OtherIncarnation));
    assert_eq!(write_a(&mut original, "1.6"), Verdict::Applied(()));

    let noted = incarnation(&copy).unwrap();
    let live = vec![LiveLease { domain: domain("a"), token: token("1.6") }];
    let seed = seed().with_snapshot(token("1.7"), live);
    let recovered = recover(&mut copy, &noted, &seed, &Seen::new()).unwrap();
    assert_ne!(recovered.incarnation.recovery, noted.recovery);
    assert!(recovered.incarnation.counter > noted.counter);
    assert!(matches!(write_a(&mut copy, "1.5"), Verdict::Rejected(Rejection::Stale { .. })));
    assert_eq!(write_a(&mut copy, "1.6"), Verdict::Applied(()), "a live holder goes on");
}

/// The file is put back in place with the same inode: nothing in it shows that. Only the counter that the caller has seen
/// does. Mutant: the counter not compared.
#[test]
fn a_file_copied_back_is_noticed_by_whoever_has_seen_a_greater_counter() {
    let database = Database::with_counters();
    let receiver = SqliteReceiver::new();
    let write = |receiver: &SqliteReceiver, text: &str| {
        receiver.mutate(&mut database.connect(), &grant("a", text), add("a", 1)).unwrap().map(|_| ())
    };
    assert_eq!(write(&receiver, "1.4"), Verdict::Applied(()));
    let backup = fs::read(&database.path).unwrap();
    assert_eq!(write(&receiver, "1.6"), Verdict::Applied(()));
    let seen = receiver.seen().greatest();
    fs::write(&database.path, backup).unwrap();

    assert_eq!(write(&receiver, "1.7"), closed(Closure::WentBack));
    assert_eq!(write(&SqliteReceiver::with_seen(Seen::from_counter(seen)), "1.7"), closed(Closure::WentBack));
    let advance = SqliteFile::with_receiver(&database.path, receiver.clone()).advance_blocking(&grant("a", "1.7"));
    assert_eq!(advance.unwrap(), closed(Closure::WentBack));

    let mut connection = database.connect();
    let noted = incarnation(&connection).unwrap();
    let seed = seed().with_snapshot(token("1.8"), Vec::new());
    recover(&mut connection, &noted, &seed, receiver.seen()).unwrap();
    assert!(matches!(write(&receiver, "1.5"), Verdict::Rejected(Rejection::Stale { .. })));
    assert_eq!(write(&receiver, "1.8"), Verdict::Applied(()));
    // The same backup put back once more, and recovered by somebody who has seen nothing: its counter starts above.
    let seen = receiver.seen().greatest();
    assert!(seen > noted.counter + 1000);
}

#[test]
fn a_connection_that_writes_on_into_a_replaced_file_is_refused() {
    let database = Database::with_counters();
    let mut kept = database.connect();
    kept.pragma_update(None, "journal_mode", "delete").unwrap();
    assert_eq!(write_a(&mut kept, "1.5"), Verdict::Applied(()));
    let moved = database.path.with_file_name("moved.db");
    fs::copy(&database.path, &moved).unwrap();
    fs::rename(&moved, &database.path).unwrap();
    assert_eq!(write_a(&mut kept, "1.5"), closed(Closure::OtherIncarnation));
}

#[test]
fn a_recovery_that_was_overtaken_changes_nothing_and_one_done_twice_is_harmless() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    without(&connection, "fencepost_fence_stays");
    let seed = seed().with_snapshot(token("1.7"), Vec::new());
    let noted = incarnation(&connection).unwrap();
    recover(&mut connection, &noted, &seed, &Seen::new()).unwrap();
    let before = dump(&connection);
    let hung = recover(&mut connection, &noted, &seed, &Seen::new());
    assert!(matches!(hung, Err(MaintenanceError::Overtaken)));
    let elsewhere = Incarnation { recovery: None, ..noted };
    assert!(matches!(recover(&mut connection, &elsewhere, &seed, &Seen::new()), Err(MaintenanceError::Overtaken)));
    assert_eq!(dump(&connection), before);
    let noted = incarnation(&connection).unwrap();
    recover(&mut connection, &noted, &seed, &Seen::new()).unwrap();
    assert!(matches!(write_a(&mut connection, "1.6"), Verdict::Rejected(Rejection::Stale { .. })));
}

#[test]
fn lost_records_are_recovered_from_what_the_coordinator_says_is_live() {
    for damage in [
        "DROP TABLE fencepost_fence",
        "DROP TABLE fencepost_receiver",
        "DROP TABLE fencepost_entry",
        "DROP TRIGGER fencepost_counter_stays; DELETE FROM fencepost_entry",
    ] {
        let database = Database::with_counters();
        let mut connection = database.connect();
        assert_eq!(write_a(&mut connection, "1.5"), Verdict::Applied(()));
        connection.execute_batch(damage).unwrap();
        let noted = incarnation(&connection).unwrap();
        assert!(matches!(recover(&mut connection, &noted, &seed(), &Seen::new()), Err(MaintenanceError::SeedNeeded)));
        let live = vec![LiveLease { domain: domain("b"), token: token("1.3") }];
        let seed = seed().with_snapshot(token("1.6"), live);
        recover(&mut connection, &noted, &seed, &Seen::new()).unwrap();
        assert!(matches!(write_a(&mut connection, "1.4"), Verdict::Rejected(Rejection::Stale { .. })), "{damage}");
        assert_eq!(write_a(&mut connection, "1.6"), Verdict::Applied(()), "{damage}");
        let b = SqliteReceiver::new().mutate(&mut connection, &grant("b", "1.3"), add("b", 1)).unwrap();
        assert!(matches!(b, Verdict::Applied(_)), "{damage}: {b:?}");
    }
}

#[test]
fn guarding_again_learns_and_never_lowers() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let expression = DomainExpression::new("name").unwrap();
    let mut again = |seed: &ReceiverSeed| guard(&mut connection, "counter", &expression, Mode::Enforce, Some(seed));
    let new = |epoch: u32| ReceiverSeed::new(issuer(), Epoch::new(epoch).unwrap());
    assert!(!again(&new(3).with_floor(token("2.1")).with_snapshot(token("3.5"), Vec::new())).unwrap().receiver_created);
    again(&new(1).with_floor(token("1.1")).with_snapshot(token("1.5"), Vec::new())).unwrap();
    let foreign = ReceiverSeed::new(Issuer::new("staging").unwrap(), Epoch::ZERO);
    assert!(matches!(again(&foreign), Err(MaintenanceError::WrongIssuer { .. })));
    let known = status(&connection).unwrap();
    assert_eq!(known.known_epoch.get(), 3);
    assert_eq!((known.floor, known.unfenced_floor), (Some(token("3.0")), Some(token("3.5"))));
}

/// I11. Mutants: `least_accepted` gives the seed's floor alone, or `collect` raises none; the domain's own fence lets a
/// token of the lost epoch pass.
#[test]
fn a_read_of_a_coordinator_in_a_later_epoch_ends_the_earlier_ones() {
    let collected = Database::with_counters();
    let mut connection = collected.connect();
    assert_eq!(write_a(&mut connection, "0.5"), Verdict::Applied(()));
    let live = [LiveLease { domain: domain("a"), token: token("2.3") }];
    collect(&mut connection, token("2.7"), &live, None).unwrap();
    let verdict = write_a(&mut connection, "0.9");
    assert!(matches!(verdict, Verdict::Rejected(Rejection::Stale { by: RejectedBy::Floor, .. })), "{verdict:?}");

    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write_a(&mut connection, "0.5"), Verdict::Applied(()));
    // By hand and without a floor, which ends nothing; the read that comes after does.
    let by_hand = ReceiverSeed::new(issuer(), Epoch::new(2).unwrap());
    guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, Some(&by_hand)).unwrap();
    assert_eq!(write_a(&mut connection, "0.6"), Verdict::Applied(()));
    let later = ReceiverSeed::new(issuer(), Epoch::new(2).unwrap()).with_snapshot(token("2.7"), Vec::new());
    guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, Some(&later)).unwrap();
    for lost in ["0.5", "0.9", "1.9"] {
        let verdict = write_a(&mut connection, lost);
        assert!(matches!(verdict, Verdict::Rejected(Rejection::Stale { by: RejectedBy::Floor, .. })), "{verdict:?}");
    }
    assert_eq!(write_a(&mut connection, "2.8"), Verdict::Applied(()));
    let same = ReceiverSeed::new(issuer(), Epoch::new(2).unwrap()).with_snapshot(token("2.9"), Vec::new());
    guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, Some(&same)).unwrap();
    assert_eq!(write_a(&mut connection, "2.8"), Verdict::Applied(()), "a read of the same epoch ends nobody");
}

#[test]
fn a_seed_shuts_out_old_tokens_and_lets_live_holders_in() {
    let database = Database::new("CREATE TABLE counter (name TEXT, n INTEGER); INSERT INTO counter VALUES ('a', 0)");
    let mut connection = database.connect();
    let live = vec![LiveLease { domain: domain("a"), token: token("1.5") }];
    let seed = seed().with_snapshot(token("1.9"), live);
    guard(&mut connection, "counter", &DomainExpression::new("name").unwrap(), Mode::Enforce, Some(&seed)).unwrap();
    assert!(matches!(write_a(&mut connection, "1.4"), Verdict::Rejected(Rejection::Stale { .. })));
    assert_eq!(write_a(&mut connection, "1.5"), Verdict::Applied(()));
}

#[test]
fn unguarding_opens_the_table_and_keeps_what_the_receiver_knows() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    assert_eq!(write_a(&mut connection, "1.5"), Verdict::Applied(()));
    unguard(&mut connection, "COUNTER").unwrap();
    assert!(matches!(unguard(&mut connection, "counter"), Err(MaintenanceError::NotGuarded(_))));
    connection.execute("UPDATE counter SET n = 9", []).unwrap();
    database.guard("counter", "name");
    assert!(matches!(write_a(&mut connection, "1.4"), Verdict::Rejected(Rejection::Stale { .. })));
}

#[test]
fn collection_forgets_what_nobody_holds_and_readmits_nothing() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    for (name, text) in [("a", "1.2"), ("b", "1.3"), ("c", "1.8")] {
        let verdict = SqliteReceiver::new().mutate(&mut connection, &grant(name, text), add(name, 1)).unwrap();
        assert!(matches!(verdict, Verdict::Applied(_)));
    }
    let live = [LiveLease { domain: domain("b"), token: token("1.3") }];
    assert_eq!(collect(&mut connection, token("1.5"), &live, None).unwrap().fences, 1);
    let kept: Vec<_> = fences(&connection, None, 10).unwrap().into_iter().map(|fence| fence.domain).collect();
    assert_eq!(kept, [domain("b"), domain("c")]);
    assert_eq!(fences(&connection, Some(&domain("b")), 10).unwrap().len(), 1);
    assert!(matches!(write_a(&mut connection, "1.2"), Verdict::Rejected(Rejection::Stale { .. })));
    assert_eq!(write_a(&mut connection, "1.5"), Verdict::Applied(()));
    assert_eq!(collect(&mut connection, token("1.5"), &live, None).unwrap().fences, 0, "twice is harmless");
}

#[test]
fn operations_without_birth_are_kept_by_the_token_they_were_applied_under() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let receiver = SqliteReceiver::new();
    for (id, text) in [("old", "1.2"), ("new", "1.6")] {
        assert!(receiver.write(&mut connection, &grant("a", text), &operation(id), add("a", 1)).is_ok());
    }
    assert_eq!(collect(&mut connection, token("1.1"), &[], Some(token("1.5"))).unwrap().operations, 1);
    let replayed = receiver.write(&mut connection, &grant("a", "1.7"), &operation("new"), add("a", 1)).unwrap();
    assert!(matches!(replayed, Verdict::Replayed(_)));
    let known = status(&connection).unwrap();
    assert_eq!((known.operations, known.horizon), (1, Some(token("1.5"))));
}

#[test]
fn names_of_every_kind_and_length_come_back_byte_for_byte() {
    let names = [
        "x",
        "/",
        "..",
        "%2F",
        "?",
        "#",
        ":{}",
        "';--",
        "\"",
        "e\u{301}",
        "é",
        "E",
        "🦀",
        " ",
        "a b ",
        &"x".repeat(512),
        &"é".repeat(256),
    ]
    .map(str::to_owned);
    let database = Database::new("CREATE TABLE t (owner TEXT, v TEXT)");
    database.guard("t", "owner");
    let (mut connection, receiver) = (database.connect(), SqliteReceiver::new());
    for name in &names {
        let id: String = name.chars().take(128).collect();
        let operation = Operation::new(OperationId::new(&id).unwrap(), b"request");
        let mut write = |name: &str| {
            receiver.write(&mut connection, &grant(name, "0.5"), &operation, |tx| {
                tx.execute("INSERT INTO t VALUES (?1, ?1)", [name])?;
                Ok::<_, rusqlite::Error>(result(name.as_bytes()))
            })
        };
        assert_eq!(write(name).unwrap(), Verdict::Applied(result(name.as_bytes())), "{name}");
        assert_eq!(write(name).unwrap(), Verdict::Replayed(result(name.as_bytes())), "{name}");
    }
    let mut sorted = names.to_vec();
    sorted.sort();
    let found: Vec<String> =
        fences(&connection, None, 100).unwrap().into_iter().map(|fence| fence.domain.as_str().to_owned()).collect();
    assert_eq!(found, sorted, "in byte order, none merged");
    let rows: i64 = connection.query_row("SELECT count(DISTINCT owner) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, names.len() as i64);
}

/// What has taken effect is still there when only its records are lost, so a retry of it must not be taken for new.
/// Mutant: the horizon not raised where records were lost.
#[test]
fn an_operation_whose_record_was_lost_takes_no_second_effect_after_the_recovery() {
    for seed in [seed().with_snapshot(token("1.5"), Vec::new()), seed().with_floor(token("1.5"))] {
        let database = Database::with_counters();
        let mut connection = database.connect();
        let op = operation("x").born(token("1.1"));
        let first = SqliteReceiver::new().write(&mut connection, &grant("a", "1.1"), &op, add("a", 1)).unwrap();
        assert!(matches!(first, Verdict::Applied(_)));
        connection.execute_batch("DROP TABLE fencepost_operation").unwrap();

        let noted = incarnation(&connection).unwrap();
        recover(&mut connection, &noted, &seed, &Seen::new()).unwrap();
        let again = SqliteReceiver::new().write(&mut connection, &grant("a", "1.6"), &op, add("a", 1)).unwrap();
        assert_eq!(again, Verdict::Rejected(Rejection::OperationTooOld));
        assert_eq!(database.count("a"), 1);
    }
}

#[test]
fn an_operation_that_was_collected_stays_shut_out_when_the_receivers_row_is_lost() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let op = operation("x").born(token("1.1"));
    let _ = SqliteReceiver::new().write(&mut connection, &grant("a", "1.1"), &op, add("a", 1)).unwrap();
    assert_eq!(collect(&mut connection, token("1.3"), &[], Some(token("1.3"))).unwrap().operations, 1);
    connection.execute_batch("DROP TABLE fencepost_receiver").unwrap();

    let noted = incarnation(&connection).unwrap();
    recover(&mut connection, &noted, &seed().with_snapshot(token("1.5"), Vec::new()), &Seen::new()).unwrap();
    let again = SqliteReceiver::new().write(&mut connection, &grant("a", "1.6"), &op, add("a", 1)).unwrap();
    assert_eq!(again, Verdict::Rejected(Rejection::OperationTooOld));
}

/// With every record gone the guard's triggers still show that there were some.
#[test]
fn an_operation_takes_no_second_effect_when_all_records_were_lost_and_the_table_is_guarded_anew() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let op = operation("x").born(token("1.1"));
    let _ = SqliteReceiver::new().write(&mut connection, &grant("a", "1.1"), &op, add("a", 1)).unwrap();
    for table in ["receiver", "entry", "fence", "operation", "guard", "observation"] {
        connection.execute_batch(&format!("DROP TABLE fencepost_{table}")).unwrap();
    }

    let (expression, seed) = (DomainExpression::new("name").unwrap(), seed().with_snapshot(token("1.5"), Vec::new()));
    let anew = guard(&mut connection, "counter", &expression, Mode::Enforce, Some(&seed)).unwrap();
    assert!(anew.receiver_created);
    let again = SqliteReceiver::new().write(&mut connection, &grant("a", "1.6"), &op, add("a", 1)).unwrap();
    assert_eq!(again, Verdict::Rejected(Rejection::OperationTooOld));
}

/// Nothing was lost with a file that was only copied, so what was not applied before may be applied now.
#[test]
fn a_recovery_that_lost_no_record_shuts_no_operation_out() {
    let database = Database::with_counters();
    let mut connection = database.connect();
    let noted = incarnation(&connection).unwrap();
    recover(&mut connection, &noted, &seed().with_snapshot(token("1.5"), Vec::new()), &Seen::new()).unwrap();
    let op = operation("x").born(token("1.1"));
    let verdict = SqliteReceiver::new().write(&mut connection, &grant("a", "1.6"), &op, add("a", 1)).unwrap();
    assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
}
