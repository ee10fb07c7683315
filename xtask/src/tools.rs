//! Cargo tools that a machine with only a Rust toolchain lacks: built once, kept in the user's cache.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, run};

/// The checker of licences and sources. Its verdicts and its configuration change between versions, so it is pinned.
const CARGO_DENY: &str = "0.20.2";

/// cargo-deny, ready to run in the workspace.
pub(crate) fn cargo_deny(root: &Path) -> Result<Command> {
    let folder = cache()?.join("fencepost/tools");
    let program = folder.join("bin/cargo-deny");
    if !is_version(&program, CARGO_DENY) {
        println!("cargo-deny {CARGO_DENY} is built once, in a few minutes, into {}", folder.display());
        let mut install = cargo(root);
        install.args(["install", "--locked", "--root"]).arg(&folder).arg(format!("cargo-deny@{CARGO_DENY}"));
        // It runs for a second: a quick build is worth more than a quick program.
        install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_LTO", "off");
        install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env_remove("CARGO_TARGET_DIR");
        run(&mut install)?;
        if !is_version(&program, CARGO_DENY) {
            bail!("{} is not cargo-deny {CARGO_DENY} after its installation", program.display());
        }
    }
    let mut command = Command::new(program);
    command.current_dir(root);
    Ok(command)
}

fn is_version(program: &Path, version: &str) -> bool {
    program.is_file() && output(Command::new(program).arg("--version")).is_ok_and(|text| text.trim().ends_with(version))
}

fn cache() -> Result<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep cargo-deny")
}
