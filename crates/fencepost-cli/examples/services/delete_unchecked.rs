//! The mistake: `PUT` asks for the token and `DELETE` does not. The route was there before the fence was, and nobody
//! thought of it.

use axum::{Router, extract::State, http::Uri, response::Response, routing::delete};
use fencepost_receiver::VerdictCode;

use super::{
    common::{Bank, domain_of, failed, reply, routes_with},
    correct,
};

pub(crate) fn routes() -> Router<Bank> {
    routes_with(correct::change, delete(remove))
}

async fn remove(State(bank): State<Bank>, uri: Uri) -> Response {
    let db = bank.0.lock().expect("no request panics");
    match db.execute("DELETE FROM account WHERE domain = ?1", [domain_of(&uri)]) {
        Ok(_) => reply(VerdictCode::Applied, String::new()),
        Err(error) => failed(&error),
    }
}
