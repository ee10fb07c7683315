//! Several processes on one file, some of them paused or killed. A child is this test binary again, told by a variable
//! what to be.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fencepost_core::{
    OperationId,
    fence::{Operation, RejectedBy, Rejection, Verdict},
};
use fencepost_rusqlite::SqliteReceiver;
use rusqlite::Connection;

use crate::support::{Database, add, grant, in_memory, operation, result, token};

const ROLE: &str = "FENCEPOST_TEST_ROLE";
const FILE: &str = "FENCEPOST_TEST_FILE";

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(120)).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
}

/// What a child does; in the parent's own run there is no role and nothing to do.
#[test]
fn child() {
    let (Ok(role), Some(path)) = (env::var(ROLE), env::var_os(FILE)) else { return };
    let mut connection = open(Path::new(&path));
    let receiver = SqliteReceiver::new();
    let (role, argument) = role.split_once(' ').unwrap();
    match role {
        "write" => {
            let (name, times) = argument.split_once(' ').unwrap();
            for n in 0..times.parse::<u32>().unwrap() {
                let operation = operation(&format!("{name}-{n}"));
                let verdict = receiver.write(&mut connection, &grant("a", "0.5"), &operation, add("a", 1)).unwrap();
                assert!(matches!(verdict, Verdict::Applied(_)), "{verdict:?}");
                say(&format!("wrote {n}"));
            }
        }
        "raise" => {
            assert_eq!(receiver.advance(&mut connection, &grant("a", argument)).unwrap(), Verdict::Applied(()));
            say("raised");
            loop {
                thread::park();
            }
        }
        "delayed" => {
            let read: i64 =
                connection.query_row("SELECT n FROM counter WHERE name = 'a'", [], |row| row.get(0)).unwrap();
            say(&format!("read {read}"));
            let mut go = String::new();
            std::io::stdin().read_line(&mut go).unwrap();
            let sql = "UPDATE counter SET n = ?1 WHERE name = 'a'";
            let verdict =
                receiver.mutate(&mut connection, &grant("a", argument), |tx| tx.execute(sql, [read + 1])).unwrap();
            say(&format!("{verdict:?}"));
        }
        other => panic!("no such role: {other}"),
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nchild: {line}").unwrap();
    out.flush().unwrap();
}

struct Running {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(database: &Database, role: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::child", "--nocapture"])
            .env(ROLE, role)
            .env(FILE, &database.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The next thing it says, `None` when it has ended.
    fn heard(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(said) = line.trim_end().strip_prefix("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id();
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
        assert!(sent.success());
        // A stop is sent to the process and takes its threads one after another: one that waits for a word from here
        // could still begin what it is told.
        while name == "-STOP" && !is_stopped(pid) {
            thread::yield_now();
        }
    }

    fn succeeded(mut self) -> bool {
        while self.heard().is_some() {}
        self.process.wait().unwrap().success()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Mutant: the fence read before the write lock is taken.
fn eight_writers(database: &Database, journal: &str, writes: u32) {
    let setup = open(&database.path);
    let _: String = setup.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |row| row.get(0)).unwrap();
    drop(setup);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut reader = open(&database.path);
            while !done.load(Ordering::Acquire) {
                let tx = reader.transaction().unwrap();
                let count = |tx: &Connection| -> (i64, i64) {
                    let sql = "SELECT n, (SELECT count(*) FROM fencepost_operation) FROM counter WHERE name = 'a'";
                    tx.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
                };
                let seen = count(&tx);
                assert_eq!(seen.0, seen.1, "an effect and its record are seen together");
                thread::yield_now();
                assert_eq!(count(&tx), seen, "a reader's view does not move");
            }
        });
        scope.spawn(|| {
            let keeper = open(&database.path);
            while !done.load(Ordering::Acquire) {
                keeper.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
                keeper.execute_batch("VACUUM").unwrap();
            }
        });
        let writers: Vec<Running> = (0..8).map(|n| Running::start(database, &format!("write w{n} {writes}"))).collect();
        let succeeded: Vec<bool> = writers.into_iter().map(Running::succeeded).collect();
        done.store(true, Ordering::Release);
        assert_eq!(succeeded, [true; 8], "no error has reached a caller");
    });
    assert_eq!(database.count("a"), 8 * i64::from(writes));
    let status = fencepost_rusqlite::status(&database.connect()).unwrap();
    assert_eq!((status.operations, status.fences), (8 * u64::from(writes), 1));
}

#[test]
fn eight_processes_write_in_wal_mode_beside_a_reader_checkpoints_and_vacuum() {
    eight_writers(&Database::with_counters_in(&in_memory()), "wal", 1_000);
}

#[test]
fn eight_processes_write_with_a_rollback_journal_beside_a_reader_and_vacuum() {
    eight_writers(&Database::with_counters_in(&in_memory()), "delete", 1_000);
}

/// A thousand writes each take one minute there, and two; `FENCEPOST_WRITES=1000` asks for them.
#[test]
fn eight_processes_write_on_a_disk_too() {
    let writes = env::var("FENCEPOST_WRITES").map_or(100, |asked| asked.parse().unwrap());
    for journal in ["wal", "delete"] {
        eight_writers(&Database::with_counters(), journal, writes);
    }
}

/// Mutant: the answer given before the commit.
#[test]
fn a_raise_that_was_acknowledged_survives_the_death_of_its_process() {
    let database = Database::with_counters();
    for sequence in 1..6 {
        let mut raiser = Running::start(&database, &format!("raise 0.{}", sequence * 10));
        assert_eq!(raiser.heard().as_deref(), Some("raised"));
        raiser.kill();
        let late = grant("a", &format!("0.{}", sequence * 10 - 1));
        let verdict = SqliteReceiver::new().mutate(&mut database.connect(), &late, add("a", 1)).unwrap();
        assert!(matches!(verdict, Verdict::Rejected(Rejection::Stale { .. })), "{verdict:?}");
    }
    assert_eq!(database.count("a"), 0);
}

#[test]
fn a_process_killed_while_it_writes_leaves_every_effect_with_its_record_or_neither() {
    let database = Database::with_counters();
    let mut acknowledged = 0;
    for round in 1..8_u32 {
        let mut writer = Running::start(&database, &format!("write r{round} 100000"));
        for _ in 0..round {
            assert!(writer.heard().is_some());
        }
        writer.kill();
        acknowledged += i64::from(round);
        let connection = database.connect();
        let records: i64 =
            connection.query_row("SELECT count(*) FROM fencepost_operation", [], |row| row.get(0)).unwrap();
        assert_eq!(database.count("a"), records, "one record for each effect");
        assert!(records >= acknowledged, "what was acknowledged is there");
        // A retry of the last one that was acknowledged gets its recorded answer and changes nothing.
        let last = operation(&format!("r{round}-{}", round - 1));
        let replayed =
            SqliteReceiver::new().write(&mut database.connect(), &grant("a", "0.6"), &last, add("a", 1)).unwrap();
        assert!(matches!(replayed, Verdict::Replayed(_)), "{replayed:?}");
        connection.execute_batch("DROP TRIGGER fencepost_fence_rises; UPDATE fencepost_fence SET token = 5").unwrap();
        connection.execute_batch(fencepost_sql::sqlite::SCHEMA).unwrap();
    }
}

/// A is stopped between its read and its write; B takes over and writes; A goes on, and its write arrives.
#[test]
fn the_delayed_write_of_a_paused_process_is_stale_and_changes_nothing() {
    let database = Database::with_counters();
    let mut a = Running::start(&database, "delayed 0.7");
    assert_eq!(a.heard().as_deref(), Some("read 0"));
    a.signal("-STOP");
    a.process.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    let b = SqliteReceiver::new().write(&mut database.connect(), &grant("a", "0.8"), &operation("b"), add("a", 10));
    assert!(matches!(b, Ok(Verdict::Applied(_))));
    let before = database.dump();
    a.signal("-CONT");
    let stale: Verdict<usize> = Verdict::Rejected(Rejection::Stale {
        presented: token("0.7"),
        least_accepted: token("0.8"),
        by: RejectedBy::Fence,
    });
    assert_eq!(a.heard(), Some(format!("{stale:?}")));
    assert!(a.succeeded());
    assert_eq!(database.dump(), before, "as B left it");
}

/// Mutant: the fingerprint not compared.
#[test]
fn of_two_requests_under_one_operation_id_exactly_one_takes_effect() {
    let database = Database::with_counters();
    const EACH: usize = 50;
    let start = Barrier::new(2 * EACH);
    let verdicts: Vec<(i64, Verdict<i64>)> = thread::scope(|scope| {
        let start = &start;
        let database = &database;
        let attempts: Vec<_> = (0..2 * EACH)
            .map(|n| {
                let amount = if n % 2 == 0 { 1 } else { 100 };
                scope.spawn(move || {
                    let mut connection = open(&database.path);
                    let id = OperationId::new("pay").unwrap();
                    let operation = Operation::new(id, format!("{{\"amount\":{amount}}}").as_bytes());
                    start.wait();
                    let verdict = SqliteReceiver::new().write(&mut connection, &grant("a", "0.5"), &operation, |tx| {
                        add("a", amount)(tx)?;
                        Ok::<_, rusqlite::Error>(result(&amount.to_be_bytes()))
                    });
                    let read = |bytes: Vec<u8>| i64::from_be_bytes(bytes.try_into().unwrap());
                    (amount, verdict.unwrap().map(|result| read(result.into_bytes())))
                })
            })
            .collect();
        attempts.into_iter().map(|attempt| attempt.join().unwrap()).collect()
    });
    let applied: Vec<i64> =
        verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Applied(_))).map(|(n, _)| *n).collect();
    let [winner] = applied[..] else { panic!("{applied:?}") };
    assert_eq!(database.count("a"), winner);
    for (amount, verdict) in verdicts {
        match verdict {
            Verdict::Applied(answer) | Verdict::Replayed(answer) => assert_eq!((amount, answer), (winner, winner)),
            Verdict::Rejected(rejection) => {
                assert_eq!(rejection, Rejection::OperationConflict);
                assert_ne!(amount, winner);
            }
        }
    }
}

/// A stale write checks, B's advance is answered, the stale write lands: what a check outside of the transaction allows.
/// A mutation runs under the write lock, so no greater raise can have been answered before it. Mutant: the fence read
/// before the lock, and not again.
#[test]
fn no_write_lands_after_a_greater_raise_was_answered() {
    let database = Database::with_counters();
    for round in 1..=8 {
        let (old, new) = (grant("a", &format!("0.{}", round * 2)), grant("a", &format!("0.{}", round * 2 + 1)));
        let (start, answered, late) = (Barrier::new(2), AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut connection = open(&database.path);
                start.wait();
                let verdict = SqliteReceiver::new().mutate(&mut connection, &old, |tx| {
                    late.store(answered.load(Ordering::Acquire), Ordering::Release);
                    add("a", 1)(tx)
                });
                assert!(matches!(verdict, Ok(Verdict::Applied(_) | Verdict::Rejected(_))), "{verdict:?}");
            });
            scope.spawn(|| {
                let mut connection = open(&database.path);
                start.wait();
                assert!(matches!(SqliteReceiver::new().advance(&mut connection, &new), Ok(Verdict::Applied(()))));
                answered.store(true, Ordering::Release);
            });
        });
        assert!(!late.load(Ordering::Acquire), "a stale write was applied after the raise was answered");
    }
}

/// Whether every thread of a process has stopped.
fn is_stopped(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T'))
    })
}
