//! The queue and the history, as programs read them.

use serde_json::json;

use crate::support::{TestServer, opening, request_id};

#[tokio::test]
async fn the_queue_names_who_waits_and_the_history_what_happened() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("a&b", 1)).await;
    let mut waiting = opening("a&b", 2);
    waiting["wait_ms"] = json!(60_000);
    waiting["holder"] = json!("worker-b");
    let mut waiter = server.client().await;
    let body = serde_json::to_string(&waiting).unwrap();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    waiter.write(format!("{head}{body}").as_bytes()).await;
    server.until_waiting(1).await;
    server.clock.advance(1_500);
    let queue = server.get("/v1/queue?domain=a%26b").await;
    assert_eq!(
        queue.json(),
        json!({
            "items": [{"holder": "worker-b", "waited_ms": 1_500, "remaining_ms": 58_500, "connected": true}],
            "next_cursor": null, "domain": "a&b", "waiting": 1, "connected": 1,
        })
    );

    let release = json!({"lease": granted.text("lease"), "request_id": request_id(1)});
    server.client().await.call("POST", "/v1/leases/release", Some(&granted.text("secret")), release).await;
    let first = server.get("/v1/history?domain=a%26b&limit=2").await.json();
    let names = |page: &serde_json::Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["event"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        names(&first),
        ["granted", "released"],
        "the hand-over is told in the order of the commits, newest first"
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = server.get(&format!("/v1/history?domain=a%26b&cursor={cursor}")).await.json();
    assert_eq!(names(&rest), ["granted"]);
    assert!(rest["items"][0]["at"].is_string() && rest["items"][0].get("waited_ms").is_none(), "{rest}");
    assert!(rest["next_cursor"].is_null());
}

#[tokio::test]
async fn what_breaks_a_rule_is_refused_with_its_field() {
    let server = TestServer::start().await;
    for (path, field) in [
        ("/v1/queue", "domain"),
        ("/v1/queue?domain=", "domain"),
        ("/v1/queue?domain=d&limit=0", "limit"),
        ("/v1/queue?prefix=d", "query"),
        ("/v1/history?domain=d&prefix=d", "domain"),
        ("/v1/history?limit=1001", "limit"),
        ("/v1/history?cursor=d161", "cursor"),
        ("/v1/history?token=0", "token"),
        ("/v1/history?domain=%ff", "domain"),
        ("/v1/history?since=1", "query"),
    ] {
        let refused = server.get(path).await;
        assert_eq!((refused.status, refused.json()["field"].as_str()), (400, Some(field)), "{path}");
    }
}
