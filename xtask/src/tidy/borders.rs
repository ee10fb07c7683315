//! Borders between crates: what keeps the safety argument short.
//!
//! The core depends on no runtime, clock or random source. A receiver never asks anybody: only a grant and an
//! operation cross to it, so it sees neither client nor wire nor coordinator nor server. The client never sees a
//! receiver's driver. Composition happens in `fencepost`.

use serde_json::Value;

use super::Finding;

/// What the core may depend on: data, digests, error types.
const CORE: &[&str] = &["rustc-hash", "serde", "sha2", "thiserror"];

/// Which crates of this workspace a crate may name in its code.
enum Sees {
    Only(&'static [&'static str]),
    /// Where the two sides meet, or nothing that ships.
    Everything,
}

/// A crate that is not listed is a finding: a new crate comes with the decision on which side it stands.
fn sees(name: &str) -> Option<Sees> {
    Some(match name {
        "fencepost-core" => Sees::Only(&[]),
        "fencepost-receiver" => Sees::Only(&["fencepost-core"]),
        "fencepost-sql" => Sees::Only(&["fencepost-core", "fencepost-receiver"]),
        "fencepost-rusqlite" | "fencepost-sqlx" | "fencepost-tokio-postgres" | "fencepost-mysql-async" => {
            Sees::Only(&["fencepost-core", "fencepost-receiver", "fencepost-sql"])
        }
        "fencepost-redis" | "fencepost-object-store" | "fencepost-tower" => {
            Sees::Only(&["fencepost-core", "fencepost-receiver"])
        }
        "fencepost-coordinator" => Sees::Only(&["fencepost-core"]),
        // The wire carries the coordinator's calls, and of the receivers the verdict codes and header names only.
        "fencepost-wire" => Sees::Only(&["fencepost-core", "fencepost-coordinator", "fencepost-receiver"]),
        "fencepost-client" | "fencepost-server" => {
            Sees::Only(&["fencepost-core", "fencepost-wire", "fencepost-coordinator"])
        }
        "fencepost" | "fencepost-cli" | "fencepost-testkit" | "xtask" => Sees::Everything,
        _ => return None,
    })
}

pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages: Vec<Package> = metadata["packages"].as_array().into_iter().flatten().map(Package::from).collect();
    let members: Vec<&str> = packages.iter().map(|package| package.name).collect();
    let mut findings = Vec::new();
    for package in &packages {
        let manifest = format!("{} (Cargo.toml)", package.name);
        match sees(package.name) {
            None => findings.push(Finding::new(
                &manifest,
                0,
                "has no place in xtask/src/tidy/borders.rs; decide which crates it may see",
            )),
            Some(Sees::Everything) => {}
            Some(Sees::Only(allowed)) => {
                let crossed =
                    package.dependencies.iter().filter(|name| members.contains(name) && !allowed.contains(name));
                findings.extend(crossed.map(|name| {
                    Finding::new(
                        &manifest,
                        0,
                        format!("depends on {name} across a border; compose the two in `fencepost` instead"),
                    )
                }));
            }
        }
        if package.name == "fencepost-core" {
            let foreign = package.dependencies.iter().filter(|name| !members.contains(name) && !CORE.contains(name));
            findings.extend(foreign.map(|name| {
                Finding::new(
                    &manifest,
                    0,
                    format!("depends on {name}; the core is data and decisions: let the driver do it, or argue for the name in xtask/src/tidy/borders.rs"),
                )
            }));
        }
    }
    findings
}

struct Package<'a> {
    name: &'a str,
    /// Without those of tests: a test may see both sides.
    dependencies: Vec<&'a str>,
}

impl<'a> From<&'a Value> for Package<'a> {
    fn from(value: &'a Value) -> Self {
        let all = value["dependencies"].as_array().into_iter().flatten();
        let shipped = all.filter(|dependency| dependency["kind"].as_str() != Some("dev"));
        Self {
            name: value["name"].as_str().unwrap_or_default(),
            dependencies: shipped.filter_map(|dependency| dependency["name"].as_str()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A dependency and its kind, as `cargo metadata` names it.
    type Names = (&'static str, Option<&'static str>);

    fn messages(packages: &[(&str, &[Names])]) -> Vec<String> {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<Value> =
                    dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
                json!({"name": name, "dependencies": dependencies})
            })
            .collect();
        check(&json!({ "packages": packages })).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_core_knows_no_clock_but_its_tests_may() {
        let found = messages(&[(
            "fencepost-core",
            &[("serde", None), ("proptest", Some("dev")), ("tokio", None), ("getrandom", Some("build"))],
        )]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("depends on tokio") && found[1].contains("depends on getrandom"));
    }

    #[test]
    fn a_receiver_asks_nobody() {
        for asked in ["fencepost-client", "fencepost-wire", "fencepost-coordinator", "fencepost-server"] {
            let found = messages(&[("fencepost-rusqlite", &[(asked, None), ("rusqlite", None)]), (asked, &[])]);
            assert_eq!(found.len(), 1, "{asked}: {found:?}");
            assert!(found[0].contains(asked));
            let dev = messages(&[("fencepost-rusqlite", &[(asked, Some("dev"))]), (asked, &[])]);
            assert!(dev.is_empty(), "{dev:?}");
        }
    }

    #[test]
    fn the_client_sees_no_receiver_and_composition_sees_both() {
        let both: &[Names] = &[("fencepost-client", None), ("fencepost-rusqlite", None)];
        let found = messages(&[
            ("fencepost-client", &[("fencepost-rusqlite", None)]),
            ("fencepost-rusqlite", &[]),
            ("fencepost", both),
            ("fencepost-cli", both),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("fencepost-client "));
    }

    #[test]
    fn a_crate_without_a_place_is_refused() {
        assert!(messages(&[("fencepost-new", &[])])[0].contains("decide which crates it may see"));
    }
}
