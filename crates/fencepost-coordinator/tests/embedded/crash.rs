//! A process is killed with signal 9 again and again while its tasks acquire and release; after each kill the store is
//! opened and compared with what the process had told: no token repeats or goes back, no answered grant is forgotten,
//! no released one comes back.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use fencepost_coordinator::{
    AcquireRequest, Coordinator, SessionKey,
    embedded::{Embedded, InitOptions, Options},
};
use fencepost_core::{
    Epoch, LeaseId, Reason, RequestId, Secret, SessionId, Token,
    lease::{Filter, LeaseView},
};

use crate::common::{acquire, domain, session, token};

const DIRECTORY: &str = "FENCEPOST_CRASH_DIRECTORY";
const ROUND: &str = "FENCEPOST_CRASH_ROUND";
const TASKS: u64 = 8;
const ROUNDS: u64 = 20;

/// What the process said about one of its tasks' domains, in order.
#[derive(Clone, Debug)]
enum Said {
    Granted { token: Token, lease: LeaseId, request: RequestId, session: SessionId, secret: Secret },
    Releasing,
    Released,
}

/// The process that is killed. Not a test by itself: the stories below start it.
#[test]
fn the_process_that_is_killed() {
    let Ok(dir) = env::var(DIRECTORY) else { return };
    let round: u64 = env::var(ROUND).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        // In every other life a snapshot is taken again and again, so that a kill may fall into one.
        let usual = Options::default().snapshot_log_bytes;
        let snapshot_log_bytes = if round.is_multiple_of(2) { 2_000 } else { usual };
        let coordinator = Embedded::open(&dir, Options { snapshot_log_bytes, ..Options::default() }).unwrap();
        let tasks: Vec<_> = (0..TASKS).map(|task| tokio::spawn(work(coordinator.clone(), round, task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

fn say(line: &str) {
    // One write for each line, so that a kill cannot cut one in the middle of another.
    let _ = std::io::stdout().lock().write_all(format!("\nsaid {line}\n").as_bytes());
}

async fn work(coordinator: Embedded, round: u64, task: u64) {
    let key = session(&coordinator, "worker", 60_000).await;
    let name = format!("d/{task}");
    for number in 0_u64.. {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(round << 32 | task).to_be_bytes());
        bytes[8..].copy_from_slice(&number.to_be_bytes());
        let request = RequestId::from_bytes(bytes);
        let granted = coordinator.acquire(AcquireRequest::new(&key, domain(&name), request)).await.unwrap().answer;
        let (token, lease) = (token(&granted), granted.acquired.lease);
        say(&format!("{task} granted {token} {lease} {request} {} {}", key.session, key.secret.expose()));
        say(&format!("{task} releasing"));
        coordinator.release(&key.secret, lease, request).await.unwrap();
        say(&format!("{task} released"));
    }
}

/// Runs the process until it has said `lines` lines, kills it, and returns everything it has said, task by task.
fn run_and_kill(dir: &Path, round: u64, lines: usize, sabotage: Option<&str>) -> BTreeMap<u64, Vec<Said>> {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["crash::the_process_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, dir)
        .env(ROUND, round.to_string())
        .env_remove("FENCEPOST_SABOTAGE")
        .stdout(Stdio::piped());
    if let Some(defect) = sabotage {
        command.env("FENCEPOST_SABOTAGE", defect);
    }
    let mut process = command.spawn().unwrap();
    let (mut said, mut count) = (BTreeMap::<u64, Vec<Said>>::new(), 0);
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let Some(line) = line.strip_prefix("said ") else { continue };
        let Some((task, what)) = parse(line) else { continue };
        said.entry(task).or_default().push(what);
        count += 1;
        if count == lines {
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    assert!(count >= lines, "the process ended by itself after {count} lines");
    said
}

/// Reads a line; the last one may be cut short by the kill.
fn parse(line: &str) -> Option<(u64, Said)> {
    let words: Vec<&str> = line.split(' ').collect();
    let said = match words[..] {
        [_, "granted", token, lease, request, session, secret] => Said::Granted {
            token: token.parse().ok()?,
            lease: lease.parse().ok()?,
            request: request.parse().ok()?,
            session: session.parse().ok()?,
            secret: secret.parse().ok()?,
        },
        [_, "releasing"] => Said::Releasing,
        [_, "released"] => Said::Released,
        _ => return None,
    };
    Some((words[0].parse().ok()?, said))
}

/// What all rounds have shown so far.
#[derive(Default)]
struct Seen {
    tokens: BTreeSet<Token>,
    greatest: BTreeMap<u64, Token>,
}

impl Seen {
    fn grant(&mut self, task: u64, token: Token) -> Result<(), String> {
        if !self.tokens.insert(token) {
            return Err(format!("token {token} was granted twice"));
        }
        match self.greatest.insert(task, token) {
            Some(before) if before >= token => Err(format!("d/{task}: {token} was granted after {before}")),
            _ => Ok(()),
        }
    }
}

/// Opens the store and compares; leaves every domain free.
async fn compare(dir: &Path, said: BTreeMap<u64, Vec<Said>>, seen: &mut Seen) -> Result<(), String> {
    let coordinator = Embedded::open(dir, Options::default()).map_err(|error| error.to_string())?;
    for (task, said) in said {
        for what in &said {
            if let Said::Granted { token, .. } = what {
                seen.grant(task, *token)?;
            }
        }
        let rows = coordinator.list(Filter::Domain(domain(&format!("d/{task}"))), None, 1).await.unwrap().rows;
        settle(&coordinator, task, &said, rows.into_iter().next(), seen).await?;
    }
    let rows = coordinator.list(Filter::Prefix(String::new()), None, 1_000).await.unwrap().rows;
    for row in rows {
        // Granted, and killed before it could tell.
        coordinator.break_lease(row.lease, Reason::new("the test goes on").unwrap()).await.unwrap();
    }
    let key = session(&coordinator, "judge", 60_000).await;
    for task in 0..TASKS {
        let (granted, request) = acquire(&coordinator, &key, &format!("d/{task}")).await;
        seen.grant(task, token(&granted))?;
        coordinator.release(&key.secret, granted.acquired.lease, request).await.unwrap();
    }
    coordinator.end_session(&key).await.unwrap();
    coordinator.shutdown().await;
    Ok(())
}

async fn settle(
    coordinator: &Embedded,
    task: u64,
    said: &[Said],
    row: Option<LeaseView>,
    seen: &Seen,
) -> Result<(), String> {
    let last_grant = said.iter().rposition(|what| matches!(what, Said::Granted { .. }));
    let Some(Said::Granted { token, lease, request, session, secret }) = last_grant.map(|at| &said[at]) else {
        return Ok(());
    };
    let after = &said[last_grant.unwrap_or(0) + 1..];
    let released = after.iter().any(|what| matches!(what, Said::Released));
    let untouched = after.is_empty();
    match &row {
        Some(row) if row.lease == *lease && released => {
            return Err(format!("d/{task}: the lease under {token} was released and came back"));
        }
        Some(row) if row.lease == *lease && row.token != Some(*token) => {
            return Err(format!("d/{task}: {token} became {:?}", row.token));
        }
        Some(row) if row.lease != *lease && row.token <= seen.greatest.get(&task).copied() => {
            return Err(format!("d/{task}: {:?} is held after {token} was granted", row.token));
        }
        Some(_) => {}
        None if untouched => return Err(format!("d/{task}: the grant of {token} was answered and is forgotten")),
        None => {}
    }
    // The session lives on, so a retry of the release settles it, whatever became of the first attempt.
    let key = SessionKey { session: *session, secret: secret.clone() };
    let released = coordinator.release(&key.secret, *lease, *request).await;
    released.map(|_| ()).map_err(|error| format!("d/{task}: the release of {token} cannot be repeated: {error}"))
}

fn rounds(sabotage: Option<&str>) -> Result<usize, String> {
    let dir = tempfile::tempdir().unwrap();
    Embedded::init(dir.path(), InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut seen = Seen::default();
    for round in 0..ROUNDS {
        // Different lengths, so that kills fall into the first commits of a start and between later ones.
        let lines = 1 + usize::try_from(round * 37 % 200).unwrap();
        let said = run_and_kill(dir.path(), round, lines, sabotage);
        runtime.block_on(compare(dir.path(), said, &mut seen))?;
    }
    let store = rusqlite::Connection::open(dir.path().join("coordinator.sqlite")).unwrap();
    let parts: i64 = store.query_row("SELECT snapshot_parts FROM store", [], |row| row.get(0)).unwrap();
    assert!(parts > 0, "no snapshot was taken, so no kill can have fallen into one");
    Ok(seen.tokens.len())
}

#[test]
fn nothing_that_was_answered_is_lost_to_kill_9() {
    let tokens = rounds(None).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(tokens > 500, "{tokens} grants are too few to show anything");
}

/// If the story above passed here too, it would prove nothing.
#[test]
fn the_story_above_notices_answers_that_leave_before_the_commit() {
    let broken = rounds(Some("reply_before_fsync")).expect_err("some answered grant or release must be missing");
    assert!(broken.contains("forgotten") || broken.contains("came back") || broken.contains("repeated"), "{broken}");
}
