//! Doors to what `run` and its warden parse.

use std::path::PathBuf;

use super::{
    ask::{Ask, RunArgs},
    cgroup, gate, link, signals, tree,
};
use crate::failure::Failure;

pub(crate) fn understand(args: RunArgs) -> Result<(), Failure> {
    Ask::parse(args).map(drop)
}

/// A line to the warden and the same line from it, as they would be written again.
pub(crate) fn message(line: &str) -> [Option<String>; 2] {
    [
        line.parse::<link::Order>().ok().map(|order| order.to_string()),
        line.parse::<link::Report>().ok().map(|report| report.to_string()),
    ]
}

/// Whose child a process is, and when it began.
pub(crate) fn process(stat: &str) -> Option<(i32, u64)> {
    tree::parse(stat).map(|seen| (seen.parent, seen.started))
}

pub(crate) fn ignored(status: &str) -> u64 {
    signals::ignored_in(status)
}

pub(crate) fn opens(line: &str) -> bool {
    gate::opened(line).is_some()
}

pub(crate) fn control_group(mounts: &str, groups: &str) -> Option<PathBuf> {
    cgroup::own_folder(mounts, groups)
}
