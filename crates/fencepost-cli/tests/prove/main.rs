//! `fencepost prove` on real services: a correct one passes, and each typical mistake is found by the scenario that is
//! about it, and by no other than those that it breaks. The faulty services are the mutants of the scenarios.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, unreachable_pub, reason = "its main is the example's")]
#[path = "../../examples/services/main.rs"]
mod services;

mod bank;
mod broken;
mod flags;
mod page;
mod proving;

use std::{process, thread, time::Duration};

use clap::Parser as _;

/// What a service process is started with, one argument a line.
const ARGUMENTS: &str = "FENCEPOST_TEST_SERVICE";

/// No test: where the variable is set this binary is a service, so that the services under proof are always those that
/// stand in the folder, whatever was built before.
#[test]
fn service_process() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    thread::spawn(|| {
        // bounded: by itself; a service that nobody has ended does not outlive its test for long
        thread::sleep(Duration::from_secs(300));
        process::exit(1);
    });
    let arguments = ["services"].into_iter().chain(arguments.lines());
    services::serve(&services::Args::parse_from(arguments)).unwrap();
}
