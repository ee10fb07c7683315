//! Connections over a network that somebody simulates. Everything above them is the driver as it ships.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
};
use tower_service::Service;

use super::{HttpCoordinator, HttpError, HttpOptions, Shared, client};

/// What a simulated connection is.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Connection for Box<dyn Stream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

type Made<T> = Pin<Box<dyn Future<Output = T> + Send>>;

type Connect = dyn Fn() -> Made<io::Result<Box<dyn Stream>>> + Send + Sync;

#[derive(Clone)]
pub(super) enum Connector {
    Tcp(HttpConnector),
    Given(Arc<Connect>),
}

pub(super) fn over_tcp(tcp: HttpConnector) -> Connector {
    Connector::Tcp(tcp)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Made<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_ready(context).map_err(Into::into),
            Self::Given(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Tcp(tcp) => {
                let connecting = tcp.call(uri);
                Box::pin(async { Ok(TokioIo::new(Box::new(connecting.await?.into_inner()) as Box<dyn Stream>)) })
            }
            Self::Given(connect) => {
                let connecting = connect();
                Box::pin(async { Ok(TokioIo::new(connecting.await?)) })
            }
        }
    }
}

impl HttpCoordinator {
    /// The same driver on the caller's own runtime, over connections that `connect` makes; for simulations, whose time
    /// and network are virtual.
    ///
    /// # Errors
    /// When the address cannot be used.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn in_simulation<S: Stream + 'static, F>(
        url: &str,
        options: HttpOptions,
        connect: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<Self, HttpError>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
    {
        let base = url.parse()?;
        let connector = Connector::Given(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move {
                let limit = options.connect_timeout;
                let connected = tokio::time::timeout(limit, connecting)
                    .await
                    .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "nobody has answered")))?;
                Ok(Box::new(connected) as Box<dyn Stream>)
            })
        }));
        Ok(Self::on(Shared { base, options, client: client(connector), io: Handle::current(), _open: None }))
    }
}
