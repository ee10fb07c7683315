//! A million leases in ten thousand sessions: what they cost in memory, what they do to the next acquire, to a list and
//! to a restart.

use std::{
    cell::RefCell,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;

use crate::{
    child::Server,
    generator::{Connection, Load, field},
    http::Pair,
    report::{Table, micros, ratio},
    round::{Contestant, Plan, compete, median, quantile},
};

const SESSIONS: usize = 10_000;
const LEASES_OF_A_SESSION: usize = 100;
/// Sessions and leases of the server that the latency is compared with.
const FEW: (usize, usize) = (10, 100);
const CONNECTIONS: usize = 32;
const PAGE: usize = 1_000;
const SCRAPES: usize = 100;

pub(crate) fn measure(plan: Plan, fencepost: &Path) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let few = Server::fencepost(fencepost, &dir.path().join("few"))?;
    let data = dir.path().join("many");
    let many = Server::fencepost(fencepost, &data)?;
    let empty = many.resident()?;
    fill(&runtime, &few, FEW.0, FEW.1)?;
    let took = fill(&runtime, &many, SESSIONS, LEASES_OF_A_SESSION)?;
    let leases = SESSIONS * LEASES_OF_A_SESSION;
    let full = many.resident()?;

    let mut table = Table::new("A million leases in ten thousand sessions", &["what", "figure"]);
    let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
    row("acquired over HTTP, a second", format!("{:.0}", leases as f64 / took.as_secs_f64()));
    row(
        "resident memory a lease, bytes, its share of a session included",
        format!("{}", (full - empty) / leases as u64),
    );
    let scores = {
        let with_few = RefCell::new(runtime.block_on(Load::<Pair>::connect(few.address, 1))?);
        let with_many = RefCell::new(runtime.block_on(Load::<Pair>::connect(many.address, 1))?);
        let turn = |load: &RefCell<Load<Pair>>, turn| runtime.block_on(load.borrow_mut().turn(turn));
        compete(
            plan,
            vec![
                Contestant::new("few", |time| turn(&with_few, time)),
                Contestant::new("many", |time| turn(&with_many, time)),
            ],
        )?
    };
    row("median acquire beside a thousand leases, us", micros(scores[0].median_us()));
    row("median acquire beside a million leases, us", micros(scores[1].median_us()));
    row("the latter to the former", ratio(scores[1].time_over(&scores[0])));

    for (beside, server) in [("a thousand", &few), ("a million", &many)] {
        let (us, bytes) = scrape(&runtime, server)?;
        row(&format!("a scrape of /metrics beside {beside} leases, p50, us"), format!("{us:.0}, {bytes} bytes"));
    }
    let pages = list(&runtime, &many, leases)?;
    let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
    row("a page of a thousand leases, p50, ms", ms(quantile(pages.iter().copied(), 0.5)));
    row("a page of a thousand leases, p99, ms", ms(quantile(pages.iter().copied(), 0.99)));
    row("the whole list, page by page, s", format!("{:.1}", pages.iter().sum::<f64>()));

    let before = Instant::now();
    many.stop()?;
    row("orderly stop, s", format!("{:.1}", before.elapsed().as_secs_f64()));
    let (many, took) = restart(&runtime, fencepost, &data, leases, "stop")?;
    row("start after it, until it grants, s", format!("{:.1}", took.as_secs_f64()));
    // Dropping a server kills it.
    drop(many);
    let (many, took) = restart(&runtime, fencepost, &data, leases, "kill")?;
    row("start after kill -9, until it grants, s", format!("{:.1}", took.as_secs_f64()));
    row("resident memory a lease after a start, bytes", format!("{}", (many.resident()? - empty) / leases as u64));
    table.note(
        "Every lease is alive and was acquired durably; sessions live for a day. The latency is that of one client that \
         acquires and releases a domain of its own, on both servers in turns.",
    );
    Ok(table)
}

/// Opens sessions and acquires leases in each, over some connections at once.
fn fill(runtime: &Runtime, server: &Server, sessions: usize, leases: usize) -> Result<Duration> {
    let start = Instant::now();
    let each = sessions.div_ceil(CONNECTIONS);
    let work = (0..CONNECTIONS).map(|nth| async move {
        let mut connection = Connection::open(server.address).await?;
        for number in (nth * each)..((nth + 1) * each).min(sessions) {
            let opened = connection.post("/v1/sessions", "", r#"{"holder":"bench","ttl_ms":86400000}"#).await?;
            let session = field(opened, r#""session":""#)?.to_owned();
            let secret = field(opened, r#""secret":""#)?.to_owned();
            for lease in 0..leases {
                let acquire = format!(
                    r#"{{"domain":"tenant-{number:05}/resource-{lease:03}","request_id":"{lease:032x}","session":"{session}"}}"#
                );
                connection.post("/v1/leases", &secret, &acquire).await?;
            }
            if nth == 0 && number % 20 == 0 {
                eprint!("\r  {} of {each} sessions of one of {CONNECTIONS} connections", number + 1);
            }
        }
        Ok::<_, anyhow::Error>(())
    });
    runtime.block_on(futures_util::future::try_join_all(work))?;
    eprintln!();
    Ok(start.elapsed())
}

/// Reads the metrics again and again; the median time in microseconds, and the size of the last answer.
fn scrape(runtime: &Runtime, server: &Server) -> Result<(f64, usize)> {
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        let (mut times, mut bytes) = (Vec::with_capacity(SCRAPES), 0);
        for _ in 0..SCRAPES {
            let before = Instant::now();
            bytes = connection.get("/metrics").await?.len();
            times.push(before.elapsed().as_secs_f64() * 1e6);
        }
        Ok((median(times.into_iter()), bytes))
    })
}

/// Reads every page; the seconds that each took.
fn list(runtime: &Runtime, server: &Server, leases: usize) -> Result<Vec<f64>> {
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        let (mut times, mut seen, mut cursor) = (Vec::new(), 0, String::new());
        loop {
            let before = Instant::now();
            let page = connection.get(&format!("/v1/leases?prefix=tenant-&limit={PAGE}{cursor}")).await?;
            times.push(before.elapsed().as_secs_f64());
            let text = std::str::from_utf8(page)?;
            seen += text.matches(r#""lease":"#).count();
            match field(page, r#""next_cursor":""#) {
                Ok(next) => cursor = format!("&cursor={next}"),
                Err(_) => break,
            }
        }
        ensure!(seen == leases, "the list has {seen} of {leases} leases");
        Ok(times)
    })
}

/// Starts the server again, and waits until it grants.
fn restart(runtime: &Runtime, fencepost: &Path, data: &Path, leases: usize, after: &str) -> Result<(Server, Duration)> {
    let start = Instant::now();
    let server = Server::fencepost(fencepost, data)?;
    runtime.block_on(async {
        let mut connection = Connection::open(server.address).await?;
        let request = after.bytes().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let acquire =
            format!(r#"{{"domain":"after/{after}","request_id":"{request:0>32}","holder":"bench","ttl_ms":1000}}"#);
        connection.post("/v1/leases", "", &acquire).await.context("the restarted server does not grant")?;
        Ok::<_, anyhow::Error>(())
    })?;
    let took = start.elapsed();
    let again = list(runtime, &server, leases)?;
    eprintln!("  {} pages after the start", again.len());
    Ok((server, took))
}
