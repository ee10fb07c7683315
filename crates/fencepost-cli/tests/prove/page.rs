//! `docs/prove.md` names every scenario, and the session in it is what really comes.

use std::{collections::BTreeSet, fs};

use crate::{
    bank::{ALL, Bank},
    common::{Ran, fencepost},
};

const RESULTS: [&str; 4] = ["passed", "only FencedOnFirstWrite", "failed", "not tried"];

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prove.md")).unwrap()
}

/// Result and scenario of each row of a report's table.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let rows = text.lines().filter_map(|line| {
        let line = line.trim();
        let result = RESULTS.into_iter().find(|result| line.starts_with(&format!("{result}  ")))?;
        Some((result, line[result.len()..].split_whitespace().next()?))
    });
    rows.collect()
}

#[test]
fn the_session_on_the_page_is_what_really_comes_and_every_scenario_has_a_row() {
    let bank = Bank::start("fence_in_memory");
    let mut command = fencepost();
    command.args(["prove", &bank.url(), "--domain", "accounts/7", "--timeout", "30s", "--rounds", "2"]).args(ALL);
    command.args(["--restart-hook", &bank.restart_hook()]);
    let ran = Ran::of(command.output().unwrap()).exits(1);
    let page = page();
    let session = page.split("```text\nRESULT").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(rows(session), rows(&ran.stdout), "{}", ran.stdout);
    let words = |text: &str, fact: &str| {
        let rest = text.split(fact).nth(1).unwrap().split("\n  fix:").next().unwrap();
        rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(session, "  means: "), words(&ran.stdout, "  means: "));
    let tried: BTreeSet<&str> = page.split("## What is tried").nth(1).unwrap().split('`').collect();
    let missing: Vec<_> = rows(&ran.stdout).into_iter().filter(|(_, scenario)| !tried.contains(scenario)).collect();
    assert!(missing.is_empty(), "docs/prove.md says nothing of {missing:?}");
}
