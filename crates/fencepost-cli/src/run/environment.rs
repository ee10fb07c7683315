//! What the command finds in its environment. Never the session's secret.

use std::process::Command;

use fencepost_core::Moment;
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

/// Puts the leases into a command's environment.
pub(crate) fn prepare(command: &mut Command, leases: &[Held], url: &str, until: Moment) {
    for name in VARIABLES {
        command.env_remove(name);
    }
    command.env("FENCEPOST_URL", url);
    // The clock of /proc/uptime, in seconds as there.
    let ms = until.as_millis();
    command.env("FENCEPOST_DEADLINE", format!("{}.{:03}", ms / 1_000, ms % 1_000));
    let grants: Vec<GrantJson> = leases.iter().filter_map(Held::grant).map(GrantJson::from).collect();
    if !grants.is_empty() {
        command.env("FENCEPOST_GRANTS", serde_json::to_string(&grants).expect("structs of strings are JSON"));
    }
    // One of several would be taken for the only one.
    let [lease] = leases else { return };
    command.env("FENCEPOST_DOMAIN", lease.domain().as_str());
    if let Some(grant) = lease.grant() {
        command.env("FENCEPOST_TOKEN", grant.token.to_decimal());
        command.env("FENCEPOST_GRANT", GrantJson::from(grant).to_line());
    }
    if let Some(correlation) = lease.correlation() {
        command.env("FENCEPOST_CORRELATION", correlation.as_str());
    }
}
