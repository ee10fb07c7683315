//! `history`: what has happened, over crashes and snapshots.

use serde_json::Value;

use crate::common::{Ran, Server, Shell};

fn items(ran: &Ran) -> Vec<Value> {
    ran.json()["items"].as_array().unwrap().clone()
}

fn names(ran: &Ran) -> Vec<String> {
    items(ran).iter().map(|item| item["event"].as_str().unwrap().to_owned()).collect()
}

fn cycle(shell: &Shell, domain: &str) {
    shell.run(&["acquire", domain]).exits(0);
    shell.run(&["release"]).exits(0);
}

/// Falls when the start does not tell the log again, or tells it in another order.
#[test]
fn what_was_told_before_a_kill_is_told_after_it() {
    let mut server = Server::start();
    let shell = server.shell();
    cycle(&shell, "nightly");
    let grant = shell.run(&["acquire", "nightly", "--holder", "worker-a", "--json"]).exits(0).json();
    let lease = grant["lease"].as_str().unwrap();
    shell.run(&["break", "nightly", "--lease", lease, "--reason", "stuck"]).exits(0);
    let before = shell.run(&["history", "nightly", "--json"]).exits(0);
    assert_eq!(names(&before), ["revoked", "granted", "released", "granted"], "the newest first");
    let revoked = items(&before)[0].clone();
    assert_eq!((revoked["reason"].as_str(), revoked["lease"].as_str()), (Some("stuck"), Some(lease)));
    assert_eq!(revoked["holder"], "worker-a");
    assert!(revoked["at"].as_str().unwrap().starts_with("20") && revoked["at"].as_str().unwrap().ends_with('Z'));
    server.kill();
    server.restart();
    let after = shell.run(&["history", "nightly", "--json"]).exits(0);
    assert_eq!(after.json(), before.json());
}

#[test]
fn pages_follow_one_another_without_a_hole_or_a_row_twice() {
    let server = Server::start();
    let shell = server.shell();
    for domain in ["a/1", "a/2", "b/1", "a/3"] {
        cycle(&shell, domain);
    }
    let whole = items(&shell.run(&["history", "--prefix", "a/", "--json"]).exits(0));
    assert_eq!(whole.len(), 6);
    let first = shell.run(&["history", "--prefix", "a/", "--limit", "4"]).exits(0);
    let rest = shell.sh(&format!("{} --json", first.next("fencepost history"))).exits(0);
    assert_eq!(items(&rest), whole[4..]);
    assert!(rest.json()["next_cursor"].is_null());
    for (arguments, field) in [
        (vec!["history", "a", "--limit", "0"], "limit"),
        (vec!["history", "a", "--limit", "1001"], "limit"),
        (vec!["history", "a", "--cursor", "d161"], "cursor"),
        (vec!["history", "a", "--token", "0"], "token"),
        (vec!["history", ""], "domain"),
        (vec!["history"], "domain"),
    ] {
        let refused = shell.run(&arguments).exits(64);
        assert!(refused.stderr.to_lowercase().contains(field), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn odd_names_keep_every_byte_and_printed_commands_find_them_again() {
    let server = Server::start();
    let shell = server.shell();
    let long = "ä".repeat(256);
    for domain in ["a b&c=d+%20", "it's $(id) `id`", "../x", "🦀", long.as_str(), "-x"] {
        shell.run(&["acquire", "--", domain]).exits(0);
        shell.run(&["release"]).exits(0);
        let ran = shell.run(&["history", "--json", "--", domain]).exits(0);
        assert_eq!(names(&ran), ["released", "granted"], "{domain}");
        assert!(items(&ran).iter().all(|item| item["domain"] == domain), "{domain}");
    }
    let page = shell.run(&["history", "--limit", "1", "it's $(id) `id`"]).exits(0);
    let rest = shell.sh(&format!("{} --json", page.next("fencepost history"))).exits(0);
    assert_eq!(names(&rest), ["granted"]);
}

#[test]
fn a_token_finds_its_grant_and_its_end_and_a_burned_one_its_break() {
    let server = Server::start();
    let shell = server.shell();
    let grant = shell.run(&["acquire", "d", "--json"]).exits(0).json();
    let (token, lease) = (grant["token"].as_str().unwrap(), grant["lease"].as_str().unwrap());
    let broken = shell.run(&["break", "d", "--lease", lease, "--reason", "stuck", "--json"]).exits(0).json();
    let burned = broken["fence_to"].as_str().unwrap();
    assert_eq!(names(&shell.run(&["history", "--token", token, "--json"]).exits(0)), ["revoked", "granted"]);
    assert_eq!(names(&shell.run(&["history", "--token", burned, "--json"]).exits(0)), ["revoked"]);
    assert_eq!(names(&shell.run(&["history", "other", "--token", burned, "--json"]).exits(0)).len(), 0);
    let nothing = shell.run(&["history", "other"]).exits(0).stdout;
    assert!(nothing.starts_with("nothing is remembered of that\nnext: fencepost show other"), "{nothing}");
}
