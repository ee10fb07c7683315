//! Whatever goes wrong, and in whatever command: what is said names a command to type next.

use std::{collections::BTreeSet, fs, process::Stdio, sync::LazyLock};

use fencepost_receiver::VerdictCode;
use fencepost_wire::ErrorCode;

use crate::common::{
    Ran, Server, Shell,
    liar::{Act, Liar},
};

const ID: &str = "0123456789abcdef0123456789abcdef";
const GRANT: &str =
    "{\"issuer\":\"i\",\"domain\":\"d\",\"token\":\"7\",\"lease\":\"L\",\"session\":\"L\",\"contract\":\"safety\"}";
const NOWHERE: &str = "http://127.0.0.1:1";

/// Every command that somebody may type.
const COMMANDS: [&str; 26] = [
    "demo",
    "run",
    "acquire",
    "renew",
    "release",
    "read",
    "write",
    "ls",
    "show",
    "history",
    "watch",
    "explain",
    "guard",
    "unguard",
    "audit",
    "status",
    "advance",
    "collect",
    "check",
    "prove",
    "serve",
    "break",
    "recover",
    "help",
    "completions",
    "man",
];

#[track_caller]
fn names_a_command(ran: &Ran, what: &str) {
    let next: Vec<&str> = ran.stderr.lines().filter(|line| line.trim_start().starts_with("next: ")).collect();
    assert!(next.iter().any(|line| has_a_command(line)), "{what}: {:?}", ran.stderr);
}

/// Whether a command of this program stands in it, or an option; the name of the program is neither.
fn has_a_command(text: &str) -> bool {
    let mut words = text.split("fencepost ").skip(1).filter_map(|rest| rest.split([' ', '`', ';', ')', ',']).next());
    words.any(|word| word.starts_with("--") || COMMANDS.contains(&word))
}

/// Tries it for people and for programs.
#[track_caller]
fn fails(shell: &Shell, words: &[&str], code: i32) {
    let what = words.join(" ");
    let ran = Ran::of(shell.command(words).output().unwrap()).exits(code);
    names_a_command(&ran, &what);
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let for_programs = [&words[..at], &["--json"], &words[at..]].concat();
    if words.contains(&"--export") {
        return;
    }
    let ran = Ran::of(shell.command(&for_programs).output().unwrap()).exits(code);
    let problem: serde_json::Value = serde_json::from_str(ran.stderr.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{what}: {error}: {ran:?}"));
    let fix = problem["fix"].as_str().unwrap_or_else(|| panic!("{what}: {problem}"));
    assert!(has_a_command(fix), "{what}: {fix}");
    assert_eq!(problem["exit_code"], code, "{what}");
    let name = problem["code"].as_str().unwrap_or_else(|| panic!("{what}: {problem}"));
    assert!(CODES.contains(&name), "{what}: {name} is on no list");
}

/// What `docs/commands.md` lists, and what the API has.
static CODES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let page = include_str!("../../../../docs/commands.md");
    let table = page.split("<!-- codes:begin -->").nth(1).and_then(|rest| rest.split("<!-- codes:end -->").next());
    let rows = table.unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
    let ours = rows.filter_map(|row| row.split('`').next());
    ours.chain(ErrorCode::ALL.iter().map(|code| code.as_str()))
        .chain(VerdictCode::ALL.map(VerdictCode::as_str))
        .collect()
});

/// Programs branch on them. That the page lists all of them is looked after beside the exit codes.
#[test]
fn failures_of_every_kind_are_called_what_the_page_says() {
    let shell = Shell::at(NOWHERE);
    shell.sh("fencepost guard file:f --domain d --issuer n --epoch 1 --floor 1.0").exits(0);
    for (words, name) in [
        (&["no-such-command"][..], "usage"),
        (&["acquire", ""], "invalid_input"),
        (&["ls"], "coordinator_unreachable"),
        (&["release"], "not_set_up"),
        (&["man", "--dir", "/proc/none"], "cannot_write"),
        (&["status", "file:never"], "receiver_closed"),
        (&["read", "file:f"], "missing_token"),
    ] {
        let ran = Ran::of(shell.command(&[words, &["--json"]].concat()).output().unwrap());
        let problem: serde_json::Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
        assert_eq!(problem["code"], name, "{words:?}: {problem}");
    }
}

/// An error that does not pass by itself is not answered with the same command again.
///
/// Mutant: `path::advice` has another try for every error.
#[test]
fn no_advice_leads_in_a_circle() {
    let server = Server::start();
    let shell = server.shell();
    let long = "x".repeat(300);
    shell.sh("ln -s loop loop && mkdir folder && touch plain").exits(0);
    let grant = GRANT.replace('L', ID);
    let (long_file, long_db, long_inside) =
        (format!("file:{long}"), format!("sqlite:{long}"), format!("file:{long}/f"));
    for words in [
        &["status", "file:loop"][..],
        &["status", "file:loop/x"],
        &["guard", "file:loop/x", "--domain", "d"],
        &["status", "sqlite:loop"],
        &["status", "sqlite:folder"],
        &["status", "file:folder"],
        &["status", &long_file],
        &["status", &long_inside],
        &["status", &long_db],
        &["check", "loop"],
        &["check", "folder"],
        &["check", &long],
        &["man", "--dir", "loop"],
        &["man", "--dir", "plain"],
        &["man", "--dir", "plain/x"],
        &["man", "--dir", &long],
        &["serve", "--init", "--data", "loop", "--listen", "127.0.0.1:0"],
        &["serve", "--init", "--data", &long, "--listen", "127.0.0.1:0"],
        &["serve", "--init", "--data", "plain", "--listen", "127.0.0.1:0"],
    ] {
        changes_something(&shell.run(words), &words.join(" "));
    }
    let mut writing = shell.command(&["write", "file:f", "--grant", &grant]);
    let ran = Ran::of(writing.stdin(fs::File::open(shell.path("folder")).unwrap()).output().unwrap());
    changes_something(&ran.exits(64), "write <folder");
    for file in ["loop", &long] {
        for words in [&["renew"][..], &["acquire", "d"]] {
            let mut command = shell.command(words);
            let ran = Ran::of(command.env("FENCEPOST_SESSION_FILE", file).output().unwrap());
            changes_something(&ran, &format!("{words:?} with {file}"));
        }
    }
}

#[track_caller]
fn changes_something(ran: &Ran, what: &str) {
    assert!(ran.code.is_some_and(|code| code >= 64), "{what}: {ran:?}");
    let next: Vec<&str> = ran.stderr.lines().filter_map(|line| line.strip_prefix("  next: ")).collect();
    assert!(
        !next.is_empty() && !next.iter().any(|line| line.starts_with("run the same command again")),
        "{what}: {next:?}"
    );
    assert!(!ran.stderr.contains("the same command with file:loop"), "{what}: {}", ran.stderr);
}

/// Mutant: what the parser says stands alone.
#[test]
fn a_line_that_is_not_understood_names_the_help_of_its_command() {
    let shell = Shell::at(NOWHERE);
    let page = Ran::of(shell.command(&["--help"]).output().unwrap()).exits(0).stdout;
    let listed: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("  ")).filter_map(|line| line.split(' ').next()).collect();
    for name in COMMANDS {
        assert!(listed.contains(name), "{name} is no command: {page}");
        fails(&shell, &[name, "--no-such-flag"], 64);
        let ran = shell.run(&[name, "--no-such-flag"]);
        let help = if name == "run" { "fencepost run DOMAIN".to_owned() } else { format!("fencepost help {name}") };
        assert!(ran.stderr.contains(&format!("next: {help}")), "{}", ran.stderr);
    }
    assert_eq!(
        listed.iter().filter(|name| !name.is_empty() && !name.starts_with('-')).count(),
        COMMANDS.len(),
        "{listed:?}"
    );
    for words in [
        &["no-such-command"][..],
        &["acquire"],
        &["run", "d", "--if-held", "perhaps", "--", "true"],
        &["acquire", "d", "--held-exit-code", "0"],
        &["completions", "no-such-shell"],
        &["serve", "--data", "x", "--epoch", "1"],
        &["watch", "--count", "0"],
        &["help", "no-such-topic"],
    ] {
        fails(&shell, words, 64);
    }
    let ran = shell.run(&["run", "d", "touch", "x"]).exits(64);
    assert_eq!(ran.next("fencepost run d"), "fencepost run d -- touch x");
}

#[test]
fn what_breaks_a_rule_names_a_command() {
    let shell = Shell::at(NOWHERE);
    shell.database("x.db", "CREATE TABLE t (d TEXT)");
    for words in [
        &["run", "", "--", "true"][..],
        &["run", "d", "d", "--", "true"],
        &["run", "d", "--contract", "advisory", "--advance", "sqlite:x.db", "--", "true"],
        &["run", "d", "--max-hold", "1s", "--", "true"],
        &["run", "d", "--url", "http://h:0", "--", "true"],
        &["acquire", ""],
        &["acquire", "d", "--ttl", "1"],
        &["acquire", "d", "--url", "ftp://x"],
        &["ls", "--limit", "0"],
        &["show", ""],
        &["history", "d", "--cursor", "x"],
        &["watch", "--url", "nowhere"],
        &["explain", "d", "--token", "x"],
        &["guard", "redis:x", "--domain", "d"],
        &["guard", "sqlite:x.db", "--domain", "d"],
        &["guard", "file:f", "t", "--domain", "d"],
        &["guard", "file:f", "--domain", "d", "--observe"],
        &["guard", "sqlite:x.db", "t", "--domain", "no_such_column", "--issuer", "i", "--epoch", "1"],
        &["unguard", "sqlite:x.db"],
        &["unguard", "file:f", "t"],
        &["audit", "file:f", "--all-tables"],
        &["status", "file:f", "--fences"],
        &["advance", "x", "--grant", "{}"],
        &["advance", "file:f", "--grant", "{}"],
        &["collect", "file:f", "--horizon", "x"],
        &["recover", "sqlite:x.db", "--domain", "d"],
        &["read", "sqlite:x.db"],
        &["write", "sqlite:x.db"],
        &["write", "file:f", "--operation", ""],
        &["break", "d", "--lease", "x", "--reason", "r"],
        &["check", "/dev/null"],
        &["prove", "http://192.0.2.1/x", "--domain", "d"],
        &["prove", "http://127.0.0.1:1/x", "--domain", "d", "--timeout", "1"],
        &["serve", "--data", "x", "--init", "--epoch", "9999999"],
        &["run", "d", "--status-fd", "77", "--", "true"],
    ] {
        fails(&shell, words, 64);
    }
}

#[test]
fn a_coordinator_that_is_not_there_names_a_command() {
    let server = Server::start();
    let shell = server.shell();
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.run(&["acquire", "d", "--ttl", "1s"]).exits(0);
    let kept = fs::read_to_string(shell.session_file()).unwrap().replace(&server.url, NOWHERE);
    for words in [
        &["run", "d", "--", "true"][..],
        &["ls"],
        &["show", "d"],
        &["history", "d"],
        &["watch"],
        &["explain", "d"],
        &["guard", "file:g", "--domain", "g"],
        &["collect", &database],
        &["collect", "file:f"],
        &["recover", &database],
        &["recover", "file:f"],
        &["break", "d", "--lease", ID, "--reason", "r"],
        &["prove", "http://127.0.0.1:1/x", "--domain", "d"],
    ] {
        let away = Shell { folder: copied(&shell), url: NOWHERE.to_owned() };
        fails(&away, words, 69);
    }
    let away = Shell::at(NOWHERE);
    fails(&away, &["acquire", "d"], 69);
    fails(&away, &["acquire", "d", "--export"], 69);
    fs::write(shell.session_file(), kept).unwrap();
    fails(&shell, &["renew"], 69);
    fails(&shell, &["release"], 69);
}

/// A folder with the same files in it.
fn copied(shell: &Shell) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(shell.folder.path()).unwrap().flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

#[test]
fn what_another_holds_or_was_lost_names_a_command() {
    let server = Server::start();
    let (holder, shell) = (server.shell(), server.shell());
    holder.run(&["acquire", "d"]).exits(0);
    fails(&shell, &["run", "d", "--", "true"], 75);
    fails(&shell, &["acquire", "d"], 75);
    fails(&shell, &["acquire", "d", "--export"], 75);
    shell.run(&["run", "reserved", "--min-hold", "60s", "--", "true"]).exits(0);
    fails(&shell, &["run", "reserved", "--", "true"], 75);
    fails(&shell, &["break", "d", "--lease", ID, "--reason", "r"], 64);
    let broken = holder.run(&["show", "d"]).exits(0).next("fencepost break");
    holder.sh(&broken).exits(0);
    fails(&holder, &["renew"], 80);
    holder.run(&["release"]).exits(80);
    holder.run(&["acquire", "d"]).exits(0);
    holder.sh(&holder.run(&["show", "d"]).exits(0).next("fencepost break")).exits(0);
    let ran = holder.run(&["release"]).exits(80);
    names_a_command(&ran, "release");
    holder.run(&["acquire", "e"]).exits(0);
    let kept = holder.kept();
    let secret = kept["secret"].as_str().unwrap();
    let other: String = secret.chars().map(|digit| if digit == 'a' { 'b' } else { 'a' }).collect();
    fs::write(holder.session_file(), kept.to_string().replace(secret, &other)).unwrap();
    fails(&holder, &["renew"], 77);
    fails(&holder, &["release"], 77);
    let deaf = Liar::before(&server.url, "/heartbeat", |_| Act::json(500, "x"));
    fails(&Shell::at(&deaf.url), &["run", "lost", "--ttl", "1s", "--", "sleep", "1000"], 80);
    let lost = Shell::at(&Liar::before(&server.url, "/v1/leases", |_| Act::LoseAnswer).url);
    fails(&lost, &["acquire", "unknown", "--ttl", "1s"], 82);
}

#[test]
fn what_is_not_set_up_or_cannot_be_written_names_a_command() {
    let server = Server::start();
    let shell = server.shell();
    let grant = GRANT.replace('L', ID);
    for words in [
        &["renew"][..],
        &["release"],
        &["audit", "sqlite:none.db"],
        &["status", "sqlite:none.db"],
        &["unguard", "sqlite:none.db", "t"],
        &["collect", "sqlite:none.db"],
        &["recover", "sqlite:none.db"],
        &["guard", "sqlite:none.db", "t", "--domain", "d"],
        &["advance", "sqlite:none.db", "--grant", &grant],
        &["run", "d", "--advance", "sqlite:none.db", "--", "true"],
        &["check", "none"],
        &["serve", "--data", "none"],
        &["serve", "--data", "none", "--listen", "no.such.host.invalid:1"],
    ] {
        fails(&shell, words, 78);
    }
    for words in [
        &["guard", "file:none/f", "--domain", "d"][..],
        &["status", "file:none/f"],
        &["audit", "file:none/f"],
        &["collect", "file:none/f"],
        &["unguard", "file:none/f"],
        &["recover", "file:none/f"],
        &["read", "file:none/f", "--grant", &grant],
        &["advance", "file:none/f", "--grant", &grant],
        &["man", "--dir", "/proc/none"],
    ] {
        fails(&shell, words, 73);
    }
    let mut writing = shell.command(&["write", "file:none/f", "--grant", &grant]);
    names_a_command(&Ran::of(writing.stdin(Stdio::null()).output().unwrap()).exits(73), "write");
    fs::write(shell.path("plain"), "x").unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::of(shell.command(&["help"]).stdout(full.try_clone().unwrap()).output().unwrap()).exits(73);
    names_a_command(&ran, "help");
    let ran = Ran::of(shell.command(&["ls", "--help"]).stdout(full).output().unwrap()).exits(73);
    names_a_command(&ran, "ls --help");
}

#[test]
fn what_a_receiver_refuses_names_a_command() {
    let server = Server::start();
    let shell = server.shell();
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    shell.run(&["run", "f", "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >old"]).exits(0);
    shell.run(&["run", "f", "--advance", "file:f", "--", "true"]).exits(0);
    let old = fs::read_to_string(shell.path("old")).unwrap();
    for words in [
        &["advance", &database][..],
        &["advance", "file:f"],
        &["advance", "file:f", "--grant", &old],
        &["read", "file:f"],
        &["read", "file:f", "--grant", &old],
        &["write", "file:f"],
        &["status", "file:never-guarded"],
        &["recover", "file:never-guarded"],
        &["guard", "file:f", "--domain", "another"],
    ] {
        // With `--json` the verdict is on standard output, and the problem all the same on standard error.
        fails(&shell, words, 81);
    }
    let ran = shell.sh(&format!("echo x | fencepost write file:f --grant '{old}'")).exits(81);
    names_a_command(&ran, "write");
    shell.run(&["run", "d", "--advance", &database, "--", "true"]).exits(0);
    let ran = shell.run(&["run", "d", "--", "/no/such/program"]).exits(127);
    names_a_command(&ran, "run");
    fails(&shell, &["run", "d", "--", "/no/such/program"], 127);
}
