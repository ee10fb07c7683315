//! `explain`: a domain in each of its states, a token in each of its, and what a receiver would say.

use crate::common::{Server, Shell};

fn said(shell: &Shell, arguments: &[&str]) -> String {
    shell.run(arguments).exits(0).stdout
}

#[test]
fn a_held_domain_says_who_since_when_and_what_the_token_is_worth() {
    let server = Server::start();
    let shell = server.shell();
    let grant = shell.run(&["acquire", "d", "--holder", "worker-a", "--json"]).exits(0).json();
    let token: u64 = grant["token"].as_str().unwrap().parse().unwrap();
    let told = said(&shell, &["explain", "d"]);
    for part in [
        "worker-a holds it for ",
        "(granted at 20",
        "under contract safety",
        &format!("Token 0.{token} (decimal {token})"),
        "rejects every smaller token as `stale`",
        "Nobody waits for it.",
        "next: fencepost acquire d --wait 60s",
        "next: fencepost history d",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let line = shell.run(&["explain", "d"]).next("fencepost break");
    shell.sh(&line).exits(0);
    let after = said(&shell, &["explain", "d"]);
    assert!(after.contains("An operator took it away.") && after.contains("burned token 0."), "{after}");
    assert_eq!(shell.run(&["explain", "d", "--json"]).exits(0).json()["state"], "free");
}

#[test]
fn a_contract_without_a_token_says_why_there_is_none() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "a", "--contract", "admission"]).exits(0);
    assert!(said(&shell, &["explain", "a"]).contains("It has no token: contract admission"));
}

#[test]
fn a_free_domain_says_who_had_it_and_one_never_seen_that_it_was_not() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "Invoices", "--holder", "worker-a"]).exits(0);
    shell.run(&["release"]).exits(0);
    let free = said(&shell, &["explain", "Invoices"]);
    assert!(free.contains("Nobody holds it") && free.contains("worker-a had it last under token 0."), "{free}");
    assert!(free.contains("That was a clean end"), "{free}");
    let unknown = shell.run(&["explain", "invoices", "--json"]).exits(0).json();
    assert_eq!(unknown["state"], "unknown");
    let words = unknown["explanation"].to_string();
    assert!(words.contains("compared byte by byte"), "{words}");
}

#[test]
fn a_token_says_where_it_was_granted_or_burned_and_whether_it_is_current() {
    let server = Server::at_epoch(7);
    let shell = server.shell();
    let grant = shell.run(&["acquire", "d", "--holder", "worker-a", "--json"]).exits(0).json();
    let (token, lease) = (grant["token"].as_str().unwrap(), grant["lease"].as_str().unwrap());
    let live = said(&shell, &["explain", "--token", token]);
    assert!(live.contains("It was granted at 20") && live.contains("on d to worker-a"), "{live}");
    assert!(live.contains("It is the current token of d: its lease is live."), "{live}");
    let broken = shell.run(&["break", "d", "--lease", lease, "--reason", "stuck", "--json"]).exits(0).json();
    let over = said(&shell, &["explain", "--token", token]);
    assert!(
        over.contains("Its lease on d ended at 20") && over.contains("It is not the current token of d."),
        "{over}"
    );
    let burned = said(&shell, &["explain", "--token", broken["fence_to"].as_str().unwrap()]);
    assert!(burned.contains("It was burned at 20") && burned.contains("nobody was ever granted it"), "{burned}");
    for (token, words) in [
        ("8.1", "cannot have granted it"),
        ("6.1", "of an earlier life"),
        ("7.8796093022207", "has not been granted yet"),
        ("7.1", "one of the numbers that a start skips"),
    ] {
        let told = said(&shell, &["explain", "--token", token]);
        assert!(told.contains(words), "{token}: {told}");
    }
    for arguments in [&["explain"][..], &["explain", "--token", "0"], &["explain", "--token", "1.x"]] {
        shell.run(arguments).exits(64);
    }
}

/// What is foretold is what then happens.
#[test]
fn a_receiver_says_which_verdict_a_write_would_get_and_why() {
    let server = Server::start();
    let shell = server.shell();
    let shop = shell.database("shop.db", "CREATE TABLE invoice (month TEXT, total INTEGER)");
    shell.run(&["guard", &shop, "invoice", "--domain", "'invoices/' || month"]).exits(0);
    let take = || shell.run(&["acquire", "invoices/1", "--json"]).exits(0).json()["token"].as_str().unwrap().to_owned();
    let older = take();
    shell.run(&["release"]).exits(0);
    let asked = |token: &str| {
        shell.run(&["explain", "invoices/1", "--token", token, "--receiver", &shop, "--json"]).exits(0).json()
    };
    assert_eq!(asked(&older)["receiver"]["verdict"], "applied", "nobody has been there since");
    shell.sh(&format!("eval \"$(fencepost acquire invoices/1 --export)\" && fencepost advance {shop}")).exits(0);
    let shown = shell.run(&["show", "invoices/1", "--json"]).exits(0).json();
    let newer = shown["items"][0]["token"].as_str().unwrap().to_owned();
    let (stale, good) = (asked(&older), asked(&newer));
    assert_eq!((&stale["receiver"]["verdict"], &stale["receiver"]["reason"]), (&"rejected".into(), &"stale".into()));
    assert_eq!(good["receiver"]["verdict"], "applied");
    let words = stale["explanation"].to_string();
    assert!(words.contains("A later owner of the domain has been there with 0."), "{words}");
    assert_eq!(asked("9.1")["receiver"]["reason"], "unknown_epoch");

    let mut lonely = server.shell();
    lonely.url = "http://127.0.0.1:1".to_owned();
    let offline = said(&lonely, &["explain", "invoices/1", "--token", &older, "--receiver", &shop]);
    assert!(offline.contains("is left out") && offline.contains("would be rejected"), "{offline}");
    let unsaid = lonely.run(&["explain", "--token", &older, "--receiver", &shop]).exits(64);
    assert!(unsaid.stderr.contains("fencepost explain DOMAIN --token"), "{}", unsaid.stderr);
    lonely.run(&["explain", "--token", &older]).exits(69);
    lonely.run(&["explain", "invoices/1"]).exits(69);
}

/// A file belongs to one domain, so the token alone is enough. What is foretold is what then happens.
#[test]
fn a_file_says_which_verdict_a_write_would_get_and_why() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let take = || {
        shell
            .sh("fencepost run f -- sh -c 'printf %s \"$FENCEPOST_GRANT\" >grant; printf %s \"$FENCEPOST_TOKEN\"'")
            .exits(0)
            .stdout
    };
    let write = |grant: &str| {
        let mut command = shell.command(&["write", "file:f", "--grant", grant]);
        std::fs::write(shell.path("input"), "x").unwrap();
        let output = command.stdin(std::fs::File::open(shell.path("input")).unwrap()).output().unwrap();
        output.status.code().unwrap()
    };
    let (older, old_grant) = (take(), std::fs::read_to_string(shell.path("grant")).unwrap());
    let (newer, new_grant) = (take(), std::fs::read_to_string(shell.path("grant")).unwrap());
    let asked =
        |token: &str| shell.run(&["explain", "--token", token, "--receiver", "file:f", "--json"]).exits(0).json();
    assert_eq!(asked(&older)["receiver"]["verdict"], "applied", "nobody has been there since");
    assert_eq!(write(&new_grant), 0);
    let (stale, good) = (asked(&older), asked(&newer));
    assert_eq!((&stale["receiver"]["verdict"], &stale["receiver"]["reason"]), (&"rejected".into(), &"stale".into()));
    assert_eq!((&good["receiver"]["verdict"], &good["receiver"]["domain"]), (&"applied".into(), &"f".into()));
    assert_eq!((write(&old_grant), write(&new_grant)), (81, 0));
    let told = said(&shell, &["explain", "--token", &older, "--receiver", "file:f"]);
    assert!(told.contains("For f at file:f: fence 0.") && told.contains("next: fencepost status file:f"), "{told}");
    let other = said(&shell, &["explain", "g", "--token", &newer, "--receiver", "file:f"]);
    assert!(other.contains("It belongs to the domain f."), "{other}");
    let never = shell.run(&["explain", "--token", &newer, "--receiver", "file:other"]).exits(81);
    assert_eq!(never.next("fencepost guard"), "fencepost guard file:other --domain NAME");
    shell.run(&["explain", "--token", &newer, "--receiver", "file:"]).exits(64);
    for name in [".f.fence", ".f.fence-spare"] {
        let _ = std::fs::remove_file(shell.path(name));
    }
    let lost = shell.run(&["explain", "--token", &newer, "--receiver", "file:f"]).exits(81);
    assert_eq!(lost.next("fencepost recover"), "fencepost recover file:f --domain NAME");
}
