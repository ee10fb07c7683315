//! What the services have in common and what is not the point: routes, headers, statuses, SQL.

use std::{
    collections::BTreeMap,
    error::Error,
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post, put},
};
use fencepost_core::{Domain, Epoch, Token};
use fencepost_receiver::{VerdictCode, header};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

/// The greatest epoch that the coordinator has told; a real service is told by its operator.
pub(crate) const KNOWN_EPOCH: Epoch = Epoch::ZERO;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS account (domain TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS fence (domain TEXT PRIMARY KEY, token INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS floor (token INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS operation (
        domain TEXT, id TEXT, request TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (domain, id)
    );";

/// The database, which every request has to itself for as long as it needs it.
#[derive(Clone)]
pub(crate) struct Bank(pub(crate) Arc<Mutex<Connection>>);

/// What a request is to do.
pub(crate) enum Change {
    Set(i64),
    Remove,
    Nothing,
}

/// What the headers of a request claim.
pub(crate) struct Claim {
    pub(crate) domain: String,
    pub(crate) token: Token,
    pub(crate) operation: String,
}

/// A request that is in order.
pub(crate) struct Asked {
    pub(crate) claim: Claim,
    /// What tells this request from another one with the same operation id.
    pub(crate) request: String,
    pub(crate) change: Change,
}

/// A verdict and the body of the answer.
pub(crate) type Answer = (VerdictCode, String);
/// What decides, and changes the account or does not.
pub(crate) type Decide = fn(&mut Connection, &Asked) -> rusqlite::Result<Answer>;

impl Bank {
    pub(crate) fn open(path: &Path, floor: Option<Token>) -> Result<Self, Box<dyn Error>> {
        let db = Connection::open(path)?;
        db.execute_batch(SCHEMA)?;
        if let Some(floor) = floor {
            db.execute("INSERT INTO floor VALUES (?1)", [floor.as_i64()])?;
        }
        Ok(Self(Arc::new(Mutex::new(db))))
    }
}

/// The routes of a service that decides like this, whatever the method.
pub(crate) fn routes(decide: Decide) -> Router<Bank> {
    let remove = delete(move |bank, method, uri, headers, body| serve(decide, bank, method, uri, headers, body));
    routes_with(decide, remove)
}

pub(crate) fn routes_with(decide: Decide, remove: MethodRouter<Bank>) -> Router<Bank> {
    let change = move |bank, method, uri, headers, body| serve(decide, bank, method, uri, headers, body);
    let account = get(read).merge(put(change)).merge(remove);
    Router::new().route("/accounts/{id}", account).route("/accounts/{id}/fence", post(change))
}

async fn read(State(bank): State<Bank>, uri: Uri) -> Response {
    let db = bank.0.lock().expect("no request panics");
    let sql = "SELECT value FROM account WHERE domain = ?1";
    match db.query_row(sql, [domain_of(&uri)], |row| row.get::<_, i64>(0)).optional() {
        Ok(Some(value)) => format!("{{\"value\": {value}}}").into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => failed(&error),
    }
}

async fn serve(
    decide: Decide,
    State(bank): State<Bank>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let (code, text) = match asked(&method, &uri, &headers, &body) {
        Err(code) => (code, String::new()),
        Ok(asked) => match decide(&mut bank.0.lock().expect("no request panics"), &asked) {
            Ok(answer) => answer,
            Err(error) => return failed(&error),
        },
    };
    reply(code, text)
}

pub(crate) fn reply(code: VerdictCode, text: String) -> Response {
    let status = StatusCode::from_u16(code.status()).expect("it is a status");
    (status, [(header::VERDICT, code.as_str())], text).into_response()
}

pub(crate) fn failed(error: &rusqlite::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

/// `/accounts/7` and `/accounts/7/fence` are of the domain `accounts/7`. The path decides, never the request's header.
pub(crate) fn domain_of(uri: &Uri) -> String {
    uri.path().trim_start_matches('/').trim_end_matches("/fence").to_owned()
}

/// The headers, in the order in which they are judged.
pub(crate) fn claim(uri: &Uri, headers: &HeaderMap) -> Result<Claim, VerdictCode> {
    let text = |name| headers.get(name).map(|value| value.to_str().map_err(|_| VerdictCode::Malformed)).transpose();
    let token = text(header::TOKEN)?.ok_or(VerdictCode::MissingToken)?;
    let token = Token::from_decimal(token).map_err(|_| VerdictCode::Malformed)?;
    let claimed = Domain::new(text(header::DOMAIN)?.unwrap_or_default()).map_err(|_| VerdictCode::Malformed)?;
    let domain = domain_of(uri);
    if claimed.as_str() != domain {
        return Err(VerdictCode::WrongDomain);
    }
    let operation = text(header::IDEMPOTENCY_KEY)?.ok_or(VerdictCode::Malformed)?.to_owned();
    Ok(Claim { domain, token, operation })
}

fn asked(method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Result<Asked, VerdictCode> {
    let claim = claim(uri, headers)?;
    let body = std::str::from_utf8(body).map_err(|_| VerdictCode::Malformed)?;
    let change = if *method == Method::PUT {
        // One member, whatever it is called: a test writes it under another name.
        let object: BTreeMap<String, i64> = serde_json::from_str(body).map_err(|_| VerdictCode::Malformed)?;
        match object.values().collect::<Vec<_>>()[..] {
            [value] => Change::Set(*value),
            _ => return Err(VerdictCode::Malformed),
        }
    } else if *method == Method::DELETE {
        Change::Remove
    } else {
        Change::Nothing
    };
    Ok(Asked { claim, request: format!("{method} {uri} {body}"), change })
}

/// The highest token so far, or the floor where that is higher; 0 where there is neither.
pub(crate) fn fence(db: &Connection, claim: &Claim) -> rusqlite::Result<i64> {
    let sql = "SELECT max(ifnull((SELECT token FROM fence WHERE domain = ?1), 0),
                          ifnull((SELECT max(token) FROM floor), 0))";
    db.query_row(sql, [&claim.domain], |row| row.get(0))
}

/// Raises the fence, where the token is greater; it never goes down.
pub(crate) fn raise(tx: &Transaction<'_>, claim: &Claim) -> rusqlite::Result<()> {
    let sql = "INSERT INTO fence VALUES (?1, ?2) ON CONFLICT DO UPDATE SET token = max(token, excluded.token)";
    tx.execute(sql, params![claim.domain, claim.token.as_i64()]).map(drop)
}

/// The request that an operation was, and its answer, where it took effect before.
pub(crate) fn record(db: &Connection, claim: &Claim) -> rusqlite::Result<Option<(String, String)>> {
    let sql = "SELECT request, answer FROM operation WHERE domain = ?1 AND id = ?2";
    db.query_row(sql, params![claim.domain, claim.operation], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// The answer to an operation that took effect before, or the conflict.
pub(crate) fn recorded(tx: &Transaction<'_>, asked: &Asked) -> rusqlite::Result<Option<Answer>> {
    Ok(record(tx, &asked.claim)?.map(|(request, answer)| match request == asked.request {
        true => (VerdictCode::Replayed, answer),
        false => (VerdictCode::OperationConflict, String::new()),
    }))
}

/// Makes the change and records the operation with its answer.
pub(crate) fn apply(tx: &Transaction<'_>, asked: &Asked) -> rusqlite::Result<String> {
    let Asked { claim: Claim { domain, operation, .. }, request, .. } = asked;
    match asked.change {
        Change::Set(value) => {
            let sql = "INSERT INTO account VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
            tx.execute(sql, params![domain, value])?;
        }
        Change::Remove => {
            tx.execute("DELETE FROM account WHERE domain = ?1", [domain])?;
        }
        Change::Nothing => {}
    }
    let answer = format!("{{\"done\": \"{operation}\"}}");
    tx.execute("INSERT INTO operation VALUES (?1, ?2, ?3, ?4)", params![domain, operation, request, answer])?;
    Ok(answer)
}
