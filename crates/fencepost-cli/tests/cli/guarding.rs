//! `guard`, `unguard`, `audit`, `status`, `advance`, `collect` on SQLite databases.

use serde_json::{Value, json};

use crate::common::{Ran, Server, Shell};

const TABLE: &str = "CREATE TABLE invoice (month TEXT, total INTEGER)";
const EXPRESSION: &str = "'invoices/' || month";

fn guard(shell: &Shell, resource: &str) -> Ran {
    shell.run(&["guard", resource, "invoice", "--domain", EXPRESSION])
}

fn grant(shell: &Shell, domain: &str) -> String {
    let line = shell.run(&["acquire", domain, "--export"]).exits(0);
    std::fs::write(shell.path("grant.sh"), &line.stdout).unwrap();
    shell.sh(". ./grant.sh; printf %s \"$FENCEPOST_GRANT\"").exits(0).stdout
}

#[test]
fn a_guard_refuses_plain_writes_until_it_is_removed() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    shell.sqlite("x.db", "INSERT INTO invoice VALUES ('2026-10', 1)").unwrap();
    let guarded = guard(&shell, &resource).exits(0);
    assert!(guarded.stdout.starts_with("guarded invoice (enforce)"), "{}", guarded.stdout);
    for statement in
        ["INSERT INTO invoice VALUES ('2026-11', 1)", "UPDATE invoice SET total = 2", "DELETE FROM invoice"]
    {
        let refused = shell.sqlite("x.db", statement).unwrap_err().to_string();
        assert!(refused.contains("fencepost"), "{refused}");
    }
    shell.sh(&guarded.next("fencepost audit")).exits(0);
    shell.run(&["unguard", &resource, "invoice"]).exits(0);
    shell.sqlite("x.db", "UPDATE invoice SET total = 2").unwrap();
    let audit = shell.run(&["audit", &resource, "--json"]).exits(1).json();
    assert_eq!(
        (&audit["items"][0]["code"], &audit["items"][0]["severity"]),
        (&json!("not_guarded"), &json!("critical"))
    );
    let again = shell.run(&["unguard", &resource, "invoice"]).exits(64);
    assert!(again.stderr.contains("has no guard"), "{}", again.stderr);
}

#[test]
fn observing_notes_and_lets_pass_and_the_audit_says_so() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    let observe = ["guard", &resource, "invoice", "--domain", EXPRESSION, "--observe", "--json"];
    let observing = shell.run(&observe).exits(0).json();
    assert_eq!((&observing["mode"], &observing["receiver_created"]), (&json!("observe"), &json!(true)));
    shell.sqlite("x.db", "INSERT INTO invoice VALUES ('2026-11', 1)").unwrap();
    let status = shell.run(&["status", &resource, "--observations", "--json"]).exits(0).json();
    assert_eq!(status["guarded"][0]["observed"], 1);
    assert!(status["counter"].is_string(), "JSON numbers are exact up to 2^53 only: {status}");
    assert_eq!(status["observation_items"][0]["domain"], "invoices/2026-11");
    let audit = shell.run(&["audit", &resource, "--json"]).exits(1).json();
    assert_eq!(audit["items"][0]["code"], "guard_observes");
    // The mode is changed without the coordinator: the receiver keeps what it knows.
    let mut offline = Shell::at("http://127.0.0.1:1");
    offline.folder = shell.folder;
    guard(&offline, &resource).exits(0);
    assert!(offline.sqlite("x.db", "INSERT INTO invoice VALUES ('2026-11', 1)").is_err());
    assert_eq!(offline.run(&["audit", &resource]).exits(0).stdout, "no way around the guards was found\n");
    let all = offline.run(&["audit", &resource, "--all-tables"]).exits(0);
    assert!(all.stdout.contains("no way around"));
}

#[test]
fn an_audit_finds_what_was_taken_away() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", &format!("{TABLE}; CREATE TABLE other (n)"));
    guard(&shell, &resource).exits(0);
    let found = shell.run(&["audit", &resource, "--all-tables", "--json"]).exits(1).json();
    assert_eq!(found["items"][0]["code"], "unguarded_table");
    shell.sqlite("x.db", "DROP TRIGGER fencepost_guard_delete_invoice").unwrap_or_else(|_| {
        let triggers = rusqlite::Connection::open(shell.path("x.db")).unwrap();
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'invoice' LIMIT 1";
        let name: String = triggers.query_row(sql, [], |row| row.get(0)).unwrap();
        triggers.execute_batch(&format!("DROP TRIGGER \"{name}\"")).unwrap();
    });
    let found = shell.run(&["audit", &resource, "--json"]).exits(1).json();
    assert_eq!(found["items"][0]["code"], "guard_outdated");
    let again = format!("guard the table again: fencepost guard {resource} invoice --domain EXPR");
    assert_eq!(found["items"][0]["fix"], again.as_str());
    assert!(shell.run(&["audit", &resource]).exits(1).stdout.contains(&again));
    guard(&shell, &resource).exits(0);
    shell.run(&["audit", &resource]).exits(0);
}

#[test]
fn a_first_guard_needs_the_coordinator_or_an_operator_who_vouches() {
    let shell = Shell::at("http://127.0.0.1:1");
    let resource = shell.database("x.db", TABLE);
    let unreachable = guard(&shell, &resource).exits(69);
    assert!(unreachable.stderr.contains("--issuer NAME --epoch N --floor TOKEN"), "{}", unreachable.stderr);
    let by_hand = ["guard", &resource, "invoice", "--domain", EXPRESSION, "--issuer", "prod", "--epoch", "7"];
    shell.run(&[&by_hand[..], &["--floor", "7.100"]].concat()).exits(0);
    let status = shell.run(&["status", &resource, "--json"]).exits(0).json();
    assert_eq!((&status["issuer"], &status["known_epoch"]), (&json!("prod"), &json!(7)));
    assert_eq!(status["floor"], ((7_u64 << 43) + 100).to_string());
    shell.run(&["guard", &resource, "invoice", "--domain", EXPRESSION, "--issuer", "prod"]).exits(64);
    let other = ["guard", &resource, "invoice", "--domain", EXPRESSION, "--issuer", "test", "--epoch", "7"];
    assert!(shell.run(&other).exits(81).stderr.contains("prod"));
}

#[test]
fn tables_and_expressions_that_cannot_be_guarded_are_refused() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", &format!("{TABLE}; CREATE VIEW v AS SELECT 1"));
    for (table, expression) in [
        ("nope", EXPRESSION),
        ("v", EXPRESSION),
        ("invoice", ""),
        ("invoice", "invoices"),
        ("invoice", "(SELECT 1)"),
        ("invoice", "month; DROP TABLE invoice"),
        ("invoice", "random()"),
        ("fencepost_fence", "domain"),
    ] {
        let ran = shell.run(&["guard", &resource, table, "--domain", expression]).exits(64);
        assert!(ran.stderr.contains("next: "), "{table} {expression}: {}", ran.stderr);
    }
    assert_eq!(shell.run(&["status", &resource]).exits(81).stdout, "");
}

#[test]
fn a_database_that_is_not_there_or_not_one_is_told_apart() {
    let shell = Shell::at("http://127.0.0.1:1");
    std::fs::write(
        shell.path("text"),
        "this is no database, and long enough to be told from an empty one\n".repeat(99),
    )
    .unwrap();
    for command in ["status", "audit", "collect"] {
        let missing = shell.run(&[command, "sqlite:missing.db"]).exits(78);
        assert!(missing.stderr.contains("there is no database at missing.db"), "{}", missing.stderr);
        assert!(!shell.path("missing.db").exists());
        for resource in ["missing.db", "postgres://x", "sqlite:", "sqlite::memory:", ""] {
            shell.run(&[command, resource]).exits(64);
        }
    }
    shell.run(&["status", "sqlite:text"]).exits(78);
}

#[test]
fn a_database_that_was_never_guarded_says_how_to_guard_it() {
    let shell = Shell::at("http://127.0.0.1:1");
    let resource = shell.database("x.db", TABLE);
    let closed = shell.run(&["status", &resource]).exits(81);
    assert!(closed.stderr.contains("not_guarded"), "{}", closed.stderr);
    closed.next("fencepost guard sqlite:");
    let audit = shell.run(&["audit", &resource, "--json"]).exits(1).json();
    assert_eq!(audit["items"][0]["code"], "not_guarded");
}

#[test]
fn a_copied_back_database_is_closed() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    std::fs::copy(shell.path("x.db"), shell.path("y.db")).unwrap();
    let copy = shell.run(&["status", "sqlite:y.db"]).exits(81);
    assert!(
        copy.stderr.contains("other_incarnation") && copy.stderr.contains("fencepost recover sqlite:y.db"),
        "{}",
        copy.stderr
    );
    assert!(copy.stdout.contains("closed: other_incarnation"));
    guard(&shell, "sqlite:y.db").exits(81);
    shell.run(&["unguard", "sqlite:y.db", "invoice"]).exits(81);
    shell.run(&["collect", "sqlite:y.db"]).exits(81);
}

/// Mutant: `advance_blocking` not called; the older token is then accepted after the newer one.
#[test]
fn an_advance_shuts_out_every_older_token() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    let older = grant(&shell, "d");
    shell.run(&["advance", &resource, "--grant", &older]).exits(0);
    shell.run(&["release"]).exits(0);
    let newer = grant(&shell, "d");
    assert_eq!(
        shell.run(&["advance", &resource, "--grant", &newer, "--json"]).exits(0).json(),
        json!({"verdict": "applied"})
    );
    shell.run(&["advance", &resource, "--grant", &newer]).exits(0);
    let stale = shell.run(&["advance", &resource, "--grant", &older]).exits(81);
    assert!(stale.stderr.contains("is stale") && stale.stderr.contains("stop the work"), "{}", stale.stderr);
    let verdict = shell.run(&["advance", &resource, "--grant", &older, "--json"]).exits(81).json();
    let token = |line: &str| serde_json::from_str::<Value>(line).unwrap()["token"].clone();
    assert_eq!((&verdict["presented"], &verdict["least_accepted"]), (&token(&older), &token(&newer)));
}

#[test]
fn an_advance_takes_its_grant_from_the_environment_and_never_guesses() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    let line = grant(&shell, "d");
    shell.sh(&format!(". ./grant.sh; fencepost advance {resource}")).exits(0);
    let missing = shell.run(&["advance", &resource, "--json"]).exits(81);
    assert_eq!(missing.json(), json!({"verdict": "rejected", "reason": "missing"}));
    let differ = shell.sh(&format!(". ./grant.sh; FENCEPOST_TOKEN=1.1 fencepost advance {resource}")).exits(64);
    assert!(differ.stderr.contains("FENCEPOST_TOKEN is 1.1 and FENCEPOST_GRANT has 0."), "{}", differ.stderr);
    let token = serde_json::from_str::<Value>(&line).unwrap()["token"].as_str().unwrap().to_owned();
    for wrong in ["0", "-1", "+1", "1e3", " 7", "01", "9223372036854775808", ""] {
        let grant = line.replace(&format!("\"{token}\""), &format!("\"{wrong}\""));
        shell.run(&["advance", &resource, "--grant", &grant]).exits(64);
    }
    for wrong in [
        "",
        "{}",
        "null",
        "5",
        &line[1..],
        &line.replace(&format!("\"{token}\""), &token),
        &line.replace("safety", "advisory"),
    ] {
        shell.run(&["advance", &resource, "--grant", wrong]).exits(64);
    }
    let issuer = serde_json::from_str::<Value>(&line).unwrap()["issuer"].as_str().unwrap().to_owned();
    let foreign = line.replace(&issuer, "somebody-else");
    let verdict = shell.run(&["advance", &resource, "--grant", &foreign, "--json"]).exits(81).json();
    assert_eq!(verdict["reason"], "wrong_issuer");
    let epoch = line.replace(&format!("\"{token}\""), "\"9007199254740993\"");
    let verdict = shell.run(&["advance", &resource, "--grant", &epoch, "--json"]).exits(81).json();
    assert_eq!((&verdict["reason"], &verdict["presented"]), (&json!("unknown_epoch"), &json!("9007199254740993")));
}

#[test]
fn a_locked_database_is_a_failure_that_changed_nothing() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    let line = grant(&shell, "d");
    let writer = rusqlite::Connection::open(shell.path("x.db")).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = shell.run(&["advance", &resource, "--grant", &line]).exits(73);
    assert!(busy.stderr.contains("run the same command again"), "{}", busy.stderr);
    writer.execute_batch("ROLLBACK").unwrap();
    shell.run(&["advance", &resource, "--grant", &line]).exits(0);
}

#[test]
fn a_collection_forgets_fences_and_lets_no_old_token_back_in() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    let old = grant(&shell, "d");
    shell.run(&["advance", &resource, "--grant", &old]).exits(0);
    shell.run(&["release"]).exits(0);
    let live = grant(&shell, "live");
    shell.run(&["advance", &resource, "--grant", &live]).exits(0);
    let collected = shell.run(&["collect", &resource, "--json"]).exits(0).json();
    assert_eq!((&collected["fences"], &collected["refused"]), (&json!(1), &json!([])));
    let verdict = shell.run(&["advance", &resource, "--grant", &old, "--json"]).exits(81).json();
    assert_eq!((&verdict["reason"], &verdict["by"]), (&json!("stale"), &json!("unfenced_floor")));
    let told = shell.run(&["advance", &resource, "--grant", &old]).exits(81).stderr;
    assert!(told.contains("acquire anew") && !told.contains("another owner has come;"), "{told}");
    shell.run(&["advance", &resource, "--grant", &live]).exits(0);
    assert!(shell.run(&["collect", &resource, "--horizon", "0.1"]).exits(0).stdout.starts_with("forgot 0 fences"));
    shell.run(&["collect", &resource, "--horizon", "0"]).exits(64);
    let next = shell.run(&["collect", &resource, "--horizon", "0.2", "--json"]).exits(0).json();
    assert_eq!(next["horizon"], "2");
    let next: u64 = next["unfenced_floor"].as_str().unwrap().parse().unwrap();
    let unborn = shell.run(&["collect", &resource, "--horizon", &(next + 1).to_string()]).exits(64);
    assert!(unborn.stderr.contains(&format!("0.{next}, the next token")), "{}", unborn.stderr);
    let lower = shell.run(&["collect", &resource, "--horizon", "0.1"]).exits(0);
    assert!(lower.stdout.contains("the horizon stays at 0.2"), "{}", lower.stdout);
    let mut away = shell.command(&["collect", &resource, "--url", "http://127.0.0.1:1"]);
    Ran::of(away.output().unwrap()).exits(69);
    let other = Server::start();
    let foreign = shell.run(&["collect", &resource, "--url", &other.url]).exits(81);
    assert!(foreign.stderr.contains("takes grants of issuer"), "{}", foreign.stderr);
}

/// Mutant: `where_it_answers` giving nothing; the table is then said to be guarded for a coordinator that it refuses.
#[test]
fn a_receiver_of_another_issuer_is_not_said_to_be_guarded() {
    let (server, other) = (Server::start(), Server::start());
    let mut shell = server.shell();
    let resource = shell.database("x.db", TABLE);
    guard(&shell, &resource).exits(0);
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.url = other.url.clone();
    let file = shell.run(&["guard", "file:f", "--domain", "f"]).exits(81);
    for refused in [guard(&shell, &resource).exits(81), file] {
        assert_eq!(refused.stdout, "");
        assert!(
            refused.stderr.contains("takes grants of issuer fp-") && refused.stderr.contains("not of fp-"),
            "{refused:?}"
        );
    }
}
