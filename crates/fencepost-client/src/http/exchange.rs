//! One request and its answer, as bytes; and what may be concluded from an answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use fencepost_coordinator::CallError;
use fencepost_core::Secret;
use fencepost_wire::{Malformed, Problem, Refusal, decode};
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde::de::DeserializeOwned;
use tokio::{task::JoinHandle, time::timeout};

use super::{HttpCoordinator, Shared};

const USER_AGENT: &str = concat!("fencepost-client/", env!("CARGO_PKG_VERSION"));
const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";

/// Most bytes of an answer that names one lease.
pub(super) const SMALL: usize = 64 * 1024;
/// Most bytes of an answer that names every lease of a session, or a page of them with their metadata.
pub(super) const LARGE: usize = 64 * 1024 * 1024;
/// Most bytes of a snapshot: a million leases with long names.
pub(super) const SNAPSHOT: usize = 1024 * 1024 * 1024;

pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) secret: Option<&'a Secret>,
    pub(super) body: Option<Vec<u8>>,
    /// What the call asks the coordinator to wait.
    pub(super) wait: Duration,
    /// Most bytes of the answer.
    pub(super) most: usize,
}

impl Call<'_> {
    pub(super) fn get(path: String, most: usize) -> Self {
        Self { method: Method::GET, path, secret: None, body: None, wait: Duration::ZERO, most }
    }

    pub(super) fn post(path: &str, body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(body).expect("a struct of strings and numbers is JSON");
        Self {
            method: Method::POST,
            path: path.to_owned(),
            secret: None,
            body: Some(body),
            wait: Duration::ZERO,
            most: SMALL,
        }
    }

    pub(super) fn into_request(self, shared: &Shared) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(shared.base.join(&self.path))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, JSON);
        if let Some(secret) = self.secret {
            let mut value = http::HeaderValue::from_str(&format!("Bearer {}", secret.expose()))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if self.body.is_some() {
            request = request.header(header::CONTENT_TYPE, JSON);
        }
        request.body(Full::new(self.body.unwrap_or_default().into()))
    }
}

/// An answer that arrived whole.
#[cfg_attr(feature = "fuzzing", derive(Clone))]
pub(super) struct Reply {
    status: StatusCode,
    content_type: String,
    body: Bytes,
}

/// No answer arrived whole.
pub(super) struct Failure {
    pub(super) why: String,
    pub(super) may_have_happened: bool,
}

impl<R> From<Failure> for CallError<R> {
    fn from(Failure { why, may_have_happened }: Failure) -> Self {
        Self::Unreachable { why, may_have_happened }
    }
}

impl HttpCoordinator {
    pub(super) async fn exchange<R>(&self, call: Call<'_>) -> Result<Reply, CallError<R>> {
        let (wait, most) = (call.wait, call.most);
        let request = call.into_request(&self.shared).map_err(|error| CallError::Unreachable {
            why: format!("the request cannot be made: {error}"),
            may_have_happened: false,
        })?;
        #[cfg(feature = "fuzzing")]
        if let Some(answer) = &self.answer {
            return Ok(answer.clone());
        }
        let client = self.shared.client.clone();
        let limit = self.shared.options.call_timeout + wait;
        let task = self.shared.io.spawn(async move {
            let exchange = async {
                let answer = client.request(request).await.map_err(|error| Failure {
                    // What failed while connecting has not been sent; of everything else nobody knows.
                    may_have_happened: !error.is_connect(),
                    why: chain(&error),
                })?;
                let (head, body) = answer.into_parts();
                let body = Limited::new(body, most).collect().await.map_err(|error| Failure {
                    why: format!("its answer was cut or is too long: {error}"),
                    may_have_happened: true,
                })?;
                Ok(Reply::new(&head, body.to_bytes()))
            };
            timeout(limit, exchange).await.unwrap_or_else(|_| {
                Err(Failure { why: format!("no answer in {} ms", limit.as_millis()), may_have_happened: true })
            })
        });
        match AbortOnDrop(task).await {
            Ok(reply) => Ok(reply?),
            Err(_) => Err(CallError::Unreachable {
                why: "the thread for its connections is gone".to_owned(),
                may_have_happened: true,
            }),
        }
    }

    /// Makes a call that is answered in JSON with one of these statuses.
    pub(super) async fn call<T: DeserializeOwned, R: Refusal>(
        &self,
        call: Call<'_>,
        statuses: &[u16],
    ) -> Result<(u16, T), CallError<R>> {
        let reply = self.exchange(call).await?;
        let status = reply.expect(statuses, Some(JSON))?;
        Ok((status, decode(&reply.body).map_err(not_understood)?))
    }
}

impl Reply {
    pub(super) fn new(head: &http::response::Parts, body: Bytes) -> Self {
        let content_type = head.headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_vec());
        let content_type = String::from_utf8_lossy(&content_type.unwrap_or_default()).into_owned();
        Self { status: head.status, content_type, body }
    }

    /// The status, when it is one of these and the body is of this type; otherwise the error that the answer stands
    /// for.
    pub(super) fn expect<R: Refusal>(&self, statuses: &[u16], content_type: Option<&str>) -> Result<u16, CallError<R>> {
        let status = self.status.as_u16();
        if !statuses.contains(&status) {
            return Err(self.error());
        }
        match content_type {
            Some(expected) if !self.is(expected) => Err(CallError::Protocol {
                why: format!("status {status} with content type {:?} instead of {expected}", self.content_type),
            }),
            Some(_) | None => Ok(status),
        }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    fn is(&self, expected: &str) -> bool {
        let essence = self.content_type.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(expected)
    }

    fn error<R: Refusal>(&self) -> CallError<R> {
        let status = self.status;
        let is_error = status.is_client_error() || status.is_server_error();
        if is_error
            && self.is(Problem::CONTENT_TYPE)
            && let Ok(problem) = Problem::parse(&self.body)
            && problem.status == status.as_u16()
        {
            return problem.into_call_error();
        }
        let why = format!("status {status} without an explanation that this client knows");
        if status.is_server_error() {
            // A proxy, or a server in trouble: the same call may fare better later.
            CallError::Unreachable { why, may_have_happened: true }
        } else {
            CallError::Protocol { why }
        }
    }
}

pub(super) fn not_understood<R>(malformed: Malformed) -> CallError<R> {
    CallError::Protocol { why: malformed.to_string() }
}

/// An error with its sources, which is where the operating system's own words are.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// A call whose caller has left is given up at once, so that the coordinator sees its connection go.
#[derive(Debug)]
pub(super) struct AbortOnDrop<T>(pub(super) JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
