use axum::{
    body::Body,
    http::{Request, StatusCode},
};
use fencepost_coordinator::{AcquireRequest, Answered, CallError, Granted};
use fencepost_core::{Domain, lease::AcquireRefusal, limits};
use fencepost_wire::{AcquireAnswer, AcquireBody, ErrorCode, Problem, Refusal as _};

use crate::{
    Inspect,
    app::{App, CallRefused, Received, Reply, counting},
    auth,
    body::read_json,
    reply::{self, Refused},
};

pub(crate) async fn acquire<C: Inspect>(app: &App<C>, request: Request<Body>, received: Received) -> Reply {
    let secret = auth::bearer(request.headers())?;
    let body: AcquireBody = read_json(request, limits::BODY_BYTES, &app.options).await?;
    let request = body.parse(secret)?;
    let (contract, domain) = (request.contract, request.domain.clone());
    let before = received.ago();
    match decide(app, request).await {
        Ok(granted) => {
            let again = granted.answer.acquired.again;
            app.metrics.acquired(contract, if again { "again" } else { "granted" });
            let status = if again { StatusCode::OK } else { StatusCode::CREATED };
            Ok(reply::json(status, &AcquireAnswer::new(counting(granted, before), &app.issuer)))
        }
        Err(refused) => {
            app.metrics.acquired(contract, outcome(&refused));
            Err(explain(refused, &domain))
        }
    }
}

enum NotGranted {
    Refused(CallRefused<Box<AcquireRefusal>>),
    Stopping,
}

/// A waiting acquire is answered when the server stops, so that its client can go and wait elsewhere; any other one
/// is decided within moments.
async fn decide<C: Inspect>(app: &App<C>, request: AcquireRequest) -> Result<Answered<Granted>, NotGranted> {
    let wait = request.wait.get();
    let call = app.within_longer(wait, app.coordinator.acquire(request));
    if wait.is_zero() {
        return call.await.map_err(NotGranted::Refused);
    }
    let mut stopping = app.stopping.clone();
    tokio::select! {
        biased;
        answer = call => answer.map_err(NotGranted::Refused),
        () = stopping.begun() => Err(NotGranted::Stopping),
    }
}

fn outcome(refused: &NotGranted) -> &'static str {
    match refused {
        NotGranted::Refused(CallRefused::Call(CallError::Refused(refusal))) => match &**refusal {
            AcquireRefusal::Reserved(reserved) => reserved.kind.as_str(),
            other => other.to_problem().code.as_str(),
        },
        NotGranted::Refused(CallRefused::Call(CallError::Invalid(_))) => "invalid_input",
        NotGranted::Refused(CallRefused::Call(CallError::Unavailable { .. })) => "storage_unavailable",
        NotGranted::Refused(CallRefused::Call(CallError::Unreachable { .. } | CallError::Protocol { .. })) => {
            "coordinator_unreachable"
        }
        NotGranted::Refused(CallRefused::Late) => "call_timeout",
        NotGranted::Stopping => "shutting_down",
    }
}

fn explain(refused: NotGranted, domain: &Domain) -> Refused {
    match refused {
        NotGranted::Refused(refused) => {
            let Refused(problem) = Refused::from(refused);
            problem.with_break_command(domain).into()
        }
        NotGranted::Stopping => {
            let detail = "the server stops; the request's place in the queue is kept for one TTL";
            Problem::new(ErrorCode::ShuttingDown, detail).after_ms(1_000).into()
        }
    }
}
