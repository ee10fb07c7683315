//! What the command finds, and what it does not; what is told about it.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    common::{Ran, Server, Shell, send, until},
    processes::{Running, now_ms},
};

/// The variables of ours that a command gets.
fn environment(ran: &Ran) -> Vec<(String, String)> {
    let ours = ran.stdout.lines().filter_map(|line| line.split_once('='));
    let mut found: Vec<_> = ours
        .filter(|(name, _)| name.starts_with("FENCEPOST_") && *name != "FENCEPOST_SESSION_FILE")
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    found.sort();
    found
}

fn names(found: &[(String, String)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.strip_prefix("FENCEPOST_").unwrap()).collect()
}

fn value<'a>(found: &'a [(String, String)], name: &str) -> &'a str {
    &found.iter().find(|(found, _)| found.strip_prefix("FENCEPOST_") == Some(name)).unwrap().1
}

#[test]
fn grant_token_and_deadline_are_there() {
    let server = Server::start();
    let shell = server.shell();
    let before = now_ms();
    let ran = shell.run(&["run", "it's a/domain", "--ttl", "20s", "--", "env"]).exits(0);
    let found = environment(&ran);
    assert_eq!(names(&found), ["DEADLINE", "DOMAIN", "GRANT", "GRANTS", "TOKEN", "URL"]);
    let grant: Value = serde_json::from_str(value(&found, "GRANT")).unwrap();
    assert_eq!(grant["domain"], "it's a/domain");
    assert_eq!(grant["token"], value(&found, "TOKEN"));
    assert_eq!(value(&found, "DOMAIN"), "it's a/domain");
    assert_eq!(value(&found, "URL"), server.url);
    let grants: Value = serde_json::from_str(value(&found, "GRANTS")).unwrap();
    assert_eq!(grants, Value::Array(vec![grant]));
    let (seconds, thousandths) = value(&found, "DEADLINE").split_once('.').unwrap();
    let deadline = seconds.parse::<u64>().unwrap() * 1_000 + thousandths.parse::<u64>().unwrap();
    assert!(deadline > before + 10_000 && deadline <= now_ms() + 18_000, "{deadline}, {before}");
}

#[test]
fn other_contracts_hand_out_no_token_and_nothing_of_an_outer_lease_is_left() {
    let server = Server::start();
    let shell = server.shell();
    let inner = |contract: &str| {
        shell.run(&[
            "run",
            "outer",
            "--",
            env!("CARGO_BIN_EXE_fencepost"),
            "run",
            "inner",
            "--contract",
            contract,
            "--",
            "env",
        ])
    };
    let admission = environment(&inner("admission").exits(0));
    assert_eq!(names(&admission), ["CORRELATION", "DEADLINE", "DOMAIN", "URL"]);
    assert_eq!(value(&admission, "DOMAIN"), "inner");
    let advisory = environment(&inner("advisory").exits(0));
    assert_eq!(names(&advisory), ["DEADLINE", "DOMAIN", "URL"]);
}

/// The secret would let the command prolong or end what it only works under.
#[test]
fn the_secret_is_nowhere_that_the_command_can_see() {
    let server = Server::start();
    let shell = server.shell();
    let mut running = Running::start(&shell, &["d", "--", "sh", "-c", "echo >up; exec sleep 1000"]);
    until("it runs", || shell.path("up").exists());
    let hex = |text: &str| text.split(|letter: char| !letter.is_ascii_hexdigit()).any(|word| word.len() == 64);
    for pid in running.all() {
        for place in ["environ", "cmdline"] {
            let text = fs::read(format!("/proc/{pid}/{place}")).unwrap();
            assert!(!hex(&String::from_utf8_lossy(&text)), "a secret has 64 digits: {place} of {pid}");
        }
    }
    send("TERM", running.pid());
    running.ends_with(143);
}

fn status(shell: &Shell, arguments: &[&str], code: i32) -> Value {
    let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
    shell.sh(&format!("fencepost run --status-fd 3 {} 3>status", words.join(" "))).exits(code);
    let lines = fs::read_to_string(shell.path("status")).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    serde_json::from_str(&lines).unwrap()
}

#[test]
fn one_line_of_status_says_what_happened_and_what_was_promised() {
    let server = Server::start();
    let shell = server.shell();
    let plain = status(&shell, &["d", "--", "sh", "-c", "exit 3"], 3);
    assert_eq!(plain["outcome"], "exited");
    assert_eq!((&plain["exit_code"], &plain["command_exit_code"]), (&3.into(), &3.into()));
    assert_eq!(plain["guarantee"], "FencedOnFirstWrite");
    assert_eq!(plain["leases"][0]["domain"], "d");
    assert!(plain["leases"][0]["token"].is_string() && plain["pid"].is_u64());
    assert_eq!(plain["released"], true);
    let resource = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &resource, "t", "--domain", "d"]).exits(0);
    let advanced = status(&shell, &["d", "--advance", &resource, "--", "sh", "-c", "kill -KILL $$"], 137);
    assert_eq!(advanced["outcome"], "killed");
    assert_eq!(advanced["command_signal"], 9);
    assert_eq!(advanced["guarantee"], "FencedOnAcquire");
    assert_eq!(advanced["leases"][0]["advanced"][0], resource);
    shell.run(&["acquire", "d"]).exits(0);
    let held = status(&shell, &["d", "--", "touch", "ran"], 75);
    assert_eq!((&held["outcome"], &held["problem"]["code"]), (&"not_started".into(), &"held".into()));
    let skipped = status(&shell, &["d", "--if-held", "skip", "--", "touch", "ran"], 0);
    assert_eq!((&skipped["outcome"], &skipped["held_domain"]), (&"skipped".into(), &"d".into()));
    let advisory = status(&shell, &["e", "--contract", "advisory", "--", "true"], 0);
    assert!(advisory.get("guarantee").is_none() && advisory["leases"][0].get("token").is_none());
    assert!(!shell.path("ran").exists());
}

/// Mutant: that the line could not be written is nobody's business.
#[test]
fn a_status_line_that_cannot_be_written_is_told_and_hides_no_exit_code() {
    let server = Server::start();
    let shell = server.shell();
    let told = |ran: Ran| {
        assert!(ran.stderr.contains("status-fd: the line cannot be written to descriptor 3"), "{}", ran.stderr);
        assert!(ran.stderr.contains("No space left") && ran.stderr.contains("next: "), "{}", ran.stderr);
    };
    // The command has run, and its exit code is what counts.
    told(shell.sh("fencepost run d --status-fd 3 -- true 3>/dev/full").exits(0));
    told(shell.sh("fencepost run d --status-fd 3 -- sh -c 'exit 7' 3>/dev/full").exits(7));
    told(shell.sh("fencepost run d --status-fd 3 -- ./nothing 3>/dev/full").exits(127));
    // None has run.
    shell.run(&["acquire", "d"]).exits(0);
    told(shell.sh("fencepost run d --status-fd 3 -- true 3>/dev/full").exits(75));
    told(shell.sh("fencepost run d --if-held skip --status-fd 3 -- true 3>/dev/full").exits(73));
    let ran = shell.sh("fencepost run e --status-fd 3 --json -- true 3>/dev/full").exits(0);
    let told = ran.problem();
    assert_eq!(told["code"], "cannot_write");
    assert!(told["fix"].as_str().unwrap().contains("df ") && told.get("exit_code").is_none(), "{told}");
    let ran = shell.sh("fencepost run d --status-fd 3 --json -- true 3>/dev/full").exits(75);
    assert_eq!((ran.stderr.lines().count(), &ran.problem()["code"]), (1, &"held".into()), "{ran:?}");
    assert!(ran.problem()["more"].as_str().unwrap().contains("status-fd: the line cannot be written"), "{ran:?}");
    // Who has hung up has had enough.
    let gone = shell.sh("fencepost run e --status-fd 3 -- sh -c 'exit 4' 3>&1 >/dev/null | true; echo over");
    assert!(gone.stdout.ends_with("over\n") && !gone.stderr.contains("cannot be written"), "{gone:?}");
}

#[test]
fn what_others_write_before_and_after_the_status_line_stays() {
    let server = Server::start();
    let shell = server.shell();
    shell.sh("(echo before >&3; fencepost run --status-fd 3 d -- true) 3>third").exits(0);
    shell.sh("(echo before; fencepost run --status-fd 1 d -- true; echo after) >first").exits(0);
    for (name, more) in [("third", &[][..]), ("first", &["after"])] {
        let text = fs::read_to_string(shell.path(name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0] == "before" && lines[1].starts_with('{') && lines[2..] == *more, "{name}: {text}");
    }
}

#[test]
fn a_descriptor_that_is_not_open_is_found_out_before_anything_happens() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.run(&["run", "d", "--status-fd", "77", "--", "touch", "ran"]).exits(64);
    assert!(ran.stderr.contains("descriptor 77"), "{}", ran.stderr);
    // One that can only be read, and one that is of `run` itself.
    shell.sh("fencepost run d --status-fd 9 -- touch ran 9</dev/null").exits(64);
    for number in 3..10 {
        let closed: String = (3..10).map(|number| format!(" {number}>&-")).collect();
        shell.sh(&format!("fencepost run d --status-fd {number} -- touch ran{closed}")).exits(64);
    }
    assert!(!shell.path("ran").exists());
}

#[test]
fn with_json_errors_and_the_end_are_json_on_standard_error() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.run(&["run", "d", "--json", "--", "sh", "-c", "echo of the command"]).exits(0);
    assert_eq!(ran.stdout, "of the command\n");
    assert_eq!(ran.problem()["outcome"], "exited");
    shell.run(&["acquire", "d"]).exits(0);
    let ran = shell.run(&["run", "d", "--json", "--", "true"]).exits(75);
    assert_eq!(ran.problem()["code"], "held");
}

/// A word after `--` is the command's, whatever it looks like.
#[test]
fn options_of_the_command_are_not_ours() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.run(&["run", "d", "--", "sh", "-c", "exit 4", "--export", "--json", "--help"]).exits(4);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn without_a_terminal_nothing_is_said_and_the_command_may_have_any_folder() {
    let server = Server::start();
    let shell = server.shell();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(["run", "d", "--url", &server.url, "--", "pwd"]).current_dir("/").stdin(Stdio::null());
    let ran = Ran::of(command.output().unwrap()).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("/\n", ""));
    assert_eq!(fs::read_dir(shell.folder.path()).unwrap().count(), 0, "nothing is left anywhere");
}
