//! Every parser stands in the table of `docs/proofs.md` with the fuzzing targets that reach it, or with the reason why
//! none does. What parses is told by words that hardly anything else has in this repository.

use super::{
    Finding,
    markdown::{self, Line},
    rust_source::{self, is_test_file},
    tree::Tree,
};

const PAGE: &str = "docs/proofs.md";
const HEADING: &str = "Every parser";
const TARGETS: &str = "fuzz/targets/";

/// What stands in code that makes values of texts or bytes.
const SIGNS: &[&str] = &[
    "FromStr for",
    "Deserialize,",
    "Deserialize)",
    "Deserializer::from",
    "serde_json::from_",
    "postcard::from_bytes",
    "from_str_radix",
    "from_column(",
    "fn parse",
    "fn decode",
    ".parse()",
    ".parse::<",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let targets: Vec<&str> = tree.under(TARGETS).filter_map(|(path, _)| target(path)).collect();
    let lines = markdown::lines(page);
    let rows = rows(&lines);
    let named: Vec<&str> = rows.iter().flat_map(|row| row.spans.iter().copied()).collect();
    let mut findings = Vec::new();
    for row in &rows {
        let folders = row.spans.iter().filter(|span| span.ends_with('/'));
        let why = |span| format!("`{span}` is a folder: name its files that parse, or the next one goes unnoticed");
        findings.extend(folders.map(|span| Finding::new(PAGE, row.number, why(span))));
        let unknown = row.spans.iter().filter(|span| !span.contains('/') && !targets.contains(span));
        findings.extend(unknown.map(|span| Finding::new(PAGE, row.number, format!("`{span}` is no fuzzing target"))));
    }
    for target in &targets {
        let is_told = lines.iter().any(|line| line.prose.starts_with("| ") && line.spans.first() == Some(target));
        if !is_told {
            findings.push(Finding::new(
                PAGE,
                0,
                format!("no row of a table begins with the fuzzing target `{target}`"),
            ));
        }
    }
    for (path, text) in tree.ending(".rs").filter(|(path, _)| is_shipped(path) && !is_test_file(path)) {
        let parses = rust_source::lines(text).iter().any(|line| !line.test && has_sign(&line.code));
        if parses && !named.contains(&path) {
            let why = format!("parses something, and stands in no row under \"{HEADING}\" of {PAGE}");
            findings.push(Finding::new(path, 0, why));
        }
    }
    findings
}

fn target(path: &str) -> Option<&str> {
    path.strip_prefix(TARGETS)?.strip_suffix(".rs")
}

/// The rows of the table under the heading.
fn rows<'a, 'b>(lines: &'b [Line<'a>]) -> Vec<&'b Line<'a>> {
    let after = lines.iter().skip_while(|line| line.heading() != Some(HEADING)).skip(1);
    after.take_while(|line| line.heading().is_none()).filter(|line| line.prose.starts_with('|')).collect()
}

/// The doors for the fuzzer are no parsers themselves.
fn is_shipped(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/") && !path.ends_with("/fuzzing.rs")
}

fn has_sign(code: &str) -> bool {
    SIGNS.iter().any(|sign| code.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| `a` | one |\n\n### Every parser\n\n| what | where | by |\n|---|---|---|\n\
                         | x | `crates/c/src/x.rs` | `a` |\n| y | `crates/c/src/y/z.rs` | `a` |\n\n### More\n";

    fn messages(page: &str, path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of([(PAGE, page), (path, text), ("fuzz/targets/a.rs", "")]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_parses_stands_in_the_table() {
        let parses = "fn f() { let n: u32 = text.parse().unwrap(); }\n";
        assert!(messages(TABLE, "crates/c/src/x.rs", parses).is_empty());
        assert!(messages(TABLE, "crates/c/src/y/z.rs", parses).is_empty());
        assert!(messages(TABLE, "crates/c/tests/z.rs", parses).is_empty());
        assert!(messages(TABLE, "crates/c/src/z.rs", "// text.parse()\nfn f() {}\n").is_empty());
        assert!(messages(TABLE, "crates/c/src/z.rs", &format!("#[cfg(test)]\nmod tests {{\n{parses}}}\n")).is_empty());
        let missing = messages(TABLE, "crates/c/src/z.rs", parses);
        assert_eq!(
            missing,
            ["crates/c/src/z.rs: parses something, and stands in no row under \"Every parser\" of docs/proofs.md"]
        );
    }

    /// Mutant: a row that stands for all of a folder takes in a parser that nobody has looked at.
    #[test]
    fn a_row_names_files_and_no_folder() {
        let wrong = TABLE.replace("`crates/c/src/y/z.rs`", "`crates/c/src/y/`");
        let parses = "fn f() { let n: u32 = text.parse().unwrap(); }\n";
        assert_eq!(
            messages(&wrong, "crates/c/src/y/z.rs", parses),
            [
                "docs/proofs.md:8: `crates/c/src/y/` is a folder: name its files that parse, or the next one goes unnoticed",
                "crates/c/src/y/z.rs: parses something, and stands in no row under \"Every parser\" of docs/proofs.md"
            ]
        );
    }

    #[test]
    fn targets_are_programs_and_programs_are_told_of() {
        let wrong = TABLE.replace("| `a` |\n| y", "| `b` |\n| y");
        assert_eq!(messages(&wrong, "z.rs", ""), ["docs/proofs.md:7: `b` is no fuzzing target"]);
        let untold = TABLE.replace("| `a` | one |\n", "");
        assert_eq!(
            messages(&untold, "z.rs", ""),
            ["docs/proofs.md: no row of a table begins with the fuzzing target `a`"]
        );
    }
}
