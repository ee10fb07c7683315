//! Acquire, heartbeat and release without HTTP: the coordinator is a part of this process.
//!
//! `cargo run -p fencepost-coordinator --features embedded --example in_process`

use fencepost_coordinator::{
    AcquireRequest, CallError, Coordinator,
    embedded::{Embedded, InitOptions, Options},
};
use fencepost_core::{
    Domain, Holder, RequestId, Ttl,
    lease::{AcquireRefusal, Claim},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("fencepost-example-{}", std::process::id()));
    let identity = Embedded::init(&dir, InitOptions::default())?;
    println!("initialised {} as {}, epoch {}", dir.display(), identity.issuer, identity.epoch);
    let coordinator = Embedded::open(&dir, Options::default())?;

    // Two holders. In real life each is a process with a session of its own.
    let a = coordinator.open_session(Holder::new("worker-a")?, Ttl::default()).await?.answer.key();
    let b = coordinator.open_session(Holder::new("worker-b")?, Ttl::default()).await?.answer.key();
    let domain = Domain::new("invoices/2026-11")?;

    // The request id names the hold. A real caller draws 128 random bits and keeps them for retries.
    let hold = RequestId::from_bytes([1; 16]);
    let granted = coordinator.acquire(AcquireRequest::new(&a, domain.clone(), hold)).await?.answer.acquired;
    let grant = granted.permission.grant().ok_or("a lease under contract safety has a grant")?;
    println!("a holds {domain} under token {}", grant.token);

    match coordinator.acquire(AcquireRequest::new(&b, domain.clone(), RequestId::from_bytes([2; 16]))).await {
        Err(CallError::Refused(refusal)) => match *refusal {
            AcquireRefusal::Held(by) => {
                println!("b has to wait: held by {} for {} ms more", by.holder, by.remaining_ms)
            }
            other => println!("b has to wait: {other}"),
        },
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("two holders at one time".into()),
    }

    let beat = coordinator.heartbeat(&a, Claim::Held(vec![granted.lease])).await?.answer;
    println!("a is alive for {} ms more", beat.remaining_ms);

    coordinator.release(&a.secret, granted.lease, hold).await?;
    let next = coordinator.acquire(AcquireRequest::new(&b, domain.clone(), RequestId::from_bytes([3; 16]))).await?;
    let token = next.answer.acquired.permission.grant().map(|grant| grant.token);
    println!("b holds {domain} under the greater token {}", token.ok_or("a grant")?);

    coordinator.shutdown().await;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
