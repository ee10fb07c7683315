//! Fenced writes in SQLite beside the same update without a fence, all durable.

use anyhow::{Result, ensure};
use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId,
    fence::{Operation, RecordedResult, Verdict},
};
use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{DomainExpression, Mode, SqliteReceiver, guard};
use rusqlite::{Connection, Transaction, params};

use crate::{
    report::{Table, micros, rate, ratio},
    round::{Contestant, Plan, compete, repeat},
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
             INSERT INTO account SELECT i, 'accounts', 0 FROM n;",
        )?;
        Ok(connection)
    };
    let plain = open("plain")?;
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
    let mut table = Table::new("SQLite, durable", &["", "a second", "ratio to the plain update", "median, us"]);
    for score in &scores {
        let over = ratio(score.rate_over(&scores[0]));
        table.row([score.name.clone(), rate(score.rate()), over, micros(score.median_us())]);
    }
    table
        .note("WAL, synchronous = FULL, one row updated per transaction, the table guarded where the write is fenced.");
    Ok(table)
}
