//! Readers that have gone away: `fencepost ls | head`.
//!
//! What only shows something dies of it like any other tool, without a word. What has changed something says by its
//! exit code what it has changed, whoever listens.

use std::{
    fs::File,
    io::pipe,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
};

use crate::common::{Ran, Server, Shell, fencepost, until};

const PIPE: i32 = 13;

/// Runs it with a standard output that nobody reads.
fn unread(mut command: Command) -> Output {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    command.stdout(writer);
    let child = command.spawn().unwrap();
    // The builder would keep the other end.
    drop(command);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn dies_silently(words: &[&str], output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(PIPE), "{words:?}: {:?} {told}", output.status);
    assert_eq!(told, "", "{words:?}");
}

/// A coordinator with a lease, a guarded file with content, a guarded table, a history to check, and a grant.
fn shop(server: &Server) -> (Shell, String) {
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.sh("echo 1 | fencepost run f -- fencepost write file:f").exits(0);
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let resource = shell.database("shop.db", "CREATE TABLE invoice (month TEXT, total INT)");
    shell.run(&["guard", &resource, "invoice", "--domain", "'invoices/' || month"]).exits(0);
    let history = "{\"call\":1,\"who\":\"A\",\"do\":\"write\",\"domain\":\"d\",\"token\":\"0.8\",\"value\":\"x\"}\n\
                   {\"answer\":1,\"got\":\"applied\"}\n";
    std::fs::write(shell.path("history"), history).unwrap();
    shell.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let grant = std::fs::read_to_string(shell.path("grant")).unwrap();
    (shell, grant)
}

/// Mutant: `Output::line` reports a broken pipe as any other failure.
#[test]
fn what_only_shows_dies_of_a_reader_that_has_gone_and_says_nothing() {
    let server = Server::start();
    let (shell, grant) = shop(&server);
    for words in [
        &["--help"][..],
        &["-h"],
        &["--version"],
        &["help"],
        &["help", "exit-codes"],
        &["ls", "--help"],
        &["completions", "bash"],
        &["ls"],
        &["ls", "--json"],
        &["show", "d"],
        &["show", "d", "--json"],
        &["show", "nobody"],
        &["history", "d"],
        &["history", "--prefix", "", "--json"],
        &["explain", "d"],
        &["explain", "--token", "0.1", "--json"],
        &["status", "file:f"],
        &["status", "sqlite:shop.db", "--json"],
        &["audit", "file:f"],
        &["audit", "sqlite:shop.db", "--json"],
        &["check", "history"],
        &["check", "history", "--json"],
        &["read", "file:f", "--grant", &grant],
        &["read", "file:f", "--grant", &grant, "--json"],
    ] {
        dies_silently(words, &unread(shell.command(words)));
    }
}

#[test]
fn a_shell_pipeline_ends_as_with_any_other_tool() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.sh("bash -c 'fencepost --help | true; echo ${PIPESTATUS[0]}'").exits(0);
    assert!(matches!(ran.stdout.trim(), "0" | "141") && ran.stderr.is_empty(), "{ran:?}");
    let ran = shell.sh("bash -c 'fencepost completions zsh | head -n 1; echo ${PIPESTATUS[0]}'").exits(0);
    assert!(ran.stdout.starts_with("#compdef") && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn watching_ends_with_the_first_event_that_nobody_takes() {
    let server = Server::start();
    let shell = server.shell();
    let (reader, writer) = pipe().unwrap();
    let told = shell.path("told");
    let mut command = shell.command(&["watch", "--prefix", "d"]);
    let mut watching = command.stdout(writer).stderr(File::create(&told).unwrap()).spawn().unwrap();
    drop((command, reader));
    until("it watches", || std::fs::read_to_string(&told).unwrap().contains("watching"));
    until("it has something to show", || {
        shell.run(&["acquire", "d"]).exits(0);
        shell.run(&["release"]).exits(0);
        watching.try_wait().unwrap().is_some()
    });
    assert_eq!(watching.wait().unwrap().signal(), Some(PIPE));
    assert_eq!(std::fs::read_to_string(&told).unwrap().lines().count(), 1);
}

/// Mutant: these outputs end with the pipe as those that only show.
#[test]
fn what_has_changed_something_ends_with_what_it_has_changed() {
    let server = Server::start();
    let (shell, grant) = shop(&server);
    std::fs::write(shell.path("new"), "2\n").unwrap();
    for words in [
        &["write", "file:f", "--grant", &grant][..],
        &["write", "file:f", "--grant", &grant, "--json"],
        &["advance", "file:f", "--grant", &grant],
        &["guard", "file:g", "--domain", "g"],
        &["guard", "sqlite:shop.db", "invoice", "--domain", "'invoices/' || month", "--json"],
        &["collect", "file:f"],
        &["collect", "sqlite:shop.db", "--json"],
        &["unguard", "sqlite:shop.db", "invoice"],
        &["unguard", "file:g"],
        &["man", "--dir", "man"],
        &["run", "other", "--", "true"],
        &["renew"],
        &["renew", "--json"],
        &["release"],
    ] {
        let mut command = shell.command(words);
        command.stdin(File::open(shell.path("new")).unwrap());
        let output = unread(command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*told), (Some(0), ""), "{words:?}");
    }
    assert_eq!(std::fs::read_to_string(shell.path("f")).unwrap(), "2\n");
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
    // A lease that a later one has fenced off: the rejection is told by the code, not by the pipe.
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.sh("echo 3 | fencepost run f -- fencepost write file:f").exits(0);
    let mut stale = shell.command(&["write", "file:f", "--grant", &grant, "--json"]);
    stale.stdin(File::open(shell.path("new")).unwrap());
    assert_eq!(unread(stale).status.code(), Some(81));
}

#[test]
fn a_write_that_a_full_disk_cannot_report_is_still_applied() {
    let server = Server::start();
    let (shell, grant) = shop(&server);
    std::fs::write(shell.path("new"), "2\n").unwrap();
    let mut command = shell.command(&["write", "file:f", "--grant", &grant]);
    command.stdin(File::open(shell.path("new")).unwrap());
    let ran =
        Ran::of(command.stdout(File::options().write(true).open("/dev/full").unwrap()).output().unwrap()).exits(0);
    assert!(ran.stderr.contains("the exit code tells what was done"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(shell.path("f")).unwrap(), "2\n");
}

/// Mutant: each line that cannot be written is complained about.
#[test]
fn a_full_disk_is_told_once_however_many_lines_there_were() {
    let server = Server::start();
    let (shell, _) = shop(&server);
    for json in [&[][..], &["--json"]] {
        let mut command = shell.command(&[&["recover", "sqlite:shop.db"], json].concat());
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(command.stdout(full).output().unwrap()).exits(0);
        assert_eq!(ran.stderr.matches("cannot be written").count(), 1, "{}", ran.stderr);
    }
}

/// A lease whose grant nobody got is not to be taken for one that somebody works under.
#[test]
fn an_acquire_that_nobody_hears_says_how_to_give_it_back() {
    let server = Server::start();
    let shell = server.shell();
    let output = unread(shell.command(&["acquire", "d", "--ttl", "60s"]));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(73), "{told}");
    assert!(told.contains("the lease is held all the same") && told.contains("fencepost release"), "{told}");
    shell.run(&["release"]).exits(0);
}

#[test]
fn a_demo_that_nobody_watches_any_more_leaves_nothing_behind() {
    let room = tempfile::tempdir().unwrap();
    let mut command = fencepost();
    command.arg("demo").env("TMPDIR", room.path());
    let output = unread(command);
    dies_silently(&["demo"], &output);
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 0);
}
