//! The wire vectors: what travels, byte for byte, as files that clients in other languages can read.
//!
//! `UPDATE_GOLDEN=1 cargo test -p fencepost-wire` rewrites them; a change shows as a diff.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use fencepost_coordinator::{
    AcquireRequest, Answered, Granted, HistoryEntry, HistoryNumber, HistoryPage, Opened, RequestCaller,
};
use fencepost_core::{
    BootId, Contract, Correlation, Domain, Epoch, Grant, Holder, Issuer, LeaseId, LockDelay, MaxHold, Metadata,
    MinHold, OperationId, Permission, Reason, RequestId, Secret, Sequence, SessionId, Token, Ttl, Wait,
    fence::{LiveLease, RejectedBy, Rejection},
    lease::{
        AcquireRefusal, Acquired, BreakRefusal, Broken, Claim, ConfirmedLease, EndedLease, Event, EventKind, Filter,
        Heartbeat, HeartbeatRefusal, HeldBy, LeaseEnd, LeaseView, LimitReached, LiveSnapshot, Page, QueueView,
        ReleaseRefusal, Released, Reserved, ReservedKind, SessionEnd, SessionRefusal, SessionView, Terms, Version,
        WaiterView,
    },
};
use fencepost_wire::*;
use serde_json::{Value, json};

const LEASE: LeaseId = LeaseId::from_bytes([0x1e; 16]);
const SESSION: SessionId = SessionId::from_bytes([0x5e; 16]);
const REQUEST: RequestId = RequestId::from_bytes([0x4e; 16]);
const BOOT: BootId = BootId::from_bytes([0xb0; 16]);
const SECRET: Secret = Secret::from_bytes([0x5c; 32]);

fn token() -> Token {
    Token::new(Epoch::new(8016).unwrap(), Sequence::new(3).unwrap()).unwrap()
}

fn domain() -> Domain {
    Domain::new("invoices/2026-11").unwrap()
}

fn holder() -> Holder {
    Holder::new("worker-a").unwrap()
}

fn issuer() -> Issuer {
    Issuer::new("prod").unwrap()
}

fn answered<T>(answer: T) -> Answered<T> {
    Answered { answer, elapsed: Duration::from_micros(3_999), boot: BOOT }
}

fn acquire(contract: Contract) -> AcquireRequest {
    AcquireRequest {
        caller: RequestCaller::Opening { holder: holder(), ttl: Ttl::default() },
        domain: domain(),
        request: REQUEST,
        contract,
        terms: Terms::default(),
        metadata: Metadata::default(),
        renew: false,
        wait: Wait::from_millis(0).unwrap(),
    }
}

fn granted(permission: Permission) -> Answered<Granted> {
    let acquired = Acquired {
        lease: LEASE,
        domain: domain(),
        permission,
        session: SESSION,
        ttl: Ttl::default(),
        remaining_ms: 15_000,
        again: false,
        secret_taken: true,
    };
    answered(Granted { acquired, secret: Some(SECRET) })
}

fn rejected() -> RejectedData {
    let least_accepted = Token::from_integer(token().as_u64() + 1).unwrap();
    let stale = Rejection::Stale { presented: token(), least_accepted, by: RejectedBy::Fence };
    RejectedData::new(domain(), &stale, Some(LEASE), Some(OperationId::new("invoice-1").unwrap()))
}

fn grant() -> Grant {
    Grant { issuer: issuer(), domain: domain(), token: token(), lease: LEASE, session: SESSION }
}

fn confirmed() -> ConfirmedLease {
    ConfirmedLease { lease: LEASE, domain: domain(), token: Some(token()), remaining_ms: 15_000 }
}

/// Compares with `golden/NAME.json`, one vector a member.
fn golden(name: &str, vectors: &BTreeMap<&str, Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    let text = format!("{}\n", serde_json::to_string_pretty(vectors).unwrap());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{} differs; UPDATE_GOLDEN=1 rewrites it", path.display());
}

fn to(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

#[test]
fn requests_are_written_as_the_vectors_say_and_read_back() {
    let full = AcquireRequest {
        caller: RequestCaller::Session { session: SESSION, secret: Some(SECRET) },
        contract: Contract::Admission,
        terms: Terms {
            max_hold: Some(MaxHold::from_millis(60_000).unwrap()),
            min_hold: Some(MinHold::from_millis(5_000).unwrap()),
            lock_delay: Some(LockDelay::from_millis(2_000).unwrap()),
            reentrancy_limit: 2,
        },
        metadata: Metadata::new(BTreeMap::from([("host".to_owned(), "db-1".to_owned())]), 15).unwrap(),
        renew: true,
        wait: Wait::from_millis(30_000).unwrap(),
        ..acquire(Contract::Safety)
    };
    golden(
        "requests",
        &BTreeMap::from([
            ("open_session", to(OpenSessionBody::new(&holder(), Ttl::default()))),
            ("heartbeat_held", to(HeartbeatBody::from(Claim::Held(vec![LEASE])))),
            ("heartbeat_version", to(HeartbeatBody::from(Claim::Unchanged(Version(7))))),
            ("acquire_opening", to(AcquireBody::from(&acquire(Contract::Safety)))),
            ("acquire_in_session", to(AcquireBody::from(&full))),
            ("release", to(ReleaseBody::new(LEASE, REQUEST))),
            ("break", to(BreakBody::new(LEASE, &Reason::new("holder is stuck").unwrap()))),
            ("check", to(CheckBody::new(&domain(), token()))),
            ("rejected", to(RejectedReport::new(&rejected()))),
            ("work_failed", to(WorkFailedReport::new(&domain(), Some(LEASE)))),
            ("list_query", json!(ListQuery::new(&Filter::Prefix("a b/é".to_owned()), Some(&domain()), 10).write())),
        ]),
    );

    let sent = serde_json::to_vec(&AcquireBody::from(&full)).unwrap();
    let read = decode::<AcquireBody>(&sent).unwrap().parse(Some(SECRET)).unwrap();
    assert_eq!(format!("{read:?}"), format!("{full:?}"));
    let query = ListQuery::new(&Filter::Domain(Domain::new("a&b=c%20+\u{1f980}").unwrap()), Some(&domain()), 10);
    let (filter, after, limit) = ListQuery::read(&query.write()).unwrap().parse().unwrap();
    assert_eq!(filter, Filter::Domain(Domain::new("a&b=c%20+\u{1f980}").unwrap()));
    assert_eq!((after, limit), (Some(domain()), 10));
}

#[test]
fn answers_are_written_as_the_vectors_say_and_read_back() {
    let view = SessionView {
        session: SESSION,
        holder: holder(),
        ttl: Ttl::default(),
        remaining_ms: 9_000,
        leases: vec![confirmed()],
    };
    let opened = answered(Opened { session: SessionView { leases: Vec::new(), ..view.clone() }, secret: SECRET });
    let heartbeat = answered(Heartbeat {
        version: Version(7),
        leases: Some(vec![confirmed(), ConfirmedLease { token: None, ..confirmed() }]),
        unclaimed: vec![confirmed()],
        ended: vec![EndedLease { lease: LEASE, end: Some(LeaseEnd::Revoked) }, EndedLease { lease: LEASE, end: None }],
        remaining_ms: 15_000,
    });
    let row = LeaseView {
        lease: LEASE,
        domain: domain(),
        contract: Contract::Safety,
        token: Some(token()),
        session: SESSION,
        holder: holder(),
        held_ms: 1_000,
        remaining_ms: 14_000,
        holds: 1,
        queue: 2,
        metadata: Metadata::new(BTreeMap::from([("host".to_owned(), "db-1".to_owned())]), 15).unwrap(),
    };
    let page = Page { rows: vec![row], next: Some(domain()) };
    let queue = QueueView {
        domain: domain(),
        reserved: Some((ReservedKind::MinHold, 4_000)),
        waiters: vec![
            WaiterView {
                holder: holder(),
                session: Some(SESSION),
                waited_ms: 2_000,
                remaining_ms: 28_000,
                connected: true,
            },
            WaiterView { holder: holder(), session: None, waited_ms: 1_000, remaining_ms: 14_000, connected: false },
        ],
        waiting: 7,
        connected: 5,
    };
    let answer = |permission| to(AcquireAnswer::new(granted(permission), &issuer()));
    golden(
        "answers",
        &BTreeMap::from([
            ("session_opened", to(SessionOpenedAnswer::from(&opened))),
            ("session", to(SessionAnswer::from(answered(view.clone())))),
            ("heartbeat", to(HeartbeatAnswer::from(heartbeat.clone()))),
            ("acquired_safety", answer(Permission::Safety(grant()))),
            ("acquired_admission", answer(Permission::Admission(Correlation::of(LEASE)))),
            ("acquired_advisory", answer(Permission::Advisory)),
            ("released", to(ReleaseAnswer::from(Released { ended: Some(LeaseEnd::Released), holds_left: 0 }))),
            ("hold_released", to(ReleaseAnswer::from(Released { ended: None, holds_left: 1 }))),
            ("broken", to(BreakAnswer::from(Broken { domain: domain(), fence_to: Some(token()), already: false }))),
            ("broken_advisory", to(BreakAnswer::from(Broken { domain: domain(), fence_to: None, already: true }))),
            ("checked", to(CheckAnswer { current: true })),
            ("list", to(LeaseList::from(page.clone()))),
            ("history", to(HistoryList::from(history()))),
            ("queue", to(QueueList::from(queue.clone()))),
            ("grant", to(GrantJson::from(&grant()))),
        ]),
    );

    let again: Answered<Heartbeat> = HeartbeatAnswer::from(heartbeat.clone()).into();
    assert_eq!(format!("{:?}", again.answer), format!("{:?}", heartbeat.answer));
    assert_eq!(again.elapsed, Duration::from_millis(3), "rounded down, so that a holder gives up early and not late");
    assert_eq!(QueueView::from(QueueList::from(queue.clone())), queue);
    let read: Page = LeaseList::from(page.clone()).try_into().unwrap();
    assert_eq!(format!("{read:?}"), format!("{page:?}"));
    let read: Answered<Opened> = SessionOpenedAnswer::from(&opened).into();
    assert_eq!(format!("{:?}", read.answer), format!("{:?}", opened.answer));
    let read: Answered<SessionView> = SessionAnswer::from(answered(view.clone())).into();
    assert_eq!(format!("{:?}", read.answer), format!("{view:?}"));
}

/// An answer may be logged by whoever handles it.
/// Mutant: `secret` a plain text again.
#[test]
fn no_answer_prints_the_secret_that_it_carries() {
    let session = SessionView {
        session: SESSION,
        holder: holder(),
        ttl: Ttl::default(),
        remaining_ms: 15_000,
        leases: Vec::new(),
    };
    let opened = SessionOpenedAnswer::from(&answered(Opened { session, secret: SECRET }));
    let acquired = AcquireAnswer::new(granted(Permission::Safety(grant())), &issuer());
    for (json, printed) in [
        (serde_json::to_string(&opened).unwrap(), format!("{opened:?} {opened:#?}")),
        (serde_json::to_string(&acquired).unwrap(), format!("{acquired:?} {acquired:#?}")),
    ] {
        assert!(json.contains(&SECRET.expose()), "{json}");
        assert!(!printed.contains(&SECRET.expose()) && printed.contains("…"), "{printed}");
    }
}

/// A break, and before it the grant.
fn history() -> HistoryPage {
    let entry = |commit, unix_ms, kind| {
        let (token, contract) = (Some(token()), Contract::Safety);
        let event = Event { domain: domain(), lease: LEASE, contract, token, holder: holder(), kind };
        HistoryEntry { number: HistoryNumber { commit, place: 0 }, unix_ms, event }
    };
    let fence_to = Token::from_integer(token().as_u64() + 1).ok();
    let reason = Some(Reason::new("holder is stuck").unwrap());
    let end = EventKind::Ended { end: LeaseEnd::Revoked, fence_to, reason, held_ms: 1_000 };
    HistoryPage {
        entries: vec![entry(26, Some(1_767_225_601_000), end), entry(25, None, EventKind::Granted { waited_ms: 5 })],
        next: Some(HistoryNumber { commit: 25, place: 0 }),
    }
}

#[test]
fn streams_are_written_as_the_vectors_say() {
    let other = Domain::new("other").unwrap();
    let leases = vec![LiveLease { domain: domain(), token: token() }, LiveLease { domain: other, token: token() }];
    let next = Token::from_integer(token().as_u64() + 1).unwrap();
    let snapshot =
        LiveSnapshot { issuer: issuer(), next_token: Some(next), epoch: token().epoch(), boot: BOOT, leases };
    let lines: Vec<String> = snapshot_lines(snapshot.clone()).collect();
    assert_eq!(parse_snapshot(lines.concat().as_bytes()).unwrap(), snapshot);

    let event = |kind| {
        let event = Event {
            domain: domain(),
            lease: LEASE,
            contract: Contract::Safety,
            token: Some(token()),
            holder: holder(),
            kind,
        };
        let (name, data) = event_data(&event);
        json!({"event": name, "data": data})
    };
    let ended = |end| event(EventKind::Ended { end, fence_to: None, reason: None, held_ms: 5_000 });
    golden(
        "streams",
        &BTreeMap::from([
            ("snapshot", json!(lines)),
            ("granted", event(EventKind::Granted { waited_ms: 20 })),
            ("released", ended(LeaseEnd::Released)),
            ("expired", ended(LeaseEnd::Expired)),
            ("recovered", ended(LeaseEnd::Recovered)),
            (
                "revoked",
                event(EventKind::Ended {
                    end: LeaseEnd::Revoked,
                    fence_to: Some(next),
                    reason: Some(Reason::new("holder is stuck").unwrap()),
                    held_ms: 5_000,
                }),
            ),
            ("rejected", json!({"event": "rejected", "data": EventData::Rejected(rejected())})),
            ("epoch", json!({"event": "epoch", "data": EventData::Epoch { epoch: token().epoch() }})),
            ("gap", json!({"event": "gap", "data": EventData::Gap { missed: Some(12) }})),
        ]),
    );
}

fn refusals() -> Vec<(&'static str, AcquireRefusal)> {
    let held = HeldBy {
        holder: holder(),
        lease: LEASE,
        token: Some(token()),
        held_ms: 1,
        remaining_ms: 2,
        queue: 3,
        waited_ms: 4,
    };
    let reserved = Reserved { kind: ReservedKind::LockDelay, remaining_ms: 2, queue: 3, waited_ms: 4 };
    vec![
        ("held", AcquireRefusal::Held(Box::new(held))),
        ("reserved", AcquireRefusal::Reserved(reserved)),
        ("hold_ended", AcquireRefusal::HoldEnded),
        ("request_conflict", AcquireRefusal::RequestConflict),
        ("lease_mismatch", AcquireRefusal::LeaseMismatch),
        ("reentrancy_limit", AcquireRefusal::ReentrancyLimit { limit: 2 }),
        ("superseded", AcquireRefusal::Superseded),
        ("limit_reached", AcquireRefusal::LimitReached(LimitReached { limit: "session_leases" })),
        ("token_space_exhausted", AcquireRefusal::TokenSpaceExhausted),
        ("session_ended", AcquireRefusal::Session(SessionRefusal::SessionEnded(SessionEnd::Expired))),
        ("unknown_session", AcquireRefusal::Session(SessionRefusal::UnknownSession)),
        ("unauthenticated", AcquireRefusal::Session(SessionRefusal::Unauthenticated)),
        ("not_yours", AcquireRefusal::Session(SessionRefusal::NotYours)),
    ]
}

/// The problem as it is sent, after it has been read back as the refusal it came from.
fn round<R: Refusal + PartialEq + std::fmt::Debug>(refusal: R) -> Value {
    let sent = refusal.to_problem();
    let read = Problem::parse(&sent.to_json()).unwrap();
    assert_eq!(read, sent);
    match read.into_call_error::<R>() {
        fencepost_coordinator::CallError::Refused(again) => assert_eq!(again, refusal),
        other => panic!("{refusal:?} came back as {other:?}"),
    }
    to(sent)
}

#[test]
fn every_refusal_is_written_as_the_vectors_say_and_read_back_as_itself() {
    let mut vectors: BTreeMap<&str, Value> =
        refusals().into_iter().map(|(name, refusal)| (name, round(Box::new(refusal)))).collect();
    vectors.insert("version_unknown", round(HeartbeatRefusal::VersionUnknown));
    vectors.insert("never_held", round(ReleaseRefusal::NeverHeld));
    vectors.insert("unknown_lease", round(ReleaseRefusal::UnknownLease));
    vectors.insert("lease_ended", round(BreakRefusal::LeaseEnded(LeaseEnd::Expired)));
    for end in [SessionEnd::Ended, SessionEnd::Recovered] {
        round(SessionRefusal::SessionEnded(end));
    }
    for limit in ["sessions", "domains", "opening_waiters", "ended_holds"] {
        round(LimitReached { limit });
    }
    round(HeartbeatRefusal::Session(SessionRefusal::NotYours));
    round(ReleaseRefusal::NotYours);
    round(BreakRefusal::TokenSpaceExhausted);
    let held = refusals().swap_remove(0).1.to_problem().with_break_command(&domain());
    vectors.insert("held_with_command", to(held));
    golden("problems", &vectors);
}

#[test]
fn every_code_is_kept_with_what_it_means() {
    let codes: Vec<Value> = ErrorCode::ALL
        .iter()
        .map(|code| {
            assert_eq!(code.as_str().parse::<ErrorCode>().unwrap(), *code);
            json!({"code": code, "status": code.status(), "retryable": code.is_retryable(),
                   "may_have_happened": code.may_have_happened(), "title": code.title(), "fix": code.fix()})
        })
        .collect();
    golden("codes", &BTreeMap::from([("codes", json!(codes))]));
}
