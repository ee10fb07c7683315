//! The recipe of `docs/recipes.md` that writes a file, run as it stands there.

use crate::common::Server;

const PAGE: &str = include_str!("../../../../docs/recipes.md");

#[test]
fn a_backup_job_that_was_overtaken_leaves_the_backup_alone() {
    let recipe = PAGE.split("\n## ").find(|part| part.starts_with("A backup job")).expect("the recipe is on the page");
    let blocks = recipe.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).map(|line| match line.split_once("    # exits ") {
        Some((command, code)) => format!("code=0; {command} || code=$?; test $code = {code} || exit 99"),
        None => line.to_owned(),
    });
    let script = format!("set -eu\n{}\n", lines.collect::<Vec<_>>().join("\n"));
    assert!(script.contains("exit 99"), "it ends in a refused write");
    let server = Server::start();
    server.shell().sh(&script).exits(0);
}
