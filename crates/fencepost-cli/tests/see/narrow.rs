//! Terminals that are too narrow for a table: an id is never broken, so that it can be read and copied.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    process::{Command, Stdio},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::common::{Server, Shell};

/// What a command shows on a terminal of this many columns, without its colours.
fn shown(shell: &Shell, columns: u16, words: &[&str]) -> String {
    on_terminal(shell.command(words), columns)
}

fn on_terminal(mut command: Command, columns: u16) -> String {
    let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    tcsetwinsize(&ours, Winsize { ws_row: 30, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = File::options().read(true).write(true).open(name).unwrap();
    command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
    let mut child = command.spawn().unwrap();
    drop(command);
    // Everything said, the reading ends with an error of the terminal that has no other side any more.
    let mut text = Vec::new();
    let mut piece = [0; 1024];
    let mut screen = File::from(ours);
    while let Ok(length @ 1..) = screen.read(&mut piece) {
        text.extend_from_slice(&piece[..length]);
    }
    child.wait().unwrap();
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}

#[track_caller]
fn fits(text: &str, columns: u16, whole: &[&str]) {
    for line in text.lines() {
        assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?} in\n{text}");
    }
    for word in whole {
        assert!(text.contains(word), "{columns}: {word} in\n{text}");
    }
}

/// Mutant: lines are written to a terminal as they are.
#[test]
fn no_name_is_shown_as_another_by_marks_that_take_no_room() {
    let server = Server::start();
    let shell = server.shell();
    let name = "a\u{202e}b\u{200b}c";
    shell.run(&["acquire", name, "--ttl", "10m"]).exits(0);
    let spelled = "a\\u{202e}b\\u{200b}c";
    for words in [&["ls"][..], &["show", name], &["run", name, "--", "true"], &["explain", name]] {
        let text = on_terminal(shell.command(words), 100);
        assert!(text.contains(spelled), "{words:?}: {text}");
        // What is to be typed has to be the name.
        let raw = text.lines().filter(|line| line.contains(name));
        assert!(raw.clone().all(|line| line.contains("fencepost ")), "{words:?}: {text}");
    }
    // For programs a name stays what it is.
    assert!(shell.run(&["ls"]).exits(0).stdout.contains(name));
}

/// Mutant: `Output::table` always prints the table.
#[test]
fn ids_stay_whole_at_any_width_from_forty_columns_on() {
    let server = Server::start();
    let shell = server.shell();
    let got =
        shell.run(&["acquire", "invoices/2026-11", "--ttl", "10m", "--holder", "worker-1", "--json"]).exits(0).json();
    let (lease, session) = (got["lease"].as_str().unwrap(), got["session"].as_str().unwrap());
    // On the widest there is room for the table however long the lease has been held: `828 ms` is longer than `1.2 s`.
    for columns in [40, 44, 60, 79, 80, 104] {
        let listed = shown(&shell, columns, &["ls"]);
        let heading = if columns < 104 { "domain invoices/2026-11" } else { " DOMAIN " };
        fits(&listed, columns, &[lease, heading, "worker-1"]);
        fits(&shown(&shell, columns, &["show", "invoices/2026-11"]), columns, &[lease, session, "--reason TEXT"]);
        fits(&shown(&shell, columns, &["history", "invoices/2026-11"]), columns, &[lease, "granted"]);
        fits(&shown(&shell, columns, &["explain", "invoices/2026-11"]), columns, &[lease]);
        let mut held = shell.command(&["acquire", "invoices/2026-11"]);
        held.env("FENCEPOST_SESSION_FILE", shell.path("other"));
        fits(&on_terminal(held, columns), columns, &[lease]);
    }
    let wide = shown(&shell, 200, &["ls"]);
    assert!(wide.contains(" DOMAIN ") && wide.contains(lease), "{wide}");
}

#[test]
fn a_command_that_is_broken_over_lines_can_be_pasted_as_it_stands() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "it's -- one", "--ttl", "10m"]).exits(0);
    let text = shown(&shell, 40, &["show", "it's -- one"]);
    let (_, pasted) = text.split_once("take it away:\n").unwrap();
    assert!(pasted.lines().count() > 2, "{text}");
    shell.sh(pasted).exits(0);
    assert!(shell.run(&["show", "it's -- one"]).exits(0).stdout.starts_with("nobody holds"));
}

#[test]
fn findings_and_facts_are_wrapped_between_words() {
    let server = Server::start();
    let shell = server.shell();
    let resource = shell.database("shop.db", "CREATE TABLE invoice (month TEXT, total INT)");
    shell.run(&["guard", &resource, "invoice", "--domain", "'invoices/' || month", "--observe"]).exits(0);
    for columns in [40, 60] {
        fits(&shown(&shell, columns, &["audit", "sqlite:shop.db"]), columns, &["severity warning", "guard_observes:"]);
        let status = shown(&shell, columns, &["status", "sqlite:shop.db", "--fences", "--observations"]);
        fits(&status, columns, &["condition", "no fences", "no observations"]);
    }
}
