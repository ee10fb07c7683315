//! `docs/commands.md` names every command, and each line of its examples does what it says.

use std::fs;

use crate::common::{Ran, Server, fencepost};

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md")).unwrap()
}

#[test]
fn every_command_of_the_help_has_a_section() {
    let help = Ran::of(fencepost().arg("--help").output().unwrap()).exits(0).stdout;
    let listing = help.split("Options:").next().unwrap();
    let rows = listing.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let commands: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 15, "{commands:?}");
    let page = page();
    let missing: Vec<_> = commands.iter().filter(|name| !page.contains(&format!("\n### `{name}`\n"))).collect();
    assert!(missing.is_empty(), "docs/commands.md says nothing of {missing:?}");
}

#[test]
fn every_line_of_the_examples_does_what_it_says() {
    let server = Server::start();
    let shell = server.shell();
    shell.database("shop.db", "CREATE TABLE invoice (month TEXT, total INTEGER)");
    let (page, mut ran) = (page(), 0);
    let mut in_example = false;
    for line in page.lines() {
        match line {
            "```sh" => in_example = true,
            "```" => in_example = false,
            line if in_example => {
                let (command, code) = line.split_once("  # exits ").map_or((line, 0), |(command, code)| {
                    (command, code.split_whitespace().next().unwrap().parse().unwrap())
                });
                let result = shell.sh(command);
                assert_eq!(result.code, Some(code), "{line}\n{}{}", result.stdout, result.stderr);
                ran += 1;
            }
            _ => {}
        }
    }
    assert!(ran > 20, "{ran} lines");
}
