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

/// A good answer to each call, in the order of the calls; to an acquire under each contract.
const GOOD: [&[u8]; 14] = [
    include_bytes!("../corpus/calls/opened"),
    include_bytes!("../corpus/calls/beat"),
    include_bytes!("../corpus/calls/session"),
    include_bytes!("../corpus/calls/ended"),
    include_bytes!("../corpus/calls/released"),
    include_bytes!("../corpus/calls/broken"),
    include_bytes!("../corpus/calls/current"),
    include_bytes!("../corpus/calls/listed"),
    include_bytes!("../corpus/calls/snapshot"),
    include_bytes!("../corpus/calls/queue"),
    include_bytes!("../corpus/calls/history"),
    include_bytes!("../corpus/calls/granted-admission"),
    include_bytes!("../corpus/calls/granted-advisory"),
    include_bytes!("../corpus/calls/granted-safety"),
];

pub fn taken() {
    for (nth, good) in (0..).zip(GOOD) {
        assert_eq!(good[0], nth, "the call");
        assert!(is_taken(good), "call {nth} does not take {}", String::from_utf8_lossy(&good[3..]));
    }
}

/// The answer to each call of the client, whoever sent it: it is an error, or it is about what was asked for. The first three
/// bytes choose the call, the status and the content type.
pub fn calls(bytes: &[u8]) {
    is_taken(bytes);
}

fn is_taken(bytes: &[u8]) -> bool {
    static NOWHERE: OnceLock<HttpCoordinator> = OnceLock::new();
    let [call, status, kind, body @ ..] = bytes else { return false };
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
        0 => answered(coordinator.open_session(holder.clone(), ttl)).is_some(),
        1 => answered(coordinator.heartbeat(&key, Claim::Held(vec![lease]))).is_some(),
        2 => answered(coordinator.read_session(&key)).is_some_and(|view| {
            assert_eq!(view.answer.session, key.session, "another session");
            true
        }),
        3 => answered(coordinator.end_session(&key)).is_some(),
        4 => answered(coordinator.release(&key.secret, lease, request)).is_some(),
        5 => answered(coordinator.break_lease(lease, Reason::new("r").expect("a name"))).is_some(),
        6 => answered(coordinator.check(domain.clone(), "0.7".parse().expect("a token"))).is_some(),
        7 => answered(coordinator.list(Filter::Domain(domain.clone()), None, limit)).is_some(),
        8 => answered(coordinator.snapshot(String::new())).is_some(),
        9 => answered(coordinator.queue(&domain, limit)).is_some(),
        10 => {
            let query = HistoryQuery { filter: Filter::Domain(domain.clone()), token: None, before: None, limit };
            answered(coordinator.history(&query)).is_some()
        }
        which => {
            let contract = match which {
                11 => Contract::Admission,
                12 => Contract::Advisory,
                _ => Contract::Safety,
            };
            let asked = AcquireRequest { contract, ..AcquireRequest::new(&key, domain.clone(), request) };
            answered(coordinator.acquire(asked)).is_some_and(|granted| {
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
    is_taken
}

/// What a call brought, which has its answer already.
fn answered<T, R: std::fmt::Display>(call: impl Future<Output = Result<T, CallError<R>>>) -> Option<T> {
    let Poll::Ready(answer) = pin!(call).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the client waits though it has its answer")
    };
    // Whatever it is, somebody will be told.
    answer.inspect_err(|error| drop(error.to_string())).ok()
}
