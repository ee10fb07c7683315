//! Names through the command line: taken byte for byte, or refused with field, rule and limit in the words of the API.

use std::{
    ffi::OsString,
    io::{Read, Write},
    net::TcpStream,
    os::unix::ffi::OsStringExt,
};

use crate::common::{Ran, Server};

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
        shell.sh(&line).exits(0);
        shell.run(&["release"]).exits(80);
    }
}

/// Mutant: the names of a printed line stand before its options, as those of every other name.
#[test]
fn every_line_that_is_printed_for_a_name_like_an_option_can_be_pasted() {
    let server = Server::start();
    let (shell, other) = (server.shell(), server.shell());
    for name in ["-x", "--json", "-- --"] {
        let paste = |line: &str, code: i32| {
            let ran = shell.sh(line).exits(code);
            assert!(!ran.stderr.contains("unexpected argument"), "{line}: {}", ran.stderr);
            ran
        };
        let lines = |ran: &Ran, command: &str| {
            let all = ran.stdout.lines().chain(ran.stderr.lines());
            all.filter_map(|line| line.find(command).map(|at| line[at..].to_owned())).collect::<Vec<_>>()
        };
        let free = shell.run(&["show", "--", name]).exits(0);
        paste(&free.next("fencepost acquire"), 0);
        let explained = shell.run(&["explain", "--", name]).exits(0);
        paste(&explained.next("fencepost history"), 0);
        let held = other.run(&["acquire", "--", name]).exits(75);
        assert_eq!(lines(&held, "fencepost acquire").len(), 1, "{}", held.stderr);
        let run = other.run(&["run", "--", name, "--", "true"]).exits(75);
        let again = run.next("fencepost run").replace("60s", "0s").replace('…', "true");
        paste(&again, 75);
        let broken = paste(&run.next("fencepost break"), 0);
        paste(&broken.next("fencepost break").replace("RESOURCE", "file:never"), 81);
        paste("fencepost release", 80);

        // Behind dashes of their own, several of them.
        let script =
            format!("fencepost run --if-held fail -- '{name}' plain -- sh -c 'printf %s \"$FENCEPOST_GRANTS\"' -- -a");
        let grants = paste(&script, 0).stdout;
        assert!(grants.contains(&format!("\"domain\":\"{name}\"")) && grants.contains("\"plain\""), "{grants}");
        let guarded = shell.run(&["guard", "file:f", &format!("--domain={name}")]).exits(0);
        paste(&guarded.next("fencepost run").replace("COMMAND", "true"), 0);
        let wrong = shell.run(&["guard", "file:f", "--domain", "another"]).exits(81);
        paste(&wrong.next("fencepost guard"), 0);
        shell.sh("rm f .f.*; true").exits(0);
    }
    // The value of an option, too, and as the parser is wrong about it.
    for (typed, tip) in
        [("guard file:f --domain -d", "--domain='-d'"), ("write file:f --operation -o", "--operation='-o'")]
    {
        let told = shell.sh(&format!("fencepost {typed}")).exits(64);
        assert!(told.stderr.contains(&format!("join it to its option: '{tip}'")), "{}", told.stderr);
    }
    let told = shell.run(&["show", "--json", "-x"]).exits(64);
    assert!(!told.stderr.contains("join it") && told.stderr.contains("'-- -x'"), "{}", told.stderr);
    // What is no name remains a mistake.
    other.run(&["run", "--", "sh", "-c", "touch ran", "--", "true"]).exits(64);
    assert!(!other.path("ran").exists());
    let without = other.run(&["run", "--", "-x", "--"]).exits(64);
    assert!(without.stderr.contains("<CMD>") && !without.stderr.contains("behind-dashes"), "{}", without.stderr);
    let mistyped = other.run(&["run", "--domain", "d", "--", "true"]).exits(64);
    assert!(!mistyped.stderr.contains("behind-dashes"), "{}", mistyped.stderr);
}

/// Mutant: an option takes no value that begins with a dash.
#[test]
fn a_sign_is_refused_with_the_option_its_rule_and_its_limits() {
    let server = Server::start();
    let shell = server.shell();
    shell.database("x.db", "CREATE TABLE t (d TEXT)");
    let held = "held_exit_code: must be a whole number, 1 to 255";
    let epoch = "epoch: must be a whole number, 0 to 1048575";
    let token = "token: must be a decimal string such as";
    for (words, said) in [
        (&["acquire", "d", "--ttl", "-5s"][..], "--ttl: must be 1s to 24h, found -5s"),
        (&["acquire", "d", "--ttl", "+5s"], "--ttl: must be 1s to 24h, found +5s"),
        (&["acquire", "d", "--wait", "-1ms"], "--wait: must be 0s to 10m, found -1ms"),
        (&["acquire", "d", "--max-hold", "-1h"], "--max-hold: must be 1s to 8784h, found -1h"),
        (&["acquire", "d", "--min-hold", "-"], "--min-hold: must be a whole number with its unit"),
        (&["run", "d", "--lock-delay", "-5s", "--", "true"], "--lock-delay: must be "),
        (&["run", "d", "--stop-after", "-5s", "--", "true"], "--stop-after: must be "),
        (&["acquire", "d", "--ttl", "--wait"], "--ttl: must be a whole number with its unit"),
        (&["acquire", "d", "--held-exit-code", "-1"], held),
        (&["run", "d", "--held-exit-code", "-1", "--", "true"], held),
        (&["run", "d", "--held-exit-code", "x", "--", "true"], held),
        (&["acquire", "d", "--held-exit-code", "256"], "held_exit_code: must be 1 to 255, found 256"),
        (&["run", "d", "--status-fd", "-9", "--", "true"], "status_fd: must be a whole number, 0 to 2147483647"),
        (&["ls", "--limit", "-1"], "limit: must be a whole number of rows, 1 to 1000"),
        (&["history", "d", "--limit", "-1"], "limit: must be a whole number of rows, 1 to 1000"),
        (&["history", "--token", "-1"], token),
        (&["explain", "--token", "-1"], token),
        (&["collect", "sqlite:x.db", "--horizon", "-1"], "horizon: must be a decimal string"),
        (&["write", "file:f", "--operation", "o", "--born", "-1"], "born: must be a decimal string"),
        (&["serve", "--data", "d", "--init", "--epoch", "-1"], epoch),
        (&["serve", "--data", "d", "--init", "--epoch", "1048576"], "epoch: must be 0 to 1048575, found 1048576"),
        (&["guard", "sqlite:x.db", "t", "--domain", "d", "--issuer", "i", "--epoch", "-1"], epoch),
        (&["prove", "http://127.0.0.1:9/x", "--domain", "d", "--epoch", "-1"], epoch),
        (&["prove", "http://127.0.0.1:9/x", "--domain", "d", "--rounds", "-1"], "rounds: must be a whole number, 1 to"),
        (&["prove", "http://127.0.0.1:9/x", "--domain", "d", "--timeout", "-1s"], "--timeout: must be 100ms to 1m"),
        (&["watch", "--count", "-1"], "count: must be a whole number of events, at least 1"),
    ] {
        let ran = shell.run(words).exits(64);
        assert!(ran.stderr.starts_with(&format!("fencepost: {said}")), "{words:?}: {}", ran.stderr);
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let problem = shell.run(&[&words[..at], &["--json"], &words[at..]].concat()).exits(64).problem();
        assert_eq!(problem["code"], "invalid_input", "{words:?}: {problem}");
        assert!(problem["field"].is_string(), "{words:?}: {problem}");
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
