//! Many sessions end in the same moment: the healthy ones notice nothing, and every view of a lease is the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Client, TestServer, request_id};

async fn domains(client: &mut Client) -> BTreeSet<(String, String)> {
    let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/v1/leases?limit=1000{cursor}");
        let page = client.call("GET", &path, None, Value::Null).await.json();
        for row in page["items"].as_array().unwrap() {
            seen.insert((row["domain"].as_str().unwrap().to_owned(), row["lease"].as_str().unwrap().to_owned()));
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return seen,
        }
    }
}

#[tokio::test]
async fn healthy_holders_keep_what_they_hold_and_the_rest_is_gone_everywhere() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let mut number = 0;
    let mut sessions = Vec::new();
    for (kind, ttl_ms, leases) in [("healthy", 5_000, 2), ("dead", 4_000, 40)] {
        for holder in 0..40 {
            let (session, secret) = server.session(kind, ttl_ms).await;
            let mut held = Vec::new();
            for lease in 0..leases {
                number += 1;
                let domain = format!("{kind}/{holder}/{lease}");
                let body = json!({"domain": domain, "request_id": request_id(number), "session": session});
                held.push(client.call("POST", "/v1/leases", Some(&secret), body).await.text("lease"));
            }
            if kind == "healthy" {
                sessions.push((session, secret, held));
            }
        }
    }
    assert_eq!(domains(&mut client).await.len(), 40 * 42);
    for _ in 0..3 {
        server.clock.advance(1_500);
        for (session, secret, held) in &sessions {
            let path = format!("/v1/sessions/{session}/heartbeat");
            let renewed = client.call("POST", &path, Some(secret), json!({"held": held})).await;
            assert_eq!(renewed.status, 200);
            assert_eq!(renewed.json()["leases"].as_array().unwrap().len(), 2, "nobody healthy loses anything");
        }
    }
    let left = domains(&mut client).await;
    assert_eq!(left.len(), 80);
    assert!(left.iter().all(|(domain, _)| domain.starts_with("healthy/")));
    assert_eq!(server.get("/healthz").await.status, 200);
    let snapshot = server.get("/v1/leases/snapshot").await;
    let snapshot = fencepost_wire::parse_snapshot(&snapshot.body).unwrap();
    let seen: BTreeSet<&str> = snapshot.leases.iter().map(|lease| lease.domain.as_str()).collect();
    assert_eq!(seen, left.iter().map(|(domain, _)| domain.as_str()).collect());
    for (domain, lease) in &left {
        let body = json!({"lease": lease, "reason": "test"});
        let broken = client.call("POST", "/v1/leases/break", None, body).await;
        assert_eq!((broken.status, broken.text("domain")), (200, domain.clone()), "what is listed can be broken");
    }
    assert!(domains(&mut client).await.is_empty());
}
