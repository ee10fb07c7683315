use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, Response},
    routing::{get, post},
};
use fencepost_coordinator::{Answered, CallError};
use fencepost_core::{Epoch, Issuer};
use fencepost_wire::{ErrorCode, Problem, Refusal};
use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};

use crate::{Inspect, Metrics, Options, calls, hub::Hub, reply, reply::Refused, stop::Stopping};

/// What every call can use.
pub(crate) struct App<C> {
    pub(crate) coordinator: C,
    pub(crate) issuer: Issuer,
    pub(crate) epoch: Epoch,
    pub(crate) options: Options,
    pub(crate) metrics: Metrics,
    pub(crate) hub: Arc<Hub>,
    pub(crate) stopping: Stopping,
}

/// An answer, or the problem to answer with.
pub(crate) type Reply = Result<Response<Body>, Refused>;

/// When a request was received: once its head had arrived, so that what it took to send it is never counted as time
/// that the coordinator has confirmed.
#[derive(Clone, Copy)]
pub(crate) struct Received(Instant);

impl Received {
    fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago that was.
    pub(crate) fn ago(self) -> Duration {
        self.0.elapsed()
    }
}

impl<C: Inspect> App<C> {
    /// The one way of every call: what it decides becomes a response, whatever happens on the way.
    async fn answer(&self, route: &'static str, call: impl Future<Output = Reply>) -> Response<Body> {
        let response = match AssertUnwindSafe(call).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(Refused(problem))) => reply::problem(&problem),
            Err(_) => {
                self.metrics.panicked();
                tracing::error!(route, "a request hit a bug of the server");
                reply::problem(&Problem::new(ErrorCode::Internal, "the request hit a bug of the server"))
            }
        };
        self.metrics.answered(route, response.status().as_u16());
        response
    }

    /// Awaits the coordinator, and gives up the answer when it takes too long.
    pub(crate) async fn within<T, R>(
        &self,
        call: impl Future<Output = Result<T, CallError<R>>>,
    ) -> Result<T, CallRefused<R>> {
        self.within_longer(Duration::ZERO, call).await
    }

    /// The same for a call that asked to wait.
    pub(crate) async fn within_longer<T, R>(
        &self,
        wait: Duration,
        call: impl Future<Output = Result<T, CallError<R>>>,
    ) -> Result<T, CallRefused<R>> {
        match timeout(self.options.call_timeout + wait, call).await {
            Ok(answer) => answer.map_err(CallRefused::Call),
            Err(_) => Err(CallRefused::Late),
        }
    }
}

/// Why a call of the coordinator brought nothing.
pub(crate) enum CallRefused<R> {
    Call(CallError<R>),
    Late,
}

impl<R: Refusal> From<CallRefused<R>> for Refused {
    fn from(refused: CallRefused<R>) -> Self {
        match refused {
            CallRefused::Call(error) => error.into(),
            CallRefused::Late => Problem::new(ErrorCode::CallTimeout, "the coordinator did not decide in time").into(),
        }
    }
}

/// The answer with the time before the call counted in.
pub(crate) fn counting<T>(answered: Answered<T>, before: Duration) -> Answered<T> {
    Answered { elapsed: answered.elapsed + before, ..answered }
}

/// Every path of the API, once.
pub(crate) fn router<C: Inspect>(app: &Arc<App<C>>) -> Router {
    macro_rules! call {
        ($name:literal, $call:path) => {{
            let app = app.clone();
            move |request: Request<Body>| {
                let app = app.clone();
                async move {
                    let received = Received::now();
                    app.answer($name, $call(&app, request, received)).await
                }
            }
        }};
    }
    Router::new()
        .route("/v1/sessions", post(call!("sessions_open", calls::session::open)))
        .route(
            "/v1/sessions/{session}",
            get(call!("sessions_read", calls::session::read)).delete(call!("sessions_end", calls::session::end)),
        )
        .route("/v1/sessions/{session}/heartbeat", post(call!("sessions_heartbeat", calls::session::heartbeat)))
        .route(
            "/v1/leases",
            post(call!("leases_acquire", calls::acquire::acquire)).get(call!("leases_list", calls::list::list)),
        )
        .route("/v1/leases/release", post(call!("leases_release", calls::release::release)))
        .route("/v1/leases/break", post(call!("leases_break", calls::release::break_lease)))
        .route("/v1/leases/check", post(call!("leases_check", calls::list::check)))
        .route("/v1/leases/snapshot", get(call!("leases_snapshot", calls::list::snapshot)))
        .route("/v1/reports/rejected", post(call!("reports_rejected", calls::report::rejected)))
        .route("/v1/reports/work-failed", post(call!("reports_work_failed", calls::report::work_failed)))
        .route("/v1/queue", get(call!("queue", calls::look::queue)))
        .route("/v1/history", get(call!("history", calls::look::history)))
        .route("/v1/events", get(call!("events", calls::events::events)))
        .route("/healthz", get(call!("healthz", calls::pages::healthz)))
        .route("/readyz", get(call!("readyz", calls::pages::readyz)))
        .route("/metrics", get(call!("metrics", calls::pages::metrics)))
        .route("/", get(call!("index", calls::pages::index)))
        .route("/errors/{code}", get(call!("errors", calls::pages::error)))
        .fallback(call!("unknown", calls::pages::not_found))
        .method_not_allowed_fallback(call!("unknown", calls::pages::method_not_allowed))
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use fencepost_coordinator::{
        Watch as _,
        embedded::{Options as Store, testing::MemoryStore},
    };

    use super::*;

    #[tokio::test]
    async fn a_bug_is_one_counted_answer_and_not_the_end_of_the_connection() {
        // Falls when `catch_unwind` is taken out of `answer`.
        let coordinator = MemoryStore::new().open(Store::default()).unwrap();
        let _events = coordinator.watch();
        let (_stop, stopping) = crate::stop::stop();
        let app = App {
            issuer: coordinator.issuer().clone(),
            epoch: coordinator.epoch(),
            coordinator,
            options: Options::default(),
            metrics: Metrics::new(),
            hub: Arc::new(Hub::new(0, 0)),
            stopping,
        };
        let response = app.answer("test", async { panic!("a bug") }).await;
        assert_eq!(response.status().as_u16(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        assert!(app.metrics.render().contains("fencepost_http_panics_total 1"));
    }
}
