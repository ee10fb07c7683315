//! A worker that does a step of work at a time under a lease of `fencepost serve`, and stops as soon as the lease is
//! lost. Start several; one works, the others wait for it.
//!
//! `fencepost serve --data ./data --init`, then
//! `cargo run -p fencepost --features http --example http_worker -- worker-1`

use std::time::Duration;

use fencepost::{Domain, Holder, HttpCoordinator, Session, Ttl, Wait};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "worker".to_owned());
    let url = std::env::var("FENCEPOST_URL").unwrap_or_else(|_| "http://127.0.0.1:7421".to_owned());
    let session = Session::open(HttpCoordinator::new(&url)?, Holder::new(&name)?, Ttl::from_millis(5_000)?).await?;

    println!("{name}: waiting for reports/nightly");
    let lease = session.acquire(Domain::new("reports/nightly")?).wait(Wait::from_millis(600_000)?).await?;
    println!("{name}: has token {}", lease.token());
    lease.on_lost(|loss| eprintln!("lost: {loss}"));

    let worked = lease.run(async {
        for step in 1..=10 {
            // Here a step writes to a receiver with lease.grant(), which settles whether it may.
            tokio::time::sleep(Duration::from_millis(500)).await;
            println!("{name}: step {step} done");
        }
    });
    match worked.await {
        Ok(()) => drop(lease.release().await?),
        Err(loss) => println!("{name}: stopped, {loss}"),
    }
    Ok(session.close().await?)
}
