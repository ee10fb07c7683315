//! `cargo xtask bench`: builds what is measured, sees to the peers, and lets the benchmark measure.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    command::{cargo, output, run as run_command},
    servers::{self, Program},
};

/// Builds the released binary and runs the benchmark with these arguments.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    // A missing peer stops only what is measured beside it.
    match servers::ensure(&[Program::Etcd, Program::Etcdctl, Program::Redis]) {
        Ok(told) => println!("peers: {}", told.join("; ")),
        Err(error) => println!("peers: {error:#}"),
    }
    run_command(cargo(root).args(["build", "--release", "--package", "fencepost-cli", "--bin", "fencepost"]))?;
    let binary = target_folder(root)?.join("release/fencepost");
    let mut bench = cargo(root);
    bench.args(["bench", "--package", "fencepost-testkit", "--bench", "speed", "--", "--fencepost"]).arg(binary);
    run_command(bench.args(arguments))
}

fn target_folder(root: &Path) -> Result<PathBuf> {
    let text = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata did not write JSON")?;
    metadata["target_directory"].as_str().map(PathBuf::from).context("cargo metadata names no target folder")
}
