//! The coordinator behind `fencepost serve`, spoken to over HTTP.
//!
//! All IO runs on one thread of its own, so a blocked runtime of the caller delays the caller and nothing else; its
//! futures need no particular runtime. Redirects are not followed, no proxy is taken from the environment, and
//! answers are read up to a limit. Whatever is not understood to the letter is an error: a status that the call does
//! not have, another content type, JSON that does not fit, a grant of something else, token 0.
//!
//! It does not repeat calls (beyond those that provably never left): a [`Session`](crate::Session) does, by the same
//! ids. TLS is not spoken yet; a `https:` address is refused with that reason.

mod calls;
mod events;
mod exchange;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "simulation")]
mod simulated;
mod url;

pub use events::{CoordinatorEvent, EventStream};
pub use url::UrlError;

use std::{fmt, io, sync::Arc, thread, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::{runtime, sync::oneshot};

#[cfg(feature = "simulation")]
use simulated::{Connector, over_tcp};
use url::Base;

#[cfg(not(feature = "simulation"))]
type Connector = HttpConnector;

/// A coordinator behind HTTP. Cheap to clone; the clones share connections and the thread, which ends with the last.
///
/// ```
/// use fencepost_client::{HttpCoordinator, Session};
/// use fencepost_core::{Holder, Ttl};
///
/// async fn connect() -> Result<Session, Box<dyn std::error::Error>> {
///     let coordinator = HttpCoordinator::new("http://127.0.0.1:7421")?;
///     Ok(Session::open(coordinator, Holder::new("biller-3")?, Ttl::default()).await?)
/// }
/// assert!(HttpCoordinator::new("https://example.org").is_err(), "no TLS yet");
/// ```
#[derive(Clone)]
pub struct HttpCoordinator {
    shared: Arc<Shared>,
    /// What every call is answered with, in the place of whatever is at the address.
    #[cfg(feature = "fuzzing")]
    answer: Option<exchange::Reply>,
}

struct Shared {
    base: Base,
    options: HttpOptions,
    client: Client<Connector, Full<Bytes>>,
    io: runtime::Handle,
    /// Dropped with the last clone, which ends the thread, where there is one.
    _open: Option<oneshot::Sender<()>>,
}

/// Time limits of an [`HttpCoordinator`].
///
/// ```
/// use std::time::Duration;
///
/// use fencepost_client::{HttpCoordinator, HttpOptions};
///
/// let options = HttpOptions { call_timeout: Duration::from_secs(2), ..HttpOptions::default() };
/// let coordinator = HttpCoordinator::with_options("http://127.0.0.1:7421", options)?;
/// assert_eq!(coordinator.url(), "http://127.0.0.1:7421");
/// # Ok::<(), fencepost_client::HttpError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HttpOptions {
    /// How long to try to connect. 3 seconds, unless it is said.
    pub connect_timeout: Duration,
    /// How long a call may take from its first byte to the last of its answer, beside the time that it asks to wait.
    /// 10 seconds, unless it is said.
    pub call_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(3), call_timeout: Duration::from_secs(10) }
    }
}

/// Why there is no driver. Nothing has been sent.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The thread for its IO could not be started.
    #[error("the thread for the coordinator's connections could not be started: {0}")]
    Thread(#[from] io::Error),
}

impl HttpCoordinator {
    /// The coordinator at this address, e.g. `http://127.0.0.1:7421`. Nothing is sent yet.
    ///
    /// # Errors
    /// When the address cannot be used, or the thread cannot be started.
    pub fn new(url: &str) -> Result<Self, HttpError> {
        Self::with_options(url, HttpOptions::default())
    }

    /// The same with other time limits.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options(url: &str, options: HttpOptions) -> Result<Self, HttpError> {
        let base = url.parse()?;
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let io = runtime.handle().clone();
        let (open, closed) = oneshot::channel::<()>();
        thread::Builder::new().name("fencepost-http".to_owned()).spawn(move || {
            let _ = runtime.block_on(closed);
            // A name look-up that hangs is no reason to keep the thread.
            runtime.shutdown_background();
        })?;
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(options.connect_timeout));
        connector.set_nodelay(true);
        Ok(Self::on(Shared { base, options, client: client(over_tcp(connector)), io, _open: Some(open) }))
    }

    fn on(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
            #[cfg(feature = "fuzzing")]
            answer: None,
        }
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.base.as_str()
    }
}

#[cfg(not(feature = "simulation"))]
fn over_tcp(tcp: HttpConnector) -> Connector {
    tcp
}

fn client(connector: Connector) -> Client<Connector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)
}

impl fmt::Debug for HttpCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCoordinator").field("url", &self.url()).field("options", &self.shared.options).finish()
    }
}
