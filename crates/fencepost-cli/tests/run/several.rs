//! Several domains in one `run`.

use std::{fs, thread, time::Duration};

use serde_json::Value;

use crate::{
    common::{Server, Shell, send, until},
    processes::{Running, stops_wholly},
};

#[test]
fn every_domain_has_a_grant_and_none_is_taken_for_the_only_one() {
    let server = Server::start();
    let shell = server.shell();
    let ran = shell.run(&["run", "b", "a", "c", "--", "sh", "-c", "echo \"$FENCEPOST_GRANTS\"; env"]).exits(0);
    let grants: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    let domains: Vec<&str> = grants.as_array().unwrap().iter().map(|grant| grant["domain"].as_str().unwrap()).collect();
    assert_eq!(domains, ["a", "b", "c"]);
    let tokens: Vec<u64> =
        grants.as_array().unwrap().iter().map(|grant| grant["token"].as_str().unwrap().parse().unwrap()).collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    for name in ["FENCEPOST_TOKEN=", "FENCEPOST_GRANT=", "FENCEPOST_DOMAIN="] {
        assert!(!ran.stdout.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

/// Mutant: neither the leases are dropped after a failed acquire nor is the session ended; either would do.
#[test]
fn one_that_is_held_gives_back_those_that_were_acquired() {
    let server = Server::start();
    let (a, b) = (server.shell(), server.shell());
    a.run(&["acquire", "b"]).exits(0);
    b.run(&["run", "a", "b", "c", "--", "touch", "ran"]).exits(75);
    b.run(&["run", "a", "b", "--if-held", "skip", "--", "touch", "ran"]).exits(0);
    assert!(!b.path("ran").exists());
    b.run(&["run", "a", "c", "--", "true"]).exits(0);
}

/// Mutant: domains are acquired in the order they were typed.
#[test]
fn two_that_want_the_same_domains_in_other_orders_never_wait_for_each_other() {
    let server = Server::start();
    let shell = server.shell();
    thread::scope(|scope| {
        // Two of each: whenever both domains are given back, somebody waits for either.
        for order in [["x", "y"], ["y", "x"], ["x", "y"], ["y", "x"]] {
            let shell = &shell;
            scope.spawn(move || {
                for _ in 0..4 {
                    let arguments = ["run", order[0], order[1], "--wait", "20s", "--", "sh", "-c", "echo >>runs"];
                    shell.run(&arguments).exits(0);
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(shell.path("runs")).unwrap().lines().count(), 16);
}

/// Mutant: `--advance` does nothing.
#[test]
fn every_domain_is_advanced_at_the_database() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &resource, "t", "--domain", "d"]).exits(0);
    let ran = shell.run(&["run", "a", "b", "--advance", &resource, "--json", "--", "true"]).exits(0);
    assert_eq!(ran.problem()["guarantee"], "FencedOnAcquire");
    let fences = shell.run(&["status", &resource, "--fences", "--json"]).exits(0).json();
    assert_eq!(fences["fence_items"].as_array().unwrap().len(), 2, "{fences}");
}

/// Mutant: `run` does not look how long FENCEPOST_GRANTS will be.
#[test]
fn more_domains_than_a_command_can_be_told_of_are_refused_before_any_is_acquired() {
    let server = Server::start();
    let shell = server.shell();
    let names = |number: usize| (0..number).map(|at| format!("many/{at}")).collect::<Vec<_>>();
    // Near the limit it takes the issuer's name to know; far above it takes nothing at all.
    for (number, url) in [(700, server.url.as_str()), (5_000, "http://127.0.0.1:1")] {
        let names = names(number);
        let words = ["run", "--url", url].into_iter().chain(names.iter().map(String::as_str));
        let words: Vec<&str> = words.chain(["--json", "--", "touch", "ran"]).collect();
        let problem = shell.run(&words).exits(64).problem();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("domains: must be 1 to 131054 bytes of FENCEPOST_GRANTS, found "), "{detail}");
        assert_eq!((&problem["code"], &problem["field"]), (&"invalid_input".into(), &"domains".into()));
    }
    assert!(!shell.path("ran").exists());
    let history = shell.run(&["history", "--prefix", "many/", "--json"]).exits(0).json();
    assert_eq!(history["items"], serde_json::json!([]), "nothing was acquired");
}

/// So many domains with names so long that the issuer's name decides whether they are too many.
fn near_the_limit() -> Vec<String> {
    (100..200).map(|number| format!("{}{number}", "\"".repeat(509))).collect()
}

/// Mutant: the issuer is asked for before signals are listened to; it ends by the signal itself, and says nothing.
#[test]
fn a_signal_ends_it_while_nobody_says_whether_they_are_too_many() {
    let shell = Shell::at("http://127.0.0.1:1");
    let names = near_the_limit();
    let words: Vec<&str> = ["run", "--wait", "10m"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut running = Running::of_quiet(shell.command(&[&words[..], &["--", "touch", "ran"]].concat()));
    running.warden();
    send("TERM", running.pid());
    running.ends_with(143);
    running.is_gone();
    assert!(!shell.path("ran").exists());
}

/// A quotation mark takes two bytes in the JSON of a grant, and four in the message that carries it to the command.
///
/// Mutant: the buffer of the gate has its usual size.
#[test]
fn as_many_grants_as_fit_into_a_variable_reach_the_command() {
    let server = Server::start();
    let shell = server.shell();
    let names = near_the_limit();
    let script = "printenv FENCEPOST_GRANTS >grants";
    let words: Vec<&str> = ["run", "--ttl", "60s"].into_iter().chain(names.iter().map(String::as_str)).collect();
    shell.run(&[&words[..], &["--", "sh", "-c", script]].concat()).exits(0);
    let grants = fs::read_to_string(shell.path("grants")).unwrap();
    assert!(grants.len() > 120_000, "{}", grants.len());
    let grants: Value = serde_json::from_str(&grants).unwrap();
    let domains: Vec<&str> = grants.as_array().unwrap().iter().map(|grant| grant["domain"].as_str().unwrap()).collect();
    assert_eq!(domains, names);
}

/// A `run` with as many domains as it can have, which waits for the last of them with its warden stopped. What comes once
/// it has that one, too.
fn started_long_while_the_warden_is_stopped(server: &Server, environment: &[(&str, &str)]) -> (Shell, Running, u32) {
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "zzz", "--ttl", "10m"]).exits(0);
    let names = near_the_limit();
    let words: Vec<&str> =
        ["run", "zzz", "--ttl", "60s", "--wait", "10m"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut command = shell.command(&[&words[..], &["--", "touch", "ran"]].concat());
    command.envs(environment.iter().copied());
    let running = Running::of_quiet(command);
    let shown = || shell.run(&["show", "zzz", "--json"]).exits(0).json()["items"][0].clone();
    until("it waits for the last of them", || shown()["queue"] == 1);
    let warden = running.warden();
    shell.sh(&stops_wholly(warden)).exits(0);
    let before = shown()["lease"].clone();
    holder.run(&["release"]).exits(0);
    until("it has the last of them, or had", || shown()["lease"] != before);
    (shell, running, warden)
}

/// A start that is as long as it can be is said to a warden that does not read at that moment, as on a busy machine.
///
/// Mutant: the connection to the warden has its usual room: half of the start is said, and nothing is started.
#[test]
fn a_long_start_waits_for_no_reader() {
    let server = Server::start();
    let (shell, mut running, warden) = started_long_while_the_warden_is_stopped(&server, &[]);
    // bounded: several times what `run` gives a warden to take a message
    thread::sleep(Duration::from_millis(500));
    send("CONT", warden);
    running.ends_with(0);
    assert!(shell.path("ran").exists());
}

/// A warden that has taken half of a start is not waited for: it may never go on, and the leases would be renewed for ever.
///
/// Mutant: `watch` after half a start (run/carry.rs); it does not end.
#[cfg(feature = "sabotage")]
#[test]
fn half_a_start_ends_at_once_with_nothing_started_and_the_leases_given_back() {
    let server = Server::start();
    let defect = [("FENCEPOST_SABOTAGE", "no_room_for_a_start")];
    let (shell, mut running, _) = started_long_while_the_warden_is_stopped(&server, &defect);
    running.ends_with(69);
    running.is_gone();
    assert!(!shell.path("ran").exists());
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]), "all were given back");
}
