//! The receiver against the one decision of the core: for every state and every presented write of a small world the same
//! verdict, and exactly the effects that the decision asks for. The same for the SQL that `docs/receivers/sqlite.md` publishes
//! for other languages, taken from that page, which has the decision a second time.

use std::cell::Cell;

use fencepost_core::{
    Epoch, Invalid, Token,
    fence::{Decision, Fingerprint, Operation, Presented, RecordedResult, Standing, Verdict, decide},
};
use fencepost_receiver::VerdictCode;
use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, WriteError, guard};
use rusqlite::{Connection, OptionalExtension, params};

use crate::support::{domain, grant, issuer, operation, result, seed, token};

/// A state of the receiver's records for the one domain `d`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) known_epoch: u32,
    pub(crate) floor: Option<Token>,
    pub(crate) unfenced_floor: Option<Token>,
    pub(crate) fence: Option<Token>,
    pub(crate) horizon: Option<Token>,
    pub(crate) recorded: Recorded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    Nothing,
    Same,
    Other,
}

fn fingerprint(recorded: Recorded) -> Option<Fingerprint> {
    match recorded {
        Recorded::Nothing => None,
        Recorded::Same => Some(operation("x").fingerprint),
        Recorded::Other => Some(Fingerprint::of(b"another request")),
    }
}

/// A receiver in memory whose records can be set to anything, because their protection is taken off.
pub(crate) fn bare_receiver() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE invoice (month TEXT, total INTEGER); INSERT INTO invoice VALUES ('d', 0)")
        .unwrap();
    guard(&mut connection, "invoice", &DomainExpression::new("month").unwrap(), Mode::Enforce, Some(&seed())).unwrap();
    for name in ["receiver_rises", "fence_stays", "operation_stays"] {
        connection.execute_batch(&format!("DROP TRIGGER fencepost_{name}")).unwrap();
    }
    connection
}

pub(crate) fn set(connection: &Connection, state: &State) {
    let column = |token: Option<Token>| token.map(Token::as_i64);
    connection.execute_batch("DELETE FROM fencepost_fence; DELETE FROM fencepost_operation").unwrap();
    let sql =
        "UPDATE fencepost_receiver SET known_epoch = ?1, floor = ?2, unfenced_floor = ?3, horizon = ?4, fences = ?5";
    let fences = i64::from(state.fence.is_some());
    let (floor, unfenced_floor, horizon) = (column(state.floor), column(state.unfenced_floor), column(state.horizon));
    connection.execute(sql, params![state.known_epoch, floor, unfenced_floor, horizon, fences]).unwrap();
    if let Some(fence) = state.fence {
        connection.execute("INSERT INTO fencepost_fence VALUES ('d', ?1)", [fence.as_i64()]).unwrap();
    }
    if let Some(fingerprint) = fingerprint(state.recorded) {
        let sql = "INSERT INTO fencepost_operation VALUES ('d', 'x', ?1, NULL, 1, x'0a')";
        connection.execute(sql, [fingerprint.as_bytes()]).unwrap();
    }
}

fn standing(state: &State) -> Standing {
    Standing {
        floor: state.floor,
        unfenced_floor: state.unfenced_floor,
        fence: state.fence,
        horizon: state.horizon,
        recorded: fingerprint(state.recorded),
        ..Standing::open(issuer(), domain("d"), Epoch::new(state.known_epoch).unwrap())
    }
}

fn effects(connection: &Connection) -> (Option<i64>, i64, i64, i64) {
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let fence = "SELECT token FROM fencepost_fence WHERE domain = 'd'";
    let fence = connection.query_row(fence, [], |row| row.get(0)).optional().unwrap();
    let open =
        "SELECT count(*) FROM fencepost_entry WHERE counter > (SELECT counter FROM fencepost_entry WHERE slot = 0)";
    assert_eq!(one(open), 0, "nothing stays entered");
    let fences = one("SELECT fences - (SELECT count(*) FROM fencepost_fence) FROM fencepost_receiver");
    assert_eq!(fences, 0, "the fences are counted");
    let counter = one("SELECT counter FROM fencepost_entry WHERE slot = 0");
    (fence, one("SELECT total FROM invoice"), one("SELECT count(*) FROM fencepost_operation"), counter)
}

type Written = Result<Verdict<RecordedResult>, WriteError<rusqlite::Error>>;

/// One write in one state, by the core and by the receiver.
fn compare(connection: &mut Connection, state: &State, presented: Token, operation: Option<&Operation>) {
    set(connection, state);
    let before = effects(connection);
    let mut grant = grant("d", "0.1");
    grant.token = presented;
    let ran = Cell::new(false);
    let mutation = |tx: &rusqlite::Transaction<'_>| {
        ran.set(true);
        tx.execute("UPDATE invoice SET total = total + 1", [])?;
        Ok(result(b"new"))
    };
    let receiver = SqliteReceiver::new();
    let written: Written = match operation {
        Some(operation) => receiver.write(connection, &grant, operation, mutation),
        None => receiver.mutate(connection, &grant, mutation),
    };
    let after = effects(connection);
    let decided = decide(&Presented { operation, ..Presented::grant(&grant) }, &standing(state));
    let case = format!("{state:?} {presented:?} {operation:?}: {decided:?}, {written:?}");
    let raised = |raise: bool| if raise { Some(presented.as_i64()) } else { before.0 };
    let recorded = before.2 + i64::from(operation.is_some());
    let expected = match (&decided, &written) {
        (Ok(Decision::Apply { raise }), Ok(Verdict::Applied(answer))) if answer.as_bytes() == b"new" => {
            (raised(*raise), before.1 + 1, recorded, before.3 + 1)
        }
        (Ok(Decision::Replay { raise }), Ok(Verdict::Replayed(answer))) if answer.as_bytes() == [10] => {
            (raised(*raise), before.1, before.2, before.3 + i64::from(*raise))
        }
        (Ok(Decision::Reject(expected)), Ok(Verdict::Rejected(found))) if expected == found => before,
        (Err(expected), Err(WriteError::Invalid(found))) if expected == found => before,
        _ => panic!("{case}"),
    };
    assert_eq!(after, expected, "{case}");
    assert_eq!(ran.get(), matches!(decided, Ok(Decision::Apply { .. })), "{case}");
}

/// Every state of the small world with every token that is presented in it.
fn small_world() -> Vec<(State, Token)> {
    let bounds = [None, Some(token("0.2")), Some(token("1.1"))];
    let presented = ["0.1", "0.2", "0.3", "1.1", "2.1"].map(token);
    let mut all = Vec::new();
    for (known_epoch, floor, unfenced_floor) in product3([0, 1], bounds, bounds) {
        for (fence, horizon, recorded) in product3(bounds, bounds, [Recorded::Nothing, Recorded::Same, Recorded::Other])
        {
            let state = State { known_epoch, floor, unfenced_floor, fence, horizon, recorded };
            all.extend(presented.map(|presented| (state, presented)));
        }
    }
    all
}

/// The births that an operation is presented with.
fn births() -> [Option<Token>; 4] {
    [None, Some(token("0.1")), Some(token("0.2")), Some(token("1.1"))]
}

#[test]
fn the_receiver_decides_like_the_core_in_every_state_of_a_small_world() {
    let mut connection = bare_receiver();
    let mut cases = 0;
    for (state, presented) in small_world() {
        if state.recorded == Recorded::Nothing && state.horizon.is_none() {
            compare(&mut connection, &state, presented, None);
            cases += 1;
        }
        for born in births() {
            let operation = Operation { born, ..operation("x") };
            compare(&mut connection, &state, presented, Some(&operation));
            cases += 1;
        }
    }
    assert!(cases > 9_000, "{cases} cases");
}

/// The SQL of the walk through a guarded write, with `$` where its shell puts something in.
pub(crate) fn published() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/receivers/sqlite.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("<!-- walkthrough:begin -->").unwrap();
    let (_, rest) = rest.split_once("<<SQL\n.timeout 5000\n").unwrap();
    rest.split_once("\nSQL\n").unwrap().0.to_owned()
}

/// What the shell of the page would have made of it for this write of one unit to the row of `d`.
pub(crate) fn filled_in(published: &str, presented: Token, operation: &Operation) -> String {
    let hex: String = operation.fingerprint.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let token = presented.as_i64();
    let grant = format!(r#"'{{"issuer":"prod","domain":"d","contract":"safety","token":"{token}"}}'"#);
    let sql = [
        // A database in memory is at no place.
        ("$place", "0 AS device, 0 AS inode"),
        ("$(quote \"$operation\")", "'x'"),
        ("$fingerprint", &hex),
        ("$born", &operation.born.map_or("NULL".to_owned(), |born| born.as_i64().to_string())),
        ("$(quote \"$FENCEPOST_GRANT\")", &grant),
        ("$(quote \"$month\")", "'d'"),
        ("$(quote \"$amount\")", "'1'"),
        ("$amount", "1"),
    ]
    .into_iter()
    .fold(published.to_owned(), |sql, (name, value)| sql.replace(name, value));
    assert!(!sql.contains('$'), "the page puts in something else: {sql}");
    sql
}

/// The verdict that the page's SQL has left behind; whatever else it has is forgotten.
pub(crate) fn verdict_said(connection: &Connection) -> Option<String> {
    let said = connection.query_row("SELECT verdict FROM temp.asked", [], |row| row.get(0)).optional().unwrap();
    let forget = "DROP VIEW temp.raising; DROP TABLE temp.asked; DROP TABLE temp.presented; DROP TABLE temp.one_row";
    connection.execute_batch(forget).unwrap();
    said
}

/// One write in one state, by the core and by the page.
fn compare_published(
    connection: &Connection,
    published: &str,
    (state, presented): &(State, Token),
    born: Option<Token>,
) {
    set(connection, state);
    let before = effects(connection);
    let operation = Operation { born, ..operation("x") };
    connection.execute_batch(&filled_in(published, *presented, &operation)).unwrap();
    let said = verdict_said(connection);
    let after = effects(connection);
    let mut grant = grant("d", "0.1");
    grant.token = *presented;
    let decided = decide(&Presented { operation: Some(&operation), ..Presented::grant(&grant) }, &standing(state));
    let case = format!("{state:?} {presented:?} {operation:?}: {decided:?}, {said:?}");
    let raised = |raise: bool| if raise { Some(presented.as_i64()) } else { before.0 };
    let (expected, effects) = match &decided {
        Ok(Decision::Apply { raise }) => ("applied", (raised(*raise), before.1 + 1, before.2 + 1, before.3 + 1)),
        // It raises the counter under the fence's own token too, which counts a change that was none and harms nobody.
        Ok(Decision::Replay { raise }) => {
            assert!(after.3 > before.3 || !raise, "a raise that is not counted: {case}");
            assert!(after.3 <= before.3 + 1, "{case}");
            ("replayed", (raised(*raise), before.1, before.2, after.3))
        }
        Ok(Decision::Reject(rejection)) => match VerdictCode::of(&Verdict::<()>::Rejected(rejection.clone())) {
            VerdictCode::StaleToken => ("stale", before),
            code => (code.as_str(), before),
        },
        Err(_) => ("invalid_born", before),
    };
    assert_eq!(said.as_deref(), Some(expected), "{case}");
    assert_eq!(after, effects, "{case}");
}

/// Mutants: any arm of the page's decision that is taken out or stands elsewhere.
#[test]
fn the_published_sql_decides_like_the_core_in_every_state_of_a_small_world() {
    let (connection, published) = (bare_receiver(), published());
    let mut cases = 0;
    for case in small_world() {
        for born in births() {
            compare_published(&connection, &published, &case, born);
            cases += 1;
        }
    }
    assert!(cases > 9_000, "{cases} cases");
}

fn product3<A: Copy, B: Copy, C: Copy>(
    a: impl IntoIterator<Item = A>,
    b: impl IntoIterator<Item = B> + Clone,
    c: impl IntoIterator<Item = C> + Clone,
) -> Vec<(A, B, C)> {
    let mut all = Vec::new();
    for a in a {
        for b in b.clone() {
            all.extend(c.clone().into_iter().map(|c| (a, b, c)));
        }
    }
    all
}

#[test]
fn an_operation_born_after_the_token_it_comes_with_is_invalid_input() {
    let mut connection = bare_receiver();
    let operation = operation("x").born(token("0.5"));
    let written: Written =
        SqliteReceiver::new().write(&mut connection, &grant("d", "0.4"), &operation, |_| Ok(result(b"")));
    let WriteError::Invalid(invalid) = written.unwrap_err() else { panic!("not invalid input") };
    assert_eq!(invalid, Invalid::form("born", "at most the presented token"));
}
