//! Whatever is not a clear grant is no permission: the command says why and exits with something else than 0 or 75.

use std::time::{Duration, Instant};

use crate::common::{
    Ran, Server, Shell, fencepost,
    liar::{Act, Liar, silent},
};

#[track_caller]
fn refused(shell: &Shell, code: i32, why: &str) {
    let ran = shell.run(&["acquire", "d", "--ttl", "1s"]).exits(code);
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

fn said(server: &Server, act: Act) -> Shell {
    Shell::at(&Liar::before(&server.url, "/v1/leases", move |_| act.clone()).url)
}

#[test]
fn a_wrong_answer_is_never_a_grant() {
    let server = Server::start();
    let cases = [
        (Act::json(500, "oops"), "status 500"),
        (Act::json(201, "{"), "EOF"),
        (Act::json(201, "{}"), "issuer: is missing"),
        (Act::json(201, "granted"), "body: "),
        (Act::json(204, ""), "status 204"),
        (Act::Say("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".to_owned()), "status 302"),
        (Act::Say("200 OK, granted\r\n\r\n".to_owned()), "did not answer"),
        (Act::Say(String::new()), "did not answer"),
        (Act::Replace("\"token\":", "\"other\":"), "token: is missing"),
        (Act::Replace("\"domain\":\"d\"", "\"domain\":\"e\""), "domain: is not the one"),
        (Act::Replace("\"contract\":\"safety\"", "\"contract\":\"advisory\""), "contract: is not the one"),
        (Act::Replace("\"token\":\"", "\"token\":\"-"), "token"),
        (Act::Replace("\"token\":\"", "\"token\":\"0"), "token"),
        (Act::Replace("\"sequence\":", "\"sequence\":1"), "contradicts"),
    ];
    for (act, why) in cases {
        let shell = said(&server, act.clone());
        let ran = shell.run(&["acquire", "d", "--ttl", "1s"]).exits(82);
        assert!(ran.stderr.contains(why), "{act:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{act:?}");
        shell.run(&["renew"]).exits(80);
        shell.run(&["release"]).exits(0);
    }
}

#[test]
fn token_zero_is_never_a_grant() {
    let server = Server::start();
    let grant = server.shell().run(&["acquire", "d", "--json"]).exits(0).json();
    let zero = serde_json::json!({
        "issuer": grant["issuer"], "lease": grant["lease"], "domain": "d", "token": "0", "session": grant["session"],
        "contract": "safety", "ttl_ms": 1000, "remaining_ms": 1000, "elapsed_ms": 0, "boot": grant["boot"],
    });
    refused(&said(&server, Act::json(201, &zero.to_string())), 82, "token: must be 1 to");
}

#[test]
fn a_coordinator_that_is_not_there_is_told_from_one_that_says_no() {
    let nobody = Shell::at("http://127.0.0.1:1");
    refused(&nobody, 69, "Connection refused");
    assert!(!nobody.session_file().exists());
    refused(&Shell::at("http://no-such-host.invalid:7421"), 69, "did not answer");
    for (url, why) in [("https://127.0.0.1:1", "TLS"), ("127.0.0.1", "http://"), ("http://a b", "address")] {
        refused(&Shell::at(url), 64, why);
    }
    for arguments in [&["ls"][..], &["show", "d"], &["break", "d", "--lease", &"0".repeat(32), "--reason", "r"]] {
        nobody.run(arguments).exits(69);
    }
}

#[test]
fn a_coordinator_that_cannot_open_a_session_grants_nothing() {
    let server = Server::start();
    for act in [Act::json(500, "x"), Act::json(201, "{}"), Act::Say(String::new())] {
        let said = act.clone();
        let shell = Shell::at(&Liar::before(&server.url, "/v1/sessions", move |_| said.clone()).url);
        let ran = shell.run(&["acquire", "d", "--ttl", "1s"]).exits(69);
        assert_eq!(ran.stdout, "", "{act:?}");
        assert!(!shell.session_file().exists());
    }
}

/// Mutant: the deadline not looked at before the grant is handed over.
#[test]
fn a_grant_with_nothing_left_is_renewed_or_not_handed_over() {
    let server = Server::start();
    let nothing_left = || Act::Replace("\"remaining_ms\":", "\"remaining_ms\":0,\"was\":");
    let shell = said(&server, nothing_left());
    shell.run(&["acquire", "d", "--ttl", "5s"]).exits(0);
    shell.run(&["release"]).exits(0);
    let deaf = Liar::before(&server.url, "/heartbeat", |_| Act::json(500, "x"));
    let liar = Liar::before(&deaf.url, "/v1/leases", move |_| nothing_left());
    let ran = Shell::at(&liar.url).run(&["acquire", "d", "--ttl", "5s"]).exits(80);
    assert!(ran.stderr.contains("lost before it could be handed over") && ran.stdout.is_empty(), "{ran:?}");
}

#[test]
fn output_that_nobody_takes_is_a_failure_and_says_that_the_lease_is_held() {
    let server = Server::start();
    let shell = server.shell();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = shell.command(&["acquire", "d", "--export"]).stdout(full).output().unwrap();
    let ran = Ran::of(output).exits(73);
    assert!(ran.stderr.contains("the lease is held all the same") && ran.stderr.contains("fencepost release"));
    shell.run(&["release"]).exits(0);
}

/// Whoever waits for a second waits five more for an answer, and not the ten that it may take elsewhere. Where it may have
/// granted, the next one asks again under the same request id.
///
/// Mutant: the usual time limit for its calls.
#[test]
fn a_coordinator_that_takes_calls_and_answers_nothing_is_given_up_soon_after_the_wait() {
    let (_listener, url) = silent();
    let server = Server::start();
    let hangs = Liar::before(&server.url, "/v1/leases", |number| if number == 1 { Act::Hang } else { Act::Pass });
    for (shell, code) in [(Shell::at(&url), 69), (Shell::at(&hangs.url), 82)] {
        let asked = Instant::now();
        let ran = shell.run(&["acquire", "d", "--wait", "1s"]).exits(code);
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}: {ran:?}", asked.elapsed());
        assert!(ran.stderr.contains("no answer in") && ran.stdout.is_empty(), "{ran:?}");
        if code == 82 {
            let request = shell.kept()["asked"]["request_id"].clone();
            shell.run(&["acquire", "d", "--wait", "1s"]).exits(0);
            assert_eq!(shell.kept()["asked"]["request_id"], request);
        }
    }
}

#[test]
fn a_command_line_that_is_wrong_exits_64_and_changes_nothing() {
    for arguments in [
        &[][..],
        &["nope"],
        &["acquire"],
        &["acquire", "a", "b"],
        &["acquire", "a", "--contract", "exclusive"],
        &["acquire", "a", "--metadata", "novalue"],
        &["acquire", "a", "--metadata", "n=1", "--metadata", "n=2"],
        &["acquire", "a", "--ttl", "15"],
        &["renew", "extra"],
        &["release", "extra"],
        &["break", "a"],
        &["ls", "--limit", "0"],
        &["ls", "--limit", "1001"],
        &["ls", "--cursor", "x"],
        &["serve"],
        &["serve", "--data", "d", "--epoch", "1"],
        &["guard", "sqlite:x"],
        &["help", "nope"],
    ] {
        let ran = Ran::of(fencepost().args(arguments).output().unwrap()).exits(64);
        assert!(!ran.stderr.is_empty() && ran.stdout.is_empty(), "{arguments:?}");
    }
}
