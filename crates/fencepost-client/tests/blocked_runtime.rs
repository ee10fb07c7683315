//! A worker that blocks its async runtime for longer than the TTL. It is a mistake, it happens, and it must not cost
//! the lease.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::{thread, time::Duration};

use fencepost_client::{AcquireError, LeaseState};
use support::{coordinator, domain, session};

const BLOCKED_FOR: Duration = Duration::from_millis(2_500);

/// Mutant: the deliberate defect `heartbeat_on_worker_runtime`, tried below.
#[test]
fn a_blocked_runtime_keeps_its_lease() {
    let coordinator = coordinator();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let lease = session(coordinator.clone(), 1_000).await.acquire(domain("d")).await.unwrap();
        let rival = session(coordinator.clone(), 60_000).await;
        // bounded: being blocked for longer than the TTL is what is tried
        thread::sleep(BLOCKED_FOR);
        assert_eq!(lease.state(), LeaseState::Held);
        let refused: AcquireError = rival.acquire(domain("d")).await.unwrap_err();
        assert_eq!(refused.held_by().unwrap().lease, lease.id());
        // bounded: being blocked for longer than the TTL is what is tried
        assert_eq!(lease.run(async { thread::sleep(BLOCKED_FOR) }).await, Ok(()));
        assert_eq!(lease.state(), LeaseState::Held);
    });
}

#[cfg(feature = "sabotage")]
#[test]
fn the_test_above_fails_when_heartbeats_are_sent_from_the_workers_runtime() {
    let sabotaged = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_blocked_runtime_keeps_its_lease", "--nocapture"])
        .env("FENCEPOST_SABOTAGE", "heartbeat_on_worker_runtime")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&sabotaged.stderr) + String::from_utf8_lossy(&sabotaged.stdout);
    assert!(!sabotaged.status.success(), "the defect was not noticed");
    assert!(said.contains("Lost(DeadlinePassed)"), "it failed for another reason: {said}");
}
