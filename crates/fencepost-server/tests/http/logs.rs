//! One structured line for every loss and every rejection, and no secret in any.

use std::{
    io,
    sync::{Arc, Mutex},
};

use fencepost_core::{Domain, LeaseId, Token, fence::Rejection};
use serde_json::{Value, json};
use tracing::{Level, instrument::WithSubscriber as _};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{TestServer, opening};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn of(&self, target: &str) -> Vec<Value> {
        let lines = self.text();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == target).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

async fn until_lost(lines: &Lines, count: usize) -> Vec<Value> {
    let lost = async {
        loop {
            let lost = lines.of("fencepost::lost");
            if lost.len() >= count {
                return lost;
            }
            // bounded: the surrounding timeout ends it
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, lost).await.expect("every loss is logged")
}

#[test]
fn losses_and_rejections_are_lines_that_a_machine_can_read() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_max_level(Level::TRACE)
        .with_writer(lines.clone())
        .finish();
    // The subscriber is this thread's, and everything runs on it.
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(scenario(lines).with_current_subscriber());
}

async fn scenario(lines: Lines) {
    let server = TestServer::start().await;
    let mut acquire = opening("two\u{2028}lines \"d\"", 1);
    acquire["holder"] = json!("worker \"a\"");
    let expired = server.call("POST", "/v1/leases", acquire).await;
    server.clock.advance(15_000);
    until_lost(&lines, 1).await;
    let broken = server.call("POST", "/v1/leases", opening("d", 2)).await;
    let body = json!({"lease": broken.text("lease"), "reason": "stuck"});
    let fence_to = server.call("POST", "/v1/leases/break", body).await.text("fence_to");

    let lost = until_lost(&lines, 2).await;
    assert_eq!(lost.len(), 2, "one line each");
    assert_eq!(lost[0]["reason"], "expired");
    assert_eq!(lost[0]["domain"], "two\u{2028}lines \"d\"");
    assert_eq!(lost[0]["lease"], expired.json()["lease"]);
    assert_eq!(lost[1]["reason"], "revoked");
    assert_eq!(lost[1]["because"], "stuck");
    let written = fence_to.parse::<Token>().unwrap().to_string();
    assert_eq!(lost[1]["least_accepted"], written, "tokens as people read them");

    // What a receiver in this process refuses it has logged itself; what is reported from another one is logged here.
    let lease = LeaseId::from_bytes([1; 16]);
    server.metrics.rejected(&Domain::new("d").unwrap(), &Rejection::Missing, Some(lease), None);
    let stale = |presented: &str| {
        let tokens = [presented, "0.8"].map(|token| token.parse::<Token>().unwrap().as_u64().to_string());
        json!({"domain": "d", "rejected": "stale", "presented": tokens[0], "least_accepted": tokens[1],
               "lease": lease.to_string(), "operation": "invoice-1"})
    };
    assert_eq!(server.call("POST", "/v1/reports/rejected", stale("0.7")).await.status, 204);
    let rejected = lines.of("fencepost::rejected");
    assert_eq!(rejected.len(), 1, "one line for one rejection");
    for (field, value) in [
        ("domain", "d"),
        ("reason", "stale"),
        ("token", "0.7"),
        ("least_accepted", "0.8"),
        ("lease", &lease.to_string()),
        ("operation", "invoice-1"),
    ] {
        assert_eq!(rejected[0][field], value, "{field}");
    }

    for secret in [expired.text("secret"), broken.text("secret")] {
        assert!(!lines.text().contains(&secret), "a secret is in the log");
    }
}
