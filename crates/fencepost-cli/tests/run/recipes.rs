//! The recipes of `docs/recipes.md`, run as they stand there.

use std::{env, fs, os::unix::fs::PermissionsExt, process::Command, thread};

use fencepost::sqlite::SqliteFile;
use fencepost_testkit::torture::skip;
use fencepost_wire::GrantJson;
use rusqlite::Connection;

use crate::common::{Server, Shell};

const PAGE: &str = include_str!("../../../../docs/recipes.md");

/// The blocks of a recipe whose first line ends so, in their order.
fn blocks(heading: &str, mark: &str) -> Vec<&'static str> {
    let recipe = PAGE.split("\n## ").find(|part| part.starts_with(heading)).expect("the recipe is on the page");
    let opening = format!("\n```{mark}\n");
    let starts = recipe.split(opening.as_str()).skip(1);
    let found: Vec<_> = starts.map(|rest| rest.split("\n```").next().unwrap()).collect();
    assert!(!found.is_empty(), "{heading} has no {mark} block");
    found
}

/// The recipe as one script that stops at the first line that does not do what the page says.
fn script(heading: &str) -> String {
    let lines = blocks(heading, "sh").join("\n");
    let checked = lines.lines().map(|line| match line.split_once("    # exits ") {
        Some((command, code)) => {
            format!("code=0; {command} || code=$?; test $code = {code} || {{ echo \"exit $code: {command}\" >&2; exit 99; }}")
        }
        None => line.to_owned(),
    });
    format!("set -eu\n{}\n", checked.collect::<Vec<_>>().join("\n"))
}

/// A folder as the page describes it: database, guard, and the three programs.
fn shop(server: &Server) -> Shell {
    let shell = server.shell();
    let resource = shell.database("shop.db", "CREATE TABLE invoice (text TEXT)");
    shell.run(&["guard", &resource, "invoice", "--domain", "'invoices'"]).exits(0);
    let binary = env::current_exe().unwrap();
    for program in ["bill", "plain-bill", "bills"] {
        // This very test binary is the user's program; what it has to say for itself is not what the program says.
        let script = format!(
            "#!/bin/sh\nRECIPE_PROGRAM={program} RECIPE_TEXT=\"${{1-}}\" '{}' --exact recipes::programs_of_the_user \
             --nocapture >{program}.out 2>&1\ncode=$?\nsed -n 's/^= //p' {program}.out\nexit $code\n",
            binary.display()
        );
        fs::write(shell.path(program), script).unwrap();
        fs::set_permissions(shell.path(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    shell
}

fn rows(connection: &Connection) -> Vec<String> {
    let mut rows = connection.prepare("SELECT text FROM invoice ORDER BY rowid").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Not a test by itself: what the user's programs do when a recipe starts them.
#[test]
fn programs_of_the_user() {
    let Ok(program) = env::var("RECIPE_PROGRAM") else { return };
    let text = env::var("RECIPE_TEXT").unwrap();
    let shop = SqliteFile::new("shop.db");
    let mut connection = shop.connect().unwrap();
    let insert = "INSERT INTO invoice VALUES (?1)";
    let code = match program.as_str() {
        "bill" => {
            let grant = GrantJson::parse(&env::var("FENCEPOST_GRANT").unwrap()).unwrap();
            let verdict = shop.receiver().mutate(&mut connection, &grant, |tx| tx.execute(insert, [&text])).unwrap();
            if verdict.rejection().is_some() { 81 } else { 0 }
        }
        "plain-bill" => i32::from(connection.execute(insert, [&text]).is_err()),
        _ => {
            println!("\n= {}", rows(&connection).join(" "));
            0
        }
    };
    std::process::exit(code);
}

fn holds(heading: &str) {
    let server = Server::start();
    let shell = shop(&server);
    shell.sh(&script(heading)).exits(0);
}

#[test]
fn a_cron_job_on_several_machines() {
    holds("A cron job");
}

#[test]
fn the_line_of_the_crontab_runs_once_however_many_machines_have_it() {
    let server = Server::start();
    let shell = shop(&server);
    let line = blocks("A cron job", "crontab")[0].strip_prefix("0 * * * * cd /srv/shop && ").expect("the hours first");
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| shell.sh(line).exits(0));
        }
    });
    assert_eq!(rows(&Connection::open(shell.path("shop.db")).unwrap()), ["hourly"]);
}

#[test]
fn a_systemd_timer() {
    holds("A systemd timer");
}

#[test]
fn the_unit_starts_what_the_recipe_says_and_systemd_takes_it() {
    let server = Server::start();
    let shell = shop(&server);
    let unit = blocks("A systemd timer", "ini bill.service")[0];
    let timer = blocks("A systemd timer", "ini bill.timer")[0];
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/")).expect("what it starts");
    shell.sh(line).exits(0);
    assert_eq!(rows(&Connection::open(shell.path("shop.db")).unwrap()), ["hourly"]);
    let folder = shell.folder.path().display().to_string();
    let unit = unit.replace("/usr/local/bin/fencepost", env!("CARGO_BIN_EXE_fencepost")).replace("/srv/shop", &folder);
    fs::write(shell.path("bill.service"), unit).unwrap();
    fs::write(shell.path("bill.timer"), timer).unwrap();
    let files = [shell.path("bill.service"), shell.path("bill.timer")];
    match Command::new("systemd-analyze").arg("verify").args(files).output() {
        Ok(checked) => {
            let told = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(!told.contains("bill."), "{told}");
        }
        Err(_) => skip("units, read by systemd-analyze", "no systemd-analyze: Debian package systemd"),
    }
}

#[test]
fn a_leader_with_a_warm_standby() {
    holds("A leader");
}

#[test]
fn two_shells_by_hand() {
    holds("Two shells");
}
