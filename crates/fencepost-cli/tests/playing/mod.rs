//! The demo as a process.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

pub(crate) const FENCEPOST: &str = env!("CARGO_BIN_EXE_fencepost");

/// The demo, with `room` for its files, and whole in what it has: no defect, no setting of whoever runs the tests.
pub(crate) fn demo(room: &Path) -> Command {
    let mut command = Command::new(FENCEPOST);
    command.arg("demo").env("TMPDIR", room).env_remove("FENCEPOST_SABOTAGE").env_remove("FENCEPOST_URL");
    command
}

/// What it has said, for people.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// What it has said, for programs: one object on each line.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    let objects: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(objects.iter().all(|object| object["event"].is_string()), "{}", text(output));
    objects
}
