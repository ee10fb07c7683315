//! Names and numbers at and past their limits: kept byte for byte, or refused with field, rule and limit.

use serde_json::{Value, json};

use crate::support::{TestServer, opening, request_id};

const ODD: [&str; 14] = [
    "a",
    "🦀",
    "/",
    "..",
    "../../etc/passwd",
    "%2F",
    "?",
    "#",
    ":{}",
    "'; drop table leases;--",
    "\"",
    "\\",
    " ",
    "e\u{301}",
];

#[tokio::test]
async fn odd_names_are_kept_byte_for_byte_and_never_meet() {
    let server = TestServer::start().await;
    let longest = "x".repeat(512);
    for (number, name) in ODD.into_iter().chain([longest.as_str(), "é"]).enumerate() {
        let granted = server.call("POST", "/v1/leases", opening(name, number as u64)).await;
        assert_eq!(granted.status, 201, "{name:?}: two names never meet in one key");
        assert_eq!(granted.text("domain"), name);
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let listed = server.get(&format!("/v1/leases?domain={escaped}")).await.json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{name:?}");
        assert_eq!(listed["items"][0]["domain"], name);
    }
}

#[tokio::test]
async fn holders_and_metadata_are_kept_byte_for_byte() {
    let server = TestServer::start().await;
    for (number, name) in ODD.into_iter().enumerate() {
        let mut acquire = opening(&format!("d{number}"), number as u64);
        acquire["holder"] = json!(name);
        acquire["metadata"] = json!({name: format!("with {name}")});
        assert_eq!(server.call("POST", "/v1/leases", acquire).await.status, 201, "{name:?}");
        let listed = server.get(&format!("/v1/leases?domain=d{number}")).await.json();
        assert_eq!(listed["items"][0]["holder"], name);
        assert_eq!(listed["items"][0]["metadata"], json!({name: format!("with {name}")}));
    }
}

#[tokio::test]
async fn names_past_their_limits_are_refused_in_the_words_of_the_library() {
    let server = TestServer::start().await;
    let too_long = "é".repeat(257);
    for domain in ["", "a\0b", "a\nb", "\u{7f}", "\u{85}", &"x".repeat(513), &too_long, &"x".repeat(60_000)] {
        let refused = server.call("POST", "/v1/leases", opening(domain, 1)).await.problem(400, "invalid_input");
        let library = fencepost_core::Domain::new(domain).unwrap_err().to_string();
        assert_eq!((&refused["field"], &refused["detail"]), (&json!("domain"), &json!(library)));
    }
    for holder in ["", "a\0b", &"x".repeat(257)] {
        let body = json!({"holder": holder, "ttl_ms": 1_000});
        let refused = server.call("POST", "/v1/sessions", body).await.problem(400, "invalid_input");
        let library = fencepost_core::Holder::new(holder).unwrap_err().to_string();
        assert_eq!((&refused["field"], &refused["detail"]), (&json!("holder"), &json!(library)));
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused_and_name_the_field() {
    let server = TestServer::start().await;
    let id = request_id(1);
    let with = |domain: &[u8]| {
        let mut body = format!(r#"{{"request_id":"{id}","holder":"w","ttl_ms":1000,"domain":""#).into_bytes();
        body.extend_from_slice(domain);
        body.extend_from_slice(b"\"}");
        body
    };
    let mut client = server.client().await;
    for wrong in [
        &b"\xff\xfe"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        br"\ud800",
        br"\udc00",
        br"\ud800\u0041",
        br"\ud800x",
        br"\u12",
        br"\x41",
        b"a\nb",
    ] {
        let refused = client.call_bytes("POST", "/v1/leases", None, &with(wrong)).await;
        let refused = refused.problem(400, "invalid_input");
        assert_eq!(refused["field"], "domain", "{wrong:?}: {refused}");
    }
    let paired = client.call_bytes("POST", "/v1/leases", None, &with(br"\ud83e\udd80")).await;
    assert_eq!((paired.status, paired.text("domain")), (201, "🦀".to_owned()));
}

#[tokio::test]
async fn numbers_are_whole_and_within_their_limits_or_refused() {
    let server = TestServer::start().await;
    let mut number = 0;
    for (field, least, most) in [
        ("ttl_ms", 1_000_u64, 86_400_000_u64),
        ("wait_ms", 0, 600_000),
        ("max_hold_ms", 1_000, 366 * 86_400_000),
        ("min_hold_ms", 0, 366 * 86_400_000),
        ("lock_delay_ms", 0, 366 * 86_400_000),
        ("reentrancy_limit", 1, 1_000),
    ] {
        for good in [least, most] {
            number += 1;
            let mut body = opening(&format!("{field}{good}"), number);
            body[field] = json!(good);
            assert_eq!(server.call("POST", "/v1/leases", body).await.status, 201, "{field} {good}");
        }
        let mut wrong =
            vec![json!(most + 1), json!(u64::MAX), json!(-1), json!(1e3), json!(1.5), json!("1000"), json!({})];
        if least > 0 {
            wrong.extend([json!(least - 1), json!(0)]);
        }
        for value in wrong {
            number += 1;
            let mut body = opening("d", number);
            body[field] = value.clone();
            let refused = server.call("POST", "/v1/leases", body).await.problem(400, "invalid_input");
            assert_eq!(refused["field"], field, "{value}");
        }
    }
    let huge = format!(r#"{{"holder":"w","ttl_ms":1{}}}"#, "0".repeat(400));
    let refused = server.client().await.call_bytes("POST", "/v1/sessions", None, huge.as_bytes()).await;
    refused.problem(400, "invalid_input");
}

#[tokio::test]
async fn ids_are_32_lower_case_hex_digits_and_nothing_else() {
    let server = TestServer::start().await;
    for wrong in [
        "",
        "1",
        "00112233445566778899AABBCCDDEEFF",
        "00112233-4455-6677-8899-aabbccddeeff",
        "g0112233445566778899aabbccddeeff",
    ] {
        let mut body = opening("d", 1);
        body["request_id"] = json!(wrong);
        let refused = server.call("POST", "/v1/leases", body).await.problem(400, "invalid_input");
        assert_eq!(refused["field"], "request_id", "{wrong}");
        let body = json!({"lease": wrong, "reason": "r"});
        let refused = server.call("POST", "/v1/leases/break", body).await.problem(400, "invalid_input");
        assert_eq!(refused["field"], "lease", "{wrong}");
    }
    let secret = "1".repeat(64);
    let mut client = server.client().await;
    for wrong in ["x", "%2e%2e", &"0".repeat(31), "%FF"] {
        let answer = client.call("GET", &format!("/v1/sessions/{wrong}"), Some(&secret), json!(null)).await;
        assert_eq!(answer.problem(400, "invalid_input")["field"], "session", "{wrong}");
    }
}

#[tokio::test]
async fn fields_are_known_given_once_and_of_their_type() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let id = request_id(1);
    for (body, field) in [
        (format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000,"ttl":5}}"#), "ttl"),
        (format!(r#"{{"domain":"d","domain":"e","request_id":"{id}","holder":"w","ttl_ms":1000}}"#), "domain"),
        (format!(r#"{{"request_id":"{id}","holder":"w","ttl_ms":1000}}"#), "domain"),
        (format!(r#"{{"domain":7,"request_id":"{id}","holder":"w","ttl_ms":1000}}"#), "domain"),
        (
            format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000,"metadata":{{"a":1}}}}"#),
            "metadata",
        ),
        (format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000,"metadata":"a"}}"#), "metadata"),
        (format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000,"contract":"Safety"}}"#), "contract"),
        (format!(r#"{{"domain":"d","request_id":"{id}","holder":"w"}}"#), "ttl_ms"),
        (format!(r#"{{"domain":"d","request_id":"{id}","ttl_ms":1000}}"#), "holder"),
        (format!(r#"{{"domain":"d","request_id":"{id}"}}"#), "session"),
        (format!(r#"{{"domain":"d","request_id":"{id}","session":"{id}","holder":"w","ttl_ms":1000}}"#), "session"),
        ("[]".to_owned(), "body"),
        (format!(r#"["d","{id}",null,"w",1000]"#), "body"),
        ("null".to_owned(), "body"),
        (String::new(), "body"),
        ("{".to_owned(), "body"),
        (format!(r#"{{"domain":"d","request_id":"{id}","holder":"w","ttl_ms":1000}} x"#), "body"),
        ("[".repeat(60_000), "body"),
    ] {
        let refused = client.call_bytes("POST", "/v1/leases", None, body.as_bytes()).await;
        let refused = refused.problem(400, "invalid_input");
        assert_eq!(refused["field"], field, "{:.200}: {refused}", body);
        assert_eq!(refused["retryable"], false);
    }
    assert_eq!(server.get("/v1/leases").await.json()["items"], Value::Array(Vec::new()), "nothing was granted");
}

/// What the parser finds is told in the words of the API, never in those of the program's types.
#[tokio::test]
async fn values_of_the_wrong_kind_are_refused_with_field_rule_and_limit() {
    let server = TestServer::start().await;
    let whole = "must be a whole number from";
    for (field, value, rule) in [
        ("ttl_ms", json!("15s"), format!("ttl_ms: {whole} 1000 to 86400000 ms, found string \"15s\"")),
        ("ttl_ms", json!(-1), format!("ttl_ms: {whole} 1000 to 86400000 ms, found integer `-1`")),
        ("wait_ms", json!(1.5), format!("wait_ms: {whole} 0 to 600000 ms, found floating point `1.5`")),
        ("max_hold_ms", json!(true), format!("max_hold_ms: {whole} 1000 to 31622400000 ms, found boolean `true`")),
        ("reentrancy_limit", json!([1]), format!("reentrancy_limit: {whole} 1 to 1000 holds, found sequence")),
        ("domain", json!(7), "domain: must be a string, found integer `7`".to_owned()),
        ("renew", json!("yes"), "renew: must be a boolean, found string \"yes\"".to_owned()),
    ] {
        let mut body = opening("d", 1);
        body[field] = value;
        let refused = server.call("POST", "/v1/leases", body).await.problem(400, "invalid_input");
        assert_eq!((&refused["field"], &refused["detail"]), (&json!(field), &json!(rule)));
    }
    let (session, secret) = server.session("w", 60_000).await;
    let path = format!("/v1/sessions/{session}/heartbeat");
    for (body, rule) in [
        (json!({"held": "all"}), "held: must be a list, found string \"all\""),
        (json!({"version": -1}), "version: must be a whole number, not negative, found integer `-1`"),
    ] {
        let refused = server.client().await.call("POST", &path, Some(&secret), body).await;
        assert_eq!(refused.problem(400, "invalid_input")["detail"], rule);
    }
}
