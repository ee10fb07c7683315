//! `show` with the queue.

use crate::common::{Server, send, until};

#[test]
fn who_waits_is_shown_in_order_and_whose_connection_is_gone() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
    let waiting = |holder: &str, count: usize| {
        let mut command = shell.command(&["acquire", "d", "--wait", "60s", "--holder", holder]);
        let child = command.env("FENCEPOST_SESSION_FILE", shell.path(holder)).spawn().unwrap();
        until("it stands in the queue", || {
            let row = shell.run(&["show", "d", "--json"]).exits(0).json();
            row["queue"]["items"].as_array().map_or(0, Vec::len) == count
        });
        child
    };
    let mut first = waiting("first", 1);
    let mut second = waiting("second", 2);
    let shown = shell.run(&["show", "d"]).exits(0).stdout;
    let rows: Vec<&str> = shown.lines().skip_while(|line| !line.contains("WHO WAITS")).collect();
    assert!(rows[0].contains("CONNECTED"), "{shown}");
    assert!(rows[1].contains("1  ") && rows[1].contains("first") && rows[1].ends_with("yes"), "{shown}");
    assert!(rows[2].contains("2  ") && rows[2].contains("second") && rows[2].ends_with("yes"), "{shown}");

    send("KILL", first.id());
    first.wait().unwrap();
    until("the connection is seen to be gone", || {
        shell.run(&["show", "d", "--json"]).exits(0).json()["queue"]["items"][0]["connected"] == false
    });
    let shown = shell.run(&["show", "d"]).exits(0).stdout;
    assert!(shown.contains("no, passed over") && shown.contains("2, 1 of them without a connection"), "{shown}");
    let queue = shell.run(&["show", "d", "--json"]).exits(0).json()["queue"].clone();
    assert_eq!((&queue["waiting"], &queue["connected"]), (&2.into(), &1.into()));
    let explained = shell.run(&["explain", "d"]).exits(0).stdout;
    assert!(explained.contains("2 wait, the first in line first: first for "), "{explained}");
    assert!(explained.contains("without a connection and passed over; second for "), "{explained}");
    shell.run(&["release"]).exits(0);
    assert!(second.wait().unwrap().success(), "the one that is there is granted, over the one that is not");
}

#[test]
fn a_reserved_domain_says_by_which_rule_and_for_how_long() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["acquire", "d", "--min-hold", "60s"]).exits(0);
    shell.run(&["release"]).exits(0);
    let shown = shell.run(&["show", "d"]).exits(0).stdout;
    assert!(shown.contains("nobody holds d\n  reserved  min_hold for "), "{shown}");
    let queue = shell.run(&["show", "d", "--json"]).exits(0).json()["queue"].clone();
    assert_eq!(queue["reserved"], "min_hold");
    let explained = shell.run(&["explain", "d", "--json"]).exits(0).json();
    assert_eq!(explained["state"], "reserved");
    let words = explained["explanation"][0].as_str().unwrap();
    assert!(words.contains("least holding time"), "{words}");
}
