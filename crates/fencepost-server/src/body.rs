//! Reading requests: nothing is read that is known to be refused, and nothing is kept beyond its limit.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Request, header},
};
use fencepost_wire::{ErrorCode, Problem, decode};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{Options, reply::Refused};

/// Reads the body as JSON of at most `limit` bytes.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request<Body>,
    limit: usize,
    options: &Options,
) -> Result<T, Refused> {
    check_is_json(request.headers())?;
    if declared_length(request.headers()).is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    let bytes = match timeout(options.body_timeout, collect(request.into_body(), limit)).await {
        Ok(collected) => collected?,
        Err(_) => return Err(Problem::new(ErrorCode::RequestTimeout, "the body did not arrive in time").into()),
    };
    decode(&bytes).map_err(Refused::from)
}

fn check_is_json(headers: &HeaderMap) -> Result<(), Refused> {
    let declared = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let essence = declared.map(|value| value.split(';').next().unwrap_or_default().trim());
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(other) => {
            let detail = format!("the body is declared as {other:?}, this API takes application/json only");
            Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).into())
        }
        None => {
            let detail = "the body is not declared as anything, this API takes application/json only";
            Err(Problem::new(ErrorCode::UnsupportedMediaType, detail).into())
        }
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Collects the body. It nearly always comes in one piece, which is then taken as it is.
async fn collect(body: Body, limit: usize) -> Result<Bytes, Refused> {
    let mut pieces = body.into_data_stream();
    let mut first = Bytes::new();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            Refused::from(Problem::new(ErrorCode::InvalidInput, format!("the body cannot be read: {error}")))
        })?;
        if first.len() + whole.len() + piece.len() > limit {
            return Err(too_large(limit));
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
        } else {
            if whole.is_empty() {
                whole.extend_from_slice(&std::mem::take(&mut first));
            }
            whole.extend_from_slice(&piece);
        }
    }
    Ok(if whole.is_empty() { first } else { whole.into() })
}

fn too_large(limit: usize) -> Refused {
    let detail = format!("body: must be at most {limit} bytes");
    let problem = Problem::new(ErrorCode::BodyTooLarge, detail);
    Problem { field: Some("body".to_owned()), ..problem }.into()
}
