//! Every call and what it answers.

use fencepost_coordinator::embedded::testing::MemoryStore;
use fencepost_core::{Epoch, Token};
use fencepost_server::Options;
use serde_json::{Value, json};

use crate::support::{TestServer, opening, request_id};

#[tokio::test]
async fn a_session_is_opened_read_renewed_and_ended() {
    let server = TestServer::start().await;
    let opened = server.call("POST", "/v1/sessions", json!({"holder": "worker-a", "ttl_ms": 15_000})).await;
    assert_eq!(opened.status, 201);
    let json = opened.json();
    for field in ["session", "secret", "holder", "ttl_ms", "remaining_ms", "elapsed_ms", "boot"] {
        assert!(!json[field].is_null(), "{field}");
    }
    assert_eq!(json["remaining_ms"], 15_000);
    assert_eq!(opened.header("cache-control"), Some("no-store"));
    let (session, secret) = (opened.text("session"), opened.text("secret"));

    let mut client = server.client().await;
    let path = format!("/v1/sessions/{session}");
    server.clock.advance(5_000);
    let read = client.call("GET", &path, Some(&secret), json!(null)).await;
    assert_eq!((read.status, &read.json()["remaining_ms"]), (200, &json!(10_000)));
    assert_eq!(read.json()["leases"], json!([]));
    assert!(!read.utf8().contains(&secret), "the secret is told once");

    let beat = client.call("POST", &format!("{path}/heartbeat"), Some(&secret), json!({"held": []})).await;
    assert_eq!((beat.status, &beat.json()["remaining_ms"]), (200, &json!(15_000)));

    for attempt in 1..=2 {
        let ended = client.call("DELETE", &path, Some(&secret), json!(null)).await;
        assert_eq!((ended.status, ended.body.len()), (204, 0), "attempt {attempt}");
    }
    let gone = client.call("GET", &path, Some(&secret), json!(null)).await;
    assert_eq!(gone.problem(410, "session_ended")["reason"], "ended");
}

#[tokio::test]
async fn a_grant_has_its_token_as_a_string_and_its_parts_as_numbers() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("invoices/2026-11", 1)).await;
    assert_eq!(granted.status, 201);
    let json = granted.json();
    assert_eq!(json["issuer"], "test");
    assert_eq!(json["domain"], "invoices/2026-11");
    assert!(json["token"].is_string() && json["epoch"].is_u64() && json["sequence"].is_u64(), "{json}");
    assert_eq!(json["token"], json["sequence"].to_string(), "epoch 0: the token is its sequence");
    assert_eq!(json["contract"], "safety");
    assert!(json["secret"].is_string() && json["correlation"].is_null());
}

#[tokio::test]
async fn only_safety_hands_out_a_token() {
    let server = TestServer::start().await;
    let mut acquire = opening("d", 1);
    acquire["contract"] = json!("admission");
    let admission = server.call("POST", "/v1/leases", acquire).await.json();
    assert!(admission["token"].is_null() && admission["epoch"].is_null() && admission["sequence"].is_null());
    assert!(admission["correlation"].as_str().unwrap().parse::<Token>().is_err());

    let mut acquire = opening("e", 2);
    acquire["contract"] = json!("advisory");
    let advisory = server.call("POST", "/v1/leases", acquire).await.json();
    assert!(advisory["token"].is_null() && advisory["correlation"].is_null());

    let lease = advisory["lease"].as_str().unwrap();
    let broken = server.call("POST", "/v1/leases/break", json!({"lease": lease, "reason": "stuck"})).await;
    assert_eq!((broken.status, &broken.json()["fence_to"]), (200, &Value::Null));
}

#[tokio::test]
async fn a_held_domain_says_who_holds_it_and_how_to_take_it_away() {
    let server = TestServer::start().await;
    let first = server.call("POST", "/v1/leases", opening("it's mine", 1)).await.json();
    server.clock.advance(4_000);
    let refused = server.call("POST", "/v1/leases", opening("it's mine", 2)).await;
    let held = refused.problem(409, "held");
    assert_eq!(held["holder"], "worker-a");
    assert_eq!(held["lease"], first["lease"]);
    assert_eq!(held["token"], first["token"]);
    assert_eq!(
        [&held["held_ms"], &held["remaining_ms"], &held["queue"], &held["waited_ms"]],
        [&json!(4_000), &json!(11_000), &json!(0), &json!(0)]
    );
    assert_eq!((&held["retryable"], &held["may_have_happened"]), (&json!(true), &json!(false)));
    let line = format!(r"fencepost break 'it'\''s mine' --lease {} --reason TEXT", held["lease"].as_str().unwrap());
    assert!(held["fix"].as_str().unwrap().ends_with(&line), "{}", held["fix"]);
}

#[tokio::test]
async fn a_domain_that_nobody_holds_yet_is_reserved() {
    let server = TestServer::start().await;
    let mut acquire = opening("d", 1);
    acquire["min_hold_ms"] = json!(60_000);
    let granted = server.call("POST", "/v1/leases", acquire).await;
    let body = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    let secret = granted.text("secret");
    server.client().await.call("POST", "/v1/leases/release", Some(&secret), body).await;
    let reserved = server.call("POST", "/v1/leases", opening("d", 2)).await.problem(409, "held");
    assert_eq!((&reserved["reserved"], &reserved["remaining_ms"]), (&json!("min_hold"), &json!(60_000)));
    assert!(reserved["holder"].is_null() && reserved["lease"].is_null());
}

#[tokio::test]
async fn a_release_ends_the_lease_and_says_the_same_on_a_retry() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let secret = granted.text("secret");
    let body = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    let mut client = server.client().await;
    for attempt in 1..=2 {
        let released = client.call("POST", "/v1/leases/release", Some(&secret), body.clone()).await;
        assert_eq!(
            (released.status, released.json()),
            (200, json!({"ended": "released", "holds_left": 0})),
            "{attempt}"
        );
    }
    let other = json!({"lease": granted.text("lease"), "request_id": request_id(9)});
    client.call("POST", "/v1/leases/release", Some(&secret), other).await.problem(409, "never_held");
    let unknown = json!({"lease": "0".repeat(32), "request_id": request_id(1)});
    client.call("POST", "/v1/leases/release", Some(&secret), unknown).await.problem(404, "unknown_lease");
}

#[tokio::test]
async fn a_broken_lease_burns_a_token_and_is_lost_to_its_holder() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let (lease, secret, session) = (granted.text("lease"), granted.text("secret"), granted.text("session"));
    let mut client = server.client().await;

    let wrong = json!({"lease": "0".repeat(32), "reason": "typo"});
    client.call("POST", "/v1/leases/break", None, wrong).await.problem(404, "unknown_lease");
    let no_reason = client.call("POST", "/v1/leases/break", None, json!({"lease": lease, "reason": ""})).await;
    assert_eq!(no_reason.problem(400, "invalid_input")["field"], "reason");

    let body = json!({"lease": lease, "reason": "stuck"});
    let broken = client.call("POST", "/v1/leases/break", None, body.clone()).await.json();
    let number = |token: &Value| token.as_str().unwrap().parse::<u64>().unwrap();
    assert!(number(&broken["fence_to"]) > number(&granted.json()["token"]));
    assert_eq!(broken["already"], false);
    let again = client.call("POST", "/v1/leases/break", None, body).await.json();
    assert_eq!((&again["fence_to"], &again["already"]), (&broken["fence_to"], &json!(true)));

    let beat = format!("/v1/sessions/{session}/heartbeat");
    let beat = client.call("POST", &beat, Some(&secret), json!({"held": [lease]})).await.json();
    assert_eq!(beat["ended"], json!([{"lease": lease, "reason": "revoked"}]));

    let next = server.call("POST", "/v1/leases", opening("d", 2)).await.json();
    assert!(number(&next["token"]) > number(&broken["fence_to"]));
    let late = json!({"lease": granted.text("lease"), "reason": "late operator"});
    let late = client.call("POST", "/v1/leases/break", None, late).await.json();
    assert_eq!((&late["fence_to"], &late["already"]), (&broken["fence_to"], &json!(true)), "the successor is not hit");
}

#[tokio::test]
async fn a_lease_that_ended_otherwise_is_not_broken() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    server.clock.advance(15_000);
    let body = json!({"lease": granted.text("lease"), "reason": "late operator"});
    let refused = server.call("POST", "/v1/leases/break", body).await.problem(409, "lease_ended");
    assert_eq!(refused["reason"], "expired");
}

#[tokio::test]
async fn a_check_is_a_hint_about_the_current_token() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let check = |token: Value| server.call("POST", "/v1/leases/check", json!({"domain": "d", "token": token}));
    assert_eq!(check(json!(granted.text("token"))).await.json(), json!({"current": true}));
    assert_eq!(check(json!(i64::MAX.to_string())).await.json(), json!({"current": false}));
    for wrong in [json!(1), json!(9_007_199_254_740_993_u64), json!(1e3), json!(-1), json!(null), json!(true)] {
        let refused = check(wrong.clone()).await.problem(400, "invalid_input");
        assert_eq!(refused["field"], "token", "{wrong}");
    }
    for wrong in ["+1", " 1", "1 ", "1e3", "-1", "0", "01", "", "9223372036854775808", "1.0", "0x1"] {
        let refused = check(json!(wrong)).await.problem(400, "invalid_input");
        assert_eq!(refused["field"], "token", "{wrong}");
    }
}

/// Mutant: a token written as a JSON number (core/token.rs), which `serde_json` here reads whole, but no string.
#[tokio::test]
async fn digits_survive_to_the_end_of_the_token_space() {
    for epoch in [Epoch::new(1 << 10).unwrap(), Epoch::MAX] {
        let server = TestServer::over(MemoryStore::at_epoch(epoch), Options::default()).await;
        let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
        let (json, digits) = (granted.json(), granted.text("token"));
        let token: Token = digits.parse().unwrap();
        assert!(token.as_u64() > 1 << 53, "where a double says only some numbers");
        assert_eq!((json["epoch"].as_u64(), token.epoch()), (Some(epoch.get().into()), epoch));

        let (session, secret) = (granted.text("session"), granted.text("secret"));
        let mut client = server.client().await;
        let path = format!("/v1/sessions/{session}");
        let read = client.call("GET", &path, Some(&secret), json!(null)).await.json();
        assert_eq!(read["leases"][0]["token"], json!(digits), "{read}");
        let again = server.call("POST", "/v1/leases", opening("d", 1)).await;
        assert_eq!(again.text("token"), digits);
        let list = server.get("/v1/leases?domain=d").await.json();
        assert_eq!(list["items"][0]["token"], json!(digits), "{list}");
        let snapshot = server.get("/v1/leases/snapshot").await;
        let lines: Vec<Value> = snapshot.utf8().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1]["token"], json!(digits), "{lines:?}");
        assert!(lines[0]["next_token"].as_str().unwrap().parse::<Token>().unwrap() > token);

        let is_current = async |token: u64| {
            let body = json!({"domain": "d", "token": token.to_string()});
            server.call("POST", "/v1/leases/check", body).await.json()["current"].as_bool().unwrap()
        };
        assert!(is_current(token.as_u64()).await);
        for other in [token.as_u64() - 1, token.as_u64() + 1, (1 << 63) - 10, i64::MAX as u64] {
            assert!(!is_current(other).await, "{other} is not {token}");
        }
        let body = json!({"lease": granted.text("lease"), "reason": "stuck"});
        let fence_to = server.call("POST", "/v1/leases/break", body).await.text("fence_to");
        assert!(fence_to.parse::<Token>().unwrap() > token, "{fence_to}");
    }
}

#[tokio::test]
async fn lists_are_read_page_by_page() {
    let server = TestServer::start().await;
    for number in 0..7 {
        let granted = server.call("POST", "/v1/leases", opening(&format!("jobs/{number}"), number)).await;
        assert_eq!(granted.status, 201);
    }
    server.call("POST", "/v1/leases", opening("other", 99)).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/leases?prefix=jobs/&limit=3{cursor}")).await;
        assert_eq!(page.status, 200);
        let page = page.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 3);
        seen.extend(items.iter().map(|item| item["domain"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..7).map(|number| format!("jobs/{number}")).collect::<Vec<_>>());

    let one = server.get("/v1/leases?domain=jobs%2F3").await.json();
    assert_eq!(one["items"].as_array().unwrap().len(), 1);
    let row = &one["items"][0];
    for field in
        ["lease", "domain", "contract", "token", "session", "holder", "held_ms", "remaining_ms", "holds", "queue"]
    {
        assert!(!row[field].is_null(), "{field}");
    }
    assert!(row["secret"].is_null());
}

#[tokio::test]
async fn a_query_is_taken_exactly_or_refused() {
    let server = TestServer::start().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=-1", "limit"),
        ("cursor=jobs/3", "cursor"),
        ("cursor=d1zz", "cursor"),
        ("cursor=d1ff", "cursor"),
        ("domain=a&prefix=a", "domain"),
        ("domain=a&domain=b", "domain"),
        ("domain=%FF", "domain"),
        ("domain=%0", "domain"),
        ("domain=", "domain"),
        ("domain=%00", "domain"),
        ("prefix=a%00", "prefix"),
        ("colour=red", "query"),
    ] {
        let refused = server.get(&format!("/v1/leases?{query}")).await.problem(400, "invalid_input");
        assert_eq!(refused["field"], field, "{query}");
    }
}

#[tokio::test]
async fn a_snapshot_is_one_read_that_says_where_it_ends() {
    let server = TestServer::start().await;
    for number in 0..3 {
        server.call("POST", "/v1/leases", opening(&format!("jobs/{number}"), number)).await;
    }
    let mut advisory = opening("jobs/advisory", 9);
    advisory["contract"] = json!("advisory");
    server.call("POST", "/v1/leases", advisory).await;
    let answer = server.get("/v1/leases/snapshot?prefix=jobs/").await;
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = answer.utf8().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines[0]["next_token"].is_string() && lines[0]["epoch"] == 0 && lines[0]["issuer"] == "test",
        "{}",
        lines[0]
    );
    assert_eq!(lines.last().unwrap(), &json!({"end": true}));
    assert_eq!(lines.len(), 5, "only leases under safety are fenced");
    let parsed = fencepost_wire::parse_snapshot(&answer.body).unwrap();
    assert!(parsed.leases.iter().all(|lease| Some(lease.token) < parsed.next_token));
}

#[tokio::test]
async fn pages_for_people_and_machines_are_there() {
    let server = TestServer::start().await;
    assert!(server.get("/").await.utf8().contains("/v1/leases"));
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);
    for code in fencepost_wire::ErrorCode::ALL {
        let page = server.get(&code.page()).await;
        assert_eq!(page.status, 200, "{code}");
        assert!(page.utf8().contains(code.fix()));
    }
    server.get("/errors/nonsense").await.problem(404, "not_found");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let server = TestServer::start().await;
    for path in ["/v2", "/v1", "/v1/leases/", "/v1/leases/../leases", "//", "/v1/sessions//heartbeat/x", "/%00"] {
        server.get(path).await.problem(404, "not_found");
    }
    let answer = server.call("PUT", "/v1/leases", json!({})).await;
    answer.problem(405, "method_not_allowed");
    let allowed = answer.header("allow").unwrap();
    assert!(allowed.contains("POST") && allowed.contains("GET"), "{allowed}");
}
