//! A server without a socket, for the fuzzer and the simulation: the same paths and the same way of speaking.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Request, Response},
};
use fencepost_coordinator::{CallError, Refused, WatchedEvents};
use hyper::service::Service as _;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Inspect, Metrics, Options,
    hub::Happened,
    server::{Connection, Inside},
};

/// A server that is called directly. Of events it [publishes](Self::publish) those that it is given, and no others.
pub struct Door {
    inside: Inside,
    metrics: Metrics,
    options: Options,
}

impl Door {
    /// In front of this coordinator.
    ///
    /// # Errors
    /// When the coordinator does not say who it is.
    pub async fn open<C: Inspect>(coordinator: C, options: Options) -> Result<Self, CallError<Refused>> {
        let metrics = Metrics::new();
        Ok(Self { inside: Inside::of(coordinator, &metrics, options).await?, metrics, options })
    }

    /// Publishes what a commit brought about.
    pub fn publish(&self, events: WatchedEvents) {
        let (all, events) = (events.events.len(), Arc::new(events));
        self.inside.memory.publish((0..all).map(|at| Happened::Lease(events.clone(), at)));
    }

    /// The id of the event of this number, as a reader of this run is told it.
    #[must_use]
    pub fn event_id(&self, number: u64) -> String {
        self.inside.memory.id(number)
    }

    /// What the request is answered, by whichever path it names.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let Ok(answer) = TowerToHyperService::new(self.inside.router.clone()).call(request).await;
        answer
    }

    /// Answers what comes from the other end of a connection, until that has ended.
    pub fn converse<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
        &self,
        io: Io,
        on_loopback: bool,
    ) -> impl Future<Output = ()> + use<Io> {
        let connection = Connection {
            router: self.inside.router.clone(),
            options: self.options,
            metrics: self.metrics.clone(),
            stopping: self.inside.stopping.clone(),
        };
        connection.converse(TokioIo::new(io), on_loopback)
    }
}
