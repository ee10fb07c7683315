//! A proxy that misbehaves on command.
//!
//! It carries HTTP/1.1 requests to one server and breaks exactly those that a [`Rule`] names, so that a test can say
//! "the answer to the second release is lost" and get the same run every time. What no rule names passes untouched,
//! streams included. A client that goes away is noticed at once and the server is told by closing its connection.
//!
//! It is a tool for tests and not a proxy for production: requests are held in memory.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # let server: std::net::SocketAddr = "127.0.0.1:9".parse().unwrap();
//! use fencepost_testkit::proxy::{Fault, Proxy, Rule};
//!
//! let proxy = Proxy::start(server, vec![Rule::on("/v1/leases/release", 2, Fault::DropReply)]).await?;
//! println!("clients connect to {}", proxy.address());
//! # Ok(())
//! # }
//! ```

mod carry;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod message;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Breaks one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    path: String,
    nth: u64,
    fault: Fault,
}

impl Rule {
    /// Breaks the `nth` request to `path`, counted from 1 over all connections; queries do not count as path.
    #[must_use]
    pub fn on(path: &str, nth: u64, fault: Fault) -> Self {
        Self { path: path.to_owned(), nth, fault }
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server gets the request and answers; the client sees its connection end instead of the answer.
    DropReply,
    /// The server never gets the request; the client sees its connection end.
    DropRequest,
    /// The server gets half of the body and then sees its connection end, as does the client.
    CutRequest,
    /// The server gets the request twice, one after the other; the client gets the first answer.
    RepeatRequest,
    /// The request passes, and a copy is kept until [`Proxy::deliver_copies`].
    KeepCopy,
    /// The server gets the request this much later.
    DelayRequest(Duration),
    /// The client gets the answer this much later.
    DelayReply(Duration),
    /// The answer is kept back until [`Proxy::let_go`].
    HoldReply,
    /// The server never gets the request, and the client is told nothing at all until it gives up or is [cut](Proxy::cut).
    SwallowRequest,
}

/// A running proxy. It stops, and cuts every connection, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
    cut: watch::Sender<u64>,
    let_go: watch::Sender<bool>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    rules: Vec<Rule>,
    standing: Mutex<Option<Fault>>,
    seen: Mutex<HashMap<String, u64>>,
    copies: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    /// Counts a request and says what is to happen to it.
    fn fault(&self, path: &str) -> Option<Fault> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let number = seen.entry(path.to_owned()).or_default();
        *number += 1;
        let rule = self.rules.iter().find(|rule| rule.path == path && rule.nth == *number);
        rule.map(|rule| rule.fault).or_else(|| *self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn keep(&self, request: &[u8]) {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).push(request.to_vec());
    }
}

impl Proxy {
    /// Listens on a free port of loopback and carries what comes there to `server`.
    ///
    /// # Errors
    /// When no port can be listened on.
    pub async fn start(server: SocketAddr, rules: Vec<Rule>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (cut, cuts) = watch::channel(0);
        let (let_go, held) = watch::channel(false);
        let shared =
            Shared { server, rules, standing: Mutex::default(), seen: Mutex::default(), copies: Mutex::default() };
        let shared = Arc::new(shared);
        let accepting = tokio::spawn(accept(listener, shared.clone(), cuts, held));
        Ok(Self { address, shared, accepting, cut, let_go })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many requests to `path` have come.
    #[must_use]
    pub fn seen(&self, path: &str) -> u64 {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied().unwrap_or(0)
    }

    /// From now on this happens to every request that no rule names; `None` lets them pass again. What a request meets
    /// is settled when it comes, so one that is under way stays as it is.
    pub fn meanwhile(&self, fault: Option<Fault>) {
        *self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Cuts every connection that is open now. New ones are carried.
    pub fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Hands out every answer that is held, and holds none from now on.
    pub fn let_go(&self) {
        self.let_go.send_replace(true);
    }

    /// Delivers the kept copies, in order, and says with which status each was answered.
    ///
    /// # Errors
    /// When the server does not answer one.
    pub async fn deliver_copies(&self) -> io::Result<Vec<u16>> {
        let copies = std::mem::take(&mut *self.shared.copies.lock().unwrap_or_else(PoisonError::into_inner));
        let mut statuses = Vec::with_capacity(copies.len());
        for copy in copies {
            statuses.push(carry::alone(self.shared.server, &copy).await?);
        }
        Ok(statuses)
    }
}

/// Lets this process have so many files open at a time: a test with many connections has both ends of each.
///
/// # Errors
/// When the machine allows fewer (`ulimit -Hn`).
pub fn more_open_files(count: u64) -> io::Result<()> {
    let limits = getrlimit(Resource::Nofile);
    match limits.current {
        Some(current) if current < count => Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limits })?),
        _ => Ok(()),
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, cuts: watch::Receiver<u64>, held: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        let (shared, mut cuts, held) = (shared.clone(), cuts.clone(), held.clone());
        cuts.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                // An error means that a peer is gone, which the other one learns by its connection ending.
                _ = serve(client, &shared, held) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

async fn serve(client: TcpStream, shared: &Shared, held: watch::Receiver<bool>) -> io::Result<()> {
    client.set_nodelay(true)?;
    carry::Carrier::new(client, held).run(shared).await
}
