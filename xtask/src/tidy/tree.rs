//! The texts of the repository as one value, so that a check needs no disk and its tests can make up a bad tree.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use anyhow::{Context, Result};

/// Every file by its path from the root, with `/` between folders.
pub(super) struct Tree(BTreeMap<String, String>);

impl Tree {
    /// What git would commit; without git, what lies in the folder except its build output.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let paths = match from_git(root) {
            Some(paths) => paths,
            None => from_folder(root)?,
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let file = root.join(&path);
            if !file.is_file() {
                continue; // Deleted and not yet committed.
            }
            let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
        Ok(Self(files))
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether there is such a file or folder.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path.is_empty() || self.0.contains_key(path) || self.under(path).next().is_some()
    }

    /// The files of a folder and of the folders in it.
    pub(super) fn under(&self, folder: &str) -> impl Iterator<Item = (&str, &str)> {
        let folder = format!("{}/", folder.trim_end_matches('/'));
        self.files().filter(move |(path, _)| path.starts_with(&folder))
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(super) fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }
}

fn from_git(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn from_folder(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            match entry.file_type()?.is_dir() {
                true if name == "target" || name == ".git" => {}
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of([("a/b/c.rs", "")]);
        assert!(["", "a", "a/", "a/b", "a/b/c.rs"].iter().all(|path| tree.has(path)));
        assert!(!tree.has("a/b/c") && !tree.has("b"));
    }
}
