//! `cargo xtask torture`: the test that does it round after round, told for how long.

use std::path::Path;

use anyhow::Result;

use crate::{
    command::{cargo, run},
    servers::{self, Program},
};

/// Rounds from fresh seeds until the time is up; from this seed on where one is given.
pub(crate) fn torture(root: &Path, seconds: u64, seed: Option<u64>) -> Result<()> {
    servers::wish(&[Program::Nft, Program::Faketime]).iter().for_each(|told| println!("programs: {told}"));
    let mut command = cargo(root);
    // With the features of `cargo xtask ci`, so that nothing is built a second time. No defect is switched on.
    command.args(["test", "--package", "fencepost-cli", "--all-features", "--test", "torture", "--"]);
    command.args(["as_long_as_asked", "--exact", "--nocapture"]);
    command.env("FENCEPOST_TORTURE_SECONDS", seconds.to_string()).env_remove("FENCEPOST_SABOTAGE");
    match seed {
        Some(seed) => command.env("FENCEPOST_TORTURE_SEED", seed.to_string()),
        None => command.env_remove("FENCEPOST_TORTURE_SEED"),
    };
    run(&mut command)
}
