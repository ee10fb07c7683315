use fencepost_core::{Domain, Token};

use super::message::{Answer, NoAnswer, Request};

/// What a scenario cannot arrange by itself failed: the coordinator, a hook, a process. It says nothing about the
/// service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// What somebody else does to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Stop it and start it again.
    Restart,
    /// Take a backup of its data.
    Backup,
    /// Put that backup back.
    Restore,
}

impl Hook {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Backup => "backup",
            Self::Restore => "restore",
        }
    }
}

/// Everything outside the scenarios: the service under proof, a real coordinator, hooks and processes. Calls run at
/// one time where a scenario asks for it.
///
/// Every call comes back within a bound of its own; no scenario waits without end.
pub trait World {
    /// A request whose head and half of whose body are on their way.
    type Begun;
    /// A request in a process that stands still before it sends.
    type Stopped;

    /// Sends a request and waits for the answer.
    fn send(&self, request: &Request) -> impl Future<Output = Result<Answer, NoAnswer>>;

    /// Sends the head and half of the body, and gives the service time to look at them.
    fn begin(&self, request: &Request) -> impl Future<Output = Result<Self::Begun, NoAnswer>>;

    /// Sends the rest and waits for the answer.
    fn finish(&self, begun: Self::Begun) -> impl Future<Output = Result<Answer, NoAnswer>>;

    /// A grant to a new owner. Whoever held the domain has released it.
    fn grant(&self, domain: &Domain) -> impl Future<Output = Result<Token, Trouble>>;

    /// A grant to a new owner, made because the lease before it has expired.
    fn grant_after_expiry(&self, domain: &Domain) -> impl Future<Output = Result<Token, Trouble>>;

    /// The token that the next grant will not be below.
    fn next_token(&self) -> impl Future<Output = Result<Token, Trouble>>;

    /// Stops the coordinator and starts it on its store.
    fn restart_coordinator(&self) -> impl Future<Output = Result<(), Trouble>>;

    /// Has a hook do its work; `next` is [`next_token`](Self::next_token), for a recovery.
    fn hook(&self, hook: Hook, next: Token) -> impl Future<Output = Result<(), Trouble>>;

    /// Hands the request to a process that is stopped before it sends.
    fn stop_before_sending(&self, request: &Request) -> impl Future<Output = Result<Self::Stopped, Trouble>>;

    /// Continues that process, which sends.
    fn go_on(&self, stopped: Self::Stopped) -> impl Future<Output = Result<Result<Answer, NoAnswer>, Trouble>>;
}
