//! The command is never started on a doubt, and every reason has its own exit code.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::common::{
    Server, Shell,
    liar::{Act, Liar, silent},
};

/// Whatever the coordinator said, the command must not have run.
#[track_caller]
fn not_started(shell: &Shell, options: &[&str], code: i32, why: &str) {
    let ran = shell.run(&[&["run", "d", "--ttl", "1s"], options, &["--", "touch", "ran"]].concat()).exits(code);
    assert!(ran.stderr.contains(why) && ran.stderr.contains("next: "), "{why:?} in {}", ran.stderr);
    assert!(!shell.path("ran").exists(), "started on: {}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

fn said(server: &Server, path: &'static str, act: Act) -> Shell {
    Shell::at(&Liar::before(&server.url, path, move |_| act.clone()).url)
}

#[test]
fn a_wrong_answer_starts_nothing() {
    let server = Server::start();
    let cases = [
        (Act::json(500, "oops"), "status 500"),
        (Act::json(201, "{"), "EOF"),
        (Act::json(201, "{}"), "is missing"),
        (Act::json(200, "granted"), "body: "),
        (Act::json(204, ""), "status 204"),
        (Act::Say("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_owned()), "status 302"),
        (Act::Say("200 OK, granted\r\n\r\n".to_owned()), "did not answer"),
        (Act::Say(String::new()), "did not answer"),
        (Act::LoseAnswer, "did not answer"),
        (Act::Replace("\"token\":", "\"other\":"), "token: is missing"),
        (Act::Replace("\"domain\":\"d\"", "\"domain\":\"e\""), "domain: is not the one"),
        (Act::Replace("\"contract\":\"safety\"", "\"contract\":\"advisory\""), "contract: is not the one"),
        (Act::Replace("\"token\":\"", "\"token\":\"-"), "token"),
        (Act::Replace("\"token\":\"", "\"token\":\"0"), "token"),
        (Act::Replace("\"sequence\":", "\"sequence\":1"), "contradicts"),
    ];
    for (act, why) in cases {
        not_started(&said(&server, "/v1/leases", act), &[], 69, why);
    }
    // Whatever was granted behind a wrong answer went with its session.
    server.shell().run(&["run", "d", "--wait", "5s", "--", "true"]).exits(0);
}

#[test]
fn token_zero_starts_nothing() {
    let server = Server::start();
    let grant = server.shell().run(&["acquire", "other", "--json"]).exits(0).json();
    let zero = serde_json::json!({
        "issuer": grant["issuer"], "lease": grant["lease"], "domain": "d", "token": "0", "session": grant["session"],
        "contract": "safety", "ttl_ms": 1000, "remaining_ms": 1000, "elapsed_ms": 0, "boot": grant["boot"],
    });
    not_started(&said(&server, "/v1/leases", Act::json(201, &zero.to_string())), &[], 69, "token: must be 1 to");
}

/// Mutant: neither the warden nor the process at the gate looks whether there is time; either would do.
#[test]
fn a_grant_with_nothing_left_starts_nothing() {
    let server = Server::start();
    let deaf = Liar::before(&server.url, "/heartbeat", |_| Act::json(500, "x"));
    let nothing_left = Act::Replace("\"remaining_ms\":", "\"remaining_ms\":0,\"was\":");
    let shell = Shell::at(&Liar::before(&deaf.url, "/v1/leases", move |_| nothing_left.clone()).url);
    not_started(&shell, &[], 80, "lost before it could be used");
    // Beside the margin of six seconds it leaves four, and TERM and KILL need more. (They are long enough for a busy machine
    // to come that far.)
    let little = Act::Replace("\"remaining_ms\":", "\"remaining_ms\":10000,\"was\":");
    let shell = Shell::at(&Liar::before(&deaf.url, "/v1/leases", move |_| little.clone()).url);
    let ran = shell.run(&["run", "d", "--ttl", "60s", "--", "touch", "ran"]).exits(80);
    assert!(ran.stderr.contains("too little of the lease was left"), "{}", ran.stderr);
    assert!(ran.stderr.contains("was not started") && !shell.path("ran").exists(), "{}", ran.stderr);
}

#[test]
fn a_session_that_cannot_be_opened_starts_nothing() {
    let server = Server::start();
    for act in [Act::json(500, "x"), Act::json(201, "{}"), Act::Say(String::new()), Act::LoseAnswer] {
        not_started(&said(&server, "/v1/sessions", act), &[], 69, "next: ");
    }
}

#[test]
fn a_coordinator_out_of_reach_is_told_from_one_that_says_no() {
    not_started(&Shell::at("http://127.0.0.1:1"), &[], 69, "Connection refused");
    not_started(&Shell::at("http://no-such-host.invalid:7421"), &[], 69, "did not answer");
    for (url, why) in [("https://127.0.0.1:1", "TLS"), ("127.0.0.1", "http://")] {
        not_started(&Shell::at(url), &[], 64, why);
    }
}

/// Whoever waits for a second waits five more for an answer, and not the ten that it may take elsewhere.
///
/// Mutant: no limit around `Session::open`.
#[test]
fn a_coordinator_that_takes_calls_and_answers_nothing_is_given_up_soon_after_the_wait() {
    let (_listener, url) = silent();
    for options in [&[][..], &["--wait", "1s"], &["--wait", "1s", "--if-held", "skip"]] {
        let asked = Instant::now();
        not_started(&Shell::at(&url), options, 69, "no answer in");
        assert!(asked.elapsed() < Duration::from_secs(10), "{options:?}: {:?}", asked.elapsed());
    }
}

#[test]
fn the_reasons_have_exit_codes_of_their_own() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    not_started(&shell, &[], 75, "d is held by");
    not_started(&shell, &["--held-exit-code", "9"], 9, "fencepost run d --wait 60s -- …");
    let reserved = server.shell();
    reserved.run(&["run", "d2", "--min-hold", "60s", "--", "true"]).exits(0);
    let ran = reserved.run(&["run", "d2", "--", "touch", "ran"]).exits(75);
    assert!(ran.stderr.contains("min_hold"), "{}", ran.stderr);
}

#[test]
fn a_receiver_that_cannot_be_advanced_starts_nothing() {
    let server = Server::start();
    let shell = server.shell();
    not_started(&shell, &["--advance", "sqlite:none.db"], 78, "there is no database");
    let bare = shell.database("bare.db", "CREATE TABLE t (d TEXT)");
    not_started(&shell, &["--advance", &bare], 81, "not_guarded");
    fs::write(shell.path("plain"), "x").unwrap();
    not_started(&shell, &["--advance", "file:plain"], 81, "fencepost guard file:plain");
    not_started(&shell, &["--advance", "redis://x"], 64, "resource");
    not_started(&shell, &["--advance", &bare, "--contract", "advisory"], 64, "needs a token");
    // Another coordinator's tokens are no tokens here.
    let guarded = shell.database("guarded.db", "CREATE TABLE t (d TEXT)");
    let other = Server::start();
    other.shell().run(&["guard", &guarded, "t", "--domain", "d"]).exits(0);
    not_started(&shell, &["--advance", &guarded], 81, "another issuer");
    // Whatever was granted before the refusal was given back.
    shell.run(&["run", "d", "--", "true"]).exits(0);
}

#[test]
fn a_command_line_that_is_wrong_starts_nothing() {
    let server = Server::start();
    let shell = server.shell();
    for options in [
        &["--ttl", "15"][..],
        &["--ttl", "999ms"],
        &["--wait", "601s"],
        &["--stop-after", "600ms"],
        &["--if-held", "perhaps"],
        &["--contract", "exclusive"],
        &["--held-exit-code", "0"],
        &["d"],
        &[""],
    ] {
        let ran = shell.run(&[&["run", "d", "--ttl", "1s"], options, &["--", "touch", "ran"]].concat()).exits(64);
        assert!(!ran.stderr.is_empty() && !shell.path("ran").exists(), "{options:?}");
    }
    shell.run(&["run", "d"]).exits(64);
    shell.run(&["run", "d", "touch", "ran"]).exits(64);
    shell.run(&["run", "--", "touch", "ran"]).exits(64);
    assert!(!shell.path("ran").exists());
}
