//! The decision as it stands a second time, in the SQL that a page publishes for programs of other languages: the same
//! records and the same write at both.

use std::cell::RefCell;

use fencepost_core::{
    Contract, Domain, Epoch, Issuer, Token,
    fence::{Closure, Condition, Decision, Fingerprint, Operation, Presented, Rejection, Standing, Verdict, decide},
    sabotage,
};
use fencepost_receiver::{ReceiverSeed, VerdictCode};
use fencepost_rusqlite::{DomainExpression, Mode, guard};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use crate::made::Made;

const PAGE: &str = include_str!("../../docs/receivers/sqlite.md");
const CLOSURES: [Closure; 2] = [Closure::Recovering, Closure::ByOperator];

thread_local! {
    static RECEIVER: RefCell<Receiver> = RefCell::new(Receiver::new());
}

/// A first write, and one of another issuer that is refused.
pub fn taken() {
    let open = |grant: &[u8]| [&[0, 1, 0, 0, 0, 0, 0], grant].concat();
    assert_eq!(said_of(&open(&[12, 0, 1, 0])).as_deref(), Some("applied"));
    assert_eq!(said_of(&open(&[12, 0, 1, 1])).as_deref(), Some("wrong_issuer"));
}

/// Records of a receiver, a grant as a program may hold it, and an operation.
pub fn mirror(bytes: &[u8]) {
    said_of(bytes);
}

fn said_of(bytes: &[u8]) -> Option<String> {
    let mut made = Made::of(bytes);
    let standing = standing(&mut made);
    let written = Written::made(&mut made);
    RECEIVER.with_borrow(|receiver| receiver.compare(&standing, &written))
}

/// Few tokens, so that they meet, and now and then any.
fn token(made: &mut Made<'_>) -> Option<Token> {
    let (epoch, sequence) = (u64::from(made.byte() % 4), u64::from(made.byte() % 4));
    if epoch == 3 && sequence == 3 {
        return Token::from_integer(made.number().unsigned_abs()).ok();
    }
    Token::from_integer(epoch << 43 | sequence).ok()
}

/// Every second one is not there.
fn bound(made: &mut Made<'_>) -> Option<Token> {
    if made.one_in(2) { token(made) } else { None }
}

fn standing(made: &mut Made<'_>) -> Standing {
    let closed = made.one_in(8).then(|| made.of_these(&CLOSURES));
    let known_epoch = Epoch::new(u32::from(made.byte() % 4)).expect("a small epoch");
    let (floor, unfenced_floor, fence, horizon) = (bound(made), bound(made), bound(made), bound(made));
    let recorded = match made.byte() % 4 {
        0 | 1 => None,
        2 => Some(request()),
        _ => Some(Fingerprint::of(b"another request")),
    };
    Standing {
        condition: closed.map_or(Condition::Open, Condition::Closed),
        floor,
        unfenced_floor,
        fence,
        horizon,
        recorded,
        ..Standing::open(issuer("fuzz"), domain("d"), known_epoch)
    }
}

fn issuer(name: &str) -> Issuer {
    Issuer::new(name).expect("a name")
}

fn domain(name: &str) -> Domain {
    Domain::new(name).expect("a name")
}

fn request() -> Fingerprint {
    Fingerprint::of(b"a request")
}

/// A write as a program of another language brings it: anything may be in the places of a grant.
#[derive(Debug)]
struct Written {
    grant: Value,
    born: Option<Token>,
}

impl Written {
    fn made(made: &mut Made<'_>) -> Self {
        let mut grant = Map::new();
        let token_text = match made.byte() % 16 {
            0 => None,
            1 => Some(json!(made.text(24))),
            2 => Some(json!(made.number())),
            3 => Some(json!(made.number().to_string())),
            4 => Some(json!(format!("{}{}", made.byte() % 10, made.text(20)))),
            _ => token(made).map(|token| json!(token.to_decimal())),
        };
        grant.extend(token_text.map(|text| ("token".to_owned(), text)));
        for (field, usual, others) in [
            ("issuer", "fuzz", [json!("other"), json!(7), Value::Null]),
            ("domain", "d", [json!(1), json!(0.5), Value::Null]),
            ("contract", "safety", [json!("advisory"), json!("Safety"), Value::Null]),
        ] {
            let value = match made.byte() % 16 {
                1 => Some(others[0].clone()),
                2 => Some(others[1].clone()),
                3 => Some(others[2].clone()),
                4 => None,
                _ => Some(json!(usual)),
            };
            grant.extend(value.map(|value| (field.to_owned(), value)));
        }
        Self { grant: Value::Object(grant), born: bound(made) }
    }

    /// What the core says to it. What it cannot be given is what its types keep out.
    fn expected(&self, standing: &Standing) -> (String, Option<Decision>) {
        let text = |field: &str| self.grant.get(field).and_then(Value::as_str);
        let is_open = standing.condition == Condition::Open;
        let token = match self.grant.get("token") {
            None | Some(Value::Null) => None,
            Some(token) => match token.as_str().map(Token::from_decimal) {
                Some(Ok(token)) => Some(token),
                Some(Err(_)) | None if is_open => return ("invalid_token".to_owned(), None),
                Some(Err(_)) | None => None,
            },
        };
        let (issuer, domain) = (
            issuer(text("issuer").unwrap_or("nobody")),
            // A number is no name, and one that is not here is of nothing here.
            domain(text("domain").unwrap_or("nothing")),
        );
        let contract = match text("contract") {
            Some("safety") => Contract::Safety,
            Some(_) | None => Contract::Advisory,
        };
        let operation = operation(self.born);
        let presented = Presented { token, contract, ..Presented::token(&issuer, &domain, Token::MAX) };
        let decided = decide(&presented.with_operation(&operation), standing);
        let said = match &decided {
            Ok(Decision::Apply { .. }) => "applied".to_owned(),
            Ok(Decision::Replay { .. }) => "replayed".to_owned(),
            Ok(Decision::Reject(Rejection::Closed(why))) => format!("closed: {why}"),
            Ok(Decision::Reject(Rejection::Missing)) => "missing".to_owned(),
            Ok(Decision::Reject(Rejection::Stale { .. })) => "stale".to_owned(),
            Ok(Decision::Reject(rejection)) => {
                VerdictCode::of(&Verdict::<()>::Rejected(rejection.clone())).as_str().to_owned()
            }
            Err(_) => "invalid_born".to_owned(),
        };
        (said, decided.ok())
    }
}

fn operation(born: Option<Token>) -> Operation {
    let id = fencepost_core::OperationId::new("x").expect("a name");
    Operation { fingerprint: request(), born, ..Operation::new(id, b"") }
}

/// A receiver whose records can be set to anything, and the page's SQL as its shell would give it to the database.
struct Receiver {
    connection: Connection,
    sql: String,
}

/// Fence, the row's value, operations, and the counter of changes.
type Left = (Option<i64>, i64, i64, i64);

impl Receiver {
    fn new() -> Self {
        let mut connection = Connection::open_in_memory().expect("a database");
        let table = "CREATE TABLE invoice (month TEXT, total INTEGER); INSERT INTO invoice VALUES ('d', 0)";
        connection.execute_batch(table).expect("a table");
        let (expression, seed) = (DomainExpression::new("month").expect("an expression"), seed());
        guard(&mut connection, "invoice", &expression, Mode::Enforce, Some(&seed)).expect("a guard");
        for name in ["receiver_rises", "fence_stays", "operation_stays"] {
            connection.execute_batch(&format!("DROP TRIGGER fencepost_{name}")).expect("a trigger");
        }
        Self { connection, sql: published() }
    }

    fn compare(&self, standing: &Standing, written: &Written) -> Option<String> {
        self.set(standing);
        let before = self.left();
        let born = written.born.map_or("NULL".to_owned(), |born| born.as_i64().to_string());
        let grant = format!("'{}'", written.grant.to_string().replace('\'', "''"));
        let sql = self.sql.replace("$born", &born).replace("$(quote \"$FENCEPOST_GRANT\")", &grant);
        let case = format!("{standing:?} {written:?}");
        self.connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{case}: {error}"));
        let said: Option<String> = self
            .connection
            .query_row("SELECT verdict FROM temp.asked", [], |row| row.get(0))
            .optional()
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        let forget =
            "DROP VIEW temp.raising; DROP TABLE temp.asked; DROP TABLE temp.presented; DROP TABLE temp.one_row";
        self.connection.execute_batch(forget).expect("what the page leaves behind");
        let (expected, decision) = written.expected(standing);
        assert_eq!(said.as_deref(), Some(expected.as_str()), "{case}");
        self.compare_effects(before, decision.as_ref(), written, &case);
        said
    }

    fn compare_effects(&self, before: Left, decision: Option<&Decision>, written: &Written, case: &str) {
        let after = self.left();
        let presented = written.grant.get("token").and_then(Value::as_str).and_then(|text| text.parse::<i64>().ok());
        let raised = |raise: bool| if raise { presented } else { before.0 };
        let expected = match decision {
            Some(Decision::Apply { raise }) => (raised(*raise), before.1 + 1, before.2 + 1, before.3 + 1),
            // The page counts a replay under the fence's own token too, which harms nobody.
            Some(Decision::Replay { raise }) => {
                assert!((i64::from(*raise)..=1).contains(&(after.3 - before.3)), "{case}");
                (raised(*raise), before.1, before.2, after.3)
            }
            Some(Decision::Reject(_)) | None => before,
        };
        assert_eq!(after, expected, "{case}");
    }

    fn set(&self, standing: &Standing) {
        let column = |token: Option<Token>| token.map(Token::as_i64);
        let condition = match standing.condition {
            Condition::Open => "open",
            Condition::Closed(why) => why.as_str(),
        };
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| self.connection.execute(sql, values).expect("records");
        run("DELETE FROM fencepost_fence", &[]);
        run("DELETE FROM fencepost_operation", &[]);
        let sql = "UPDATE fencepost_receiver SET condition = ?1, known_epoch = ?2, floor = ?3, unfenced_floor = ?4, \
                   horizon = ?5, fences = ?6";
        let [floor, unfenced_floor, horizon] = [standing.floor, standing.unfenced_floor, standing.horizon].map(column);
        let fences = i64::from(standing.fence.is_some());
        run(sql, params![condition, standing.known_epoch.get(), floor, unfenced_floor, horizon, fences]);
        if let Some(fence) = column(standing.fence) {
            run("INSERT INTO fencepost_fence VALUES ('d', ?1)", &[&fence]);
        }
        if let Some(fingerprint) = standing.recorded {
            let sql = "INSERT INTO fencepost_operation VALUES ('d', 'x', ?1, NULL, 1, x'0a')";
            run(sql, &[&fingerprint.as_bytes().as_slice()]);
        }
    }

    fn left(&self) -> Left {
        let one =
            |sql: &str| self.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional().expect("a number");
        let open =
            "SELECT count(*) FROM fencepost_entry WHERE counter > (SELECT counter FROM fencepost_entry WHERE slot = 0)";
        assert_eq!(one(open), Some(0), "nothing stays entered");
        let fences = "SELECT fences - (SELECT count(*) FROM fencepost_fence) FROM fencepost_receiver";
        assert_eq!(one(fences), Some(0), "the fences are counted");
        let there = |sql: &str| one(sql).expect("a row");
        (
            one("SELECT token FROM fencepost_fence WHERE domain = 'd'"),
            there("SELECT total FROM invoice"),
            there("SELECT count(*) FROM fencepost_operation"),
            there("SELECT counter FROM fencepost_entry WHERE slot = 0"),
        )
    }
}

fn seed() -> ReceiverSeed {
    ReceiverSeed::new(issuer("fuzz"), Epoch::ZERO)
}

/// The page's SQL, in which only the grant and the birth are left to be put in.
fn published() -> String {
    let (_, rest) = PAGE.split_once("<<SQL\n.timeout 5000\n").expect("the page shows the SQL");
    let (sql, _) = rest.split_once("\nSQL\n").expect("the SQL ends");
    let hex: String = request().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let sql = [
        // A database in memory is at no place.
        ("$place", "0 AS device, 0 AS inode"),
        ("$(quote \"$operation\")", "'x'"),
        ("$fingerprint", hex.as_str()),
        ("$(quote \"$month\")", "'d'"),
        ("$(quote \"$amount\")", "'1'"),
        ("$amount", "1"),
    ]
    .into_iter()
    .fold(sql.to_owned(), |sql, (name, value)| sql.replace(name, value));
    assert_eq!(sql.matches('$').count(), 3, "the page puts in something else: {sql}");
    if sabotage::active("equal_token_refused") {
        return sql.replace("p.token >= max(", "p.token > max(").replace("p.token < max(", "p.token <= max(");
    }
    sql
}
