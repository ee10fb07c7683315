//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Each check is a file with a pure function from a [`Tree`] (the texts of the repository) to findings; each finding
//! says where it is and what to do instead.

mod borders;
mod dead_paths;
mod dependencies;
mod file_sizes;
mod glossary;
mod golden;
mod machine;
mod markdown;
mod named;
mod parsers;
mod readme;
mod rust_source;
mod tree;
mod waiting;

use std::{fmt, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, output};
use tree::Tree;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.into(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs every check and says how many there were.
///
/// # Errors
/// When there are findings; all of them are printed.
pub(crate) fn run(root: &Path) -> Result<String> {
    let tree = Tree::read(root)?;
    let metadata = metadata(root)?;
    let checks: &[(&str, Vec<Finding>)] = &[
        ("borders between crates", borders::check(&metadata)),
        ("file sizes", file_sizes::check(&tree)),
        ("dead paths", dead_paths::check(&tree)),
        ("crates and machines that are named", named::check(&tree)),
        ("parsers and who attacks them", parsers::check(&tree)),
        ("glossary", glossary::check(&tree)),
        ("dependencies", dependencies::check(&tree, &metadata)),
        ("paths and hosts of one machine", machine::check(&tree)),
        ("waiting and ignoring in tests", waiting::check(&tree)),
        ("golden files", golden::check(&tree)),
        ("example of the README", readme::check(&tree)),
    ];
    let mut count = 0;
    for (name, findings) in checks {
        let mut findings = findings.clone();
        findings.sort();
        count += findings.len();
        for finding in findings {
            eprintln!("tidy: {name}: {finding}");
        }
    }
    if count > 0 {
        bail!("tidy has {count} findings");
    }
    Ok(format!("tidy: {} checks over {} files", checks.len(), tree.len()))
}

fn metadata(root: &Path) -> Result<Value> {
    let text = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_str(&text).context("cargo metadata did not write JSON")
}
