//! `ls` and `show`.

use std::{
    fs::File,
    io::Read,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::common::{Ran, Server};

#[test]
fn nothing_held_is_no_error() {
    let server = Server::start();
    let shell = server.shell();
    assert_eq!(shell.run(&["ls"]).exits(0).stdout, "no live leases\n");
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json(), json!({"items": [], "next_cursor": null}));
    assert!(shell.run(&["show", "d"]).exits(0).stdout.starts_with("nobody holds d\n"));
    assert_eq!(shell.run(&["show", "d", "--json"]).exits(0).json(), json!({"items": [], "next_cursor": null}));
}

/// As with other tools, a variable that is set to nothing is not set. An option that is, is a mistake.
///
/// Mutants: the empty text is taken for an address; `recover` takes it for a name of the coordinator.
#[test]
fn an_address_that_is_set_to_nothing_is_not_set() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let unset = |words: &[&str]| Ran::of(shell.command(words).env("FENCEPOST_URL", "").output().unwrap());
    // Whoever listens at the usual address, or nobody: it is asked.
    let asked = unset(&["show", "f"]);
    assert!([Some(0), Some(69)].contains(&asked.code), "{asked:?}");
    assert!(asked.code == Some(0) || asked.stderr.contains("http://127.0.0.1:7421"), "{asked:?}");
    let typed = unset(&["ls", "--url", &server.url]).exits(0);
    assert_eq!(typed.stdout, "no live leases\n");
    let lines = unset(&["show", "f", "--url", &server.url]).exits(0);
    assert!(lines.next("fencepost acquire").contains(&format!("--url {}", server.url)), "{lines:?}");
    std::fs::remove_file(shell.path(".f.fence")).unwrap();
    let unnamed = unset(&["recover", "file:f", "--domain", "f"]).exits(64);
    assert!(unnamed.stderr.contains("--url URL"), "{}", unnamed.stderr);
    shell.run(&["ls", "--url", ""]).exits(64);
}

#[test]
fn a_lease_is_shown_with_everything_an_operator_needs() {
    let server = Server::start();
    let shell = server.shell();
    let acquire = ["acquire", "invoices/1", "--holder", "worker-a", "--metadata", "job=nightly", "--json"];
    let grant = shell.run(&acquire).exits(0).json();
    let (lease, token) = (grant["lease"].as_str().unwrap(), grant["token"].as_str().unwrap());
    let shown = shell.run(&["show", "invoices/1"]).exits(0).stdout;
    for part in ["worker-a", "safety", token, lease, "job=nightly", "waiting   0", "unless renewed"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.contains(&format!("fencepost break invoices/1 --lease {lease} --reason TEXT\n")), "{shown}");
    let row = shell.run(&["show", "invoices/1", "--json"]).exits(0).json()["items"][0].clone();
    assert_eq!(row["metadata"]["job"], "nightly");
    let listed = shell.run(&["ls"]).exits(0).stdout;
    assert!(listed.contains("DOMAIN") && listed.contains("invoices/1") && listed.contains(lease), "{listed}");
    assert!(!listed.contains('\u{1b}'), "no colours but on a terminal");
}

#[test]
fn pages_follow_one_another_and_all_are_all() {
    let server = Server::start();
    let shell = server.shell();
    for name in ["a/1", "a/2", "a/3", "b/1"] {
        let mut command = shell.command(&["acquire", name, "--ttl", "60s"]);
        command.env("FENCEPOST_SESSION_FILE", shell.path(&name.replace('/', "-")));
        Ran::of(command.output().unwrap()).exits(0);
    }
    let domains = |ran: &Ran| -> Vec<String> {
        ran.json()["items"].as_array().unwrap().iter().map(|row| row["domain"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(domains(&shell.run(&["ls", "--json"]).exits(0)), ["a/1", "a/2", "a/3", "b/1"]);
    assert_eq!(domains(&shell.run(&["ls", "--json", "--all", "--prefix", "a/"]).exits(0)), ["a/1", "a/2", "a/3"]);
    let first = shell.run(&["ls", "--json", "--limit", "3"]).exits(0);
    assert_eq!(domains(&first), ["a/1", "a/2", "a/3"]);
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let second = shell.run(&["ls", "--json", "--cursor", &cursor]).exits(0);
    assert_eq!(domains(&second), ["b/1"]);
    assert!(second.json()["next_cursor"].is_null());
    let told = shell.run(&["ls", "--limit", "1", "--prefix", "a/"]).exits(0);
    let rest = shell.sh(&told.next("fencepost ls")).exits(0);
    assert!(rest.stdout.contains("a/2") && !rest.stdout.contains("a/1"), "{}", rest.stdout);
}

#[test]
fn colours_and_rules_are_for_terminals_and_colours_only_where_they_are_wanted() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let shown = on_terminal(&mut shell.command(&["show", "d"]));
    assert!(shown.contains("\u{1b}[1md\u{1b}[0m"), "{shown:?}");
    assert!(on_terminal(&mut shell.command(&["ls"])).contains('─'));
    assert!(!on_terminal(shell.command(&["show", "d"]).env("NO_COLOR", "1")).contains('\u{1b}'));
    assert!(!on_terminal(shell.command(&["show", "d"]).env("TERM", "dumb")).contains('\u{1b}'));
    assert!(!on_terminal(&mut shell.command(&["ls", "--json"])).contains('\u{1b}'));
}

/// What the command writes to a terminal.
fn on_terminal(command: &mut Command) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    if command.get_envs().all(|(name, _)| name != "TERM") {
        command.env("TERM", "xterm");
    }
    let mut child = command.stdout(theirs).spawn().unwrap();
    // The command holds the last open end of the terminal once our copy is gone, so reading ends when it does.
    command.stdout(Stdio::null());
    let mut written = Vec::new();
    // The end of a terminal reads as an error.
    let _ = File::from(ours).read_to_end(&mut written);
    assert!(child.wait().unwrap().success());
    String::from_utf8(written).unwrap()
}

#[test]
fn a_printed_command_reaches_the_coordinator_that_was_named() {
    let server = Server::start();
    let mut shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let url = std::mem::replace(&mut shell.url, "http://127.0.0.1:1".to_owned());
    let shown = shell.run(&["show", "d", "--url", &url]).exits(0);
    let line = shown.next("fencepost break");
    assert!(line.ends_with(&format!(" --url {url}")), "{line}");
    shell.sh(&line).exits(0);
}
