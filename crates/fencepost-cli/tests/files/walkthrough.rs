//! The walk through a guarded SQLite write that `docs/receivers/sqlite.md` publishes for other languages, taken from that
//! page and run: under live grants, late ones, repeated, and beside the adapter's own writes.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    common::{Ran, Server, Shell},
    grant,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/receivers/sqlite.md");

/// A shop with the script beside its database.
fn shop(server: &Server) -> Shell {
    let shell = server.shell();
    let page = fs::read_to_string(PAGE).unwrap();
    let (_, rest) = page.split_once("<!-- walkthrough:begin -->\n```sh\n").unwrap();
    let (script, _) = rest.split_once("```\n<!-- walkthrough:end -->").unwrap();
    fs::write(shell.path("add.sh"), script).unwrap();
    fs::set_permissions(shell.path("add.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let rows = "CREATE TABLE invoice (month TEXT PRIMARY KEY, total INT); \
                INSERT INTO invoice VALUES ('2026-11', 0), ('2026-12', 0)";
    let resource = shell.database("shop.db", rows);
    shell.run(&["guard", &resource, "invoice", "--domain", "'invoices/' || month"]).exits(0);
    shell
}

/// Runs the script under this grant.
fn add(shell: &Shell, grant: &str, arguments: &str) -> Ran {
    fs::write(shell.path("under"), grant).unwrap();
    shell.sh(&format!("FENCEPOST_GRANT=$(cat under) ./add.sh shop.db {arguments}"))
}

fn total(shell: &Shell, month: &str) -> i64 {
    let database = rusqlite::Connection::open(shell.path("shop.db")).unwrap();
    database.query_row("SELECT total FROM invoice WHERE month = ?1", [month], |row| row.get(0)).unwrap()
}

#[track_caller]
fn says(ran: Ran, verdict: &str, code: i32) {
    let ran = ran.exits(code);
    assert_eq!(ran.stdout.trim(), verdict, "{}", ran.stderr);
}

#[test]
fn the_published_walkthrough_writes_under_run_and_replays() {
    let server = Server::start();
    let shell = shop(&server);
    let run = "fencepost run invoices/2026-11 --advance sqlite:shop.db -- ./add.sh shop.db order-17 2026-11 100";
    says(shell.sh(run), "applied", 0);
    says(shell.sh(run), "replayed", 0);
    assert_eq!(total(&shell, "2026-11"), 100);
    says(shell.sh(&run.replace("order-17", "order-18")), "applied", 0);
    assert_eq!(total(&shell, "2026-11"), 200);
    // The adapter agrees with what the script has left: nothing is open, missing or altered.
    shell.run(&["audit", "sqlite:shop.db"]).exits(0);
    let status = shell.run(&["status", "sqlite:shop.db", "--json"]).exits(0).json();
    assert_eq!((&status["fences"], &status["operations"]), (&1.into(), &2.into()));
}

/// Mutant: the line of `stale` in the page's decision.
#[test]
fn a_late_writer_is_refused_with_nothing_changed() {
    let server = Server::start();
    let shell = shop(&server);
    let (old, new) = (grant(&shell, "invoices/2026-11"), grant(&shell, "invoices/2026-11"));
    says(add(&shell, &old, "a 2026-11 1"), "applied", 0);
    says(add(&shell, &new, "b 2026-11 10"), "applied", 0);
    says(add(&shell, &old, "c 2026-11 100"), "stale", 81);
    // Its effect happened, so that is what it is told, stale or not; and the next owner is told the same.
    says(add(&shell, &old, "a 2026-11 1"), "replayed", 0);
    says(add(&shell, &new, "a 2026-11 1"), "replayed", 0);
    says(add(&shell, &new, "a 2026-11 2"), "operation_conflict", 81);
    assert_eq!(total(&shell, "2026-11"), 11);
    // What the command line reads there is what it would have read after its own writes.
    let stale = shell.run(&["advance", "sqlite:shop.db", "--grant", &old, "--json"]).exits(81).json();
    assert_eq!((&stale["reason"], &stale["by"]), (&"stale".into(), &"fence".into()));
    shell.run(&["advance", "sqlite:shop.db", "--grant", &new]).exits(0);
}

#[test]
fn the_other_refusals_are_those_of_the_adapter() {
    let server = Server::start();
    let shell = shop(&server);
    let good = grant(&shell, "invoices/2026-11");
    let issuer = serde_json::from_str::<serde_json::Value>(&good).unwrap()["issuer"].as_str().unwrap().to_owned();
    let token = serde_json::from_str::<serde_json::Value>(&good).unwrap()["token"].as_str().unwrap().to_owned();
    says(add(&shell, &good.replace(&issuer, "somebody's"), "a 2026-11 1"), "wrong_issuer", 81);
    let epoch = good.replace(&format!("\"{token}\""), "\"9007199254740993\"");
    says(add(&shell, &epoch, "a 2026-11 1"), "unknown_epoch", 81);
    // Another month's row is of another domain, whatever the script believes it has entered.
    let foreign = add(&shell, &good, "a 2026-12 1");
    assert_ne!(foreign.code, Some(0), "{foreign:?}");
    assert!(foreign.stderr.contains("fencepost:"), "{}", foreign.stderr);
    let plain = shell.sh("sqlite3 shop.db \"UPDATE invoice SET total = 7\"");
    assert!(plain.code != Some(0) && plain.stderr.contains("fencepost:"), "{plain:?}");
    assert_eq!((total(&shell, "2026-11"), total(&shell, "2026-12")), (0, 0));
    shell.sh("cp shop.db there.db && mv there.db shop.db").exits(0);
    says(add(&shell, &good, "a 2026-11 1"), "closed: other_incarnation", 81);
    shell.run(&["recover", "sqlite:shop.db"]).exits(0);
    says(add(&shell, &good, "a 2026-11 1"), "stale", 81);
    says(add(&shell, &grant(&shell, "invoices/2026-11"), "a 2026-11 1"), "applied", 0);
    // An interpreter's SQLite may be an old one: it says so, and the write is not held up by it.
    let version = shell.sh("sqlite3 -batch :memory: 'SELECT sqlite_version()'").exits(0).stdout;
    let is_old = version.trim().split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>() < vec![3, 51, 3];
    let warned = add(&shell, &grant(&shell, "invoices/2026-11"), "b 2026-11 1").exits(0).stderr;
    assert_eq!(warned.contains("is older than 3.51.3"), is_old, "{version}: {warned}");
}

/// What is missing compares with nothing, and what is no number may still begin with one.
/// Mutants: `<>` for `IS NOT` in the arm of the issuer; the arms of the token; the look at the amount before it is SQL.
#[test]
fn what_is_no_grant_or_no_number_is_refused_with_nothing_changed() {
    let server = Server::start();
    let shell = shop(&server);
    let good = grant(&shell, "invoices/2026-11");
    says(add(&shell, &good, "a 2026-11 1"), "applied", 0);
    let whole: serde_json::Value = serde_json::from_str(&good).unwrap();
    let token = whole["token"].as_str().unwrap();
    let with = |field: &str, value: serde_json::Value| {
        let mut changed = whole.clone();
        changed[field] = value;
        changed.to_string()
    };
    let without = |field: &str| {
        let mut changed = whole.clone();
        changed.as_object_mut().unwrap().remove(field).unwrap();
        changed.to_string()
    };
    let records = || shell.sh("sqlite3 shop.db .dump").exits(0).stdout;
    let before = records();
    for (presented, verdict) in [
        (without("issuer"), "wrong_issuer"),
        (with("issuer", serde_json::Value::Null), "wrong_issuer"),
        (without("domain"), "wrong_domain"),
        (without("contract"), "wrong_contract"),
        (with("contract", "admission".into()), "wrong_contract"),
        (without("token"), "missing"),
        (with("token", serde_json::Value::Null), "missing"),
        (with("token", format!("{token}abc").into()), "invalid_token"),
        (with("token", format!("0{token}").into()), "invalid_token"),
        (with("token", format!("{token}.5").into()), "invalid_token"),
        (with("token", token.parse::<u64>().unwrap().into()), "invalid_token"),
        (with("token", "99999999999999999999".into()), "invalid_token"),
        (with("token", "0".into()), "invalid_token"),
        (with("token", "-1".into()), "invalid_token"),
        (with("token", "".into()), "invalid_token"),
        ("{}".to_owned(), "missing"),
    ] {
        // A record that is there answers a retry, so both kinds of operation are asked for.
        says(add(&shell, &presented, "a 2026-11 1"), verdict, 81);
        says(add(&shell, &presented, "b 2026-11 1"), verdict, 81);
    }
    for arguments in [
        "b 2026-11 '5 + 5'",
        "b 2026-11 '5, month = 6'",
        "b 2026-11 --5",
        "b 2026-11 -",
        "b 2026-11 ''",
        "b 2026-11 1.5",
        "b 2026-11 1000000000000000000",
        "b 2026-11 1 'NULL); --'",
        "b 2026-11 1 -1",
    ] {
        let ran = add(&shell, &good, arguments).exits(64);
        assert_eq!(ran.stdout, "", "{arguments}");
    }
    says(add(&shell, &good, "b 2026-11 1 9223372036854775807"), "invalid_born", 81);
    assert_eq!(records(), before);
    says(add(&shell, &good, &format!("b 2026-11 -3 {token}")), "applied", 0);
    assert_eq!(total(&shell, "2026-11"), -2);
}

/// Many at once lose no update and open nothing for each other: the write lock comes before everything.
#[test]
fn writers_at_once_come_one_after_the_other() {
    let server = Server::start();
    let shell = shop(&server);
    let grant = grant(&shell, "invoices/2026-11");
    fs::write(shell.path("under"), &grant).unwrap();
    let script =
        "for n in 1 2 3 4 5 6 7 8; do FENCEPOST_GRANT=$(cat under) ./add.sh shop.db op-$n 2026-11 1 & done; wait";
    let ran = shell.sh(script).exits(0);
    assert_eq!(ran.stdout.lines().filter(|line| *line == "applied").count(), 8, "{ran:?}");
    assert_eq!(total(&shell, "2026-11"), 8);
    shell.run(&["audit", "sqlite:shop.db"]).exits(0);
}
