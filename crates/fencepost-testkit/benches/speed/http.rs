//! The server over loopback beside an empty handler of the same stack, etcd and Redis, all through one generator.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    child::Server,
    generator::{Client, Connection, Load, field},
    peers::{EtcdClient, RedisClient, start_etcd, start_redis},
    raw::Append,
    report::{Table, micros, rate, ratio},
    round::{Contestant, Plan, compete},
};

static NEXT: AtomicU64 = AtomicU64::new(1);
const PAIRS_OF_A_SESSION: u64 = 5_000;

pub(crate) fn measure(plan: Plan, fencepost: &Path) -> Result<Table> {
    let dir = tempfile::Builder::new().prefix("fencepost-bench-").tempdir_in(".")?;
    let empty = Server::printing(Command::new(std::env::current_exe()?).arg("--empty-handler"))?;
    let own = Server::fencepost(fencepost, &dir.path().join("data"))?;
    let etcd = start_etcd(&dir.path().join("etcd"))?;
    let redis = start_redis(&dir.path().join("redis"))?;
    let mut append = Append::new(dir.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let head = ["clients", "", "a second", "to the empty handler", "to etcd", "median, us"];
    let mut table = Table::new("Over HTTP on loopback, durable", &head);
    for clients in [1, 16, 64, 256] {
        let runtime = &runtime;
        let mut requests = runtime.block_on(Load::<Empty>::connect(empty.address, clients))?;
        let mut pairs = runtime.block_on(Load::<Pair>::connect(own.address, clients))?;
        let mut etcd = runtime.block_on(Load::<EtcdClient>::connect(etcd.address, clients))?;
        let mut redis = runtime.block_on(Load::<RedisClient>::connect(redis.address, clients))?;
        let appending = &mut append;
        let scores = compete(
            plan,
            vec![
                Contestant::new("append of 100 bytes + fdatasync", move |turn| appending.turn(turn)),
                Contestant::new("empty handler, requests", move |turn| runtime.block_on(requests.turn(turn))),
                Contestant::new("fencepost, pairs", move |turn| runtime.block_on(pairs.turn(turn))),
                Contestant::new("etcd, pairs", move |turn| runtime.block_on(etcd.turn(turn))),
                Contestant::new("Redis, pairs", move |turn| runtime.block_on(redis.turn(turn))),
            ],
        )?;
        for (at, score) in scores.iter().enumerate() {
            // A pair is two requests; the empty handler's figure is single ones.
            let requests = if at == 2 { ratio(2.0 * score.rate_over(&scores[1])) } else { String::new() };
            let peer = if at == 2 { ratio(score.rate_over(&scores[3])) } else { String::new() };
            table.row([
                clients.to_string(),
                score.name.clone(),
                rate(score.rate()),
                requests,
                peer,
                micros(score.median_us()),
            ]);
        }
        if clients == 1 {
            let trip = scores[1].median_us();
            let over = ratio(scores[2].median_us() / (scores[0].median_us() + trip));
            let paced = append.paced(Duration::from_micros(150), 2_000)?;
            let over_paced = ratio(scores[2].median_us() / (paced + trip));
            table.note(format!(
                "With one client a median acquire takes {over} of one fdatasync plus one empty round trip. The same \
                 fdatasync takes {paced:.0} us where the disk has been idle for 150 us, as it is between the requests of \
                 one client; to that plus one round trip it is {over_paced}."
            ));
        }
    }
    table.note(
        "A pair is acquire and release. To the empty handler: requests of Fencepost to requests of the empty handler. \
         etcd: grant a lease, put the key in a transaction if it is not there, revoke the lease, through its JSON \
         gateway. Redis (appendfsync always): SET NX PX and INCR, then a compared DEL, by scripts; no fencing at all. \
         Median: of one request, of one acquire, of one pair.",
    );
    Ok(table)
}

/// A client of the empty handler.
struct Empty {
    connection: Connection,
}

impl Client for Empty {
    async fn connect(address: SocketAddr, _: usize) -> Result<Self> {
        Ok(Self { connection: Connection::open(address).await? })
    }

    async fn operate(&mut self) -> Result<Duration> {
        let before = Instant::now();
        let body = r#"{"lease":"00112233445566778899aabbccddeeff","request_id":"00112233445566778899aabbccddeeff"}"#;
        self.connection.post("/", "", body).await?;
        Ok(before.elapsed())
    }
}

/// A client that acquires and releases its own domain.
pub(crate) struct Pair {
    connection: Connection,
    domain: String,
    session: String,
    secret: String,
    pairs: u64,
}

impl Pair {
    async fn open_session(&mut self) -> Result<()> {
        let body = self.connection.post("/v1/sessions", "", r#"{"holder":"bench","ttl_ms":86400000}"#).await?;
        let (session, secret) = (field(body, r#""session":""#)?, field(body, r#""secret":""#)?);
        (self.session, self.secret, self.pairs) = (session.to_owned(), secret.to_owned(), 0);
        Ok(())
    }
}

impl Client for Pair {
    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        let connection = Connection::open(address).await?;
        let (session, secret) = (String::new(), String::new());
        let mut client = Self { connection, domain: format!("bench/{number}"), session, secret, pairs: 0 };
        client.open_session().await?;
        Ok(client)
    }

    async fn operate(&mut self) -> Result<Duration> {
        if self.pairs == PAIRS_OF_A_SESSION {
            self.open_session().await?;
        }
        self.pairs += 1;
        let request = format!("{:032x}", NEXT.fetch_add(1, Relaxed));
        let (domain, session) = (&self.domain, &self.session);
        let acquire = format!(r#"{{"domain":"{domain}","request_id":"{request}","session":"{session}"}}"#);
        let before = Instant::now();
        let body = self.connection.post("/v1/leases", &self.secret, &acquire).await?;
        let took = before.elapsed();
        let lease = field(body, r#""lease":""#)?.to_owned();
        let release = format!(r#"{{"lease":"{lease}","request_id":"{request}"}}"#);
        self.connection.post("/v1/leases/release", &self.secret, &release).await?;
        Ok(took)
    }
}
