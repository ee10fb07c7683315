//! The mistake: the token is compared in a middleware, before the body is there, and the handler writes later, in a
//! transaction of its own that does not look again. Whoever has written in between is overwritten.

use axum::{
    Router,
    extract::{Request, State},
    http::Method,
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use fencepost_receiver::VerdictCode;
use rusqlite::{Connection, TransactionBehavior::Immediate};

use super::common::{
    Answer, Asked, Bank, KNOWN_EPOCH, apply, claim, failed, fence, raise, record, recorded, reply, routes,
};

pub(crate) fn routes_checked(bank: Bank) -> Router<Bank> {
    routes(change).route_layer(from_fn_with_state(bank, check))
}

async fn check(State(bank): State<Bank>, request: Request, next: Next) -> Response {
    if *request.method() != Method::GET {
        let claim = match claim(request.uri(), request.headers()) {
            Ok(claim) => claim,
            Err(code) => return reply(code, String::new()),
        };
        let verdict = {
            let db = bank.0.lock().expect("no request panics");
            fence(&db, &claim).and_then(|fence| Ok((claim.token.as_i64() < fence) && record(&db, &claim)?.is_none()))
        };
        match verdict {
            Ok(false) => {}
            Ok(true) => return reply(VerdictCode::StaleToken, String::new()),
            Err(error) => return failed(&error),
        }
    }
    next.run(request).await
}

fn change(db: &mut Connection, asked: &Asked) -> rusqlite::Result<Answer> {
    let tx = db.transaction_with_behavior(Immediate)?;
    let is_known = asked.claim.token.epoch() <= KNOWN_EPOCH;
    let answer = match recorded(&tx, asked)? {
        Some(answer) => answer,
        None if is_known => (VerdictCode::Applied, apply(&tx, asked)?),
        None => (VerdictCode::UnknownEpoch, String::new()),
    };
    if is_known {
        raise(&tx, &asked.claim)?;
    }
    tx.commit()?;
    Ok(answer)
}
