//! A worker is cut off for longer than its lease lasts. Its late write is refused by the database itself.
//!
//! `cargo run -p fencepost --features embedded,sqlite --example rejected_write`

use fencepost::coordinator::embedded::{Embedded, InitOptions, Options};
use fencepost::sqlite::{DomainExpression, Mode, SqliteFile, guard};
use fencepost::{Advance, Domain, Holder, ReceiverSeed, Session, Ttl, Wait};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (path, data) = (dir.path().join("shop.db"), dir.path().join("coordinator"));
    Embedded::init(&data, InitOptions::default())?;
    let coordinator = Embedded::open(&data, Options::default())?;

    // Guarded once: from now on no client can write a row without the grant of its domain.
    let mut db = rusqlite::Connection::open(&path)?;
    db.execute_batch("CREATE TABLE invoice (month TEXT, total INTEGER)")?;
    let seed = ReceiverSeed::new(coordinator.issuer().clone(), coordinator.epoch());
    guard(&mut db, "invoice", &DomainExpression::new("'invoices/' || month")?, Mode::Enforce, Some(&seed))?;
    let shop = SqliteFile::new(&path);
    let november = Domain::new("invoices/2026-11")?;
    let insert = "INSERT INTO invoice VALUES ('2026-11', 100)";

    let a = Session::open(coordinator.clone(), Holder::new("a")?, Ttl::from_millis(1_000)?).await?;
    let old = a.acquire(november.clone()).advance(&shop).await?.grant().clone();
    drop(a); // A is gone before its write arrives.

    let b = Session::open(coordinator.clone(), Holder::new("b")?, Ttl::default()).await?;
    let lease = b.acquire(november).wait(Wait::from_millis(5_000)?).advance(&shop).await?;

    let late = shop.receiver().mutate(&mut db, &old, |tx| tx.execute(insert, []))?;
    println!("A, token {}: {late:?}", old.token); // Rejected(Stale { .. })
    let good = shop.receiver().mutate(&mut db, lease.grant(), |tx| tx.execute(insert, []))?;
    println!("B, token {}: {good:?}", lease.token()); // Applied(1)
    let Err(refused) = db.execute(insert, []) else { anyhow::bail!("the guard is open") };
    println!("no token: {refused}");

    assert!(late.rejection().is_some() && good.rejection().is_none());
    lease.release().await?;
    Ok(b.close().await?)
}
