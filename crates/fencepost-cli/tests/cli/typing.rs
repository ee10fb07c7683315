//! Mistakes in typing: what is said about them leads to the line that was meant.

use crate::common::{Ran, Server, Shell, fencepost};

/// An option that the environment or a default has given is not shown as one that has to be typed.
/// Mutant: no usage of its own for each command.
#[test]
fn a_usage_line_never_demands_what_is_there_already() {
    let shell = Shell::at("http://127.0.0.1:1");
    for command in [
        "acquire", "advance", "break", "check", "collect", "explain", "guard", "history", "recover", "run", "show",
        "write",
    ] {
        let told = shell.run(&[command]).exits(64).stderr;
        assert!(told.contains(&format!("Usage: fencepost {command} [OPTIONS] ")), "{told}");
        assert!(!told.contains("--url"), "{told}");
    }
    let told = shell.run(&["history"]).exits(64).stderr;
    for way in ["history [OPTIONS] <DOMAIN>", "history [OPTIONS] --prefix <TEXT>", "history [OPTIONS] --token <TOKEN>"]
    {
        assert!(told.contains(way), "{told}");
    }
    assert!(shell.run(&["explain"]).exits(64).stderr.contains("--token <TOKEN> --receiver <RESOURCE> [DOMAIN]"));
}

#[test]
fn a_command_without_the_dashes_before_it_is_shown_with_them() {
    let shell = Shell::at("http://127.0.0.1:1");
    let told = shell.run(&["run", "nightly", "./job.sh"]).exits(64);
    assert_eq!(told.next("fencepost run nightly"), "fencepost run nightly -- ./job.sh");
    let told = shell.run(&["run", "nightly", "ls", "-l", "a b"]).exits(64);
    assert_eq!(told.next("fencepost run nightly"), "fencepost run nightly -- ls -l 'a b'");
    let told = shell.run(&["run", "--ttl", "5s", "nightly", "true"]).exits(64);
    assert!(told.stderr.contains("behind `--`"), "{}", told.stderr);
    let told = shell.run(&["run", "nightly"]).exits(64);
    assert!(told.stderr.contains("behind `--`"), "{}", told.stderr);
    // Where the dashes are there, something else is wrong.
    assert!(!shell.run(&["run", "--", "true"]).exits(64).stderr.contains("next: fencepost run"));
    assert!(!shell.run(&["acquire", "a", "b"]).exits(64).stderr.contains("fencepost run"));
    let problem = shell.run(&["run", "nightly", "true", "--json"]).exits(64).problem();
    assert!(problem["fix"].as_str().unwrap().contains("fencepost run nightly -- true"), "{problem}");
}

/// Mutant: the parser chooses by itself, and does as the environment says.
#[test]
fn what_the_parser_says_has_no_colours_but_on_a_terminal() {
    let shell = Shell::at("http://127.0.0.1:1");
    for words in [&["run", "--help"][..], &["no-such-command"], &["acquire"]] {
        let mut command = shell.command(words);
        command.env("CLICOLOR_FORCE", "1").env("FORCE_COLOR", "1").env_remove("NO_COLOR");
        let ran = Ran::of(command.output().unwrap());
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{words:?}: {ran:?}");
    }
}

#[test]
fn an_address_that_cannot_be_one_is_told_from_a_coordinator_that_is_away() {
    let shell = Shell::at("http://127.0.0.1:1");
    for (url, says) in [
        ("http://127.0.0.1:99999", "the port \"99999\", which is not 1 to 65535"),
        ("http://127.0.0.1:0", "the port \"0\""),
        ("http://127.0.0.1:", "the port \"\""),
        ("http://127.0.0.1:http/", "the port \"http\""),
        ("http://[::1]:70000/", "the port \"70000\""),
        ("http://host:-1", "the port \"-1\""),
        ("ftp://127.0.0.1:7421", "does not begin with http://"),
        ("127.0.0.1:7421", "does not begin with http://"),
        ("https://127.0.0.1:7421", "TLS"),
        ("http://", "is not an address"),
        ("", "http://"),
    ] {
        for command in
            [&["ls"][..], &["acquire", "d"], &["run", "d", "--", "true"], &["guard", "file:f", "--domain", "f"]]
        {
            let (first, rest) = command.split_at(1);
            let told = shell.run(&[first, &["--url", url], rest].concat()).exits(64);
            assert!(told.stderr.contains(says), "{url} {command:?}: {}", told.stderr);
            assert!(told.stderr.contains("--url http://127.0.0.1:7421"), "{}", told.stderr);
        }
    }
    for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://127.0.0.1:1/"] {
        shell.run(&["ls", "--url", url]).exits(69);
    }
}

#[test]
fn one_is_one_and_not_several() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.sh("echo 1 | fencepost run f -- fencepost write file:f --operation o").exits(0);
    let told = shell.run(&["collect", "file:f", "--horizon", "0.1"]).exits(0).stdout;
    assert!(told.starts_with("forgot 1 fence and 0 operation records; "), "{told}");
}

#[test]
fn without_a_place_for_the_session_it_says_what_to_set() {
    let ran = Ran::of(fencepost().args(["renew"]).output().unwrap()).exits(78);
    assert_eq!(
        ran.stderr,
        "fencepost: nothing says where to keep the session\n  next: export FENCEPOST_SESSION_FILE=$HOME/.fencepost-session\n  next: fencepost help renew\n"
    );
}
