//! File sizes as a ratchet: at most 500 lines of code a file, and the exceptions on record may only shrink.

use std::collections::BTreeMap;

use super::{
    Finding,
    rust_source::{is_test_file, lines},
    tree::Tree,
};

/// Most lines of code of a file; tests, comments and blank lines do not count.
const LIMIT: usize = 500;

/// `path lines`, one exception a line.
const EXCEPTIONS: &str = "xtask/tidy/file-sizes.txt";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let exceptions = match exceptions(tree.text(EXCEPTIONS).unwrap_or_default()) {
        Ok(exceptions) => exceptions,
        Err(finding) => return vec![finding],
    };
    for path in exceptions.keys().filter(|path| tree.text(path).is_none()) {
        findings.push(Finding::new(EXCEPTIONS, 0, format!("{path} is gone: remove its line")));
    }
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !is_test_file(path)) {
        let size = size(text);
        let message = match exceptions.get(path) {
            None if size > LIMIT => format!("{size} lines of code, {LIMIT} are allowed: split it along its verbs"),
            None => continue,
            Some(_) if size <= LIMIT => {
                format!("{size} lines of code need no exception: remove the line in {EXCEPTIONS}")
            }
            Some(&recorded) if size > recorded => {
                format!("grew from {recorded} to {size} lines of code: an exception only shrinks")
            }
            Some(&recorded) if size < recorded => {
                format!("shrank from {recorded} to {size} lines of code: write that in {EXCEPTIONS}")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(path, 0, message));
    }
    findings
}

fn exceptions(text: &str) -> Result<BTreeMap<&str, usize>, Finding> {
    let mut found = BTreeMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let entry = line.split_once(' ').and_then(|(path, size)| Some((path, size.trim().parse().ok()?)));
        let (path, size) = entry.ok_or_else(|| Finding::new(EXCEPTIONS, at + 1, "must read `path lines`"))?;
        found.insert(path, size);
    }
    Ok(found)
}

fn size(text: &str) -> usize {
    lines(text).iter().filter(|line| !line.test && !line.code.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(count: usize) -> String {
        "fn f() {}\n".repeat(count) + "\n// a comment\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
    }

    fn messages(size: usize, exceptions: &str) -> Vec<String> {
        let tree = Tree::of([("crates/a/src/x.rs", &code(size)), (EXCEPTIONS, exceptions)]);
        check(&tree).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn only_code_counts_and_500_lines_are_enough() {
        assert!(messages(500, "").is_empty());
        assert!(messages(501, "")[0].starts_with("501 lines of code, 500 are allowed"));
        let tests = Tree::of([("crates/a/src/x_tests.rs", &code(900)), ("crates/a/tests/y.rs", &code(900))]);
        assert!(check(&tests).is_empty());
    }

    #[test]
    fn an_exception_only_shrinks() {
        assert!(messages(600, "# why\ncrates/a/src/x.rs 600\n").is_empty());
        assert!(messages(601, "crates/a/src/x.rs 600\n")[0].starts_with("grew"));
        assert!(messages(599, "crates/a/src/x.rs 600\n")[0].starts_with("shrank"));
        assert!(messages(500, "crates/a/src/x.rs 600\n")[0].contains("need no exception"));
        assert!(messages(1, "crates/a/src/gone.rs 600\n")[0].contains("is gone"));
        assert!(messages(1, "crates/a/src/x.rs many\n")[0].contains("must read"));
    }
}
