//! The leases of many dead sessions end in one moment, while others renew theirs.
//!
//! Twenty thousand of a hundred sessions, so that it takes no longer than its neighbours. The full size is two hundred
//! thousand: `FENCEPOST_MASS_EXPIRY_SESSIONS=1000`.

use std::collections::BTreeSet;

use fencepost_coordinator::{
    Coordinator, SessionKey,
    embedded::{Embedded, testing::MemoryStore},
};
use fencepost_core::{
    Domain, LeaseId, Reason,
    lease::{Claim, Filter},
};

use crate::common::{acquire, clock, holder, on, session};

const LEASES_EACH: usize = 200;
const HEALTHY: usize = 500;

/// Opens sessions with leases, all of them at one time.
async fn crowd(coordinator: &Embedded, name: &'static str, count: usize, ttl_ms: u64, leases: usize) -> Vec<Held> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move {
                let key = session(&coordinator, name, ttl_ms).await;
                let mut held = Vec::with_capacity(leases);
                for lease in 0..leases {
                    let domain = format!("{name}/{number}/{lease}");
                    held.push(acquire(&coordinator, &key, &domain).await.0.acquired.lease);
                }
                (key, held)
            })
        })
        .collect();
    let mut all = Vec::with_capacity(count);
    for task in tasks {
        all.push(task.await.unwrap());
    }
    all
}

/// How many sessions die.
fn dead() -> usize {
    std::env::var("FENCEPOST_MASS_EXPIRY_SESSIONS").map_or(100, |sessions| sessions.parse().unwrap())
}

type Held = (SessionKey, Vec<LeaseId>);

/// Renews everybody, all at one time; nobody may lose anything.
async fn renew(coordinator: &Embedded, healthy: &[Held]) {
    let tasks: Vec<_> = healthy
        .iter()
        .cloned()
        .map(|(key, held)| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move { coordinator.heartbeat(&key, Claim::Held(held)).await })
        })
        .collect();
    for task in tasks {
        let beat = task.await.unwrap().expect("a session that renews in time lives").answer;
        assert_eq!((beat.leases.unwrap().len(), beat.ended.len()), (1, 0), "nobody healthy loses anything");
    }
}

/// Every live lease, by pages.
async fn listed(coordinator: &Embedded) -> BTreeSet<(Domain, LeaseId)> {
    let (mut seen, mut after) = (BTreeSet::new(), None);
    loop {
        let page = coordinator.list(Filter::Prefix(String::new()), after, 1_000).await.unwrap();
        seen.extend(page.rows.iter().map(|row| (row.domain.clone(), row.lease)));
        match page.next {
            Some(next) => after = Some(next),
            None => return seen,
        }
    }
}

async fn only_the_healthy_are_left(coordinator: &Embedded, healthy: &[Held]) {
    let (left, counts) = (listed(coordinator).await, coordinator.counts().await.unwrap());
    assert_eq!((counts.sessions, counts.leases), (HEALTHY, HEALTHY));
    let expected: BTreeSet<LeaseId> = healthy.iter().flat_map(|(_, held)| held.iter().copied()).collect();
    assert_eq!(left.iter().map(|(_, lease)| *lease).collect::<BTreeSet<_>>(), expected);
    let live = coordinator.snapshot(String::new()).await.unwrap().leases;
    assert!(live.iter().map(|lease| &lease.domain).eq(left.iter().map(|(domain, _)| domain)), "one and the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn healthy_holders_notice_nothing_also_when_the_coordinator_restarts_in_the_middle() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let healthy = crowd(&coordinator, "healthy", HEALTHY, 5_000, 1).await;
    let dead = dead();
    crowd(&coordinator, "dead", dead, 4_000, LEASES_EACH).await;
    let all = dead * LEASES_EACH + HEALTHY;
    assert_eq!(coordinator.counts().await.unwrap().leases, all);

    clock.advance(2_000);
    renew(&coordinator, &healthy).await;
    clock.advance(1_999);
    renew(&coordinator, &healthy).await;
    assert_eq!(coordinator.counts().await.unwrap().leases, all, "nobody ends before its time");
    drop(coordinator);

    // The start gives every session one fresh time to live.
    let coordinator = store.open(on(&clock)).unwrap();
    renew(&coordinator, &healthy).await;
    clock.advance(3_999);
    renew(&coordinator, &healthy).await;
    assert_eq!(coordinator.counts().await.unwrap().leases, all);
    clock.advance(1);
    renew(&coordinator, &healthy).await;
    only_the_healthy_are_left(&coordinator, &healthy).await;
    assert!(holder(&coordinator, "dead/0/0").await.is_none());
    drop(coordinator);

    // Nothing that has expired comes back, and what is listed can be broken.
    let coordinator = store.open(on(&clock)).unwrap();
    renew(&coordinator, &healthy).await;
    only_the_healthy_are_left(&coordinator, &healthy).await;
    for (domain, lease) in listed(&coordinator).await {
        let broken = coordinator.break_lease(lease, Reason::new("test").unwrap()).await.unwrap();
        assert!(broken.fence_to.is_some(), "{domain}");
    }
    assert!(listed(&coordinator).await.is_empty());
}
