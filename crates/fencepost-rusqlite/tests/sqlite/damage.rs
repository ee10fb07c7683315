//! Rows that no receiver can have written: the receiver and the SQL that `docs/receivers/sqlite.md` publishes for other
//! languages refuse each of them alike, whatever else stands there, and leave everything as it was.

use fencepost_core::fence::{Operation, RecordedResult, Rejection, Verdict};
use fencepost_rusqlite::{SqliteReceiver, WriteError};
use rusqlite::Connection;

use crate::{
    mirror::{Recorded, State, bare_receiver, filled_in, published, set, verdict_said},
    support::{dump, grant, operation, result, token},
};

/// A number where each of these stands: not there, of another kind, no whole number.
const NO_NUMBERS: [&str; 5] = ["NULL", "'one'", "x'01'", "1.5", "1e300"];

/// Where something else than an open receiver's records can stand, and what. A fence or an operation record is put where
/// none was.
fn damages() -> Vec<String> {
    let mut all = Vec::new();
    let receiver = |column: &str, value: &str| format!("UPDATE fencepost_receiver SET {column} = {value}");
    for (column, values) in [
        ("condition", &["NULL", "5", "x'6f70656e'", "''", "'opne'", "'recovering'", "'by_operator'"][..]),
        ("issuer", &["NULL", "7", "x'70726f64'", "''", "printf('%.257c', 'p')"]),
        ("known_epoch", &["-1", "1048576", "9223372036854775807"]),
        ("floor", &["0", "-1", "-9223372036854775808"]),
        ("unfenced_floor", &["0", "-1", "-9223372036854775808"]),
        ("horizon", &["0", "-1", "-9223372036854775808"]),
        ("fences", &["-1", "-9223372036854775808"]),
        ("recovery", &["NULL", "x''", "x'01'", "zeroblob(15)", "zeroblob(17)", "'sixteen letters.'", "16"]),
        ("device", &["1", "-1"]),
        ("inode", &["1", "-1"]),
    ] {
        all.extend(values.iter().map(|value| receiver(column, value)));
        let is_bound = ["floor", "unfenced_floor", "horizon"].contains(&column);
        let is_number = is_bound || ["known_epoch", "fences", "device", "inode"].contains(&column);
        // A bound that is NULL is one that was never raised.
        let no_numbers = NO_NUMBERS.iter().filter(|value| is_number && !(is_bound && **value == "NULL"));
        all.extend(no_numbers.map(|value| receiver(column, value)));
    }
    let counter = |value: &&str| format!("UPDATE fencepost_entry SET counter = {value} WHERE slot = 0");
    all.extend(["-1", "9223372036854775807", "-9223372036854775808"].iter().chain(&NO_NUMBERS).map(counter));
    let fence = |value: &&str| {
        format!(
            "DELETE FROM fencepost_fence; INSERT INTO fencepost_fence VALUES ('d', {value});
             UPDATE fencepost_receiver SET fences = 1"
        )
    };
    all.extend(["0", "-5", "-9223372036854775808"].iter().chain(&NO_NUMBERS).map(fence));
    let whole = "CAST(printf('%.32c', 'f') AS BLOB)";
    for (fingerprint, result) in [
        ("NULL", "x'0a'"),
        ("x''", "x'0a'"),
        ("zeroblob(31)", "x'0a'"),
        ("zeroblob(33)", "x'0a'"),
        ("printf('%.32c', 'f')", "x'0a'"),
        ("32", "x'0a'"),
        (whole, "NULL"),
        (whole, "'text'"),
        (whole, "5"),
        (whole, "zeroblob(65537)"),
    ] {
        all.push(format!(
            "DELETE FROM fencepost_operation;
             INSERT INTO fencepost_operation VALUES ('d', 'x', {fingerprint}, NULL, 1, {result})"
        ));
    }
    all
}

/// A receiver whose tables hold anything: the checks, types and triggers that keep damage out are taken away.
fn receiver_that_holds_anything() -> Connection {
    let connection = bare_receiver();
    for (table, columns) in [
        (
            "receiver",
            "id INTEGER PRIMARY KEY, layout, condition, issuer, known_epoch, floor, unfenced_floor, horizon, fences, \
             recovery, device, inode",
        ),
        ("entry", "slot INTEGER PRIMARY KEY, domain, counter"),
        ("fence", "domain TEXT PRIMARY KEY, token"),
        ("operation", "domain TEXT, id TEXT, fingerprint, born, token, result, PRIMARY KEY (domain, id)"),
    ] {
        let sql = format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM fencepost_{table};
             DROP TABLE fencepost_{table};
             CREATE TABLE main.fencepost_{table} ({columns});
             INSERT INTO fencepost_{table} SELECT * FROM kept;
             DROP TABLE temp.kept"
        );
        connection.execute_batch(&sql).unwrap();
    }
    connection
}

/// Records as they are when nothing is damaged, but for what [`set`] sets.
const MEND: &str = "\
UPDATE fencepost_receiver SET condition = 'open', issuer = 'prod', recovery = zeroblob(16), device = 0, inode = 0;
DELETE FROM fencepost_entry;
INSERT INTO fencepost_entry (slot, counter) VALUES (0, 7)";

fn states() -> Vec<State> {
    let state = |fence, recorded| State {
        known_epoch: 1,
        floor: Some(token("0.2")),
        unfenced_floor: None,
        fence,
        horizon: None,
        recorded,
    };
    let fence = Some(token("1.1"));
    let [nothing, same, other] = [Recorded::Nothing, Recorded::Same, Recorded::Other];
    vec![state(None, nothing), state(None, same), state(fence, nothing), state(fence, other)]
}

type Written = Result<Verdict<RecordedResult>, WriteError<rusqlite::Error>>;

fn by_the_receiver(connection: &mut Connection, presented: &str, operation: &Operation) -> String {
    let written: Written = SqliteReceiver::new().write(connection, &grant("d", presented), operation, |tx| {
        tx.execute("UPDATE invoice SET total = total + 1", [])?;
        Ok(result(b"new"))
    });
    match written {
        Ok(Verdict::Rejected(Rejection::Closed(why))) => format!("closed: {why}"),
        Ok(Verdict::Rejected(rejection)) => rejection.code().to_owned(),
        Ok(Verdict::Applied(_)) => "applied".to_owned(),
        Ok(Verdict::Replayed(_)) => "replayed".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Mutants: each line of the page's first arm; each check of `standing` and `condition_of`; a row without its token or
/// fingerprint read as none; a failure to read a column passed on as a storage that cannot be used now.
#[test]
fn what_no_receiver_can_have_written_is_refused_alike_by_the_receiver_and_by_the_published_sql() {
    let (mut connection, published) = (receiver_that_holds_anything(), published());
    let (operation, mut cases) = (operation("x"), 0);
    for damage in damages() {
        for state in states() {
            for presented in ["0.3", "1.1"] {
                connection.execute_batch(MEND).unwrap();
                set(&connection, &state);
                connection.execute_batch(&damage).unwrap();
                let before = dump(&connection);
                let ours = by_the_receiver(&mut connection, presented, &operation);
                let case = format!("{damage}; {state:?} {presented}");
                assert_eq!(dump(&connection), before, "by the receiver, {ours}: {case}");
                connection.execute_batch(&filled_in(&published, token(presented), &operation)).unwrap();
                let theirs = verdict_said(&connection).unwrap();
                assert_eq!(dump(&connection), before, "by the page, {theirs}: {case}");
                assert!(ours.starts_with("closed: ") && theirs.starts_with("closed: "), "{ours}, {theirs}: {case}");
                // The page says a word that it does not know as it stands.
                let is_unknown_word = damage.contains("condition = 'opne'") || damage.contains("condition = ''");
                assert!(ours == theirs || is_unknown_word, "{ours}, {theirs}: {case}");
                cases += 1;
            }
        }
    }
    assert!(cases > 600, "{cases} cases");
}

/// Else everything above could be refused for the tables that were made anew.
#[test]
fn the_same_tables_without_damage_take_a_write_from_both() {
    let (mut connection, published) = (receiver_that_holds_anything(), published());
    let state = states()[0];
    for by_page in [false, true] {
        connection.execute_batch(MEND).unwrap();
        set(&connection, &state);
        let said = if by_page {
            connection.execute_batch(&filled_in(&published, token("0.3"), &operation("x"))).unwrap();
            verdict_said(&connection).unwrap()
        } else {
            by_the_receiver(&mut connection, "0.3", &operation("x"))
        };
        assert_eq!(said, "applied");
    }
}

/// Without the counter's row, or the receiver's, the page has no verdict, which its script ends with as with a rejection.
#[test]
fn a_row_that_is_gone_is_no_verdict_on_the_page_and_changes_nothing() {
    let (mut connection, published) = (receiver_that_holds_anything(), published());
    for gone in ["DELETE FROM fencepost_entry", "DELETE FROM fencepost_receiver"] {
        connection.execute_batch(MEND).unwrap();
        set(&connection, &states()[0]);
        connection.execute_batch(gone).unwrap();
        let before = dump(&connection);
        assert_eq!(by_the_receiver(&mut connection, "0.3", &operation("x")), "closed: metadata_missing");
        connection.execute_batch(&filled_in(&published, token("0.3"), &operation("x"))).unwrap();
        assert_eq!(verdict_said(&connection), None, "{gone}");
        assert_eq!(dump(&connection), before, "{gone}");
    }
}
