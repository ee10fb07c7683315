//! A command under a lock, from the start of the process that takes the lock to its end.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::{
    child::Server,
    peers::{etcdctl, start_etcd},
    raw::Append,
    report::Table,
    round::{Plan, quantile},
};

/// Runs of each contestant in one round.
const RUNS: usize = 15;

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
        ("fencepost run d -- true", &|| under_lease(fencepost, &url, "d", &["true"])),
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
    Ok(table)
}

pub(crate) fn middle(times: &[f64]) -> f64 {
    quantile(times.iter().copied(), 0.5)
}

pub(crate) fn late(times: &[f64]) -> f64 {
    quantile(times.iter().copied(), 0.99)
}

pub(crate) fn under_lease(fencepost: &Path, url: &str, domain: &str, what: &[&str]) -> Command {
    let mut command = Command::new(fencepost);
    command.args(["run", domain, "--url", url, "--wait", "60s", "--"]).args(what);
    command
}
