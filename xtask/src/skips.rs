//! Tests that could not run where they stand, by name and reason.
//!
//! The convention: a test that finds its means missing appends one line `SKIPPED: name: reason` to the file named by
//! the variable `FENCEPOST_SKIPS`, if it is set, and returns. A skip that nobody sees is a test that nobody has.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Names the file for the tests.
pub(crate) const VARIABLE: &str = "FENCEPOST_SKIPS";

/// The file of one run.
pub(crate) struct Skips(PathBuf);

impl Skips {
    /// An empty file for this run in a folder that is made when it is missing.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join("skips.txt");
        fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    /// Where the tests write to.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Adds a skip of a step that is no test.
    pub(crate) fn note(&self, name: &str, reason: &str) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.0).context("the file of skips is gone")?;
        writeln!(file, "SKIPPED: {name}: {}", reason.replace('\n', " ")).context("cannot note a skip")
    }

    /// What they wrote, sorted, each line once.
    pub(crate) fn read(&self) -> Result<Vec<String>> {
        parse(&fs::read_to_string(&self.0).with_context(|| format!("cannot read {}", self.0.display()))?)
    }
}

fn parse(text: &str) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        let named = line.strip_prefix("SKIPPED: ").and_then(|rest| rest.split_once(": "));
        match named {
            Some((name, reason)) if !name.trim().is_empty() && !reason.trim().is_empty() => lines.push(line.to_owned()),
            _ => bail!("a skip must read `SKIPPED: name: reason`, found `{line}`"),
        }
    }
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_skipped_stands_beside_the_tests_that_were() {
        let folder = std::env::temp_dir().join(format!("fencepost-skips-{}", std::process::id()));
        let skips = Skips::in_folder(&folder).unwrap();
        skips.note("fuzzing", "no `c++`:\ninstall g++").unwrap();
        assert_eq!(skips.read().unwrap(), ["SKIPPED: fuzzing: no `c++`: install g++"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_skip_has_a_name_and_a_reason() {
        let text = "SKIPPED: b: no root\n\nSKIPPED: a: no netns\nSKIPPED: b: no root\n";
        assert_eq!(parse(text).unwrap(), ["SKIPPED: a: no netns", "SKIPPED: b: no root"]);
        for bad in ["SKIPPED: a", "SKIPPED: a: ", "skipped: a: b", "SKIPPED: : reason"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
