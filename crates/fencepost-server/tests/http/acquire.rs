//! Acquires that are repeated, repeated wrongly, or made on behalf of somebody else.

use serde_json::json;

use crate::support::{TestServer, opening, request_id};

#[tokio::test]
async fn a_repeated_acquire_gets_the_same_grant_and_spends_no_second_token() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let mut client = server.client().await;
    let first = client.call("POST", "/v1/leases", Some(&secret), acquire.clone()).await;
    let again = client.call("POST", "/v1/leases", Some(&secret), acquire).await;
    assert_eq!((first.status, again.status), (201, 200));
    for field in ["lease", "token", "session"] {
        assert_eq!(first.json()[field], again.json()[field], "{field}");
    }
    let next = json!({"domain": "e", "request_id": request_id(2), "session": session});
    let next = client.call("POST", "/v1/leases", Some(&secret), next).await.json();
    assert_eq!(next["sequence"].as_u64(), first.json()["sequence"].as_u64().map(|number| number + 1));
}

#[tokio::test]
async fn a_repeated_acquire_with_other_parameters_is_a_conflict() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let mut client = server.client().await;
    client.call("POST", "/v1/leases", Some(&secret), acquire.clone()).await;
    for (field, value) in [
        ("domain", json!("e")),
        ("contract", json!("advisory")),
        ("max_hold_ms", json!(5_000)),
        ("metadata", json!({"a": "b"})),
        ("renew", json!(true)),
    ] {
        let mut other = acquire.clone();
        other[field] = value;
        client.call("POST", "/v1/leases", Some(&secret), other).await.problem(422, "request_conflict");
    }
    let mut patient = acquire;
    patient["wait_ms"] = json!(5);
    assert_eq!(client.call("POST", "/v1/leases", Some(&secret), patient).await.status, 200, "all but the wait");
}

#[tokio::test]
async fn a_repeated_opening_gets_a_new_secret_and_the_old_one_dies() {
    let server = TestServer::start().await;
    let first = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let again = server.call("POST", "/v1/leases", opening("d", 1)).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(first.text("session"), again.text("session"));
    let path = format!("/v1/sessions/{}", first.text("session"));
    let mut client = server.client().await;
    let old = client.call("GET", &path, Some(&first.text("secret")), json!(null)).await;
    old.problem(401, "unauthenticated");
    assert_eq!(client.call("GET", &path, Some(&again.text("secret")), json!(null)).await.status, 200);
    let settled = server.call("POST", "/v1/leases", opening("d", 1)).await;
    assert_eq!((settled.status, &settled.json()["secret"]), (200, &json!(null)));
}

#[tokio::test]
async fn an_id_of_an_ended_hold_is_not_used_again() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let mut client = server.client().await;
    let granted = client.call("POST", "/v1/leases", Some(&secret), acquire.clone()).await;
    let release = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    client.call("POST", "/v1/leases/release", Some(&secret), release).await;
    client.call("POST", "/v1/leases", Some(&secret), acquire).await.problem(409, "hold_ended");
}

#[tokio::test]
async fn a_reentrant_acquire_gets_the_same_token_up_to_its_limit() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let mut client = server.client().await;
    let acquire = |number: u64, limit: u64| {
        json!({"domain": "d", "request_id": request_id(number), "session": session, "reentrancy_limit": limit,
               "wait_ms": 60_000})
    };
    let first = client.call("POST", "/v1/leases", Some(&secret), acquire(1, 2)).await;
    let second = client.call("POST", "/v1/leases", Some(&secret), acquire(2, 2)).await;
    assert_eq!((second.status, second.text("token")), (201, first.text("token")));
    let third = client.call("POST", "/v1/leases", Some(&secret), acquire(3, 2)).await;
    assert_eq!(third.problem(409, "reentrancy_limit")["reentrancy_limit"], 2);
    client.call("POST", "/v1/leases", Some(&secret), acquire(4, 3)).await.problem(409, "lease_mismatch");

    let release = json!({"lease": first.text("lease"), "request_id": request_id(1)});
    let released = client.call("POST", "/v1/leases/release", Some(&secret), release).await.json();
    assert_eq!(released, json!({"ended": null, "holds_left": 1}));
}

#[tokio::test]
async fn a_greater_token_can_be_forced() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let mut client = server.client().await;
    let acquire = |number: u64, renew: bool| json!({"domain": "d", "request_id": request_id(number), "session": session, "renew": renew});
    let first = client.call("POST", "/v1/leases", Some(&secret), acquire(1, false)).await;
    let renewed = client.call("POST", "/v1/leases", Some(&secret), acquire(2, true)).await;
    assert_eq!((renewed.status, renewed.text("lease")), (201, first.text("lease")));
    assert!(renewed.json()["sequence"].as_u64() > first.json()["sequence"].as_u64());
}

#[tokio::test]
async fn a_session_is_used_with_its_own_secret_only() {
    let server = TestServer::start().await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let (_, other) = server.session("worker-b", 15_000).await;
    let unknown = "1".repeat(64);
    let mut client = server.client().await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let beat = format!("/v1/sessions/{session}/heartbeat");
    for (path, body) in [("/v1/leases", acquire), (beat.as_str(), json!({"held": []}))] {
        let none = client.call("POST", path, None, body.clone()).await;
        none.problem(401, "unauthenticated");
        assert_eq!(none.header("www-authenticate"), Some("Bearer"));
        client.call("POST", path, Some(&unknown), body.clone()).await.problem(401, "unauthenticated");
        client.call("POST", path, Some("short"), body.clone()).await.problem(401, "unauthenticated");
        client.call("POST", path, Some(&other), body.clone()).await.problem(403, "not_yours");
        assert_eq!(client.call("POST", path, Some(&secret), body).await.status / 100, 2);
    }
    let nobody = format!("/v1/sessions/{}", "2".repeat(32));
    client.call("GET", &nobody, Some(&secret), json!(null)).await.problem(404, "unknown_session");
    client.call("DELETE", &nobody, None, json!(null)).await.problem(401, "unauthenticated");
}

#[tokio::test]
async fn anothers_lease_is_not_released() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let (_, other) = server.session("worker-b", 15_000).await;
    let mut client = server.client().await;
    let release = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    client.call("POST", "/v1/leases/release", None, release.clone()).await.problem(401, "unauthenticated");
    client.call("POST", "/v1/leases/release", Some(&other), release).await.problem(403, "not_yours");
    assert_eq!(server.get("/v1/leases?domain=d").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_renewal_after_the_end_is_refused_also_when_nobody_else_came() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    server.clock.advance(15_000);
    let mut client = server.client().await;
    let beat = format!("/v1/sessions/{}/heartbeat", granted.text("session"));
    let body = json!({"held": [granted.text("lease")]});
    let refused = client.call("POST", &beat, Some(&granted.text("secret")), body).await;
    assert_eq!(refused.problem(410, "session_ended")["reason"], "expired");
    let next = server.call("POST", "/v1/leases", opening("d", 2)).await.json();
    assert!(next["sequence"].as_u64() > granted.json()["sequence"].as_u64());
}

#[tokio::test]
async fn a_heartbeat_names_what_is_held_or_the_version_of_it() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let (lease, secret) = (granted.text("lease"), granted.text("secret"));
    let beat = format!("/v1/sessions/{}/heartbeat", granted.text("session"));
    let mut client = server.client().await;
    let full = client.call("POST", &beat, Some(&secret), json!({"held": [lease]})).await.json();
    assert_eq!(full["leases"][0]["lease"], lease);
    let version = full["version"].as_u64().unwrap();
    let short = client.call("POST", &beat, Some(&secret), json!({"version": version})).await.json();
    assert_eq!((&short["version"], &short["leases"]), (&json!(version), &json!(null)));
    let wrong = client.call("POST", &beat, Some(&secret), json!({"version": version + 7})).await;
    wrong.problem(409, "version_unknown");
    for body in [json!({}), json!({"held": [], "version": 1})] {
        assert_eq!(
            client.call("POST", &beat, Some(&secret), body).await.problem(400, "invalid_input")["field"],
            "held"
        );
    }
    let body = json!({"held": ["0".repeat(32)]});
    let stranger = client.call("POST", &beat, Some(&secret), body).await.json();
    assert_eq!(stranger["ended"], json!([{"lease": "0".repeat(32), "reason": null}]));
    assert_eq!(stranger["unclaimed"][0]["lease"], lease, "what was not named is not renewed, and shown");
}
