//! Thousands of callers who leave: their futures dropped at every await, their tasks aborted, panicking, their
//! runtimes shut down. Whatever they may have been granted is free soon, and nobody else was harmed.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod support;

use std::{
    future::Future,
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

use fencepost_client::{Acquire, Session};
use fencepost_coordinator::embedded::Embedded;
use fencepost_core::{Token, Wait};
use support::{coordinator, domain, is_held, releases_race_heartbeats, session, until};

/// Polls a future at most so often, and drops it.
async fn polled<F: Future + Unpin>(mut future: F, times: usize) -> Option<F::Output> {
    for _ in 0..times {
        let mut output = None;
        std::future::poll_fn(|context| {
            if let Poll::Ready(ready) = Pin::new(&mut future).poll(context) {
                output = Some(ready);
            }
            Poll::Ready(())
        })
        .await;
        if output.is_some() {
            return output;
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Every domain can be had by somebody else, under a greater token, long before any TTL.
async fn all_free(coordinator: &Embedded, rounds: usize, name: impl Fn(usize) -> String) -> Vec<Token> {
    let other = session(coordinator.clone(), 60_000).await;
    let mut tokens = Vec::new();
    for round in 0..rounds {
        let lease = other.acquire(domain(&name(round))).wait(Wait::from_millis(5_000).unwrap()).await;
        let lease = lease.unwrap_or_else(|error| panic!("{} is not free: {error}", name(round)));
        tokens.push(lease.token());
        lease.release().await.unwrap();
    }
    tokens
}

/// Mutants: `give_back_abandoned` left out of `Keeper::answered`; the `send` left out of `Hold::drop`.
#[tokio::test]
async fn an_acquire_dropped_at_any_await_leaves_no_grant_behind() {
    let coordinator = coordinator();
    // So long a TTL that nothing is free by expiry.
    let session = session(coordinator.clone(), 600_000).await;
    let mut granted = 0;
    for round in 0..3_000 {
        let name = format!("d{}", round % 100);
        let acquire: Acquire = session.acquire(domain(&name)).wait(Wait::from_millis(1_000).unwrap());
        if let Some(lease) = polled(acquire.into_future(), round % 40).await {
            granted += 1;
            drop(lease);
        }
        if round % 100 == 99 {
            // Let the grants of this hundred come back, so that the next one finds free domains.
            until("they are free", async || coordinator.counts().await.unwrap().leases == 0).await;
        }
    }
    assert!(granted > 0, "no acquire was ever polled to its end");
    all_free(&coordinator, 100, |n| format!("d{n}")).await;
}

#[tokio::test]
async fn a_release_dropped_at_any_await_still_happens() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 600_000).await;
    for round in 0..1_000 {
        let lease = session.acquire(domain(&format!("d{round}"))).await.unwrap();
        polled(Box::pin(lease.release()), round % 4).await;
    }
    until("all are free", async || coordinator.counts().await.unwrap().leases == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_releases_race_the_heartbeat_that_claims_and_none_is_revived() {
    let coordinator = coordinator();
    releases_race_heartbeats(coordinator.clone(), &coordinator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_and_panicking_tasks_leave_no_grant_behind() {
    let coordinator = coordinator();
    let session = session(coordinator.clone(), 600_000).await;
    let tasks: Vec<_> = (0..1_000_usize)
        .map(|round| {
            let session = session.clone();
            tokio::spawn(async move {
                let lease = session.acquire(domain(&format!("d{}", round % 50))).await;
                tokio::task::yield_now().await;
                assert!(round % 3 != 0, "a third of them fails");
                // bounded: those that sleep long are aborted
                tokio::time::sleep(Duration::from_secs(u64::from(round % 3 == 1) * 600)).await;
                drop(lease);
            })
        })
        .collect();
    for (round, task) in tasks.into_iter().enumerate() {
        if round % 3 == 1 {
            if round % 2 == 0 {
                tokio::task::yield_now().await;
            }
            task.abort();
        }
        let _ = task.await;
    }
    until("all are free", async || coordinator.counts().await.unwrap().leases == 0).await;
}

#[test]
fn a_runtime_that_is_shut_down_leaves_no_grant_behind() {
    let coordinator = coordinator();
    let outer = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let session: Session = outer.block_on(session(coordinator.clone(), 600_000));
    for round in 0..50 {
        let inner = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        for n in 0..20 {
            let session = session.clone();
            inner.spawn(async move {
                let _lease = session.acquire(domain(&format!("{round}/{n}"))).await;
                std::future::pending::<()>().await;
            });
        }
        // bounded: 5 ms at most; it only varies when the runtime goes
        std::thread::sleep(Duration::from_micros(100 * round));
        inner.shutdown_background();
    }
    outer.block_on(until("all are free", async || coordinator.counts().await.unwrap().leases == 0));
}

/// Waiters of every kind leave the queue, and the one who stays is granted as soon as the holder releases: nobody
/// waits for the dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_a_thousand_waiters_does_not_wait_for_those_who_left() {
    let coordinator = coordinator();
    let holder = session(coordinator.clone(), 600_000).await.acquire(domain("d")).await.unwrap();
    let wait = Wait::from_millis(600_000).unwrap();
    let leaving = session(coordinator.clone(), 600_000).await;
    let tasks: Vec<_> = (0..990).map(|_| tokio::spawn(leaving.acquire(domain("d")).wait(wait).into_future())).collect();
    until("they wait", async || coordinator.counts().await.unwrap().waiting == 990).await;
    let staying = session(coordinator.clone(), 600_000).await;
    let staying = tokio::spawn(staying.acquire(domain("d")).wait(wait).into_future());
    until("one more waits", async || coordinator.counts().await.unwrap().waiting == 991).await;
    for task in tasks {
        task.abort();
    }
    until("the others have left", async || coordinator.counts().await.unwrap().waiting == 1).await;
    let started = Instant::now();
    let token = holder.token();
    holder.release().await.unwrap();
    let lease = staying.await.unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(lease.token() > token);
    drop(lease);
    until("all is free", async || !is_held(&coordinator, &domain("d")).await).await;
}
