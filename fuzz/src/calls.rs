use std::{
    pin::pin,
    sync::OnceLock,
    task::{Context, Poll, Waker},
};

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{AcquireRequest, CallError, Coordinator as _, HistoryQuery, SessionKey};
use fencepost_core::{
    Contract, Domain, Holder, LeaseId, Permission, Reason, RequestId, Secret, SessionId, Ttl,
    lease::{Claim, Filter},
};

const STATUSES: [u16; 14] = [200, 201, 204, 400, 401, 403, 404, 409, 410, 429, 500, 503, 301, 299];
const TYPES: [&str; 6] = [
    "application/json",
    "application/problem+json",
    "application/x-ndjson",
    "Application/JSON; charset=utf-8",
    "text/html",
    "",
];

/// The answer to each call of the client, whoever sent it: it is an error, or it is about what was asked for. The first three
/// bytes choose the call, the status and the content type.
pub fn calls(bytes: &[u8]) {
    static NOWHERE: OnceLock<HttpCoordinator> = OnceLock::new();
    let [call, status, kind, body @ ..] = bytes else { return };
    let status = STATUSES[usize::from(*status) % STATUSES.len()];
    let kind = TYPES[usize::from(*kind) % TYPES.len()];
    let nowhere = NOWHERE.get_or_init(|| HttpCoordinator::new("http://127.0.0.1:9").expect("an address"));
    let coordinator = nowhere.answering(status, kind.as_bytes(), body).expect("a head");

    let (domain, lease) = (Domain::new("d").expect("a name"), LeaseId::from_bytes([2; 16]));
    let key = SessionKey { session: SessionId::from_bytes([1; 16]), secret: Secret::from_bytes([7; 32]) };
    let request = RequestId::from_bytes([3; 16]);
    let (holder, ttl) = (Holder::new("h").expect("a name"), Ttl::default());
    let limit = 10;
    let is_taken = match call % 16 {
        0 => taken(coordinator.open_session(holder.clone(), ttl)).is_some(),
        1 => taken(coordinator.heartbeat(&key, Claim::Held(vec![lease]))).is_some(),
        2 => taken(coordinator.read_session(&key)).is_some_and(|view| {
            assert_eq!(view.answer.session, key.session, "another session");
            true
        }),
        3 => taken(coordinator.end_session(&key)).is_some(),
        4 => taken(coordinator.release(&key.secret, lease, request)).is_some(),
        5 => taken(coordinator.break_lease(lease, Reason::new("r").expect("a name"))).is_some(),
        6 => taken(coordinator.check(domain.clone(), "0.7".parse().expect("a token"))).is_some(),
        7 => taken(coordinator.list(Filter::Domain(domain.clone()), None, limit)).is_some(),
        8 => taken(coordinator.snapshot(String::new())).is_some(),
        9 => taken(coordinator.queue(&domain, limit)).is_some(),
        10 => {
            let query = HistoryQuery { filter: Filter::Domain(domain.clone()), token: None, before: None, limit };
            taken(coordinator.history(&query)).is_some()
        }
        which => {
            let contract = match which {
                11 => Contract::Admission,
                12 => Contract::Advisory,
                _ => Contract::Safety,
            };
            let asked = AcquireRequest { contract, ..AcquireRequest::new(&key, domain.clone(), request) };
            taken(coordinator.acquire(asked)).is_some_and(|granted| {
                let acquired = granted.answer.acquired;
                assert_eq!(acquired.domain, domain, "a grant for another domain");
                match (contract, &acquired.permission) {
                    (Contract::Safety, Permission::Safety(grant)) => {
                        assert!(grant.token.as_i64() > 0, "token 0");
                        assert_eq!((&grant.domain, grant.session), (&domain, key.session), "a grant of somebody else");
                    }
                    (Contract::Admission, Permission::Admission(_)) | (Contract::Advisory, Permission::Advisory) => {}
                    (asked, got) => panic!("{asked} was asked for, and {got:?} taken"),
                }
                true
            })
        }
    };
    assert!(!is_taken || (200..300).contains(&status), "status {status} was taken for an answer");
}

/// What a call brought, which has its answer already.
fn taken<T, R: std::fmt::Display>(call: impl Future<Output = Result<T, CallError<R>>>) -> Option<T> {
    let Poll::Ready(answer) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the client waits though it has its answer")
    };
    // Whatever it is, somebody will be told.
    answer.inspect_err(|error| drop(error.to_string())).ok()
}
