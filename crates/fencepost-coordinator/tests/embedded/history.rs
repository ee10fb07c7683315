//! What has happened is told the same after a crash, after a restart and after the log has been trimmed.

use fencepost_coordinator::{
    Coordinator, Explain, HistoryEntry, HistoryQuery,
    embedded::{
        Embedded, InitOptions, Options,
        testing::{Fault, MemoryStore},
    },
};
use fencepost_core::{
    Reason,
    lease::{EventKind, Filter, LeaseEnd},
};

use crate::common::{acquire, clock, domain, on, session, token, until, waiting};

fn all(limit: usize) -> HistoryQuery {
    HistoryQuery { filter: Filter::Prefix(String::new()), token: None, before: None, limit }
}

async fn told(coordinator: &Embedded) -> Vec<HistoryEntry> {
    let mut query = all(7);
    let mut entries = Vec::new();
    loop {
        let page = coordinator.history(query.clone()).await.unwrap();
        entries.extend(page.entries);
        query.before = page.next;
        if query.before.is_none() {
            return entries;
        }
    }
}

/// Falls when `replay_telling` forgets a kind of record, or tells an end after it is applied.
#[tokio::test]
async fn a_restart_tells_every_kind_of_event_as_it_was_told_before() {
    let (store, clock) = (MemoryStore::new(), clock());
    let coordinator = store.open(on(&clock)).unwrap();
    let key = session(&coordinator, "a", 2_000).await;
    let (kept, request) = acquire(&coordinator, &key, "released").await;
    clock.advance(300);
    coordinator.release(&key.secret, kept.acquired.lease, request).await.unwrap();
    let (broken, _) = acquire(&coordinator, &key, "broken").await;
    let cut = coordinator.break_lease(broken.acquired.lease, Reason::new("stuck").unwrap()).await.unwrap();
    for name in ["expired/1", "expired/2", "expired/3"] {
        acquire(&coordinator, &key, name).await;
    }
    clock.advance(2_000);
    let other = session(&coordinator, "b", 60_000).await;
    let (again, _) = acquire(&coordinator, &other, "renewed").await;
    let renewed = coordinator
        .acquire(fencepost_coordinator::AcquireRequest { renew: true, ..waiting(&other, "renewed", 0) })
        .await
        .unwrap();
    assert!(token(&again) < token(&renewed.answer));
    coordinator.end_session(&other).await.unwrap();

    let before = told(&coordinator).await;
    assert_eq!(before.len(), 5 + 5 + 3, "{before:#?}");
    assert!(before.windows(2).all(|pair| pair[0].number > pair[1].number), "the newest first");
    assert!(before.iter().all(|entry| entry.unix_ms.is_some()));
    let of_token = |token| HistoryQuery { token: Some(token), ..all(9) };
    let burned = coordinator.history(of_token(cut.fence_to.unwrap())).await.unwrap().entries;
    assert!(
        matches!(&burned[..], [HistoryEntry { event, .. }]
            if matches!(&event.kind, EventKind::Ended { end: LeaseEnd::Revoked, reason: Some(why), .. } if why.as_str() == "stuck")),
        "{burned:?}"
    );
    coordinator.shutdown().await;

    let coordinator = store.open(on(&clock)).unwrap();
    assert_eq!(told(&coordinator).await, before);
}

/// Falls when the log that is read back after a failed commit is not told, or is told twice.
#[tokio::test]
async fn a_commit_that_failed_is_told_if_and_only_if_it_took_effect() {
    for (fault, grants) in [(Fault::FailNextCommitBefore, 0), (Fault::FailNextCommitAfter, 1)] {
        let store = MemoryStore::new();
        let coordinator = store.open(Options::default()).unwrap();
        let key = session(&coordinator, "a", 60_000).await;
        acquire(&coordinator, &key, "before").await;
        store.inject(fault);
        let lost = coordinator.acquire(waiting(&key, "lost", 0)).await;
        assert!(lost.is_err(), "{fault:?}");
        until("commits work again", || async { coordinator.ready().is_ok() }).await;
        acquire(&coordinator, &key, "after").await;
        let names: Vec<String> = told(&coordinator).await.iter().map(|entry| entry.event.domain.to_string()).collect();
        let lost = vec!["lost".to_owned(); grants];
        assert_eq!(names, [vec!["after".to_owned()], lost, vec!["before".to_owned()]].concat(), "{fault:?}");
    }
}

#[tokio::test]
async fn what_a_snapshot_lets_go_of_the_history_keeps_and_only_up_to_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("data");
    Embedded::init(&dir, InitOptions::default()).unwrap();
    let small = || Options { snapshot_log_bytes: 100_000, ..Options::default() };
    let coordinator = Embedded::open(&dir, small()).unwrap();
    let key = session(&coordinator, "a", 60_000).await;
    let (long, request) = acquire(&coordinator, &key, "held/long").await;
    let mut pairs = 0;
    while coordinator.statistics().snapshots < 3 {
        let names: Vec<String> = (0..200).map(|n| format!("short/{n}")).collect();
        let pair = |name: String| {
            let (coordinator, key) = (coordinator.clone(), key.clone());
            async move {
                let (granted, request) = acquire(&coordinator, &key, &name).await;
                coordinator.release(&key.secret, granted.acquired.lease, request).await.unwrap();
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        names.into_iter().for_each(|name| drop(tasks.spawn(pair(name))));
        tasks.join_all().await;
        pairs += 200;
        assert!(pairs < 20_000, "no snapshot is taken");
        tokio::task::yield_now().await;
    }
    coordinator.release(&key.secret, long.acquired.lease, request).await.unwrap();
    let before = told(&coordinator).await;
    coordinator.shutdown().await;
    drop(coordinator);

    let coordinator = Embedded::open(&dir, small()).unwrap();
    let after = told(&coordinator).await;
    assert_eq!(before.len(), after.len());
    assert!(before == after, "the same entries");
    // The grant of the long lease is in no log row any more, and its end knows domain and token all the same.
    let long = HistoryQuery { filter: Filter::Domain(domain("held/long")), ..all(9) };
    let entries = coordinator.history(long).await.unwrap().entries;
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_eq!(entries[0].event.token, entries[1].event.token);
    until("upkeep rests", || async { coordinator.history(all(1)).await.is_ok() }).await;
}
