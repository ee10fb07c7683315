//! Names of every odd kind through `run`: they reach the command byte for byte, or nothing is started.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt};

use serde_json::Value;

use crate::common::{Ran, Server};

const ODD: [&str; 24] = [
    "a",
    "🦀",
    "é",
    "e\u{301}",
    "/",
    "..",
    "../../etc/passwd",
    "%2F",
    "%00",
    "?",
    "#",
    "a?b=c&d",
    ":",
    "{}",
    "{a}b",
    "'",
    "\"",
    ";",
    "'; DROP TABLE x; --",
    "\\",
    "a b",
    " ",
    "*",
    "$(touch pwned)",
];

/// What the command finds in its environment: the domain, and the grant.
const NOTE: &str = "printf %s \"$FENCEPOST_DOMAIN\" >domain; printf %s \"$FENCEPOST_GRANT\" >grant";

#[test]
fn odd_names_reach_the_command_and_the_coordinator_byte_for_byte() {
    let server = Server::start();
    let longest = "x".repeat(512);
    for name in ODD.into_iter().chain([longest.as_str()]) {
        let shell = server.shell();
        // The longest name of a holder is half as long.
        let holder = format!("h{}", name.chars().take(200).collect::<String>());
        let ran = shell.run(&["run", name, "--holder", &holder, "--status-fd", "1", "--", "sh", "-c", NOTE]).exits(0);
        let status: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(status["leases"][0]["domain"], name);
        assert_eq!(fs::read_to_string(shell.path("domain")).unwrap(), name);
        let grant: Value = serde_json::from_str(&fs::read_to_string(shell.path("grant")).unwrap()).unwrap();
        assert_eq!(grant["domain"], name);
        let history = shell.run(&["history", "--json", "--", name]).exits(0).json();
        assert_eq!((&history["items"][0]["domain"], &history["items"][0]["holder"]), (&name.into(), &holder.into()));
        assert!(!shell.path("pwned").exists());
    }
}

/// Mutant: a name that is too long is cut.
#[test]
fn a_name_that_breaks_a_rule_is_refused_by_field_rule_and_limit_and_starts_nothing() {
    let server = Server::start();
    let shell = server.shell();
    let (too_long, huge) = ("x".repeat(513), "x".repeat(100_000));
    let long_holder = "h".repeat(257);
    for (words, said) in [
        (vec!["run", ""], "domain: must be 1 to 512 bytes of UTF-8, found 0"),
        (vec!["run", &too_long], "domain: must be 1 to 512 bytes of UTF-8, found 513"),
        (vec!["run", &huge], "domain: must be 1 to 512 bytes of UTF-8, found 100000"),
        (vec!["run", "a\nb"], "domain: "),
        (vec!["run", "a\u{85}b"], "domain: "),
        (vec!["run", "d", "--holder", ""], "holder: must be 1 to 256 bytes of UTF-8, found 0"),
        (vec!["run", "d", "--holder", &long_holder], "holder: must be 1 to 256 bytes of UTF-8, found 257"),
        (vec!["run", "d", "--holder", "a\rb"], "holder: "),
    ] {
        let ran = shell.run(&[&words[..], &["--", "touch", "ran"]].concat()).exits(64);
        assert!(ran.stderr.starts_with(&format!("fencepost: {said}")), "{said}: {}", ran.stderr);
    }
    let odd = OsString::from_vec(vec![b'a', 0xff]);
    for before in [&["run"][..], &["run", "d", "--holder"]] {
        let mut words: Vec<OsString> = before.iter().map(OsString::from).collect();
        words.push(odd.clone());
        words.extend(["--", "touch", "ran"].map(OsString::from));
        let ran = Ran::of(shell.command(&words).output().unwrap()).exits(64);
        assert!(ran.stderr.contains("must be UTF-8"), "{}", ran.stderr);
    }
    assert!(!shell.path("ran").exists());
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}
