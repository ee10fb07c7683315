//! `read` and `write` on files, as shells use them.

use std::fs;

use serde_json::json;

use crate::{
    common::{Ran, Server, Shell},
    grant,
};

fn guarded(server: &Server) -> Shell {
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell
}

/// Writes `text` with these options, under whatever grant they name.
fn write(shell: &Shell, text: &str, options: &[&str]) -> Ran {
    fs::write(shell.path("input"), text).unwrap();
    let mut command = shell.command(&[&["write", "file:f"], options].concat());
    command.stdin(fs::File::open(shell.path("input")).unwrap());
    Ran::of(command.output().unwrap())
}

fn content(shell: &Shell) -> String {
    fs::read_to_string(shell.path("f")).unwrap()
}

#[test]
fn a_pipe_replaces_the_file_and_a_later_owner_ends_it() {
    let server = Server::start();
    let shell = guarded(&server);
    let (old, new) = (grant(&shell, "f"), grant(&shell, "f"));
    let applied = write(&shell, "one\n", &["--grant", &old]).exits(0);
    assert!(applied.stdout.starts_with("applied: file:f under token 0."), "{}", applied.stdout);
    let applied = write(&shell, "two\n", &["--grant", &new, "--json"]).exits(0).json();
    assert_eq!((&applied["verdict"], &applied["result"]["bytes"]), (&json!("applied"), &json!(4)));
    let rejected = write(&shell, "late\n", &["--grant", &old, "--json"]).exits(81);
    let verdict = rejected.json();
    assert_eq!((&verdict["reason"], &verdict["by"]), (&json!("stale"), &json!("fence")));
    let number = |field: &str| verdict[field].as_str().unwrap().parse::<u64>().unwrap();
    assert!(number("presented") < number("least_accepted"));
    assert_eq!(rejected.problem()["exit_code"], 81);
    assert_eq!(content(&shell), "two\n");
}

#[test]
fn without_a_grant_nothing_is_read_or_written() {
    let server = Server::start();
    let shell = guarded(&server);
    for command in ["read", "write", "advance"] {
        let missing = shell.run(&[command, "file:f", "--json"]).exits(81);
        assert_eq!(missing.json(), json!({"verdict": "rejected", "reason": "missing"}));
        shell.run(&[command, "file:f", "--grant", "{}"]).exits(64);
    }
    let other = grant(&shell, "other");
    assert_eq!(write(&shell, "x", &["--grant", &other, "--json"]).exits(81).json()["reason"], "wrong_domain");
    shell.run(&["read", "file:f", "--grant", &other]).exits(81);
    let torn = shell.sh("FENCEPOST_TOKEN=1 FENCEPOST_GRANT=$(cat grant) fencepost write file:f").exits(64);
    assert!(torn.stderr.contains("FENCEPOST_TOKEN is "), "{}", torn.stderr);
    assert!(!shell.path("f").exists());
}

/// Mutant: `allowing_empty(true)` in `write`.
#[test]
fn empty_input_is_refused_unless_it_is_meant() {
    let server = Server::start();
    let shell = guarded(&server);
    let grant = grant(&shell, "f");
    write(&shell, "one\n", &["--grant", &grant]).exits(0);
    let refused = write(&shell, "", &["--grant", &grant]).exits(64);
    assert!(refused.stderr.contains("--allow-empty"), "{}", refused.stderr);
    assert_eq!(content(&shell), "one\n");
    write(&shell, "", &["--grant", &grant, "--allow-empty"]).exits(0);
    assert_eq!(content(&shell), "");
}

#[test]
fn a_retried_operation_is_replayed_for_this_owner_and_the_next() {
    let server = Server::start();
    let shell = guarded(&server);
    let (old, new) = (grant(&shell, "f"), grant(&shell, "f"));
    let operation = ["--operation", "report-1", "--json", "--grant"];
    let of = |grant: &str| [&operation[..], &[grant]].concat().iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let run = |text: &str, grant: &str| {
        let options = of(grant);
        write(&shell, text, &options.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let first = run("one\n", &old).exits(0).json();
    let again = run("one\n", &old).exits(0).json();
    assert_eq!((&first["verdict"], &again["verdict"]), (&json!("applied"), &json!("replayed")));
    assert_eq!(run("one\n", &new).exits(0).json()["result"], first["result"]);
    let conflict = run("two\n", &new).exits(81).json();
    assert_eq!(conflict["reason"], "operation_conflict");
    assert_eq!(content(&shell), "one\n");
    write(&shell, "x", &["--grant", &new, "--operation", ""]).exits(64);
    write(&shell, "x", &["--grant", &new, "--born", "0.1"]).exits(64);
    write(&shell, "x", &["--grant", &new, "--operation", "b", "--born", "nine"]).exits(64);
    write(&shell, "x", &["--grant", &new, "--operation", "b", "--born", "0.1"]).exits(0);
}

#[test]
fn a_missing_folder_and_a_missing_guard_are_told_apart() {
    let server = Server::start();
    let shell = server.shell();
    let grant = grant(&shell, "f");
    let script = "echo x | fencepost write file:none/f --grant \"$(cat grant)\"";
    let missing = shell.sh(script).exits(73);
    assert!(missing.next("mkdir -p ").contains("none"), "{}", missing.stderr);
    let unguarded = write(&shell, "x", &["--grant", &grant]).exits(81);
    assert_eq!(unguarded.next("fencepost guard"), "fencepost guard file:f --domain NAME");
    assert_eq!(shell.run(&["write", "sqlite:f", "--grant", &grant]).exits(64).stdout, "");
    assert_eq!(shell.run(&["read", "sqlite:f", "--grant", &grant]).exits(64).stdout, "");
}

/// Mutant: `read` opens the file without raising the fence.
#[test]
fn a_read_raises_the_fence_before_it_copies() {
    let server = Server::start();
    let shell = guarded(&server);
    let (old, new) = (grant(&shell, "f"), grant(&shell, "f"));
    let absent = shell.run(&["read", "file:f", "--grant", &old]).exits(78);
    assert!(absent.stderr.contains("there is no file"), "{}", absent.stderr);
    write(&shell, "one\n", &["--grant", &old]).exits(0);
    assert_eq!(shell.run(&["read", "file:f", "--grant", &new]).exits(0).stdout, "one\n");
    write(&shell, "late\n", &["--grant", &old]).exits(81);
    shell.run(&["read", "file:f", "--grant", &old]).exits(81);
    let read = shell.run(&["read", "file:f", "--json", "--grant", &new]).exits(0).json();
    assert_eq!(read, json!({"verdict": "applied", "result": {"bytes": 4, "text": "one\n"}}));
}
