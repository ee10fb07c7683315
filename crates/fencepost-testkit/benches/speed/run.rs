//! A command under a lock, from the start of the process that takes the lock to its end; and how soon the next in line
//! has its command running.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    child::Server,
    peers::{etcdctl, start_etcd},
    raw::Append,
    report::Table,
    round::{Plan, quantile},
};

/// Runs of each contestant in one round.
const RUNS: usize = 15;
/// Runs that stand in the queue together.
const IN_LINE: usize = 25;

pub(crate) fn measure(plan: Plan, fencepost: &Path) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let own = Server::fencepost(fencepost, &dir.path().join("data"))?;
    let etcd = start_etcd(&dir.path().join("etcd"))?;
    let url = format!("http://{}", own.address);
    let lock = dir.path().join("lock");
    let mut append = Append::new(dir.path())?;

    let commands: [(&str, &dyn Fn() -> Command); 4] = [
        ("true", &|| Command::new("true")),
        ("flock f true", &|| {
            let mut command = Command::new("flock");
            command.arg(&lock).arg("true");
            command
        }),
        ("fencepost run d -- true", &|| under_lease(fencepost, &url, "d", &[], &["true"])),
        ("etcdctl lock d true", &|| {
            let mut command = etcdctl(&etcd);
            command.args(["lock", "d", "true"]);
            command
        }),
    ];
    let mut times = commands.map(|_| Vec::new());
    let (mut over, mut to_etcdctl) = (Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let turn = append.turn(Duration::from_millis(50))?;
        let mut medians = Vec::new();
        for ((name, command), times) in commands.iter().zip(&mut times) {
            let mut of_round = Vec::new();
            for _ in 0..RUNS {
                let before = Instant::now();
                let status = command().stdout(Stdio::null()).stderr(Stdio::null()).status()?;
                let took = before.elapsed().as_secs_f64() * 1e3;
                ensure!(status.success(), "{name} ended with {status}");
                of_round.push(took);
            }
            medians.push(middle(&of_round));
            if round > 0 {
                times.extend(of_round);
            }
        }
        if let ([_, flock, own, etcdctl], true) = (&medians[..], round > 0) {
            over.push(own - flock - turn.median_us / 1e3);
            to_etcdctl.push(own / etcdctl);
        }
        eprint!("\r  round {round} of {}", plan.rounds);
    }
    eprintln!();

    let ms = |value: f64| format!("{value:.1}");
    let mut table = Table::new("A command under a lock, from start to end", &["", "p50, ms", "p99, ms"]);
    for ((name, _), times) in commands.iter().zip(&times) {
        table.row([(*name).to_owned(), ms(middle(times)), ms(late(times))]);
    }
    let over = quantile(over.iter().copied(), 0.5);
    table.note(format!(
        "One run after the other, {} of each. `fencepost run` takes {} ms more than `flock` and one durable append \
         together, and {:.2} of what `etcdctl lock` takes (medians over the rounds).",
        times[0].len(),
        ms(over),
        middle(&to_etcdctl),
    ));
    let gaps = hand_overs(plan, fencepost, &url, dir.path())?;
    table.note(format!(
        "Hand-over in a queue of {IN_LINE} waiting `fencepost run`, from the last instructions of one command to the \
         first of the next, the end of the old process and the start of the new one included: p50 {} ms, p99 {} ms, \
         of {} hand-overs.",
        ms(middle(&gaps)),
        ms(late(&gaps)),
        gaps.len(),
    ));
    Ok(table)
}

fn middle(times: &[f64]) -> f64 {
    quantile(times.iter().copied(), 0.5)
}

fn late(times: &[f64]) -> f64 {
    quantile(times.iter().copied(), 0.99)
}

fn under_lease(fencepost: &Path, url: &str, domain: &str, options: &[&str], what: &[&str]) -> Command {
    let mut command = Command::new(fencepost);
    command.args(["run", domain, "--url", url]).args(options).arg("--").args(what);
    command
}

/// Milliseconds between one command and the next, of whole queues.
fn hand_overs(plan: Plan, fencepost: &Path, url: &str, dir: &Path) -> Result<Vec<f64>> {
    let own = std::env::current_exe()?;
    let own = own.to_str().context("the path of this program is no text")?;
    let mut gaps = Vec::new();
    for round in 0..=plan.rounds {
        let (stamps, gate) = (dir.join(format!("stamps-{round}")), dir.join(format!("gate-{round}")));
        let domain = format!("line/{round}");
        let hold = format!("while [ ! -e '{}' ]; do sleep 0.02; done", gate.display());
        let quiet = |command: &mut Command| -> Result<Child> {
            Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn()?)
        };
        let mut line =
            vec![quiet(&mut under_lease(fencepost, url, &domain, &["--wait", "60s"], &["sh", "-c", &hold]))?];
        until(fencepost, url, &domain, |shown| shown["items"].as_array().is_some_and(|items| !items.is_empty()))?;
        let stamped = stamps.to_str().context("the path of a stamp is no text")?;
        for _ in 0..IN_LINE {
            let command = [own, "--stamp", stamped];
            line.push(quiet(&mut under_lease(fencepost, url, &domain, &["--wait", "60s"], &command))?);
        }
        until(fencepost, url, &domain, |shown| shown["queue"]["waiting"].as_u64() == Some(IN_LINE as u64))?;
        fs::write(&gate, "")?;
        for mut one in line {
            ensure!(one.wait()?.success(), "a run in the queue failed");
        }
        let text = fs::read_to_string(&stamps)?;
        let mut times = text.lines().map(str::parse::<u64>).collect::<Result<Vec<_>, _>>()?;
        ensure!(times.len() == IN_LINE, "{} of {IN_LINE} commands ran", times.len());
        times.sort_unstable();
        if round > 0 {
            gaps.extend(times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6));
        }
        eprint!("\r  queue {round} of {}", plan.rounds);
    }
    eprintln!();
    Ok(gaps)
}

/// Waits until `fencepost show` says so.
fn until(fencepost: &Path, url: &str, domain: &str, so: impl Fn(&Value) -> bool) -> Result<()> {
    let start = Instant::now();
    loop {
        let shown = Command::new(fencepost).args(["show", domain, "--json", "--url", url]).output()?;
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        if so(&shown) {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_secs(60), "the queue does not come about: {shown}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Notes the present moment as one line of a file.
pub(crate) fn stamp(file: &Path) -> Result<()> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let line = format!("{}\n", now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
    Ok(file.write_all(line.as_bytes())?)
}
