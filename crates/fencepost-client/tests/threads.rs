//! One thread per live session, however many leases it has; none for a session that is over. In a test binary of its
//! own, because it counts the threads of the process.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use support::{coordinator, domain, session, until};

/// The kernel keeps 15 bytes of a thread's name.
fn keepers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "fencepost-keep").count()
}

#[tokio::test]
async fn there_are_as_many_renewing_threads_as_live_sessions() {
    let coordinator = coordinator();
    assert_eq!(keepers(), 0);
    let mut sessions = Vec::new();
    let mut leases = Vec::new();
    for n in 0..5 {
        let session = session(coordinator.clone(), 1_000).await;
        for m in 0..20 {
            leases.push(session.acquire(domain(&format!("{n}/{m}"))).await.unwrap());
        }
        sessions.push(session);
        assert_eq!(keepers(), n + 1);
    }
    for lease in leases.drain(..).take(50) {
        lease.release().await.unwrap();
    }
    let closed = sessions.pop().unwrap();
    let id = closed.id();
    closed.close().await.unwrap();
    until("the closed session's thread has ended", async || keepers() == 4).await;
    sessions.clear();
    until("every thread has ended", async || keepers() == 0).await;
    assert_eq!(coordinator.counts().await.unwrap().sessions, 0, "{id} or another is left");
}
