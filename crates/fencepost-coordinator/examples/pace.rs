//! How many durable acquire+release pairs a second, beside raw append+fdatasync on the same disk.
//!
//! `cargo run --release -p fencepost-coordinator --features embedded --example pace -- [SECONDS] [DIR] [TASKS]`

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use fencepost_coordinator::{
    AcquireRequest, Coordinator,
    embedded::{Embedded, InitOptions, Observer, Options},
};
use fencepost_core::{Domain, Holder, RequestId, Ttl};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A session remembers at most 10,000 ended holds, so a task that goes on needs a new one now and then.
const PAIRS_PER_SESSION: u64 = 5_000;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse::<f64>())?;
    let parent = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("fencepost-pace-{}", std::process::id()));
    Embedded::init(&dir, InitOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let chosen = arguments.next().map(|text| text.parse()).transpose()?;
    for tasks in chosen.map_or_else(|| vec![1, 16, 64, 256], |tasks| vec![tasks]) {
        let raw = raw_append(&dir, Duration::from_secs_f64(seconds / 2.0))?;
        let commits = Arc::new(Mutex::new(Vec::new()));
        let observer: Option<Box<dyn Observer>> = Some(Box::new(Durations(Arc::clone(&commits))));
        let coordinator = Embedded::open(&dir, Options { observer, ..Options::default() })?;
        let before = coordinator.statistics();
        let (pairs, took, mut acquires) =
            runtime.block_on(measure(&coordinator, tasks, Duration::from_secs_f64(seconds)))?;
        let after = coordinator.statistics();
        acquires.sort_unstable();
        let (p50, p99) = (acquires[acquires.len() / 2], acquires[acquires.len() * 99 / 100]);
        let commit = median(std::mem::take(&mut *commits.lock().map_err(|_| "poisoned")?));
        println!(
            "{tasks:4} tasks: {:9.0} pairs/s, {:6.0} commits/s, {:5.1} records a commit, {} snapshots; \
             commit p50 {:.0} us; acquire p50 {:6.0} us, p99 {:6.0} us; raw append+fdatasync p50 {:.0} us; p50 ratio {:.2}",
            pairs as f64 / took.as_secs_f64(),
            (after.commits - before.commits) as f64 / took.as_secs_f64(),
            (after.records - before.records) as f64 / (after.commits - before.commits) as f64,
            after.snapshots - before.snapshots,
            commit.as_secs_f64() * 1e6,
            p50.as_secs_f64() * 1e6,
            p99.as_secs_f64() * 1e6,
            raw.as_secs_f64() * 1e6,
            p50.as_secs_f64() / raw.as_secs_f64(),
        );
        runtime.block_on(coordinator.shutdown());
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// The median of an append of 100 bytes that is made durable.
fn raw_append(dir: &Path, time: Duration) -> Result<Duration, Failure> {
    let path = dir.join("raw");
    let mut file = File::create(&path)?;
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        let one = Instant::now();
        file.write_all(&[7; 100])?;
        file.sync_data()?;
        took.push(one.elapsed());
    }
    std::fs::remove_file(path)?;
    Ok(median(took))
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort_unstable();
    of.get(of.len() / 2).copied().unwrap_or_default()
}

struct Durations(Arc<Mutex<Vec<Duration>>>);

impl Observer for Durations {
    fn committed(&mut self, _calls: usize, records: usize, took: Duration) {
        if records > 0
            && let Ok(mut durations) = self.0.lock()
        {
            durations.push(took);
        }
    }
}

async fn measure(
    coordinator: &Embedded,
    tasks: u64,
    time: Duration,
) -> Result<(u64, Duration, Vec<Duration>), Failure> {
    let began = Instant::now();
    let mut running = Vec::new();
    for task in 0..tasks {
        let coordinator = coordinator.clone();
        running.push(tokio::spawn(async move {
            let domain = Domain::new(&format!("pace/{task}"))?;
            let (mut pairs, mut acquires) = (0, Vec::new());
            while began.elapsed() < time {
                let key = coordinator.open_session(Holder::new("pace")?, Ttl::default()).await?.answer.key();
                for _ in 0..PAIRS_PER_SESSION {
                    let mut request = [0; 16];
                    request[..8].copy_from_slice(&task.to_be_bytes());
                    request[8..].copy_from_slice(&u64::to_be_bytes(pairs));
                    let request = RequestId::from_bytes(request);
                    let one = Instant::now();
                    let granted = coordinator.acquire(AcquireRequest::new(&key, domain.clone(), request)).await?;
                    acquires.push(one.elapsed());
                    coordinator.release(&key.secret, granted.answer.acquired.lease, request).await?;
                    pairs += 1;
                    if began.elapsed() >= time {
                        break;
                    }
                }
                coordinator.end_session(&key).await?;
            }
            Ok::<_, Failure>((pairs, acquires))
        }));
    }
    let (mut pairs, mut acquires) = (0, Vec::new());
    for task in running {
        let (more, took) = task.await??;
        pairs += more;
        acquires.extend(took);
    }
    Ok((pairs, began.elapsed(), acquires))
}
