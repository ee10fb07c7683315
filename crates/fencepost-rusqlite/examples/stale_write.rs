//! A worker that was paused too long finds its write rejected, and the row as its successor left it.
//!
//! `cargo run -p fencepost-rusqlite --example stale_write`

use std::error::Error;

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId,
    fence::{Operation, RecordedResult, Rejection, Verdict},
};
use fencepost_rusqlite::{DomainExpression, Mode, ReceiverSeed, SqliteReceiver, guard};
use rusqlite::{Connection, Transaction};

/// What a coordinator hands out; here by hand, so that the example needs none.
fn grant(token: &str, lease: u8) -> Result<Grant, Box<dyn Error>> {
    let (lease, session) = (LeaseId::from_bytes([lease; 16]), SessionId::from_bytes([lease; 16]));
    let (issuer, domain) = (Issuer::new("example")?, Domain::new("report/2026-11")?);
    Ok(Grant { issuer, domain, token: token.parse()?, lease, session })
}

fn publish(text: &'static str) -> impl FnOnce(&Transaction<'_>) -> rusqlite::Result<RecordedResult> {
    move |tx| {
        tx.execute("REPLACE INTO report (month, text) VALUES ('2026-11', ?1)", [text])?;
        Ok(RecordedResult::default())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut database = Connection::open_in_memory()?;
    database.execute_batch("CREATE TABLE report (month TEXT PRIMARY KEY, text TEXT)")?;
    let seed = ReceiverSeed::new(Issuer::new("example")?, Epoch::ZERO);
    guard(&mut database, "report", &DomainExpression::new("'report/' || month")?, Mode::Enforce, Some(&seed))?;

    let receiver = SqliteReceiver::new();
    let (paused, successor) = (grant("0.7", 1)?, grant("0.8", 2)?);

    let operation = Operation::new(OperationId::new("publish-by-successor")?, b"by the successor");
    let verdict = receiver.write(&mut database, &successor, &operation, publish("by the successor"))?;
    println!("token {}: {verdict:?}", successor.token);
    assert!(matches!(verdict, Verdict::Applied(_)));

    let operation = Operation::new(OperationId::new("publish-by-paused")?, b"by the paused one");
    let verdict = receiver.write(&mut database, &paused, &operation, publish("by the paused one"))?;
    println!("token {}: {verdict:?}", paused.token);
    assert!(matches!(verdict, Verdict::Rejected(Rejection::Stale { .. })));

    let past_the_guard = database.execute("UPDATE report SET text = 'by somebody who never asked'", []);
    println!("no token: {}", past_the_guard.expect_err("the guard refuses it"));

    let text: String = database.query_row("SELECT text FROM report", [], |row| row.get(0))?;
    println!("the report: {text}");
    assert_eq!(text, "by the successor");
    Ok(())
}
