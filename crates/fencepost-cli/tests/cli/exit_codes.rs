//! Every exit code of `help exit-codes`, by the real binary in a situation that it is for.

use std::{collections::BTreeMap, fs};

use crate::common::{
    Ran, Server, fencepost,
    liar::{Act, Liar},
};

/// The codes that the topic lists, the words for ranges among them.
fn listed() -> Vec<String> {
    let topic = Ran::of(fencepost().args(["help", "exit-codes"]).output().unwrap()).exits(0).stdout;
    let rows = topic.lines().filter_map(|line| line.strip_prefix("  "));
    let codes = rows.filter_map(|row| row.trim_start().split_once("  ").map(|(code, _)| code.to_owned()));
    codes.filter(|code| code.starts_with(|first: char| first.is_ascii_digit()) || code == "other").collect()
}

#[test]
fn every_code_that_is_listed_is_what_something_ends_with() {
    let mut server = Server::start();
    let shell = server.shell();
    let mut seen: BTreeMap<String, i32> = BTreeMap::new();
    let mut ended = |code: &str, ran: Ran, expected: i32| {
        ran.exits(expected);
        seen.insert(code.to_owned(), expected);
    };
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.sh("echo 1 | fencepost run f -- fencepost write file:f").exits(0);

    ended("0", shell.run(&["ls"]), 0);
    fs::write(shell.path("f"), "by another program").unwrap();
    ended("1", shell.run(&["audit", "file:f"]), 1);
    ended("64", shell.run(&["acquire", ""]), 64);
    ended("73", shell.run(&["man", "--dir", "f/x"]), 73);
    ended("78", shell.run(&["serve", "--data", "nothing", "--listen", "127.0.0.1:0"]), 78);
    ended("81", shell.sh("echo 2 | fencepost write file:f"), 81);

    shell.run(&["acquire", "d", "--ttl", "10m"]).exits(0);
    ended("75", shell.run(&["run", "d", "--", "true"]), 75);
    let kept = fs::read_to_string(shell.session_file()).unwrap();
    let secret = shell.kept()["secret"].as_str().unwrap().to_owned();
    fs::write(shell.session_file(), kept.replace(&secret, &"0".repeat(64))).unwrap();
    ended("77", shell.run(&["renew"]), 77);
    // A coordinator that contradicts what it has just answered is a bug of ours, whoever's it is.
    let body = "{\"type\":\"/errors/version_unknown\",\"title\":\"t\",\"status\":409,\"detail\":\"d\",\
                \"code\":\"version_unknown\",\"retryable\":false,\"may_have_happened\":false,\"fix\":\"f\"}";
    let contradicts = format!(
        "HTTP/1.1 409 Conflict\r\ncontent-type: application/problem+json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let liar = Liar::before(&server.url, "/heartbeat", move |_| Act::Say(contradicts.clone()));
    fs::write(shell.session_file(), kept.replace(&server.url, &liar.url)).unwrap();
    ended("70", shell.run(&["renew"]), 70);
    fs::write(shell.session_file(), &kept).unwrap();
    let lease = shell.kept()["granted"]["lease"].as_str().unwrap().to_owned();
    shell.run(&["break", "d", "--lease", &lease, "--reason", "test"]).exits(0);
    ended("80", shell.run(&["renew"]), 80);
    let _ = fs::remove_file(shell.session_file());

    ended("128+n", shell.run(&["run", "d", "--", "sh", "-c", "kill -9 $$"]), 137);
    ended("other", shell.run(&["run", "d", "--", "sh", "-c", "exit 7"]), 7);
    shell.run(&["run", "d", "--", "./nothing"]).exits(127);
    shell.run(&["run", "d", "--", "./f"]).exits(126);

    let deaf = Liar::before(&server.url, "/v1/leases", |_| Act::LoseAnswer);
    ended("82", shell.run(&["acquire", "e", "--ttl", "1s", "--url", &deaf.url]), 82);
    server.kill();
    ended("69", shell.run(&["ls"]), 69);

    let missing: Vec<_> = listed().into_iter().filter(|code| !seen.contains_key(code)).collect();
    assert!(missing.is_empty() && seen.len() > 12, "{missing:?}, {seen:?}");
}

/// A receiver without a guard is closed by its own records, and that is a verdict (81), whoever asks and whatever became
/// of the guard. A database that is not there is none to ask (78), because none is ever made; a file may be guarded
/// before it is there. A database whose tables are unguarded keeps its fences and goes on.
///
/// Mutant: `look` of `run` has 78 for a file that was never guarded.
#[test]
fn a_receiver_without_a_guard_says_the_same_to_whoever_asks() {
    let server = Server::start();
    let shell = server.shell();
    for name in ["plain", "unguarded"] {
        fs::write(shell.path(name), "x").unwrap();
        shell.sqlite(&format!("{name}.db"), "CREATE TABLE t (d TEXT)").unwrap();
    }
    shell.run(&["guard", "file:unguarded", "--domain", "f"]).exits(0);
    shell.run(&["unguard", "file:unguarded"]).exits(0);
    shell.run(&["guard", "sqlite:unguarded.db", "t", "--domain", "d"]).exits(0);
    shell.run(&["unguard", "sqlite:unguarded.db", "t"]).exits(0);
    // Of an older one a database says first that it is stale.
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    let grant = fs::read_to_string(shell.path("grant")).unwrap();
    let table = [
        ("file:absent", 81, "next: fencepost guard file:absent --domain NAME"),
        ("file:plain", 81, "next: fencepost guard file:plain --domain NAME"),
        ("file:unguarded", 81, "next: fencepost guard file:unguarded --domain NAME"),
        ("sqlite:absent.db", 78, "next: name the file that your program opens"),
        ("sqlite:plain.db", 81, "next: fencepost guard sqlite:plain.db TABLE --domain EXPR"),
        ("sqlite:unguarded.db", 0, ""),
    ];
    for (resource, code, next) in table {
        let mut commands = vec![
            vec!["status", resource],
            vec!["advance", resource, "--grant", &grant],
            vec!["run", "f", "--advance", resource, "--", "touch", "ran"],
        ];
        if resource.starts_with("file:") {
            // Databases are read and written by SQL.
            commands.push(vec!["read", resource, "--grant", &grant]);
            commands.push(vec!["write", resource, "--allow-empty", "--grant", &grant]);
        }
        for words in commands {
            let ran = shell.run(&words).exits(code);
            assert!(ran.stderr.contains(next), "{words:?}: {}", ran.stderr);
        }
        assert_eq!(fs::remove_file(shell.path("ran")).is_ok(), code == 0, "{resource}");
    }
}

/// Whatever panics, a script sees a code that means one thing, and an `eval` of nothing does not go on without a lease.
///
/// Mutant: a panic is left to the runtime, which ends with 101.
#[cfg(feature = "sabotage")]
#[test]
fn a_panic_ends_with_the_code_of_a_bug() {
    let panicking = |arguments: &[&str]| {
        let mut command = fencepost();
        Ran::of(command.args(arguments).env("FENCEPOST_SABOTAGE", "command_panics").output().unwrap()).exits(70)
    };
    let told = panicking(&["help"]);
    assert!(told.stdout.is_empty() && told.stderr.contains("this is a bug of fencepost"), "{told:?}");
    assert!(told.stderr.contains("next: report it") && told.stderr.contains("fencepost --version"), "{told:?}");

    let told = panicking(&["ls", "--json"]);
    let last: serde_json::Value = serde_json::from_str(told.stderr.lines().last().unwrap()).unwrap();
    assert!(last.to_string().contains("this is a bug of fencepost"), "{last}");

    let told = panicking(&["acquire", "d", "--export"]);
    assert!(told.stdout.ends_with("(exit 70)\n"), "{told:?}");
}
