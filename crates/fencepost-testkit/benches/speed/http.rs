//! The server over loopback beside handlers of the same stack that do nothing and that do one durable step, etcd and
//! Redis, all through one generator.

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
    let itself = std::env::current_exe()?;
    let empty = Server::printing(Command::new(&itself).arg("--empty-handler"))?;
    let durable = Server::printing(Command::new(&itself).arg("--durable-handler").arg(dir.path()))?;
    let own = Server::fencepost(fencepost, &dir.path().join("data"))?;
    let etcd = start_etcd(&dir.path().join("etcd"))?;
    let redis = start_redis(&dir.path().join("redis"))?;
    let mut append = Append::new(dir.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;

    let head = ["clients", "", "a second", "to the empty handler", "to the durable handler", "to etcd", "median, us"];
    let mut table = Table::new("Over HTTP on loopback, durable", &head);
    for clients in [1, 16, 64, 256] {
        let runtime = &runtime;
        let mut requests = runtime.block_on(Load::<Empty>::connect(empty.address, clients))?;
        let mut durables = runtime.block_on(Load::<Empty>::connect(durable.address, clients))?;
        let mut pairs = runtime.block_on(Load::<Pair>::connect(own.address, clients))?;
        let mut etcd = runtime.block_on(Load::<EtcdClient>::connect(etcd.address, clients))?;
        let mut redis = runtime.block_on(Load::<RedisClient>::connect(redis.address, clients))?;
        let appending = &mut append;
        let scores = compete(
            plan,
            vec![
                Contestant::new("append of 100 bytes + fdatasync", move |turn| appending.turn(turn)),
                Contestant::new("empty handler, requests", move |turn| runtime.block_on(requests.turn(turn))),
                Contestant::new("durable handler, requests", move |turn| runtime.block_on(durables.turn(turn))),
                Contestant::new("fencepost, pairs", move |turn| runtime.block_on(pairs.turn(turn))),
                Contestant::new("etcd, pairs", move |turn| runtime.block_on(etcd.turn(turn))),
                Contestant::new("Redis, pairs", move |turn| runtime.block_on(redis.turn(turn))),
            ],
        )?;
        let [alone, empty, durable, own, etcd, _] = scores.as_slice() else { unreachable!("six took turns") };
        for score in &scores {
            // A pair is two requests; the handlers' figures are single ones.
            let [to_empty, to_durable, to_etcd] = if score.name == own.name {
                [2.0 * own.rate_over(empty), 2.0 * own.rate_over(durable), own.rate_over(etcd)].map(ratio)
            } else if score.name == durable.name {
                [ratio(durable.rate_over(empty)), String::new(), String::new()]
            } else {
                [const { String::new() }; 3]
            };
            let (name, median) = (score.name.clone(), micros(score.median_us()));
            table.row([clients.to_string(), name, rate(score.rate()), to_empty, to_durable, to_etcd, median]);
        }
        if clients == 1 {
            let trip = empty.median_us();
            let over = |least: f64| ratio(own.median_us() / least);
            let over_sum = over(alone.median_us() + trip);
            let paced = append.paced(Duration::from_micros(150), 2_000)?;
            let over_paced = over(paced + trip);
            let over_durable = ratio(own.time_over(durable));
            table.note(format!(
                "With one client a median acquire takes {over_sum} of one fdatasync plus one empty round trip, and \
                 {over_durable} of a request to the durable handler. The same fdatasync takes {paced:.0} us where the disk \
                 has been idle for 150 us, as it is between the requests of one client; to that plus one round trip it is \
                 {over_paced}."
            ));
        }
    }
    table.note(
        "A pair is acquire and release. To the handlers: requests of Fencepost to their requests. The durable handler \
         waits for a group commit, one append of 100 bytes and fdatasync by one thread, before it answers. \
         etcd: grant a lease, put the key in a transaction if it is not there, revoke the lease, through its JSON \
         gateway. Redis (appendfsync always): SET NX PX and INCR, then a compared DEL, by scripts; no fencing at all. \
         Median: of one request, of one acquire, of one pair.",
    );
    Ok(table)
}

/// A client of either handler.
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
