//! Tests wait on conditions, never for a fixed time, and none is ignored. Where a sleep cannot be avoided, a comment
//! `// bounded: why` on its line or the line above says what bounds it.

use super::{
    Finding,
    rust_source::{Line, has_word, is_test_file, lines},
    tree::Tree,
};

const ALLOWED: &str = "// bounded:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let lines = lines(text);
        let file = is_test_file(path);
        for (at, line) in lines.iter().enumerate() {
            let above = at.checked_sub(1).map(|above| &lines[above]);
            if let Some(why) = complaint(line, file || line.test).filter(|_| !is_bounded(line, above)) {
                findings.push(Finding::new(path, at + 1, why));
            }
        }
    }
    findings
}

fn complaint(line: &Line, test: bool) -> Option<&'static str> {
    let code = line.code.replace(' ', "");
    if code.contains("#[ignore") {
        return Some("a test that is ignored is no test: make it run, or let it say `SKIPPED: name: reason`");
    }
    if line.doc().is_some_and(|doc| doc.trim_start().starts_with("```ignore")) {
        return Some("an example that is not compiled rots: compile it, or mark it `text`");
    }
    let sleeps = has_word(&code, "sleep") && code.contains("sleep(");
    (test && sleeps).then_some("a test waits on a condition, not for a time; or say `// bounded: why`")
}

fn is_bounded(line: &Line, above: Option<&Line>) -> bool {
    let says_why = |line: &Line| line.comment.split_once(ALLOWED).is_some_and(|(_, why)| !why.trim().is_empty());
    says_why(line) || above.is_some_and(|above| above.code.trim().is_empty() && says_why(above))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of([(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn sleeping_is_for_drivers() {
        let text = "fn f() {\n  std::thread::sleep(x);\n}\n#[cfg(test)]\nmod tests {\n  fn g() { tokio::time::sleep(x).await; }\n}\n";
        assert_eq!(findings("crates/a/src/x.rs", text), [6]);
        assert_eq!(findings("crates/a/tests/x.rs", text), [2, 6]);
        assert_eq!(findings("crates/a/src/x_tests.rs", "use std::thread::sleep;\nsleep(x);\nasleep(y);"), [2]);
    }

    #[test]
    fn a_reason_is_needed_and_enough() {
        let path = "crates/a/tests/x.rs";
        assert!(findings(path, "sleep(x); // bounded: polls for a second at most").is_empty());
        assert!(findings(path, "// bounded: polls for a second at most\nsleep(x);").is_empty());
        assert_eq!(findings(path, "sleep(x); // bounded:"), [1]);
        assert_eq!(findings(path, "f(); // bounded: f\nsleep(x);"), [2]);
    }

    #[test]
    fn nothing_is_ignored() {
        assert_eq!(
            findings("crates/a/src/x.rs", "#[test]\n#[ignore = \"slow\"]\nfn f() {}\n/// ```ignore\n/// ```\n"),
            [2, 4]
        );
    }
}
