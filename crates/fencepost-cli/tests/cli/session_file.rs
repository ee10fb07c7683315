//! The session file: private, whole, and never guessed at.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::common::{Ran, Server, Shell, fencepost, until};

#[test]
fn it_is_for_its_owner_only_and_written_before_the_acquire_is_sent() {
    use crate::common::liar::{Act, Liar};

    let server = Server::start();
    let liar = Liar::before(&server.url, "/v1/leases", |_| Act::LoseAnswer);
    let shell = Shell::at(&liar.url);
    shell.run(&["acquire", "d", "--ttl", "1s"]).exits(82);
    let kept = shell.kept();
    assert!(kept["granted"].is_null() && kept["asked"]["request_id"].as_str().unwrap().len() == 32, "{kept}");
    let mode = fs::metadata(shell.session_file()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn without_it_nothing_was_acquired() {
    let shell = Shell::at("http://127.0.0.1:1");
    for command in ["renew", "release"] {
        let ran = shell.run(&[command]).exits(78);
        assert!(ran.stderr.contains("nothing was acquired with it") && ran.stderr.contains("fencepost acquire DOMAIN"));
    }
}

#[test]
fn lost_while_the_lease_is_held_it_leaves_the_lease_to_its_end() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "5s"]).exits(0);
    fs::remove_file(shell.session_file()).unwrap();
    shell.run(&["renew"]).exits(78);
    shell.run(&["release"]).exits(78);
    shell.run(&["acquire", "d"]).exits(75);
    shell.run(&["acquire", "d", "--wait", "20s"]).exits(0);
}

/// Mutant: `release` notes nothing when it has removed the file.
#[test]
fn released_twice_it_says_the_same_until_something_is_acquired_again() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let first = shell.run(&["release", "--json"]).exits(0).json();
    for _ in 0..2 {
        assert_eq!(shell.run(&["release", "--json"]).exits(0).json(), first);
    }
    assert!(shell.run(&["release"]).exits(0).stdout.starts_with("released d, and had done so before"));
    shell.run(&["renew"]).exits(78);

    // How a lease was lost stays the answer, too.
    shell.run(&["acquire", "d"]).exits(0);
    shell.sh(&shell.run(&["show", "d"]).exits(0).next("fencepost break")).exits(0);
    let lost = shell.run(&["release"]).exits(80).stderr;
    assert_eq!(shell.run(&["release"]).exits(80).stderr, lost);

    // A note that others could have written is not believed.
    let lock = shell.path("session.json.lock");
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    shell.run(&["release"]).exits(78);
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();

    // What became of a lease that ended by itself is told alike, too.
    shell.run(&["acquire", "d", "--ttl", "1s"]).exits(0);
    until("the lease has ended", || shell.run(&["ls", "--json"]).exits(0).json()["items"] == serde_json::json!([]));
    let ended = shell.run(&["release", "--json"]).exits(80);
    let again = shell.run(&["release", "--json"]).exits(80);
    assert_eq!((again.stdout, again.stderr), (ended.stdout, ended.stderr));

    // What was given back before says nothing of what is held now, in a file that was lost.
    shell.run(&["acquire", "e", "--ttl", "2s"]).exits(0);
    fs::remove_file(shell.session_file()).unwrap();
    shell.run(&["release"]).exits(78);
}

/// A pipe would be waited for until somebody writes into it.
///
/// Mutants: the file is opened without `NONBLOCK`; nobody looks what the lock is; nor what a page's name is.
#[test]
fn what_is_no_plain_file_is_refused_and_never_waited_for() {
    let server = Server::start();
    let shell = server.shell();
    shell.sh("mkfifo pipe beside.lock && mkdir folder").exits(0);
    for (file, command, code) in [
        ("pipe", "renew", 78),
        ("pipe", "release", 78),
        ("pipe", "acquire d", 78),
        ("beside", "acquire d", 78),
        ("folder", "renew", 78),
        ("/dev/null", "renew", 78),
    ] {
        let script = format!("FENCEPOST_SESSION_FILE={file} timeout 60 fencepost {command}");
        let ran = shell.sh(&script).exits(code);
        assert!(ran.stderr.contains("is no plain file"), "{script}: {}", ran.stderr);
    }
    for resource in ["sqlite:pipe", "file:pipe", "sqlite:folder", "file:folder"] {
        let ran = shell.sh(&format!("timeout 60 fencepost status {resource}"));
        assert!(ran.stderr.contains("plain file"), "{resource}: {}", ran.stderr);
    }
    let pages = shell.sh("mkdir pages && mkfifo pages/fencepost.1 && timeout 60 fencepost man --dir pages").exits(73);
    assert!(pages.stderr.contains("pages/fencepost.1: is no plain file"), "{}", pages.stderr);
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}

/// Mutant: every folder above it is made.
#[test]
fn a_wrong_place_for_it_is_noticed_and_not_made() {
    let server = Server::start();
    let shell = server.shell();
    shell
        .sh("FENCEPOST_SESSION_FILE=one/s fencepost acquire d && FENCEPOST_SESSION_FILE=one/s fencepost release")
        .exits(0);
    let wrong = shell.sh("FENCEPOST_SESSION_FILE=no/where/s fencepost acquire d").exits(73);
    assert!(wrong.stderr.contains("no/where/s cannot be made") && !shell.path("no").exists(), "{}", wrong.stderr);
}

#[test]
fn damaged_it_is_refused_with_what_to_do_and_left_alone() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let whole = fs::read_to_string(shell.session_file()).unwrap();
    let secret = shell.kept()["secret"].as_str().unwrap().to_owned();
    for damaged in [
        String::new(),
        whole[..whole.len() / 2].to_owned(),
        "not json".to_owned(),
        whole.replace("\"layout\":1", "\"layout\":2"),
        whole.replace(&secret, &secret[1..]),
        whole.replace("\"session\":\"", "\"session\":\"x"),
        format!("{whole}{whole}"),
    ] {
        fs::write(shell.session_file(), &damaged).unwrap();
        for command in [&["renew"][..], &["release"], &["acquire", "e"]] {
            let ran = shell.run(command).exits(78);
            assert!(ran.stderr.contains("is damaged") && ran.stderr.contains("rm "), "{}", ran.stderr);
            assert!(!ran.stderr.contains(&secret), "{}", ran.stderr);
        }
        assert_eq!(fs::read_to_string(shell.session_file()).unwrap(), damaged);
    }
    fs::write(shell.session_file(), whole).unwrap();
    shell.run(&["release"]).exits(0);
}

#[test]
fn with_a_secret_that_is_not_its_sessions_nothing_is_allowed() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let whole = fs::read_to_string(shell.session_file()).unwrap();
    let secret = shell.kept()["secret"].as_str().unwrap().to_owned();
    fs::write(shell.session_file(), whole.replace(&secret, &"0".repeat(64))).unwrap();
    shell.run(&["renew"]).exits(77);
    shell.run(&["release"]).exits(77);
    fs::write(shell.session_file(), whole).unwrap();
    shell.run(&["release"]).exits(0);
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let server = Server::start();
    let shell = server.shell();
    std::os::unix::fs::symlink(shell.path("elsewhere"), shell.path("session.json.lock")).unwrap();
    shell.run(&["acquire", "d"]).exits(73);
    assert!(!shell.path("elsewhere").exists());
}

#[test]
fn readable_by_others_it_is_refused() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    for mode in [0o640, 0o604, 0o666, 0o601] {
        fs::set_permissions(shell.session_file(), fs::Permissions::from_mode(mode)).unwrap();
        for command in [&["renew"][..], &["release"], &["acquire", "e"]] {
            let ran = shell.run(command).exits(78);
            assert!(
                ran.stderr.contains(&format!("mode {mode:o}")) && ran.stderr.contains("chmod 600"),
                "{}",
                ran.stderr
            );
        }
    }
    fs::set_permissions(shell.session_file(), fs::Permissions::from_mode(0o600)).unwrap();
    shell.run(&["release"]).exits(0);
}

#[test]
fn one_file_has_one_lease() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    let other = shell.run(&["acquire", "e"]).exits(78);
    assert!(other.stderr.contains("the live lease on d") && other.stderr.contains("FENCEPOST_SESSION_FILE=PATH"));
    let same = shell.run(&["acquire", "d", "--held-exit-code", "9"]).exits(9);
    assert!(same.stderr.contains("held already") && same.stderr.contains("fencepost release"), "{}", same.stderr);
    let mut elsewhere = shell.command(&["acquire", "e"]);
    elsewhere.env("FENCEPOST_SESSION_FILE", shell.path("e.json"));
    Ran::of(elsewhere.output().unwrap()).exits(0);
    shell.run(&["renew"]).exits(0);
}

#[test]
fn what_is_over_makes_room_for_the_next() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "1s"]).exits(0);
    until("the lease has ended", || shell.run(&["acquire", "e"]).code == Some(0));
}

#[test]
fn a_lease_at_a_coordinator_that_is_gone_is_not_forgotten_silently() {
    let (mut gone, server) = (Server::start(), Server::start());
    let mut shell = gone.shell();
    shell.run(&["acquire", "d"]).exits(0);
    gone.kill();
    shell.url.clone_from(&server.url);
    let ran = shell.run(&["acquire", "e"]).exits(69);
    assert!(ran.stderr.contains("has a lease on d") && ran.stderr.contains("gone for good: rm "), "{}", ran.stderr);
    fs::remove_file(shell.session_file()).unwrap();
    shell.run(&["acquire", "e"]).exits(0);
}

#[test]
fn by_default_it_lies_under_the_runtime_directory() {
    let server = Server::start();
    let shell = server.shell();
    let command = |arguments: &[&str]| {
        let mut command = shell.command(arguments);
        command.env_remove("FENCEPOST_SESSION_FILE");
        command
    };
    let nowhere = Ran::of(command(&["acquire", "d"]).output().unwrap()).exits(78);
    assert!(nowhere.stderr.contains("export FENCEPOST_SESSION_FILE="));
    let here =
        |arguments: &[&str]| Ran::of(command(arguments).env("XDG_RUNTIME_DIR", shell.folder.path()).output().unwrap());
    here(&["acquire", "d"]).exits(0);
    let folder = shell.path("fencepost");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(folder.join("session.json").exists());
    here(&["release"]).exits(0);
}

#[test]
fn where_it_cannot_be_written_nothing_is_asked_for() {
    let server = Server::start();
    let shell = server.shell();
    for (path, code) in [("/proc/nowhere/session.json", 73), ("/dev/null/session.json", 73)] {
        let mut command = fencepost();
        command.args(["acquire", "d"]).env("FENCEPOST_URL", &shell.url).env("FENCEPOST_SESSION_FILE", path);
        let ran = Ran::of(command.output().unwrap()).exits(code);
        assert!(ran.stderr.contains("session file") && ran.stderr.contains("next: "), "{}", ran.stderr);
    }
    assert_eq!(shell.run(&["ls", "--json"]).exits(0).json()["items"], serde_json::json!([]));
}

#[test]
fn renew_and_release_do_not_advise_another_coordinator() {
    let mut server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d"]).exits(0);
    server.kill();
    for command in ["renew", "release"] {
        let away = shell.run(&[command]);
        assert!(matches!(away.code, Some(69 | 82)), "{away:?}");
        assert!(away.stderr.contains("fencepost serve") && !away.stderr.contains("--url"), "{}", away.stderr);
    }
}
