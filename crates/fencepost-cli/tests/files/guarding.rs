//! `guard`, `unguard`, `status`, `audit`, `advance` and `collect` on files.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::json;

use crate::{
    common::{Server, Shell},
    grant,
};

#[test]
fn a_file_is_guarded_before_it_is_there_and_again_without_the_coordinator() {
    let mut server = Server::start();
    let shell = server.shell();
    let guarded = shell.run(&["guard", "file:f", "--domain", "f", "--json"]).exits(0).json();
    assert_eq!(guarded, json!({"domain": "f", "receiver_created": true, "refused": []}));
    assert!(shell.path(".f.fence").exists() && !shell.path("f").exists());
    server.kill();
    let again = shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    assert_eq!(again.next("fencepost run"), "fencepost run f --advance file:f -- COMMAND");
    let other = shell.run(&["guard", "file:f", "--domain", "g"]).exits(81);
    assert!(other.stderr.contains("belongs to domain f"), "{}", other.stderr);
}

#[test]
fn a_first_guard_needs_the_coordinator_or_an_operator_who_vouches() {
    let shell = Shell::at("http://127.0.0.1:1");
    let unreachable = shell.run(&["guard", "file:f", "--domain", "f"]).exits(69);
    assert!(unreachable.stderr.contains("--issuer NAME --epoch N --floor TOKEN"), "{}", unreachable.stderr);
    let by_hand = ["guard", "file:f", "--domain", "f", "--issuer", "prod", "--epoch", "7", "--floor", "7.100"];
    shell.run(&by_hand).exits(0);
    let status = shell.run(&["status", "file:f", "--json"]).exits(0).json();
    assert_eq!(
        (&status["issuer"], &status["known_epoch"], &status["domain"]),
        (&json!("prod"), &json!(7), &json!("f"))
    );
    assert_eq!(status["floor"], ((7_u64 << 43) + 100).to_string());
}

/// It is still there for whoever is in it, and takes no file.
///
/// Mutant: a folder without a name is a folder; the lock file is made again and again for five seconds.
#[test]
fn in_a_folder_that_was_removed_nothing_is_guarded_and_nobody_is_waited_for() {
    let server = Server::start();
    let shell = server.shell();
    for command in ["guard file:f --domain d", "write file:f", "status file:f"] {
        let script = format!("mkdir gone; cd gone; rmdir ../gone; echo x | fencepost {command}");
        let refused = shell.sh(&script);
        assert!(refused.code != Some(0) && !refused.stderr.contains("lock"), "{command}: {}", refused.stderr);
    }
}

/// Mutant: that there is no grant is said before the receiver is looked at.
#[test]
fn without_a_grant_a_receiver_that_is_not_guarded_says_that_first() {
    let server = Server::start();
    let shell = server.shell();
    shell.database("x.db", "CREATE TABLE t (d TEXT)");
    for command in ["read file:f", "write file:f", "advance file:f", "advance sqlite:x.db"] {
        let refused = shell.sh(&format!("fencepost {command} </dev/null")).exits(81);
        let resource = command.split(' ').nth(1).unwrap();
        assert!(refused.stderr.contains(&format!("next: fencepost guard {resource} ")), "{}", refused.stderr);
        let json = shell.sh(&format!("fencepost {command} --json </dev/null")).exits(81);
        assert_eq!((&json.json()["reason"], &json.problem()["code"]), (&"closed".into(), &"receiver_closed".into()));
    }
    shell.run(&["guard", "file:f", "--domain", "d"]).exits(0);
    let missing = shell.run(&["read", "file:f", "--json"]).exits(81);
    assert_eq!(missing.problem()["code"], "missing_token");
}

/// Mutant: only the grant of a single domain is looked for.
#[test]
fn of_several_grants_a_file_gets_the_one_of_its_domain() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "b"]).exits(0);
    shell.run(&["guard", "file:g", "--domain", "other"]).exits(0);
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    let run = |script: &str| shell.sh(&format!("fencepost run a b -- sh -c '{script}'"));
    run("echo new | fencepost write file:f && fencepost advance file:f && fencepost read file:f").exits(0);
    assert_eq!(fs::read_to_string(shell.path("f")).unwrap(), "new\n");
    let none = run("echo new | fencepost write file:g").exits(81);
    assert!(none.stderr.contains("FENCEPOST_GRANTS has none for other"), "{}", none.stderr);
    let which = run(&format!("fencepost advance {database}")).exits(81);
    assert!(which.stderr.contains("FENCEPOST_GRANTS does not say which"), "{}", which.stderr);
    let damaged = shell.sh("FENCEPOST_GRANTS='[{}]' fencepost read file:f").exits(64);
    assert!(damaged.stderr.contains("FENCEPOST_GRANTS is no array of grants"), "{}", damaged.stderr);
}

#[test]
fn what_cannot_be_guarded_is_refused_with_what_to_do() {
    let server = Server::start();
    let shell = server.shell();
    fs::create_dir(shell.path("folder")).unwrap();
    fs::write(shell.path("real"), "x").unwrap();
    symlink("real", shell.path("link")).unwrap();
    for (arguments, code, says) in [
        (&["file:", "--domain", "f"][..], 64, "names no file"),
        (&["file:f", "table", "--domain", "f"], 64, "has no tables"),
        (&["file:f", "--domain", "f", "--observe"], 64, "--observe"),
        (&["file:f", "--domain", ""], 64, "domain"),
        (&["sqlite:f", "--domain", "f"], 64, "which one?"),
        (&["redis:f", "--domain", "f"], 64, "file:PATH"),
        (&["file:none/f", "--domain", "f"], 73, "next: mkdir -p "),
        (&["file:folder", "--domain", "f"], 73, "not a plain file"),
        (&["file:link", "--domain", "f"], 73, "real"),
    ] {
        let ran = shell.run(&[&["guard"], arguments].concat()).exits(code);
        assert!(ran.stderr.contains(says) && ran.stderr.contains("next: "), "{arguments:?}: {}", ran.stderr);
    }
    for command in
        [&["unguard", "file:f", "t"][..], &["audit", "file:f", "--all-tables"], &["status", "file:f", "--fences"]]
    {
        shell.run(command).exits(64);
    }
}

/// Under each name beside the file: a link, and a file of somebody else's. Mutant: `NotOurs` told as any other trouble.
#[test]
fn what_is_not_the_guards_own_beside_a_file_is_named_with_what_to_do_and_left_alone() {
    let server = Server::start();
    let shell = server.shell();
    let lies = |name: &str| shell.path(name).symlink_metadata().is_ok();
    for name in [".f.fence", ".f.fence-spare", ".f.lock", ".f.staged"] {
        for target in ["victim", "nowhere"] {
            fs::write(shell.path("victim"), "victim\n").unwrap();
            symlink(target, shell.path(name)).unwrap();
            let refused = shell.run(&["guard", "file:f", "--domain", "f"]).exits(73);
            assert!(refused.stderr.contains(&format!("{name} is a symbolic link")), "{}", refused.stderr);
            assert!(refused.next("ls -ld ").contains("move it away"), "{}", refused.stderr);
            fs::remove_file(shell.path(name)).unwrap();
        }
        fs::write(shell.path(name), "mine\n").unwrap();
        let refused = shell.run(&["guard", "file:f", "--domain", "f"]).exits(73);
        assert!(refused.stderr.contains(&format!("{name} is a file that no guard has made")), "{}", refused.stderr);
        assert_eq!(fs::read_to_string(shell.path(name)).unwrap(), "mine\n");
        assert!(name == ".f.lock" || !lies(".f.lock"), "a refusal leaves nothing behind");
        fs::remove_file(shell.path(name)).unwrap();
    }
    assert_eq!(fs::read_to_string(shell.path("victim")).unwrap(), "victim\n");

    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let holder = grant(&shell, "f");
    symlink("victim", shell.path(".f.fence-spare")).unwrap();
    let refused = shell.run(&["advance", "file:f", "--grant", &holder]).exits(73);
    assert!(refused.next("ls -ld ").contains("move it away"), "{}", refused.stderr);
    fs::remove_file(shell.path(".f.fence-spare")).unwrap();
    shell.run(&["advance", "file:f", "--grant", &holder]).exits(0);
    assert_eq!(fs::read_to_string(shell.path("victim")).unwrap(), "victim\n");
    let refused = shell.run(&["guard", "file:.f.fence", "--domain", "x"]).exits(73);
    assert!(refused.stderr.contains("belongs to the guard of "), "{}", refused.stderr);
    assert!(refused.next("fencepost status").ends_with("f"), "{}", refused.stderr);
}

#[test]
fn a_file_without_its_guard_takes_nothing_until_it_is_guarded_again() {
    let server = Server::start();
    let shell = server.shell();
    for command in ["status", "unguard"] {
        let ran = shell.run(&[command, "file:f"]).exits(81);
        assert_eq!(ran.next("fencepost guard"), "fencepost guard file:f --domain NAME");
    }
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let early = grant(&shell, "f");
    shell.run(&["advance", "file:f", "--grant", &grant(&shell, "f")]).exits(0);
    shell.run(&["unguard", "file:f"]).exits(0);
    shell.run(&["advance", "file:f", "--grant", &grant(&shell, "f")]).exits(81);
    assert_eq!(shell.run(&["audit", "file:f", "--json"]).exits(1).json()["items"][0]["code"], "not_guarded");
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let stale = shell.run(&["advance", "file:f", "--json", "--grant", &early]).exits(81).json();
    assert_eq!((&stale["verdict"], &stale["reason"]), (&json!("rejected"), &json!("stale")), "the fence is kept");
}

#[test]
fn an_audit_tells_that_another_program_has_written() {
    let server = Server::start();
    let shell = server.shell();
    fs::write(shell.path("f"), "0\n").unwrap();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let codes = || -> Vec<String> {
        let found = shell.run(&["audit", "file:f", "--json"]).json();
        let items = found["items"].as_array().unwrap().iter();
        items.map(|item| item["code"].as_str().unwrap().to_owned()).collect()
    };
    let before = codes();
    assert!(!before.contains(&"changed_outside".to_owned()), "{before:?}");
    fs::write(shell.path("f"), "7\n").unwrap();
    assert_eq!(codes()[0], "changed_outside");
    assert!(shell.run(&["audit", "file:f"]).exits(1).stdout.contains("changed_outside"));
}

/// Mutant: the advice is shown as the library gives it, which knows no path.
#[test]
fn an_audit_advises_with_the_path_as_it_was_typed() {
    let server = Server::start();
    let shell = server.shell();
    fs::create_dir(shell.path("it's")).unwrap();
    fs::write(shell.path("it's/a b"), "0").unwrap();
    fs::set_permissions(shell.path("it's/a b"), fs::Permissions::from_mode(0o666)).unwrap();
    let advice = |code: &str| -> Option<String> {
        let found = shell.run(&["audit", "file:it's/a b", "--json"]).json();
        let finding = found["items"].as_array().unwrap().iter().find(|item| item["code"] == code)?;
        Some(finding["fix"].as_str().unwrap().to_owned())
    };
    let guard = advice("not_guarded").unwrap();
    assert_eq!(guard, r"guard it: fencepost guard 'file:it'\''s/a b' --domain NAME");
    let guard = guard.strip_prefix("guard it: ").unwrap().replace("NAME", "f");
    shell.sh(&guard).exits(0);
    assert_eq!(advice("not_guarded"), None);
    shell.sh(&advice("writable").unwrap()).exits(0);
    assert_eq!(advice("writable"), None);
    fs::remove_file(shell.path("it's/.a b.fence")).unwrap();
    let recover = advice("closed").unwrap();
    assert!(recover.ends_with(r"fencepost recover 'file:it'\''s/a b' --domain NAME"), "{recover}");
}

#[test]
fn collecting_forgets_the_fence_and_lets_no_old_token_back_in() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let early = grant(&shell, "f");
    shell.run(&["advance", "file:f", "--grant", &early]).exits(0);
    let collected = shell.run(&["collect", "file:f", "--json"]).exits(0).json();
    assert_eq!((&collected["fences"], &collected["refused"]), (&json!(1), &json!([])));
    let status = shell.run(&["status", "file:f", "--json"]).exits(0).json();
    assert_eq!((&status["fence"], &status["unfenced_floor"]), (&json!(null), &collected["unfenced_floor"]));
    let unborn = shell.run(&["collect", "file:f", "--horizon", "1.1"]).exits(64);
    assert!(unborn.stderr.contains("the next token"), "{}", unborn.stderr);
    let stale = shell.run(&["advance", "file:f", "--json", "--grant", &early]).exits(81).json();
    assert_eq!(stale["by"], "unfenced_floor");
    shell.run(&["advance", "file:f", "--grant", &grant(&shell, "f")]).exits(0);
    let told = shell.run(&["status", "file:f"]).exits(0).stdout;
    assert!(told.contains("condition       open"), "{told}");
}
