//! Nothing in the repository belongs to one machine: no absolute path of somebody's folder, no host of a package
//! registry.

use super::{Finding, tree::Tree};

/// Folders that exist on some machines only. Written in two parts, or this file would be a finding of its own.
const FOLDERS: &[&str] = &[concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];

/// Hosts that cargo, npm, pip or go fetch from. The reader's own configuration names them, the repository does not.
const HOSTS: &[&str] = &[
    concat!("index.", "crates", ".io"),
    concat!("static.", "crates", ".io"),
    concat!("registry.", "np", "mjs"),
    concat!("py", "pi.", "org"),
    concat!("python", "hos", "ted"),
    concat!("proxy.", "go", "lang"),
    concat!("artifact", "ory"),
];

/// The one source of packages that a lock file names.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for (at, line) in text.lines().enumerate() {
            let folder = FOLDERS.iter().find(|folder| has_path(line, folder));
            let host = HOSTS.iter().find(|host| line.to_lowercase().contains(**host));
            let source = line
                .strip_prefix("source = ")
                .filter(|_| path.ends_with("Cargo.lock"))
                .map(|value| value.trim_matches('"'));
            let why = match (folder, host, source) {
                (Some(folder), _, _) => format!("`{folder}` is a folder of one machine"),
                (None, Some(host), _) => format!("`{host}` is the host of a package registry"),
                (None, None, Some(source)) if source != SOURCE => format!("`{source}` is not the public index"),
                (None, None, _) => continue,
            };
            findings.push(Finding::new(path, at + 1, why));
        }
    }
    findings
}

/// Whether an absolute path through this folder stands in the line: `a/work/b` has none.
fn has_path(line: &str, folder: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '}' | ')' | '>');
    line.match_indices(folder).any(|(at, _)| !line[..at].chars().next_back().is_some_and(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, line: &str) -> usize {
        check(&Tree::of([(path, line)])).len()
    }

    #[test]
    fn absolute_paths_are_found_and_relative_ones_are_not() {
        for folder in FOLDERS {
            assert_eq!(findings("a.md", &format!("see {folder}x")), 1);
            assert_eq!(findings("a.rs", &format!("let p = \"{folder}x\";")), 1);
            assert_eq!(findings("a.rs", &format!("let p = \"a{folder}x\";")), 0);
        }
    }

    #[test]
    fn hosts_of_registries_are_found() {
        for host in HOSTS {
            assert_eq!(findings("a.toml", &format!("url = \"https://{}/x\"", host.to_uppercase())), 1);
        }
        assert_eq!(findings("Cargo.lock", &format!("source = \"{SOURCE}\"")), 0);
        assert_eq!(findings("Cargo.lock", "source = \"git+https://e.org/x\""), 1);
        assert_eq!(findings("fuzz/Cargo.lock", "source = \"git+https://e.org/x\""), 1);
    }
}
