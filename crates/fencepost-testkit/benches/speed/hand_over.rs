//! How soon the next in line has its command running.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::{
    child::Server,
    peers::{etcdctl, start_etcd},
    report::Table,
    round::Plan,
    run::{late, middle, under_lease},
};

/// Commands that stand in a queue together.
const IN_LINE: usize = 25;
/// The command that notes when it began. A light one: what it takes to load is part of every hand-over.
const STAMP: [&str; 2] = ["date", "+%s%N"];

/// One way to run a command when its turn has come.
struct Queue<'a> {
    name: &'static str,
    command: &'a dyn Fn(&str, &[&str]) -> Command,
    /// How many have the lock or wait for it.
    in_line: &'a dyn Fn(&str) -> Result<usize>,
}

pub(crate) fn measure(plan: Plan, fencepost: &Path) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let own = Server::fencepost(fencepost, &dir.path().join("data"))?;
    let etcd = start_etcd(&dir.path().join("etcd"))?;
    let url = format!("http://{}", own.address);
    let file = |domain: &str| dir.path().join(domain);
    let queues = [
        Queue {
            name: "flock",
            command: &|domain, what| {
                let mut command = Command::new("flock");
                command.arg(file(domain)).args(what);
                command
            },
            in_line: &|domain| locked(&file(domain)),
        },
        Queue {
            name: "fencepost run",
            command: &|domain, what| under_lease(fencepost, &url, domain, what),
            in_line: &|domain| shown(fencepost, &url, domain),
        },
        Queue {
            name: "etcdctl lock",
            command: &|domain, what| {
                let mut command = etcdctl(&etcd);
                command.args(["lock", "--", domain]).args(what);
                command
            },
            in_line: &|domain| {
                let keys = etcdctl(&etcd).args(["get", "--prefix", "--keys-only", domain]).output()?;
                Ok(String::from_utf8(keys.stdout)?.lines().filter(|line| !line.is_empty()).count())
            },
        },
    ];
    let mut gaps = queues.each_ref().map(|_| Vec::new());
    for round in 0..=plan.rounds {
        for (queue, gaps) in queues.iter().zip(&mut gaps) {
            let of_round = hand_overs(queue, round, dir.path())?;
            if round > 0 {
                gaps.extend(of_round);
            }
        }
        eprint!("\r  queue {round} of {}", plan.rounds);
    }
    eprintln!();
    let mut table = Table::new("Hand-over of a lock to the next in line", &["", "p50, ms", "p99, ms"]);
    let ms = |value: f64| format!("{value:.1}");
    for (queue, gaps) in queues.iter().zip(&gaps) {
        table.row([queue.name.to_owned(), ms(middle(gaps)), ms(late(gaps))]);
    }
    table.note(format!(
        "From the first instructions of one `date` to those of the next, in queues of {IN_LINE}: the rest of the old \
         command and the start of the new one are part of it. {} hand-overs of each.",
        gaps[0].len(),
    ));
    Ok(table)
}

/// Milliseconds between one command and the next, of a whole queue.
fn hand_overs(queue: &Queue<'_>, round: usize, dir: &Path) -> Result<Vec<f64>> {
    let (stamps, gate) = (dir.join(format!("stamps-{round}")), dir.join(format!("gate-{round}")));
    let domain = format!("line-{round}");
    let hold = format!("while [ ! -e '{}' ]; do sleep 0.02; done", gate.display());
    let mut line = vec![waiting(queue, &domain, &["sh", "-c", &hold], &stamps)?];
    until(queue, &domain, 1)?;
    for _ in 0..IN_LINE {
        line.push(waiting(queue, &domain, &STAMP, &stamps)?);
    }
    until(queue, &domain, 1 + IN_LINE)?;
    fs::write(&gate, "")?;
    for mut one in line {
        ensure!(one.wait()?.success(), "{} in the queue failed", queue.name);
    }
    let times = stamped(&stamps)?;
    ensure!(times.len() == IN_LINE, "{} of {IN_LINE} commands ran", times.len());
    fs::remove_file(stamps)?;
    fs::remove_file(gate)?;
    Ok(times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect())
}

/// A command that waits for its turn, and what it writes goes to the end of a file.
fn waiting(queue: &Queue<'_>, domain: &str, what: &[&str], output: &Path) -> Result<Child> {
    let output = fs::OpenOptions::new().create(true).append(true).open(output)?;
    let mut command = (queue.command)(domain, what);
    Ok(command.stdout(output).stderr(Stdio::null()).stdin(Stdio::null()).spawn()?)
}

/// The moments that [`STAMP`] noted, in order, in nanoseconds. A peer may write more than its command does.
fn stamped(file: &Path) -> Result<Vec<u128>> {
    let mut times: Vec<u128> = fs::read_to_string(file)?.lines().filter_map(|line| line.parse().ok()).collect();
    times.sort_unstable();
    Ok(times)
}

/// Waits until so many are in line.
fn until(queue: &Queue<'_>, domain: &str, number: usize) -> Result<()> {
    let start = Instant::now();
    while (queue.in_line)(domain)? != number {
        ensure!(start.elapsed() < Duration::from_secs(60), "{}: the queue does not come about", queue.name);
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Those in line as `fencepost show` counts them.
fn shown(fencepost: &Path, url: &str, domain: &str) -> Result<usize> {
    let shown = Command::new(fencepost).args(["show", domain, "--json", "--url", url]).output()?;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let waiting = shown["queue"]["waiting"].as_u64().unwrap_or_default() as usize;
    Ok(waiting + shown["items"].as_array().map_or(0, Vec::len))
}

/// Those in line for a lock of the kernel on this file.
fn locked(file: &Path) -> Result<usize> {
    let Ok(found) = fs::metadata(file) else { return Ok(0) };
    let inode = format!(":{} ", found.ino());
    Ok(fs::read_to_string("/proc/locks")?.lines().filter(|line| line.contains(&inode)).count())
}
