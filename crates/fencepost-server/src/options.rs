use std::time::Duration;

/// How much a server takes from its clients. The defaults suit a server in front of strangers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most connections at one time; further ones are answered 503 and closed.
    pub connections: usize,
    /// How long the head of a request may take, and how long a connection may stay idle.
    pub head_timeout: Duration,
    /// How long the body of a request may take.
    pub body_timeout: Duration,
    /// How long the coordinator may take to decide, in addition to what an acquire asked to wait.
    pub call_timeout: Duration,
    /// How long a stopping server waits for the calls under way.
    pub stop_timeout: Duration,
    /// How many events are kept for readers that come back with `Last-Event-ID`.
    pub replayed_events: usize,
    /// After how long without an event a stream of events carries a comment, so that proxies keep it open.
    pub event_comment_every: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 10_000,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(10),
            stop_timeout: Duration::from_secs(5),
            replayed_events: 4_096,
            event_comment_every: Duration::from_secs(15),
        }
    }
}
