//! Fenced writes in SQLite beside the same update without a fence, all durable.

use anyhow::{Context, Result, ensure};
use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId,
    fence::{Operation, RecordedResult, Verdict},
};
use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, guard};
use rusqlite::{Connection, ToSql, Transaction, params};

use crate::{
    report::{Table, micros, rate, ratio},
    round::{Contestant, Plan, Score, compete, repeat},
};

const UPDATE: &str = "UPDATE account SET balance = balance + 1 WHERE id = ?1";

pub(crate) fn measure(plan: Plan) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let open = |name: &str| -> Result<Connection> {
        let connection = Connection::open(dir.path().join(name))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE account (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, balance INTEGER NOT NULL);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
             INSERT INTO account SELECT i, 'accounts', 0 FROM n;
             CREATE TABLE counter (id INTEGER PRIMARY KEY, changes INTEGER NOT NULL);
             INSERT INTO counter VALUES (1, 0);
             CREATE TABLE record (domain TEXT, id TEXT, fingerprint BLOB, token INTEGER, PRIMARY KEY (domain, id))
             WITHOUT ROWID;",
        )?;
        Ok(connection)
    };
    let plain = open("plain")?;
    let (mut least, mut least_with) = (Least::on(open("least")?), Least::on(open("least-with")?));
    let issuer = Issuer::new("bench")?;
    let seed = ReceiverSeed::new(issuer.clone(), Epoch::ZERO);
    let fenced = |name: &str| -> Result<Connection> {
        let mut connection = open(name)?;
        guard(&mut connection, "account", &DomainExpression::new("owner")?, Mode::Enforce, Some(&seed))?;
        Ok(connection)
    };
    let (mut without, mut with) = (fenced("without")?, fenced("with")?);
    let (lease, session) = (LeaseId::from_bytes([1; 16]), SessionId::from_bytes([1; 16]));
    let grant = Grant { issuer, domain: Domain::new("accounts")?, token: "0.7".parse()?, lease, session };
    let receiver = SqliteReceiver::new();
    let receiver_of_operations = SqliteReceiver::new();
    let grant = &grant;

    let (mut a, mut b, mut c) = (0_i64, 0_i64, 0_i64);
    let contestants = vec![
        Contestant::new("plain update", move |turn| {
            repeat(turn, || {
                a += 1;
                plain.prepare_cached(UPDATE)?.execute(params![a % 1000 + 1])?;
                Ok(())
            })
        }),
        Contestant::new("the least without a record", move |turn| repeat(turn, || least.write(false))),
        Contestant::new("fenced write", move |turn| {
            repeat(turn, || {
                b += 1;
                let verdict = receiver.mutate(&mut without, grant, |tx: &Transaction<'_>| {
                    tx.prepare_cached(UPDATE)?.execute(params![b % 1000 + 1])
                })?;
                ensure!(matches!(verdict, Verdict::Applied(_)), "a fenced write was not applied");
                Ok(())
            })
        }),
        Contestant::new("the least with a record", move |turn| repeat(turn, || least_with.write(true))),
        Contestant::new("fenced write with operation record", move |turn| {
            repeat(turn, || {
                c += 1;
                let operation =
                    Operation::new(OperationId::new(&format!("operation-{c}"))?, b"add one").born(grant.token);
                let verdict = receiver_of_operations.write(&mut with, grant, &operation, |tx: &Transaction<'_>| {
                    tx.prepare_cached(UPDATE)?.execute(params![c % 1000 + 1])?;
                    Ok::<_, rusqlite::Error>(RecordedResult::default())
                })?;
                ensure!(matches!(verdict, Verdict::Applied(_)), "a fenced write was not applied");
                Ok(())
            })
        }),
    ];
    let scores = compete(plan, contestants)?;
    let head = ["", "a second", "ratio to the plain update", "ratio to the least", "median, us"];
    let mut table = Table::new("SQLite, durable", &head);
    let [plain, least, fenced, least_with, recorded] = scores.as_slice() else { unreachable!("five took turns") };
    let mut row = |score: &Score, to_the_least: String| {
        let (name, to_plain) = (score.name.clone(), ratio(score.rate_over(plain)));
        table.row([name, rate(score.rate()), to_plain, to_the_least, micros(score.median_us())]);
    };
    row(plain, String::new());
    for (least, own) in [(least, fenced), (least_with, recorded)] {
        row(least, String::new());
        row(own, ratio(own.rate_over(least)));
    }
    table.note(
        "WAL, synchronous = FULL, one row updated per transaction, the table guarded where the write is fenced. The least \
         is what no fence can do without: the plain update, one row of another table changed in the same transaction, one \
         stat of the file, and where there is a record, one more row inserted.",
    );
    Ok(table)
}

/// The plain update with what a fence cannot do without, and without a fence.
struct Least {
    connection: Connection,
    writes: i64,
}

impl Least {
    fn on(connection: Connection) -> Self {
        Self { connection, writes: 0 }
    }

    fn write(&mut self, recorded: bool) -> Result<()> {
        self.writes += 1;
        let run = |sql: &str, parameters: &[&dyn ToSql]| self.connection.prepare_cached(sql)?.execute(parameters);
        run("BEGIN IMMEDIATE", &[])?;
        std::fs::metadata(self.connection.path().context("a database in a file")?)?;
        run(UPDATE, params![self.writes % 1000 + 1])?;
        run("UPDATE counter SET changes = changes + 1 WHERE id = 1", &[])?;
        if recorded {
            let id = format!("operation-{}", self.writes);
            run("INSERT INTO record VALUES ('accounts', ?1, ?2, 7)", params![id, [7_u8; 32]])?;
        }
        run("COMMIT", &[])?;
        Ok(())
    }
}
