//! Answers that are lost, requests that come twice, and copies that come late.

use fencepost_testkit::proxy::{Fault, Proxy, Rule};
use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer, opening, request_id};

/// One call through the proxy; `None` when the connection ends instead of an answer.
async fn through(proxy: &Proxy, path: &str, secret: Option<&str>, body: &Value) -> Option<Answer> {
    let mut client = Client::connect(proxy.address()).await;
    client.write_call("POST", path, secret, body.to_string().as_bytes()).await;
    client.answer().await
}

async fn proxy(server: &TestServer, rules: Vec<Rule>) -> Proxy {
    Proxy::start(server.address, rules).await.unwrap()
}

#[tokio::test]
async fn a_lost_grant_is_found_again_by_its_request_id() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases", 1, Fault::DropReply)]).await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    assert!(through(&proxy, "/v1/leases", Some(&secret), &acquire).await.is_none(), "the answer is lost");
    let listed = server.get("/v1/leases?domain=d").await.json();
    let again = through(&proxy, "/v1/leases", Some(&secret), &acquire).await.unwrap();
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["lease"], listed["items"][0]["lease"]);
    assert_eq!(again.json()["token"], listed["items"][0]["token"]);
}

#[tokio::test]
async fn a_lost_grant_that_nobody_asks_for_again_ends_by_itself() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases", 1, Fault::DropReply)]).await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    assert!(through(&proxy, "/v1/leases", Some(&secret), &acquire).await.is_none());
    let beat = format!("/v1/sessions/{session}/heartbeat");
    let mut client = server.client().await;
    for _ in 0..3 {
        server.clock.advance(5_000);
        let renewed = client.call("POST", &beat, Some(&secret), json!({"held": []})).await;
        assert_eq!(renewed.status, 200, "the session lives on");
    }
    let next = server.call("POST", "/v1/leases", opening("d", 2)).await;
    assert_eq!(next.status, 201, "heartbeats of the session did not renew what they did not name");
}

#[tokio::test]
async fn a_lost_opening_is_retried_by_its_request_id_with_a_new_secret() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases", 1, Fault::DropReply)]).await;
    let acquire = opening("d", 1);
    assert!(through(&proxy, "/v1/leases", None, &acquire).await.is_none());
    let again = through(&proxy, "/v1/leases", None, &acquire).await.unwrap();
    assert_eq!(again.status, 200);
    let release = json!({"lease": again.text("lease"), "request_id": request_id(1)});
    let secret = again.text("secret");
    let released = through(&proxy, "/v1/leases/release", Some(&secret), &release).await.unwrap();
    assert_eq!(released.status, 200);
}

#[tokio::test]
async fn a_lost_release_gets_the_recorded_answer() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases/release", 1, Fault::DropReply)]).await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let (secret, lease) = (granted.text("secret"), granted.text("lease"));
    let release = json!({"lease": lease, "request_id": request_id(1)});
    assert!(through(&proxy, "/v1/leases/release", Some(&secret), &release).await.is_none());
    let successor = server.call("POST", "/v1/leases", opening("d", 2)).await;
    assert_eq!(successor.status, 201, "the release had happened");
    let again = through(&proxy, "/v1/leases/release", Some(&secret), &release).await.unwrap();
    assert_eq!(again.json(), json!({"ended": "released", "holds_left": 0}));
    let listed = server.get("/v1/leases?domain=d").await.json();
    assert_eq!(listed["items"][0]["lease"], successor.json()["lease"], "the successor is not touched");
}

#[tokio::test]
async fn a_lost_heartbeat_is_sent_again() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    let beat = format!("/v1/sessions/{}/heartbeat", granted.text("session"));
    let proxy =
        proxy(&server, vec![Rule::on(&beat, 1, Fault::DropReply), Rule::on(&beat, 3, Fault::DropRequest)]).await;
    let (secret, held) = (granted.text("secret"), json!({"held": [granted.text("lease")]}));
    assert!(through(&proxy, &beat, Some(&secret), &held).await.is_none());
    let again = through(&proxy, &beat, Some(&secret), &held).await.unwrap().json();
    assert_eq!(again["leases"][0]["lease"], granted.json()["lease"]);
    let version = json!({"version": again["version"]});
    assert!(through(&proxy, &beat, Some(&secret), &version).await.is_none());
    assert_eq!(through(&proxy, &beat, Some(&secret), &version).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_request_that_comes_twice_has_one_effect() {
    let server = TestServer::start().await;
    let rules =
        ["/v1/leases", "/v1/leases/release", "/v1/leases/break"].map(|path| Rule::on(path, 1, Fault::RepeatRequest));
    let proxy = proxy(&server, rules.into()).await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let granted = through(&proxy, "/v1/leases", Some(&secret), &acquire).await.unwrap();
    assert_eq!(granted.status, 201);
    let release = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    let released = through(&proxy, "/v1/leases/release", Some(&secret), &release).await.unwrap();
    assert_eq!(released.json(), json!({"ended": "released", "holds_left": 0}));
    let second = server.call("POST", "/v1/leases", opening("d", 2)).await;
    assert_eq!(second.json()["sequence"].as_u64(), granted.json()["sequence"].as_u64().map(|number| number + 1));
    let body = json!({"lease": second.text("lease"), "reason": "stuck"});
    let broken = through(&proxy, "/v1/leases/break", None, &body).await.unwrap().json();
    let third = server.call("POST", "/v1/leases", opening("d", 3)).await.json();
    let number = |token: &Value| token.as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&third["token"]), number(&broken["fence_to"]) + 1, "one token was burned");
}

#[tokio::test]
async fn a_late_copy_of_an_acquire_makes_no_phantom() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases", 1, Fault::KeepCopy)]).await;
    let (session, secret) = server.session("worker-a", 15_000).await;
    let acquire = json!({"domain": "d", "request_id": request_id(1), "session": session});
    let granted = through(&proxy, "/v1/leases", Some(&secret), &acquire).await.unwrap();
    let release = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    server.client().await.call("POST", "/v1/leases/release", Some(&secret), release).await;
    assert_eq!(proxy.deliver_copies().await.unwrap(), [409], "hold_ended");
    assert_eq!(server.call("POST", "/v1/leases", opening("d", 2)).await.status, 201, "nobody holds it");
}

#[tokio::test]
async fn half_a_request_has_no_effect() {
    let server = TestServer::start().await;
    let proxy = proxy(&server, vec![Rule::on("/v1/leases", 1, Fault::CutRequest)]).await;
    assert!(through(&proxy, "/v1/leases", None, &opening("d", 1)).await.is_none());
    assert_eq!(server.get("/v1/leases").await.json()["items"], json!([]));
    assert_eq!(through(&proxy, "/v1/leases", None, &opening("d", 1)).await.unwrap().status, 201);
}
