//! A bug that ends `run` in the middle: a panic, which a defect of the test builds provokes once the command runs.

use std::time::Duration;

use crate::{
    common::{Server, until},
    processes::{BEAT, Running},
};

/// `run` says that it was a bug, nothing of the command outlives it, and nobody is let in beside a command that may live.
///
/// Mutant: the leases are dropped on the way out, which gives them back in every second run.
#[test]
fn a_run_that_panics_takes_the_tree_with_it_and_gives_nothing_back() {
    let server = Server::start();
    let shell = server.shell();
    let script = format!("{BEAT} trap '' TERM; beat & echo >up; wait");
    let mut command = shell.command(&["run", "d", "--ttl", "4s", "--", "sh", "-c", &script]);
    command.env("FENCEPOST_SABOTAGE", "run_panics");
    let mut running = Running::of_quiet(command);
    running.end();
    // It waits for nobody: the tree dies with it, and a moment later.
    until("nothing of it lives", || running.all().is_empty());
    running.ends_with(70);
    let told = running.told();
    assert!(told.contains("this is a bug of fencepost") && told.contains("next: report it"), "{told}");
    // Longer than a release takes to come, whoever is late on a busy machine.
    // bounded: nothing is to happen, and shorter than the TTL
    std::thread::sleep(Duration::from_millis(500));
    shell.run(&["run", "d", "--", "true"]).exits(75);
    until("the lease has ended by itself", || shell.run(&["run", "d", "--", "true"]).code == Some(0));
}
