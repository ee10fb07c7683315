//! Names through the command line: taken byte for byte, or refused with field, rule and limit in the words of the API.

use std::{
    ffi::OsString,
    io::{Read, Write},
    net::TcpStream,
    os::unix::ffi::OsStringExt,
};

use crate::common::Server;

/// What the API says to an acquire of this domain.
fn detail(url: &str, domain: &str) -> String {
    let body = serde_json::json!({"domain": domain, "request_id": "0".repeat(32), "holder": "h", "ttl_ms": 15_000});
    let body = body.to_string();
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/leases HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str::<serde_json::Value>(body).unwrap()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn odd_names_round_trip_byte_for_byte() {
    let server = Server::start();
    let shell = server.shell();
    let long = "x".repeat(512);
    for name in [
        "a",
        "/",
        "..",
        "../../etc",
        "%2F",
        "?",
        "#",
        "a?b=c&d",
        "a b",
        ":{}",
        "{a}b",
        "';--",
        "\"",
        "\\",
        "🦀",
        "é",
        "e\u{301}",
        "-",
        "--",
        "-x",
        "+",
        "=",
        "*",
        &long,
    ] {
        let got = shell.run(&["acquire", "--json", "--", name]).exits(0).json();
        assert_eq!(got["domain"], name);
        let shown = shell.run(&["show", "--json", "--", name]).exits(0).json();
        assert_eq!(shown["items"][0]["domain"], name);
        let line = shell.run(&["show", "--", name]).exits(0).next("fencepost break");
        // A name that looks like an option has to be told from one.
        if name.starts_with('-') {
            shell.run(&["release"]).exits(0);
        } else {
            shell.sh(&line).exits(0);
            shell.run(&["release"]).exits(80);
        }
    }
}

#[test]
fn a_name_that_breaks_a_rule_is_refused_in_the_words_of_the_api() {
    let server = Server::start();
    let shell = server.shell();
    let too_long = "x".repeat(513);
    for name in ["", "a\nb", "a\tb", "a\u{7f}", "a\u{85}b", &too_long] {
        let said = detail(&server.url, name);
        for command in
            [&["acquire", name][..], &["show", name], &["break", name, "--lease", &"0".repeat(32), "--reason", "r"]]
        {
            let ran = shell.run(command).exits(64);
            assert!(ran.stderr.starts_with(&format!("fencepost: {said}\n")), "{said}: {}", ran.stderr);
        }
    }
    let huge = shell.run(&["acquire", &"x".repeat(100_000)]).exits(64);
    assert!(huge.stderr.starts_with("fencepost: domain: must be 1 to 512 bytes of UTF-8, found 100000\n"));
    let problem = shell.run(&["acquire", "", "--json"]).exits(64).problem();
    assert_eq!((&problem["code"], &problem["field"]), (&"invalid_input".into(), &"domain".into()));
}

#[test]
fn bytes_that_are_not_utf8_are_refused_and_never_replaced() {
    let server = Server::start();
    let shell = server.shell();
    let odd = || OsString::from_vec(vec![b'a', 0xff, b'b']);
    let word = |text: &str| OsString::from(text);
    for (command, field) in [
        (vec![word("acquire"), odd()], "domain"),
        (vec![word("show"), odd()], "domain"),
        (vec![word("ls"), word("--prefix"), odd()], "prefix"),
        (vec![word("acquire"), word("d"), word("--holder"), odd()], "holder"),
        (vec![word("acquire"), word("d"), word("--metadata"), odd()], "metadata"),
        (vec![word("break"), word("d"), word("--lease"), odd(), word("--reason"), word("r")], "lease"),
        (vec![word("break"), word("d"), word("--lease"), word(&"0".repeat(32)), word("--reason"), odd()], "reason"),
        (vec![word("write"), word("file:f"), word("--operation"), odd()], "operation"),
        (vec![word("advance"), word("file:f"), word("--grant"), odd()], "grant"),
        (vec![word("serve"), word("--data"), word("d"), word("--issuer"), odd()], "issuer"),
        (vec![word("recover"), word("file:f"), word("--domain"), odd()], "domain"),
        (vec![word("guard"), word("sqlite:f"), odd(), word("--domain"), word("d")], "a word"),
        (vec![word("acquire"), word("d"), word("--ttl"), odd()], "ttl"),
    ] {
        let ran = shell.run(&command).exits(64);
        assert!(ran.stderr.starts_with(&format!("fencepost: {field}: must be UTF-8")), "{command:?}: {}", ran.stderr);
    }
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}

#[test]
fn other_texts_have_their_limits_too() {
    let server = Server::start();
    let shell = server.shell();
    let refused = |arguments: &[&str], said: &str| {
        let ran = shell.run(arguments).exits(64);
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
    };
    refused(&["acquire", "d", "--holder", &"h".repeat(257)], "holder: must be 1 to 256 bytes of UTF-8, found 257");
    refused(&["acquire", "d", "--holder", ""], "holder: must be 1 to 256 bytes of UTF-8, found 0");
    refused(&["acquire", "d", "--contract", "Safety"], "contract: must be safety, admission or advisory");
    refused(&["acquire", "d", "--metadata", &format!("k={}", "v".repeat(4_090))], "metadata: must be 0 to 4096 bytes");
    refused(&["acquire", "d", "--ttl", "25h"], "--ttl: must be 1s to 24h, found 25h");
    refused(&["acquire", "d", "--wait", "11m"], "--wait: must be 0s to 10m, found 11m");
    refused(&["acquire", "d", "--max-hold", "500ms"], "--max-hold: must be 1s to");
    for command in ["ls", "history"] {
        let rows = |limit: &str, said: &str| refused(&[command, "--prefix", "d", "--limit", limit], said);
        rows("0", "limit: must be 1 to 1000 rows, found 0");
        rows("1001", "limit: must be 1 to 1000 rows, found 1001");
        rows(&"9".repeat(30), "limit: must be 1 to 1000 rows");
        rows("ten", "limit: must be a whole number");
    }
    let reason = "r".repeat(1_025);
    refused(&["break", "d", "--lease", &"0".repeat(32), "--reason", &reason], "reason: must be 1 to 1024 bytes");
    refused(&["break", "d", "--lease", "ABC", "--reason", "r"], "lease: must be 32 lower-case hex digits");
    shell.run(&["acquire", "d", "--holder", &"h".repeat(256), "--metadata", "k=", "--ttl", "24h"]).exits(0);
}

/// The API has milliseconds and names its fields; whoever typed an option is told about that.
#[test]
fn a_duration_is_refused_by_the_option_that_it_was_typed_after() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.run(&["acquire", "d", "--ttl", "25h"]).exits(64);
    assert_eq!(
        ran.stderr,
        "fencepost: --ttl: must be 1s to 24h, found 25h\n  next: correct that value; `fencepost help acquire` shows the forms\n"
    );
    let ran = shell.run(&["run", "d", "--stop-after", "8s", "--", "true"]).exits(64);
    assert!(ran.stderr.contains("--stop-after: must be 0s to 7500ms, found 8s"), "{}", ran.stderr);
    assert!(ran.stderr.contains("`fencepost help run`"), "{}", ran.stderr);
    let ran = shell.run(&["run", "d", "--wait", "soon", "--", "true"]).exits(64);
    assert!(ran.stderr.contains("--wait: must be a whole number with its unit"), "{}", ran.stderr);
    let problem = shell.run(&["acquire", "d", "--ttl", "25h", "--json"]).exits(64).problem();
    assert_eq!((&problem["field"], &problem["code"]), (&"ttl_ms".into(), &"invalid_input".into()));
    assert_eq!(problem["what"], "--ttl: must be 1s to 24h, found 25h");
    let lease = shell.run(&["show", ""]).exits(64);
    assert!(lease.stderr.contains("`fencepost help show`"), "{}", lease.stderr);
}

/// A tenth of the TTL is a margin that no holder believes in: a holding time within it is over before it begins.
#[test]
fn a_holding_time_that_could_never_be_used_is_refused_before_anything_is_granted() {
    let server = Server::start();
    let shell = server.shell();
    let mut advised = Vec::new();
    for command in [&["acquire", "d", "--max-hold", "1s"][..], &["run", "d", "--max-hold", "1s", "--", "true"]] {
        let ran = shell.run(command).exits(64);
        assert!(ran.stderr.starts_with("fencepost: --max-hold: 1s is too short beside --ttl 15s"), "{}", ran.stderr);
        let least = ran.stderr.lines().find_map(|line| line.strip_prefix("  next: --max-hold ")).unwrap();
        let least = least.split_whitespace().next().unwrap().to_owned();
        let words = command.iter().map(|word| if *word == "1s" { least.clone() } else { (*word).to_owned() });
        advised.push(words.collect::<Vec<_>>());
    }
    let history = shell.run(&["history", "d", "--json"]).exits(0).json();
    assert_eq!(history["items"], serde_json::json!([]));
    // What is advised is granted, and so is a holding time of a whole TTL. (How far one gets with the least of it is a matter
    // of how busy the machine is, and of no interest here.)
    advised.push(["run", "d", "--ttl", "1s", "--max-hold", "1s", "--", "true"].map(str::to_owned).to_vec());
    for (number, words) in (1..).zip(advised) {
        shell.run(&words);
        shell.run(&["release"]);
        let history = shell.run(&["history", "d", "--json"]).exits(0).json();
        let granted = |items: &[serde_json::Value]| items.iter().filter(|item| item["event"] == "granted").count();
        assert_eq!(granted(history["items"].as_array().unwrap()), number, "{words:?}");
    }
}
