//! `break`: the printed line, executed as printed.

use crate::common::{
    Ran, Server, Shell,
    liar::{Act, Liar},
};

const GUARDED: &str = "CREATE TABLE invoice (month TEXT, total INTEGER)";

fn guarded(shell: &Shell, name: &str) -> String {
    let resource = shell.database(name, GUARDED);
    shell.run(&["guard", &resource, "invoice", "--domain", "month"]).exits(0);
    resource
}

#[test]
fn the_printed_line_takes_the_lease_of_a_live_holder_away() {
    let server = Server::start();
    let (holder, operator) = (server.shell(), server.shell());
    let token = holder.run(&["acquire", "it's mine", "--json"]).exits(0).json()["token"].clone();
    let token: u64 = token.as_str().unwrap().parse().unwrap();
    let held = operator.run(&["acquire", "it's mine"]).exits(75);
    let line = held.next("fencepost break");
    let broken = operator.sh(&line).exits(0);
    assert!(broken.stdout.starts_with("broke the lease on it's mine\n"), "{}", broken.stdout);
    // Again, and to read where the fence is to go.
    let again = operator.sh(&format!("{line} --json")).exits(0).json();
    assert_eq!(again["already"], true);
    assert!(again["fence_to"].as_str().unwrap().parse::<u64>().unwrap() > token);
    let lost = holder.run(&["renew"]).exits(80);
    assert!(lost.stderr.contains("revoked"), "{}", lost.stderr);
    operator.run(&["acquire", "it's mine"]).exits(0);
    let lost = holder.run(&["release"]).exits(80);
    assert!(lost.stderr.contains("revoked"), "{}", lost.stderr);
    operator.run(&["renew"]).exits(0);
}

#[test]
fn the_printed_line_works_on_a_holder_that_is_gone() {
    let server = Server::start();
    let (holder, operator) = (server.shell(), server.shell());
    holder.run(&["acquire", "d", "--ttl", "1h"]).exits(0);
    std::fs::remove_file(holder.session_file()).unwrap();
    let line = operator.run(&["show", "d"]).exits(0).next("fencepost break");
    operator.sh(&line).exits(0);
    operator.run(&["acquire", "d"]).exits(0);
}

#[test]
fn a_wrong_lease_or_domain_changes_nothing() {
    let server = Server::start();
    let (a, b, operator) = (server.shell(), server.shell(), server.shell());
    let lease = |shell: &Shell, domain| {
        let grant = shell.run(&["acquire", domain, "--ttl", "60s", "--json"]).exits(0).json();
        grant["lease"].as_str().unwrap().to_owned()
    };
    let (first, second) = (lease(&a, "a"), lease(&b, "b"));
    let wrong = |domain: &str, lease: &str, code| {
        operator.run(&["break", domain, "--lease", lease, "--reason", "slip"]).exits(code)
    };
    let slip = wrong("a", &second, 64);
    assert!(slip.stderr.contains("is on b") && slip.stderr.contains(&format!("fencepost break b --lease {second}")));
    let unknown = wrong("a", &"0".repeat(32), 64);
    assert!(
        unknown.stderr.contains("no such lease") && unknown.stderr.contains("fencepost show a"),
        "{}",
        unknown.stderr
    );
    for (domain, lease, reason) in
        [("a", "", "r"), ("a", "xyz", "r"), ("a", &first, ""), ("", &first, "r"), ("a", &first, "a\nb")]
    {
        operator.run(&["break", domain, "--lease", lease, "--reason", reason]).exits(64);
    }
    a.run(&["renew"]).exits(0);
    b.run(&["renew"]).exits(0);
}

/// Until somebody else acquires, nothing but this shuts the old holder out of a file.
#[test]
fn a_file_is_advanced_and_the_old_holder_writes_there_no_more() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let grant = shell.run(&["acquire", "f", "--export"]).exits(0);
    std::fs::write(shell.path("grant.sh"), &grant.stdout).unwrap();
    shell.sh(". ./grant.sh; echo before | fencepost write file:f").exits(0);
    let line = shell.run(&["show", "f"]).exits(0).next("fencepost break");
    let broken = shell.sh(&format!("{line} --advance file:f --json")).exits(0).json();
    assert_eq!(broken["advanced"], serde_json::json!(["file:f"]));
    let late = shell.sh(". ./grant.sh; echo after | fencepost write file:f --json").exits(81).json();
    assert_eq!((&late["reason"], &late["least_accepted"]), (&"stale".into(), &broken["fence_to"]));
    assert_eq!(std::fs::read_to_string(shell.path("f")).unwrap(), "before\n");
}

/// Mutant: the next command is given without the address that was typed.
#[test]
fn what_comes_next_asks_the_same_coordinator() {
    let server = Server::start();
    let elsewhere = Shell::at("http://127.0.0.1:1");
    let unknown = ["break", "d", "--lease", &"0".repeat(32), "--reason", "stuck", "--url", &server.url];
    let told = elsewhere.run(&unknown).exits(64);
    elsewhere.sh(&told.next("fencepost ls")).exits(0);
}

#[test]
fn a_lease_that_was_released_meanwhile_is_not_broken_and_its_successor_lives() {
    let server = Server::start();
    let (holder, successor) = (server.shell(), server.shell());
    holder.run(&["acquire", "d"]).exits(0);
    let line = successor.run(&["acquire", "d"]).exits(75).next("fencepost break");
    holder.run(&["release"]).exits(0);
    successor.run(&["acquire", "d"]).exits(0);
    let ended = holder.sh(&line).exits(80);
    assert!(ended.stderr.contains("released"), "{}", ended.stderr);
    successor.run(&["renew"]).exits(0);
}

#[test]
fn named_receivers_are_advanced_and_the_others_listed() {
    let server = Server::start();
    let shell = server.shell();
    let (here, elsewhere) = (guarded(&shell, "here.db"), shell.database("plain.db", GUARDED));
    let grant = shell.run(&["acquire", "2026-11", "--export"]).exits(0);
    std::fs::write(shell.path("grant.sh"), &grant.stdout).unwrap();
    shell.sh(&format!(". ./grant.sh; fencepost advance {here}")).exits(0);
    let line = shell.run(&["show", "2026-11"]).exits(0).next("fencepost break");
    let partly = shell.sh(&format!("{line} --advance {here} --advance {elsewhere} --json")).exits(81);
    let answer = partly.json();
    assert_eq!(answer["advanced"], serde_json::json!([here]));
    assert_eq!(answer["not_reached"][0]["receiver"], elsewhere.as_str());
    let fence = shell.run(&["status", &here, "--fences", "--json"]).exits(0).json();
    assert_eq!(fence["fence_items"][0]["token"], answer["fence_to"]);
    // The old holder's token is stale there now.
    let stale = shell.sh(&format!(". ./grant.sh; fencepost advance {here} --json")).exits(81).json();
    assert_eq!(
        (&stale["verdict"], &stale["reason"], &stale["by"]),
        (&"rejected".into(), &"stale".into(), &"fence".into())
    );
    assert_eq!(stale["least_accepted"], answer["fence_to"]);
    // Done again, it reaches what it did not reach before.
    shell.run(&["guard", &elsewhere, "invoice", "--domain", "month"]).exits(0);
    let again = shell.sh(&format!("{line} --advance {here} --advance {elsewhere} --json"));
    assert_eq!(again.json()["advanced"], serde_json::json!([here, elsewhere]));
    assert_eq!(again.json()["fence_to"], answer["fence_to"]);
    let missing = shell.sh(&format!("{line} --advance sqlite:nowhere.db"));
    assert_eq!(missing.code, Some(78));
    assert!(missing.stderr.contains("1 of 1 receivers not reached") && missing.stderr.contains("sqlite:nowhere.db"));
    // Each says what to do about it, and then the same line is worth another try.
    let closed = shell.sh(&format!("{line} --advance file:nothing --advance sqlite:nowhere.db")).exits(81);
    assert!(closed.stderr.contains("2 of 2 receivers not reached"), "{}", closed.stderr);
    shell.sh(&closed.next("fencepost guard file:nothing --domain 2026-11")).exits(0);
    let again = closed.next("fencepost break");
    assert!(again.contains("--advance file:nothing") && again.contains("--advance sqlite:nowhere.db"), "{again}");
    assert!(shell.sh(&again).exits(78).stdout.contains("advanced  file:nothing"));
}

#[test]
fn a_receiver_that_a_successor_has_advanced_needs_nothing_more() {
    let server = Server::start();
    let (holder, successor) = (server.shell(), server.shell());
    let resource = guarded(&holder, "x.db");
    holder.run(&["acquire", "d"]).exits(0);
    let line = successor.run(&["acquire", "d"]).exits(75).next("fencepost break");
    holder.sh(&line).exits(0);
    let script = format!(r#"eval "$(fencepost acquire d --export)" && fencepost advance {resource}"#);
    successor.sh(&script).exits(0);
    Ran::exits(holder.sh(&format!("{line} --advance {resource}")), 0);
}

/// Mutant: `happened` not looked at in `not_broken`; the answer then says that no lease was ended.
#[test]
fn a_lost_answer_is_told_as_a_doubt_with_the_line_that_settles_it() {
    let server = Server::start();
    let holder = server.shell();
    let lease = holder.run(&["acquire", "d", "--json"]).exits(0).json()["lease"].as_str().unwrap().to_owned();
    let shell = Shell::at(&Liar::before(&server.url, "/break", |_| Act::LoseAnswer).url);
    let doubt = shell.run(&["break", "d", "--lease", &lease, "--reason", "it's gone"]).exits(82);
    assert!(doubt.stderr.contains("may have been ended") && !doubt.stderr.contains("no lease"), "{}", doubt.stderr);
    let settled = server.shell().sh(&doubt.next("fencepost break")).exits(0);
    assert!(settled.stdout.contains("had been broken before"), "{}", settled.stdout);
    let elsewhere = ["break", "d", "--lease", &lease, "--reason", "r", "--url", &shell.url, "--advance", "sqlite:a b"];
    let line = server.shell().run(&elsewhere).exits(82).next("fencepost break");
    assert!(line.contains("--advance 'sqlite:a b' --url http"), "{line}");
}

/// What the holder keeps of its lease is its own: whatever became of it, the id in the answer to somebody else is enough,
/// and nothing less is.
#[test]
fn the_lease_of_a_holder_whose_own_record_is_damaged_is_broken_all_the_same() {
    let server = Server::start();
    for (damage, code) in [(&b""[..], 78), (b"{", 78), (b"\xff\xfe", 78), (b"{\"url\":\"x\"}", 78), (b"null\0", 78)] {
        let (holder, operator) = (server.shell(), server.shell());
        let database = guarded(&holder, "x.db");
        let script =
            format!("eval \"$(fencepost acquire d --ttl 60s --export)\"; fencepost advance {database}; env >kept");
        holder.sh(&script).exits(0);
        std::fs::write(holder.session_file(), damage).unwrap();
        for words in [&["renew"][..], &["release"], &["acquire", "d"]] {
            let damaged = holder.run(words).exits(code);
            assert!(
                damaged.stderr.contains("is damaged") && damaged.stderr.contains("next: rm "),
                "{}",
                damaged.stderr
            );
        }
        let held = operator.run(&["acquire", "d"]).exits(75);
        let line = held.next("fencepost break");
        let id = line.split_whitespace().skip_while(|word| *word != "--lease").nth(1).unwrap().to_owned();
        for part in ["d is held by ", "since ", "ends in ", ", token 0.", &id] {
            assert!(held.stderr.contains(part), "{part:?} in {}", held.stderr);
        }
        // Neither a wrong id nor the lack of a reason ends it.
        operator.run(&["break", "d", "--lease", &"0".repeat(32), "--reason", "r"]).exits(64);
        operator.run(&["break", "d", "--lease", &id]).exits(64);
        assert_eq!(operator.run(&["show", "d", "--json"]).exits(0).json()["items"][0]["lease"], id.as_str());
        let line = line.replace("--reason TEXT", "--reason 'its record is damaged'");
        let broken = operator.sh(&format!("{line} --advance {database} --json")).exits(0).json();
        let entry = operator.run(&["history", "d", "--json"]).exits(0).json()["items"][0].clone();
        assert_eq!(
            (&entry["event"], &entry["reason"]),
            (&"revoked".into(), &"its record is damaged".into()),
            "{entry}"
        );
        // Whoever still has the grant is stale, and the next owner is not.
        let grant = std::fs::read_to_string(holder.path("kept")).unwrap();
        let grant = grant.lines().find_map(|line| line.strip_prefix("FENCEPOST_GRANT=")).unwrap();
        let stale = holder.run(&["advance", &database, "--grant", grant, "--json"]).exits(81).json();
        assert_eq!((&stale["reason"], &stale["least_accepted"]), (&"stale".into(), &broken["fence_to"]), "{stale}");
        // The old id never hits the successor.
        operator.run(&["acquire", "d"]).exits(0);
        let late = holder.sh(&format!("{line} --json")).exits(0).json();
        assert_eq!(late["already"], true, "{late}");
        operator.run(&["renew"]).exits(0);
        operator.run(&["release"]).exits(0);
    }
}
