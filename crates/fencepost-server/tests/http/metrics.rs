//! `/metrics`: names that outsiders rely on, and series that do not grow with what users name.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::{Domain, OperationId, fence::Rejection};
use serde_json::json;

use crate::support::{TestServer, opening, request_id};

/// One sample line of the OpenMetrics text.
#[derive(Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Name and kind of each family, with what its HELP says.
type Families = BTreeMap<String, String>;

/// Reads the format and nothing laxer: every line is a known comment or a whole sample of a declared family.
fn parse(text: &str) -> (Families, Vec<Sample>) {
    let (mut families, mut samples, mut ended) = (Families::new(), Vec::new(), false);
    let mut help = BTreeMap::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        assert!(!ended, "a line behind the end: {line}");
        if line == "# EOF" {
            ended = true;
        } else if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            assert!(["HELP", "TYPE", "UNIT"].contains(&kind) && !value.is_empty(), "{line}");
            match kind {
                "HELP" => drop(help.insert(name, value)),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&value), "{line}");
                    let help = help.get(name).expect("HELP stands before TYPE").to_string();
                    assert!(families.insert(format!("{name} {value}"), help).is_none(), "declared twice: {line}");
                }
                _ => {}
            }
        } else {
            samples.push(parse_sample(line));
        }
    }
    assert!(ended, "the end is missing");
    (families, samples)
}

fn parse_sample(line: &str) -> Sample {
    let (head, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
        None => (head, ""),
    };
    assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
    let label = |pair: &str| {
        let (name, value) = pair.split_once("=\"").unwrap();
        let value = value.strip_suffix('"').unwrap();
        assert!(value.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c)), "a name of ours: {line}");
        (name.to_owned(), value.to_owned())
    };
    let labels = labels.split(',').filter(|pair| !pair.is_empty()).map(label).collect();
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("{line}")) }
}

fn value(samples: &[Sample], name: &str, label: (&str, &str)) -> f64 {
    let has = |sample: &&Sample| sample.labels.iter().any(|(name, value)| (name.as_str(), value.as_str()) == label);
    samples.iter().filter(|sample| sample.name == name).filter(has).map(|sample| sample.value).sum()
}

async fn scrape(server: &TestServer) -> (Families, Vec<Sample>) {
    let answer = server.get("/metrics").await;
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text; version=1.0.0"));
    parse(answer.utf8())
}

/// The label names of a family's samples.
fn labels(family: &str, samples: &[Sample]) -> String {
    let name = family.split(' ').next().unwrap();
    let of_family = samples.iter().filter(|sample| sample.name.starts_with(name));
    let names: BTreeSet<&str> = of_family.flat_map(|sample| &sample.labels).map(|(name, _)| name.as_str()).collect();
    format!("{{{}}}", names.into_iter().collect::<Vec<_>>().join(","))
}

#[tokio::test]
async fn the_names_are_those_that_outsiders_rely_on() {
    let server = TestServer::start().await;
    scrape(&server).await;
    let (families, samples) = scrape(&server).await;
    let line = |(family, help): (&String, &String)| format!("{family} {}: {help}\n", labels(family, &samples));
    let names: String = families.iter().map(line).collect();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/metrics.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, &names).unwrap();
    }
    assert_eq!(names, std::fs::read_to_string(golden).unwrap(), "UPDATE_GOLDEN=1 rewrites {golden}");
}

/// A rate needs the zero before the first one: a series that begins with 1 has not risen.
#[tokio::test]
async fn every_reason_of_a_rejection_stands_at_zero_before_the_first() {
    let (_, samples) = scrape(&TestServer::start().await).await;
    let zeros = samples.iter().filter(|sample| sample.name == "fencepost_rejections_total" && sample.value == 0.0);
    let reasons: BTreeSet<&str> = zeros.map(|sample| sample.labels[0].1.as_str()).collect();
    assert_eq!(reasons, Rejection::CODES.into());
}

#[tokio::test]
async fn what_happens_is_told_apart() {
    let server = TestServer::start().await;
    let granted = server.call("POST", "/v1/leases", opening("d", 1)).await;
    server.call("POST", "/v1/leases", opening("d", 1)).await;
    server.call("POST", "/v1/leases", opening("d", 2)).await;
    server.clock.advance(15_000);
    let beat = format!("/v1/sessions/{}/heartbeat", granted.text("session"));
    server.client().await.call("POST", &beat, Some(&"1".repeat(64)), json!({"held": []})).await;
    let second = server.call("POST", "/v1/leases", opening("d", 3)).await;
    server.call("POST", "/v1/leases/break", json!({"lease": second.text("lease"), "reason": "stuck"})).await;
    let late = format!("/v1/sessions/{}/heartbeat", second.text("session"));
    let held = json!({"held": [second.text("lease")]});
    server.client().await.call("POST", &late, Some(&second.text("secret")), held).await;
    server.metrics.rejected(&Domain::new("d").unwrap(), &Rejection::Missing, None, None);
    let failed = json!({"domain": "d", "lease": second.text("lease")});
    assert_eq!(server.call("POST", "/v1/reports/work-failed", failed).await.status, 204);
    let rejected = json!({"domain": "d", "rejected": "stale", "presented": "7", "least_accepted": "8"});
    assert_eq!(server.call("POST", "/v1/reports/rejected", rejected).await.status, 204);

    // The losses come through the stream of events, a moment later.
    let samples = loop {
        let (_, samples) = scrape(&server).await;
        if value(&samples, "fencepost_losses_total", ("reason", "revoked")) == 1.0 {
            break samples;
        }
    };
    for (name, label, expected) in [
        ("fencepost_acquires_total", ("outcome", "granted"), 2.0),
        ("fencepost_acquires_total", ("outcome", "again"), 1.0),
        ("fencepost_acquires_total", ("outcome", "held"), 1.0),
        ("fencepost_losses_total", ("reason", "expired"), 1.0),
        ("fencepost_renewal_failures_total", ("reason", "unauthenticated"), 1.0),
        ("fencepost_renewal_failures_total", ("reason", "revoked"), 1.0),
        ("fencepost_rejections_total", ("reason", "missing"), 1.0),
        ("fencepost_rejections_total", ("reason", "stale"), 1.0),
        ("fencepost_http_requests_total", ("route", "leases_acquire"), 4.0),
        ("fencepost_wait_seconds_count", ("contract", "safety"), 2.0),
    ] {
        assert_eq!(value(&samples, name, label), expected, "{name} {label:?}");
    }
    let plain = |name: &str| samples.iter().find(|sample| sample.name == name).map(|sample| sample.value);
    assert_eq!(plain("fencepost_work_failures_total"), Some(1.0));
    assert_eq!(plain("fencepost_leases"), Some(0.0));
    assert!(plain("fencepost_commit_seconds_count").unwrap() >= 3.0);
}

#[tokio::test]
async fn what_is_there_now_is_shown_and_is_gone_when_it_ends() {
    let server = TestServer::start().await;
    let shown = async || {
        let (_, samples) = scrape(&server).await;
        ["leases", "sessions", "waiting"].map(|name| {
            let name = format!("fencepost_{name}");
            samples.iter().find(|sample| sample.name == name).map(|sample| sample.value as u64)
        })
    };
    assert_eq!(shown().await, [Some(0); 3]);
    let held = server.call("POST", "/v1/leases", opening("d", 1)).await;
    server.session("idle", 15_000).await;
    let mut patient = opening("d", 2);
    patient["wait_ms"] = json!(60_000);
    let mut waiter = server.client().await;
    waiter.write_call("POST", "/v1/leases", None, patient.to_string().as_bytes()).await;
    server.until_waiting(1).await;
    assert_eq!(shown().await, [Some(1), Some(2), Some(1)]);
    let release = json!({"lease": held.text("lease"), "request_id": request_id(1)});
    server.client().await.call("POST", "/v1/leases/release", Some(&held.text("secret")), release).await;
    assert_eq!(waiter.answer().await.unwrap().status, 201);
    assert_eq!(shown().await, [Some(1), Some(3), Some(0)]);
    server.clock.advance(15_000);
    assert_eq!(shown().await, [Some(0); 3]);
}

#[tokio::test]
async fn series_do_not_grow_with_domains_holders_and_ids() {
    let server = TestServer::start().await;
    let load = async |from: u64, count: u64| {
        let mut client = server.client().await;
        for number in from..from + count {
            let mut acquire = opening(&format!("\"quoted\"\\\\n\\{{d={number}}}"), number);
            acquire["holder"] = json!(format!("holder \"{number}\""));
            acquire["ttl_ms"] = json!(1_000);
            assert_eq!(client.call("POST", "/v1/leases", None, acquire).await.status, 201);
            let operation = OperationId::new(&format!("operation-{number}")).unwrap();
            let domain = Domain::new(&format!("d-{number}")).unwrap();
            server.metrics.rejected(&domain, &Rejection::Missing, None, Some(&operation));
            let report = json!({"domain": domain.as_str(), "rejected": format!("reason-{number}")});
            client.call("POST", "/v1/reports/rejected", None, report).await.problem(400, "invalid_input");
            server.get(&format!("/v1/unknown/{number}")).await;
        }
        let (_, samples) = scrape(&server).await;
        samples.into_iter().map(|sample| (sample.name, sample.labels)).collect::<Vec<_>>()
    };
    let _ = load(0, 10).await;
    let few = load(100, 10).await;
    let many = load(200, 2_000).await;
    assert_eq!(few.len(), many.len());
    server.clock.advance(1_000);
    let after = load(3_000, 1).await;
    assert_eq!(many.len(), after.len());
}
