//! Files from the command line: guards, pipes that write, and the check of histories.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;

mod checking;
mod counter;
mod crowd;
mod guarding;
mod late;
mod odd_names;
mod piping;
mod recipe;
mod recovering;
mod storage;
mod walkthrough;

/// A grant of this domain, as one line of JSON. Nobody gives it back.
fn grant(shell: &common::Shell, domain: &str) -> String {
    shell.run(&["run", domain, "--", "sh", "-c", "printf %s \"$FENCEPOST_GRANT\" >grant"]).exits(0);
    std::fs::read_to_string(shell.path("grant")).unwrap()
}
