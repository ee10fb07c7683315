use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use fencepost_coordinator::{CallError, Refused};
use fencepost_wire::{ErrorCode, Problem};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream, ToSocketAddrs},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Inspect, Metrics, Options,
    app::{App, router},
    bare,
    hub::Hub,
    loopback, reply,
    stop::{Stop, Stopping, stop},
};

/// How many refused connections are told so at one time; further ones are closed without a word.
const REFUSALS: usize = 64;

/// An HTTP server in front of a coordinator.
///
/// Binding and serving are two steps, so that a caller can say where it listens before the first request.
pub struct Server {
    listener: TcpListener,
    router: Router,
    hub: HubTask,
    options: Options,
    metrics: Metrics,
    stop: Stop,
    stopping: Stopping,
}

type HubTask = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Why a server could not be made. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// The coordinator does not say who it is.
    #[error("the coordinator does not say who it is: {0}")]
    Coordinator(#[from] CallError<Refused>),
}

impl Server {
    /// Listens on `address` for the calls of `coordinator`.
    ///
    /// `metrics` are the ones to show; a coordinator that was opened with their observer is seen committing.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the coordinator cannot be read. Safe to repeat.
    pub async fn bind<C: Inspect>(
        address: impl ToSocketAddrs,
        coordinator: C,
        metrics: Metrics,
        options: Options,
    ) -> Result<Self, BindError> {
        Self::on(TcpListener::bind(address).await?, coordinator, metrics, options).await
    }

    /// The same on a socket that listens already.
    ///
    /// # Errors
    /// When the coordinator cannot be read.
    pub async fn on<C: Inspect>(
        listener: TcpListener,
        coordinator: C,
        metrics: Metrics,
        options: Options,
    ) -> Result<Self, BindError> {
        let Inside { router, hub, stop, stopping, .. } = Inside::of(coordinator, &metrics, options).await?;
        Ok(Self { listener, router, hub, options, metrics, stop, stopping })
    }

    /// Where it listens: the port that was chosen, where port 0 was asked for.
    ///
    /// # Errors
    /// When the socket does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `shutdown` is done.
    ///
    /// Then it takes no more connections, answers waiting acquires with `shutting_down`, lets other calls finish for
    /// [`Options::stop_timeout`], and returns. The coordinator keeps running. Dropping the future stops at once.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, router, hub, options, metrics, stop, stopping } = self;
        let mut tasks = JoinSet::new();
        tasks.spawn(hub);
        let room = Arc::new(Semaphore::new(options.connections));
        let refusals = Arc::new(Semaphore::new(REFUSALS));
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
                Some(_) = tasks.join_next() => continue,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            if let Ok(place) = room.clone().try_acquire_owned() {
                let (metrics, stopping) = (metrics.clone(), stopping.clone());
                let connection = Connection { router: router.clone(), options, metrics, stopping };
                tasks.spawn(connection.serve(stream, place));
            } else {
                metrics.connection_refused();
                if let Ok(place) = refusals.clone().try_acquire_owned() {
                    tasks.spawn(refuse(stream, place));
                }
            }
        }
        drop(listener);
        stop.begin();
        let finished = async { while tasks.join_next().await.is_some() {} };
        if timeout(options.stop_timeout, finished).await.is_err() {
            tracing::warn!(connections = tasks.len(), "calls under way were cut because the server stops");
        }
    }
}

/// What there is of a server beside its socket.
pub(crate) struct Inside {
    pub(crate) router: Router,
    #[cfg(feature = "fuzzing")]
    pub(crate) memory: Arc<Hub>,
    hub: HubTask,
    stop: Stop,
    pub(crate) stopping: Stopping,
}

impl Inside {
    /// # Errors
    /// When the coordinator does not say who it is.
    pub(crate) async fn of<C: Inspect>(
        coordinator: C,
        metrics: &Metrics,
        options: Options,
    ) -> Result<Self, CallError<Refused>> {
        // Who the coordinator is stands at the head of every snapshot; nobody names a domain like this.
        let identity = coordinator.snapshot("\u{10ffff}\u{10ffff}".to_owned()).await?;
        let events = coordinator.watch();
        let (stop, stopping) = stop();
        let hub = Arc::new(Hub::new(run_number(), options.replayed_events));
        let app = Arc::new(App {
            coordinator,
            issuer: identity.issuer,
            epoch: identity.epoch,
            options,
            metrics: metrics.clone(),
            hub: hub.clone(),
            stopping: stopping.clone(),
        });
        let follow = {
            let (metrics, stopping) = (metrics.clone(), stopping.clone());
            async move { hub.follow(events, &metrics, stopping).await }
        };
        Ok(Self {
            router: router(&app),
            #[cfg(feature = "fuzzing")]
            memory: app.hub.clone(),
            hub: Box::pin(follow),
            stop,
            stopping,
        })
    }
}

/// Running out of file descriptors passes; asking again at once would only burn time until then.
async fn pause_after(error: &io::Error) {
    let of_the_peer = matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    );
    if !of_the_peer {
        tracing::warn!(%error, "cannot accept connections at present");
        sleep(Duration::from_millis(50)).await;
    }
}

fn run_number() -> u64 {
    // Without randomness readers of an earlier run could be taken for ours, which at worst hides a gap from them.
    getrandom::u64().unwrap_or_default()
}

pub(crate) struct Connection {
    pub(crate) router: Router,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) stopping: Stopping,
}

impl Connection {
    async fn serve(self, stream: TcpStream, _place: OwnedSemaphorePermit) {
        let _connected = self.metrics.connected();
        prepare(&stream);
        let on_loopback = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
        self.converse(TokioIo::new(stream), on_loopback).await;
    }

    /// Answers what comes, until the other side has ended or the server stops.
    pub(crate) async fn converse(self, io: impl Read + Write + Unpin + 'static, on_loopback: bool) {
        let Self { router, options, metrics, mut stopping } = self;
        let router = TowerToHyperService::new(router);
        let service = service_fn(|request: hyper::Request<Incoming>| {
            let refused = if on_loopback { loopback::check(&request).err() } else { None };
            let answer = match refused {
                None => Ok(router.call(request)),
                Some(problem) => {
                    metrics.answered("refused", problem.status);
                    Err(reply::problem(&problem))
                }
            };
            async {
                match answer {
                    Ok(call) => call.await,
                    Err(refusal) => Ok(refusal),
                }
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.head_timeout)
            .max_header_size(bare::HEAD_BYTES)
            .serve_connection(bare::Explained::new(io, metrics.clone()), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => ended,
            () = stopping.begun() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Answers are small and wanted now; a peer that is gone without a word is noticed within half a minute.
fn prepare(stream: &TcpStream) {
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    // A socket that takes neither option still serves.
    let _ = stream.set_nodelay(true);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Tells a client that there are too many, without reading what it has to say.
async fn refuse(mut stream: TcpStream, _place: OwnedSemaphorePermit) {
    let problem = Problem::new(ErrorCode::LimitReached, "the server has all the connections it may have");
    let problem = Problem { status: 503, limit: Some("connections".to_owned()), ..problem }.after_ms(1_000);
    let answer = async {
        stream.write_all(&reply::raw(&problem)).await?;
        stream.shutdown().await?;
        // Closing with the request unread would reset the connection and could take the answer away.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = timeout(Duration::from_millis(500), answer).await;
}
