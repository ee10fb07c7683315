//! What outsiders rely on is kept as files, so that a change of it shows as a diff.
//!
//! The comparison is a test in the crate concerned, rewritten by `UPDATE_GOLDEN=1`; here only the list is kept
//! honest, so that no golden file can vanish together with its test.

use super::{Finding, tree::Tree};

/// One path a line.
const LIST: &str = "xtask/tidy/golden.txt";

/// Where golden files live in a crate.
const FOLDER: &str = "/tests/golden/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let lines = tree.text(LIST).unwrap_or_default().lines().enumerate();
    let listed: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect();
    if listed.is_empty() {
        return vec![Finding::new(LIST, 0, "lists no golden file")];
    }
    let mut findings = Vec::new();
    for (at, path) in &listed {
        if tree.text(path).is_none_or(|text| text.trim().is_empty()) {
            findings.push(Finding::new(
                LIST,
                at + 1,
                format!("{path} is missing or empty: run its test with UPDATE_GOLDEN=1"),
            ));
        }
    }
    let unlisted =
        tree.files().filter(|(path, _)| path.contains(FOLDER) && !listed.iter().any(|(_, listed)| listed == path));
    findings.extend(unlisted.map(|(path, _)| Finding::new(path, 0, format!("is not listed in {LIST}"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_the_files_agree() {
        let tree = Tree::of([
            (LIST, "# the command line\ncrates/a/tests/golden/help.txt\ncrates/a/tests/golden/gone.txt\n"),
            ("crates/a/tests/golden/help.txt", "Usage:"),
            ("crates/a/tests/golden/new.txt", "x"),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("xtask/tidy/golden.txt:3: crates/a/tests/golden/gone.txt is missing"));
        assert!(found[1].starts_with("crates/a/tests/golden/new.txt: is not listed"));
        assert_eq!(check(&Tree::of([])).len(), 1);
    }
}
