//! What the command finds in its environment. Never the session's secret.

use std::process::Command;

use fencepost_core::{Domain, Grant, Issuer, LeaseId, Moment, SessionId, Token};
use fencepost_wire::GrantJson;

use super::held::Held;

/// Everything that `run` sets. What it does not set is taken out, so that nothing of an outer lease is left.
const VARIABLES: [&str; 7] = [
    "FENCEPOST_DOMAIN",
    "FENCEPOST_TOKEN",
    "FENCEPOST_GRANT",
    "FENCEPOST_GRANTS",
    "FENCEPOST_CORRELATION",
    "FENCEPOST_URL",
    "FENCEPOST_DEADLINE",
];

/// The longest text of FENCEPOST_GRANTS: the system gives one variable 128 KiB, with its name and an end.
pub(crate) const GRANTS_BYTES: usize = 128 * 1024 - "FENCEPOST_GRANTS=".len() - 1;

/// How long FENCEPOST_GRANTS will be at the most, once these domains are granted by this issuer.
pub(crate) fn grants_bytes(domains: &[Domain], issuer: &Issuer) -> usize {
    let grant = |domain: &Domain| Grant {
        issuer: issuer.clone(),
        domain: domain.clone(),
        token: Token::MAX,
        lease: LeaseId::from_bytes([0; 16]),
        session: SessionId::from_bytes([0; 16]),
    };
    let grants: Vec<GrantJson> = domains.iter().map(|domain| GrantJson::from(&grant(domain))).collect();
    serde_json::to_string(&grants).map_or(usize::MAX, |text| text.len())
}

/// What a command under these leases finds.
pub(crate) fn of(leases: &[Held], url: &str, until: Moment) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |name: &str, value: String| found.push((name.to_owned(), value));
    add("FENCEPOST_URL", url.to_owned());
    // The clock of /proc/uptime, in seconds as there.
    let ms = until.as_millis();
    add("FENCEPOST_DEADLINE", format!("{}.{:03}", ms / 1_000, ms % 1_000));
    let grants: Vec<GrantJson> = leases.iter().filter_map(Held::grant).map(GrantJson::from).collect();
    if !grants.is_empty() {
        add("FENCEPOST_GRANTS", serde_json::to_string(&grants).expect("structs of strings are JSON"));
    }
    // One of several would be taken for the only one.
    let [lease] = leases else { return found };
    add("FENCEPOST_DOMAIN", lease.domain().to_string());
    if let Some(grant) = lease.grant() {
        add("FENCEPOST_TOKEN", grant.token.to_decimal());
        add("FENCEPOST_GRANT", GrantJson::from(grant).to_line());
    }
    if let Some(correlation) = lease.correlation() {
        add("FENCEPOST_CORRELATION", correlation.to_string());
    }
    found
}

/// Sets them for a command, and takes out the others of ours.
pub(crate) fn set(command: &mut Command, variables: Vec<(String, String)>) {
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.envs(variables);
}
