//! The embedded coordinator without HTTP: acquire and release, each durable when it returns.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use fencepost_coordinator::{
    AcquireRequest, Coordinator, SessionKey,
    embedded::{Embedded, InitOptions, Options, testing::MemoryStore},
};
use fencepost_core::{Domain, Epoch, Holder, RequestId, Ttl};
use tokio::task::JoinSet;

use crate::{
    raw::Append,
    report::{Table, micros, rate, ratio},
    round::{Contestant, Plan, Turn, compete, timed},
};

/// A session remembers its ended holds, ten thousand at most: a busy one is replaced before that.
const PAIRS_OF_A_SESSION: u64 = 5_000;
static NEXT: AtomicU64 = AtomicU64::new(1);

pub(crate) fn measure(plan: Plan) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let data = dir.path().join("data");
    Embedded::init(&data, InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() })?;
    let coordinator = Embedded::open(&data, Options::default())?;
    let without_disk = MemoryStore::new().open(Options::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut append = Append::new(dir.path())?;

    let mut contestants = vec![Contestant::new("append of 100 bytes + fdatasync", move |turn| append.turn(turn))];
    for tasks in [1, 16, 64, 256] {
        let (coordinator, runtime) = (&coordinator, &runtime);
        let name = format!("acquire + release, {tasks} tasks");
        contestants.push(Contestant::new(name, move |turn| runtime.block_on(pairs(coordinator, tasks, turn))));
    }
    contestants.push(Contestant::new("the same without a disk, 256 tasks", |turn| {
        runtime.block_on(pairs(&without_disk, 256, turn))
    }));
    let scores = compete(plan, contestants)?;
    runtime.block_on(coordinator.shutdown());
    runtime.block_on(without_disk.shutdown());

    let head = ["", "a second", "ratio to the append", "median acquire, us", "ratio to one fdatasync"];
    let mut table = Table::new("In process, durable", &head);
    for score in &scores {
        table.row([
            score.name.clone(),
            rate(score.rate()),
            ratio(score.rate_over(&scores[0])),
            micros(score.median_us()),
            ratio(score.time_over(&scores[0])),
        ]);
    }
    if let [.., durable, ceiling] = scores.as_slice() {
        table.note(format!(
            "A pair is two durable steps. Each task has its own domain; the tasks share one thread. Without a disk the \
             same writer has a store in memory, which is its own ceiling: of that, 256 tasks get {} durably.",
            ratio(durable.rate_over(ceiling))
        ));
    }
    Ok(table)
}

async fn pairs(coordinator: &Embedded, tasks: u64, turn: Duration) -> Result<Turn> {
    let start = Instant::now();
    let mut set = JoinSet::new();
    for task in 0..tasks {
        set.spawn(worker(coordinator.clone(), task, start, turn));
    }
    let mut times = Vec::new();
    while let Some(done) = set.join_next().await {
        times.extend(done.context("a worker panicked")??);
    }
    Ok(timed(start.elapsed(), times))
}

/// Acquires and releases until the turn is over; the times of its acquires.
async fn worker(coordinator: Embedded, task: u64, start: Instant, turn: Duration) -> Result<Vec<Duration>> {
    let domain = Domain::new(&format!("bench/{task}"))?;
    let mut key = open(&coordinator).await?;
    let mut times = Vec::new();
    let mut pairs = 0;
    while start.elapsed() < turn {
        if pairs == PAIRS_OF_A_SESSION {
            coordinator.end_session(&key).await?;
            (key, pairs) = (open(&coordinator).await?, 0);
        }
        pairs += 1;
        let request = RequestId::from_bytes(u128::from(NEXT.fetch_add(1, Relaxed)).to_be_bytes());
        let before = Instant::now();
        let granted = coordinator.acquire(AcquireRequest::new(&key, domain.clone(), request)).await?;
        times.push(before.elapsed());
        coordinator.release(&key.secret, granted.answer.acquired.lease, request).await?;
    }
    coordinator.end_session(&key).await?;
    Ok(times)
}

async fn open(coordinator: &Embedded) -> Result<SessionKey> {
    Ok(coordinator.open_session(Holder::new("bench")?, Ttl::default()).await?.answer.key())
}
