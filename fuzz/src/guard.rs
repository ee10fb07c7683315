use fencepost_core::{Domain, Epoch, Grant, Issuer, LeaseId, SessionId, fence::Verdict};
use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{AuditScope, DomainExpression, MaintenanceError, Mode, SqliteReceiver, audit, guard, unguard};
use fencepost_sql::sqlite::quoted;
use rusqlite::{Connection, params_from_iter, types::Value};

use crate::made::Made;

const TYPES: [&str; 6] = ["", "TEXT", "INTEGER", "BLOB", "REAL", "VARCHAR(9)"];
const RULES: [&str; 8] = [
    "",
    "",
    "",
    "UNIQUE",
    "COLLATE NOCASE",
    "NOT NULL DEFAULT 'x'",
    "UNIQUE COLLATE RTRIM",
    "NOT NULL DEFAULT (1 + 2)",
];
const NAMES: [&str; 10] =
    ["a", "b", "domain", "rowid", "_rowid_", "oid", "fencepost_row", "fencepost_e", "NEW", "order"];
const MOST_COLUMNS: usize = 4;

pub fn taken() {
    let shape = |end, expression: &str| Shape {
        name: "t".to_owned(),
        twin: "t_twin".to_owned(),
        columns: vec!["a".to_owned(), "b".to_owned()],
        definitions: vec![r#""a" TEXT PRIMARY KEY"#.to_owned(), r#""b" INTEGER UNIQUE"#.to_owned()],
        end,
        expression: expression.to_owned(),
    };
    let row = || vec![Value::Text(OTHER.to_owned()), Value::Integer(7)];
    for mode in [Mode::Enforce, Mode::Observe] {
        assert!(is_guarded(&shape("", r#""a""#), mode, row), "a table with a guard and a row");
        assert!(is_guarded(&shape("WITHOUT ROWID", "'another ' || 'domain'"), mode, row), "the same without a rowid");
    }
}

/// What is written under first, whatever the row's own domain is.
const OTHER: &str = "another domain";

/// A table of any name, with any columns, keys, collations and defaults, and its twin: what guards the one is SQL that
/// SQLite takes, and guards that table and no other, for the row's domain and for no other.
pub fn guard_of_a_table(bytes: &[u8]) {
    let mut made = Made::of(bytes);
    let shape = Shape::of(&mut made);
    let mode = if made.one_in(4) { Mode::Observe } else { Mode::Enforce };
    is_guarded(&shape, mode, || (0..shape.columns.len()).map(|_| value(&mut made)).collect());
}

/// Whether the table got a guard, and the row a domain: then the row has been let in under its own.
fn is_guarded(shape: &Shape, mode: Mode, row: impl FnOnce() -> Vec<Value>) -> bool {
    let mut connection = Connection::open_in_memory().expect("a database");
    // What SQLite itself does not take is no table.
    if connection.execute_batch(&shape.sql(&shape.name)).is_err()
        || connection.execute_batch(&shape.sql(&shape.twin)).is_err()
    {
        return false;
    }
    let Ok(expression) = DomainExpression::new(&shape.expression) else { return false };
    let seed = ReceiverSeed::new(Issuer::new("fuzz").expect("a name"), Epoch::ZERO);
    match guard(&mut connection, &shape.name, &expression, mode, Some(&seed)) {
        Ok(guarded) => assert!(guarded.receiver_created),
        Err(MaintenanceError::Expression { .. } | MaintenanceError::Unguardable(_)) => return false,
        Err(error) => panic!("{}: the guard's own statements fail: {error}", shape.sql(&shape.name)),
    }
    let of = guarded_tables(&connection);
    assert!(
        of.iter().all(|table| *table == shape.name) && !of.is_empty(),
        "{:?} has the guard of {:?}",
        of,
        shape.name
    );

    let row = row();
    let twin = shape.insert(&connection, &shape.twin, &row);
    let Some(domain) = shape.domain_of_twin(&connection) else {
        let found = shape.insert(&connection, &shape.name, &row);
        assert!(
            mode == Mode::Observe || found.is_err(),
            "a row without a domain was let in by {:?}",
            shape.sql(&shape.name)
        );
        return false;
    };
    assert!(twin.is_ok(), "a row whose domain was read is there");
    let forgotten = shape.insert(&connection, &shape.name, &row);
    match mode {
        Mode::Observe => assert!(forgotten.is_ok(), "{:?}: {forgotten:?}", shape.sql(&shape.name)),
        Mode::Enforce => {
            let said = forgotten.expect_err("a write without a token").to_string();
            assert!(said.contains("fencepost: INSERT on "), "{said}");
            write_under_grants(&mut connection, shape, &row, &domain);
        }
    }
    let findings = audit(&connection, AuditScope { unguarded_tables: true }).expect("the database is read").findings;
    let about = |code: &str| findings.iter().filter(|finding| finding.code == code).count();
    assert_eq!(
        (about("guard_outdated"), about("guard_missing"), about("guard_unregistered")),
        (0, 0, 0),
        "{findings:?}"
    );
    assert_eq!(about("unguarded_table"), 1, "{findings:?}");

    // The twin can have a guard of its own, whatever its name has in common with the first.
    guard(&mut connection, &shape.twin, &expression, mode, None).expect("what guards the one guards the other");
    unguard(&mut connection, &shape.name).expect("a guarded table");
    assert!(guarded_tables(&connection).iter().all(|table| *table == shape.twin));
    true
}

/// Refused under a grant for another domain, done under one for the row's; never twice for the same key.
fn write_under_grants(connection: &mut Connection, shape: &Shape, row: &[Value], domain: &Domain) {
    let receiver = SqliteReceiver::new();
    let other = Domain::new(OTHER).expect("a name");
    for (under, is_its_own) in [(&other, other == *domain), (domain, true)] {
        let grant = Grant {
            issuer: Issuer::new("fuzz").expect("a name"),
            domain: under.clone(),
            token: "0.7".parse().expect("a token"),
            lease: LeaseId::from_bytes([1; 16]),
            session: SessionId::from_bytes([1; 16]),
        };
        let written = receiver.mutate(connection, &grant, |tx| shape.insert(tx, &shape.name, row));
        let is_done = matches!(written, Ok(Verdict::Applied(_)));
        // A rowid that the database is yet to choose shows as -1, so a row that has it is refused; and what is computed from
        // one that is yet to be chosen is another domain until then.
        if is_its_own && (shape.has_row_id_minus_one(connection) || shape.computes_from_row_id()) {
            return;
        }
        assert_eq!(
            is_done,
            is_its_own,
            "under {under:?} a row of {domain:?}: {written:?} into {}",
            shape.sql(&shape.name)
        );
        if is_done {
            break;
        }
    }
    let same = |table: &str| {
        let sql = format!("SELECT count(*) FROM {}", quoted(table));
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).expect("a table")
    };
    assert_eq!(same(&shape.name), same(&shape.twin), "the guarded table holds what its twin holds");
}

fn guarded_tables(connection: &Connection) -> Vec<String> {
    let sql =
        "SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'fencepost\\_guard\\_%' ESCAPE '\\'";
    let mut statement = connection.prepare(sql).expect("the schema is read");
    let names = statement.query_map([], |row| row.get(0)).expect("names");
    names.collect::<Result<_, _>>().expect("names are texts")
}

fn value(made: &mut Made<'_>) -> Value {
    match made.byte() % 6 {
        0 => Value::Null,
        1 => Value::Integer(made.number()),
        2 => Value::Blob(made.bytes(4).to_vec()),
        3 => Value::Real(made.number() as f64 / 2.0),
        _ => Value::Text(made.text(12)),
    }
}

struct Shape {
    name: String,
    twin: String,
    columns: Vec<String>,
    definitions: Vec<String>,
    end: &'static str,
    expression: String,
}

impl Shape {
    fn of(made: &mut Made<'_>) -> Self {
        let name = name(made, "t");
        let twin = match made.byte() % 4 {
            0 => name.to_uppercase(),
            1 => format!("{name}\""),
            2 => format!("{name} "),
            _ => format!("{name}_twin"),
        };
        let columns: Vec<String> = (0..1 + made.below(MOST_COLUMNS)).map(|_| name_of_column(made)).collect();
        let mut definitions = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let key = if at == 0 { made.of_these(&["", "", "PRIMARY KEY", "PRIMARY KEY COLLATE NOCASE"]) } else { "" };
            let generated = at > 0 && made.one_in(8);
            let rule = if generated {
                format!("AS (+{}) {}", quoted(&columns[0]), made.of_these(&["STORED", "VIRTUAL"]))
            } else {
                made.of_these(&RULES).to_owned()
            };
            definitions.push(format!("{} {} {key} {rule}", quoted(column), made.of_these(&TYPES)));
        }
        if made.one_in(3) {
            let both: Vec<String> = columns.iter().take(2).map(|column| quoted(column)).collect();
            definitions.push(format!("UNIQUE ({})", both.join(", ")));
        }
        let end = made.of_these(&["", "", "WITHOUT ROWID", "STRICT"]);
        let of = quoted(&columns[made.below(columns.len())]);
        let expression = match made.byte() % 8 {
            0 => "'all'".to_owned(),
            1 => format!("'d/' || {of}"),
            2 => format!("CASE WHEN {of} IS NULL THEN 'none' ELSE {of} END"),
            3 => format!("coalesce({of}, 'none')"),
            4 => made.text(24),
            _ => of,
        };
        Self { name, twin, columns, definitions, end, expression }
    }

    fn sql(&self, table: &str) -> String {
        format!("CREATE TABLE {} ({}) {}", quoted(table), self.definitions.join(", "), self.end)
    }

    /// Into all columns but the generated ones, which take nothing.
    fn insert(&self, connection: &Connection, table: &str, row: &[Value]) -> rusqlite::Result<usize> {
        let plain = || {
            self.columns
                .iter()
                .zip(&self.definitions)
                .zip(row)
                .filter(|((_, definition), _)| !definition.contains("AS ("))
        };
        let columns: Vec<String> = plain().map(|((column, _), _)| quoted(column)).collect();
        let places: Vec<&str> = columns.iter().map(|_| "?").collect();
        let sql = format!("INSERT INTO {} ({}) VALUES ({})", quoted(table), columns.join(", "), places.join(", "));
        connection.execute(&sql, params_from_iter(plain().map(|(_, value)| value)))
    }

    fn has_row_id_minus_one(&self, connection: &Connection) -> bool {
        ["rowid", "_rowid_", "oid"].iter().any(|name| {
            let sql = format!("SELECT {name} = -1 FROM {}", quoted(&self.twin));
            connection.query_row(&sql, [], |row| row.get::<_, bool>(0)).unwrap_or(false)
        })
    }

    /// The generated columns are computed from the first one, which may be the rowid.
    fn computes_from_row_id(&self) -> bool {
        let is_row_id = self.definitions[0].contains(" INTEGER PRIMARY KEY");
        is_row_id && self.definitions.iter().any(|definition| definition.contains("AS ("))
    }

    /// The domain of the only row of the twin, where it has one that is a domain.
    fn domain_of_twin(&self, connection: &Connection) -> Option<Domain> {
        // The columns stand in an expression as plain values, without affinity.
        let plain: Vec<String> = self.columns.iter().map(|column| format!("+{0} AS {0}", quoted(column))).collect();
        let sql =
            format!("SELECT ({}) FROM (SELECT {} FROM {})", self.expression, plain.join(", "), quoted(&self.twin));
        let found: Value = connection.query_row(&sql, [], |row| row.get(0)).ok()?;
        match found {
            Value::Text(text) => Domain::new(&text).ok(),
            Value::Null | Value::Integer(_) | Value::Real(_) | Value::Blob(_) => None,
        }
    }
}

fn name(made: &mut Made<'_>, otherwise: &str) -> String {
    let text = made.text(8);
    if text.is_empty() || text.contains('\0') { otherwise.to_owned() } else { text }
}

fn name_of_column(made: &mut Made<'_>) -> String {
    if made.one_in(2) { name(made, "c") } else { made.of_these(&NAMES).to_owned() }
}
