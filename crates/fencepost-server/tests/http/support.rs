use std::{net::SocketAddr, sync::Arc, time::Duration};

use fencepost_coordinator::embedded::{
    self, Embedded,
    testing::{ManualClock, MemoryStore},
};
use fencepost_server::{Metrics, Options, Server};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

/// Longer than anything here takes; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server with a coordinator whose time stands still until a test moves it.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: MemoryStore,
    pub(crate) coordinator: Embedded,
    pub(crate) metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        Self::over(MemoryStore::new(), options).await
    }

    pub(crate) async fn over(store: MemoryStore, options: Options) -> Self {
        let clock = Arc::new(ManualClock::new(1, 1_000_000));
        let metrics = Metrics::new();
        let coordinator = store
            .open(embedded::Options {
                clock: Some(clock.clone()),
                observer: Some(metrics.commit_observer()),
                ..Default::default()
            })
            .unwrap();
        let server = Server::bind("127.0.0.1:0", coordinator.clone(), metrics.clone(), options).await.unwrap();
        let address = server.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { address, clock, store, coordinator, metrics, stop: Some(stop), serving }
    }

    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }

    pub(crate) async fn stopped(self) {
        timeout(PATIENCE, self.serving).await.expect("the server stops in time").unwrap();
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// One call on a connection of its own.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Value) -> Answer {
        self.client().await.call(method, path, None, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.client().await.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await
    }

    /// Opens a session and returns its id and secret.
    pub(crate) async fn session(&self, holder: &str, ttl_ms: u64) -> (String, String) {
        let opened = self.call("POST", "/v1/sessions", json!({"holder": holder, "ttl_ms": ttl_ms})).await;
        assert_eq!(opened.status, 201, "{opened:?}");
        (opened.text("session"), opened.text("secret"))
    }

    /// Waits until the coordinator sees so many waiting acquires.
    pub(crate) async fn until_waiting(&self, count: usize) {
        let waiting = async {
            while self.coordinator.counts().await.unwrap().waiting != count {
                // bounded: the surrounding timeout ends it
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{count} acquires wait"));
    }
}

/// A request id that ends in this number.
pub(crate) fn request_id(number: u64) -> String {
    format!("{number:032x}")
}

/// An acquire that opens a session of its own.
pub(crate) fn opening(domain: &str, number: u64) -> Value {
    json!({"domain": domain, "request_id": request_id(number), "holder": "worker-a", "ttl_ms": 15_000})
}

/// A connection that sends bytes as they are given.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), unread: Vec::new() }
    }

    pub(crate) async fn call(&mut self, method: &str, path: &str, secret: Option<&str>, body: Value) -> Answer {
        self.call_bytes(method, path, secret, body.to_string().as_bytes()).await
    }

    pub(crate) async fn call_bytes(&mut self, method: &str, path: &str, secret: Option<&str>, body: &[u8]) -> Answer {
        self.write_call(method, path, secret, body).await;
        self.answer().await.expect("the server answers")
    }

    pub(crate) async fn write_call(&mut self, method: &str, path: &str, secret: Option<&str>, body: &[u8]) {
        let secret = secret.map(|secret| format!("authorization: Bearer {secret}\r\n")).unwrap_or_default();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{secret}content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.write(&request).await;
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn send(&mut self, request: &str) -> Answer {
        self.write(request.as_bytes()).await;
        self.answer().await.expect("the server answers")
    }

    /// The next bytes; empty when the server has closed the connection.
    async fn fill(&mut self) -> usize {
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.unread));
        read.await.expect("something comes in time").unwrap_or(0)
    }

    /// Reads up to and with a mark; `None` when the connection ends before it.
    pub(crate) async fn until(&mut self, mark: &str) -> Option<String> {
        loop {
            let found = self.unread.windows(mark.len()).position(|window| window == mark.as_bytes());
            if let Some(at) = found {
                let rest = self.unread.split_off(at + mark.len());
                return Some(String::from_utf8(std::mem::replace(&mut self.unread, rest)).unwrap());
            }
            if self.fill().await == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn head(&mut self) -> Option<(u16, Vec<(String, String)>)> {
        let head = self.until("\r\n\r\n").await?;
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        Some((status, lines.filter_map(header).collect()))
    }

    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let header = |name: &str| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        let mut body = Vec::new();
        if header("transfer-encoding").is_some() {
            loop {
                let size = self.until("\r\n").await.unwrap();
                let size = usize::from_str_radix(size.trim_end(), 16).unwrap();
                let mut piece = self.exactly(size + 2).await;
                piece.truncate(size);
                body.extend(piece);
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = header("content-length").map_or(0, |length| length.parse().unwrap());
            body = self.exactly(length).await;
        }
        Some(Answer { status, headers, body })
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert_ne!(self.fill().await, 0, "the connection ends inside an answer");
        }
        let rest = self.unread.split_off(length);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Whether the server closes the connection without another byte.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && self.fill().await == 0
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn utf8(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn text(&self, field: &str) -> String {
        let json = self.json();
        json[field].as_str().unwrap_or_else(|| panic!("{field} in {json}")).to_owned()
    }

    /// The code of a problem, whose form is checked on the way.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        let json = self.json();
        assert_eq!((self.status, json["code"].as_str()), (status, Some(code)), "{json}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(json["status"], status);
        assert_eq!(json["type"], format!("/errors/{code}"));
        for text in ["title", "detail", "fix"] {
            assert!(json[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {json}");
        }
        assert!(json["retryable"].is_boolean() && json["may_have_happened"].is_boolean(), "{json}");
        json
    }
}
