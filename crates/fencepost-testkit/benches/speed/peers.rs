//! Lock services that people use today, driven through the same generator.

use std::{
    net::SocketAddr,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    child::{Server, free_port},
    generator::{Client, Connection, field},
};

pub(crate) fn start_etcd(dir: &Path) -> Result<Server> {
    let (port, peer) = (free_port()?, free_port()?);
    let (client_url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new("etcd");
    command.args(["--name", "t", "--logger", "zap", "--log-level", "error"]).arg("--data-dir").arg(dir);
    command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
    command.args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url]);
    command.arg("--initial-cluster").arg(format!("t={peer_url}"));
    Server::on_port(port, &mut command)
}

/// `etcdctl`, speaking to this server.
pub(crate) fn etcdctl(server: &Server) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg("--endpoints").arg(server.address.to_string());
    command
}

pub(crate) fn start_redis(dir: &Path) -> Result<Server> {
    std::fs::create_dir_all(dir)?;
    let port = free_port()?;
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(dir);
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    Server::on_port(port, &mut command)
}

/// Grants an etcd lease, takes a key with it, and revokes the lease.
pub(crate) struct EtcdClient {
    connection: Connection,
    key: String,
}

impl Client for EtcdClient {
    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        let key = base64(format!("bench/{number:04}/.").as_bytes());
        Ok(Self { connection: Connection::open(address).await?, key })
    }

    async fn operate(&mut self) -> Result<Duration> {
        let before = Instant::now();
        let granted = self.connection.post("/v3/lease/grant", "", r#"{"TTL":"15"}"#).await?;
        let lease = field(granted, r#""ID":""#)?.to_owned();
        let key = &self.key;
        let take = format!(
            r#"{{"compare":[{{"target":"CREATE","key":"{key}","create_revision":"0"}}],"success":[{{"requestPut":{{"key":"{key}","value":"eA==","lease":"{lease}"}}}}]}}"#
        );
        let taken = self.connection.post("/v3/kv/txn", "", &take).await?;
        if !std::str::from_utf8(taken)?.contains(r#""succeeded":true"#) {
            bail!("etcd did not give the key: {}", String::from_utf8_lossy(taken));
        }
        let revoke = format!(r#"{{"ID":"{lease}"}}"#);
        self.connection.post("/v3/lease/revoke", "", &revoke).await?;
        Ok(before.elapsed())
    }
}

/// Base64 of a text whose length is a multiple of three.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |n: u32| char::from(DIGITS[(n & 63) as usize]);
    let mut text = String::new();
    for three in bytes.chunks_exact(3) {
        let n = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        text.extend([digit(n >> 18), digit(n >> 12), digit(n >> 6), digit(n)]);
    }
    text
}

/// Takes a key in Redis if it is not there, counts, and deletes it again if it is still its own.
pub(crate) struct RedisClient {
    connection: Connection,
    acquire: Vec<u8>,
    release: Vec<u8>,
}

const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 15000) then return redis.call('INCR', KEYS[2]) \
                       else return 0 end";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

impl Client for RedisClient {
    async fn connect(address: SocketAddr, number: usize) -> Result<Self> {
        let key = format!("bench/{number}");
        let acquire = command(&["EVAL", ACQUIRE, "2", &key, "counter", "owner"]);
        let release = command(&["EVAL", RELEASE, "1", &key, "owner"]);
        Ok(Self { connection: Connection::open(address).await?, acquire, release })
    }

    async fn operate(&mut self) -> Result<Duration> {
        let before = Instant::now();
        for request in [&self.acquire, &self.release] {
            let answer = self.connection.exchange(request, line_end).await?;
            if !answer.starts_with(b":") || answer.starts_with(b":0") {
                bail!("Redis answered {}", String::from_utf8_lossy(answer));
            }
        }
        Ok(before.elapsed())
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

fn line_end(bytes: &[u8]) -> Result<Option<usize>> {
    Ok(bytes.ends_with(b"\r\n").then_some(bytes.len()))
}
