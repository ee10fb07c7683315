use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
};
use fencepost_coordinator::CallError;
use fencepost_core::Invalid;
use fencepost_wire::{ErrorCode, Malformed, Problem, Refusal};
use serde::Serialize;

/// A call that is answered with a problem. Boxed, because refusals are rare and answers are not.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Box<Problem>);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Invalid> for Refused {
    fn from(invalid: Invalid) -> Self {
        Problem::from(invalid).into()
    }
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Self {
        Problem::from(malformed).into()
    }
}

impl<R: Refusal> From<CallError<R>> for Refused {
    fn from(error: CallError<R>) -> Self {
        Problem::of_call(error).into()
    }
}

/// An answer as JSON. Nothing may keep it: it can hold a secret, and it is old a moment later.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("answers are structs of strings and numbers");
    with_type(status, HeaderValue::from_static("application/json"), bytes)
}

/// An answer that has nothing to say but that it is done.
pub(crate) fn empty() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

pub(crate) fn text(body: String) -> Response<Body> {
    with_type(StatusCode::OK, HeaderValue::from_static("text/plain; charset=utf-8"), body)
}

pub(crate) fn with_type(status: StatusCode, content_type: HeaderValue, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) fn problem(problem: &Problem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = with_type(status, HeaderValue::from_static(Problem::CONTENT_TYPE), problem.to_json());
    let headers = response.headers_mut();
    if problem.code == ErrorCode::Unauthenticated {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
        && let Some(ms) = problem.retry_after_ms
    {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
    }
    if matches!(problem.code, ErrorCode::BodyTooLarge | ErrorCode::RequestTimeout | ErrorCode::ShuttingDown) {
        // The rest of the request is not going to be read, or there is nobody to send another one to.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A problem as bytes for a connection on which no request can be answered any more, and which is closed after it.
pub(crate) fn raw(problem: &Problem) -> Vec<u8> {
    let response = self::problem(problem);
    let mut bytes = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    let body = problem.to_json();
    let length = HeaderValue::from(body.len());
    let always = [(&header::CONTENT_LENGTH, &length), (&header::CONNECTION, &HeaderValue::from_static("close"))];
    for (name, value) in response.headers().iter().chain(always) {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend(body);
    bytes
}
