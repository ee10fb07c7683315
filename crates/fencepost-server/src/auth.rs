use axum::http::{HeaderMap, header};
use fencepost_core::Secret;
use fencepost_wire::{ErrorCode, Problem};

use crate::reply::Refused;

/// The session secret of `Authorization: Bearer SECRET`; `None` where the header is missing.
///
/// # Errors
/// 401 when the header is there and holds no secret. What it holds is not repeated in the answer.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<Secret>, Refused> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let secret = value.to_str().ok().and_then(|text| {
        let (scheme, secret) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_start().parse::<Secret>().ok())?
    });
    match (secret, values.next()) {
        (Some(secret), None) => Ok(Some(secret)),
        (Some(_) | None, _) => Err(unauthenticated("the Authorization header does not hold one session secret")),
    }
}

/// The session secret.
///
/// # Errors
/// 401 when there is none.
pub(crate) fn required_bearer(headers: &HeaderMap) -> Result<Secret, Refused> {
    bearer(headers)?.ok_or_else(|| unauthenticated("the call carries no session secret"))
}

fn unauthenticated(detail: &str) -> Refused {
    Problem::new(ErrorCode::Unauthenticated, detail).into()
}
