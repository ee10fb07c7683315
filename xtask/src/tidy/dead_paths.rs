//! Paths that lead nowhere: links and file names in the docs, file names in documentation comments, functions and types
//! named in `ARCHITECTURE.md`.

use std::collections::BTreeMap;

use super::{
    Finding,
    markdown::{self, anchor},
    rust_source::{self, has_word},
    tree::Tree,
};

/// The page whose functions and types must exist too.
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// A code span that begins with one of these is a path of this repository.
const FOLDERS: &[&str] = &["crates/", "docs/", "xtask/", "fuzz/", ".ci/", ".config/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in tree.ending(".md") {
        for line in markdown::lines(text) {
            for target in line.links() {
                findings.extend(dead_link(tree, page, target).map(|why| Finding::new(page, line.number, why)));
            }
            let paths = line.spans.iter().filter(|span| is_path(span));
            let dead = paths.filter(|path| !tree.has(path));
            findings.extend(dead.map(|path| Finding::new(page, line.number, format!("`{path}` does not exist"))));
        }
    }
    for (path, text) in tree.ending(".rs") {
        let (numbers, documentation) = rust_source::documentation(text);
        for line in markdown::lines(&documentation) {
            let dead = line.spans.iter().filter(|span| is_path(span) && !tree.has(span));
            let at = numbers[line.number - 1];
            findings.extend(dead.map(|span| Finding::new(path, at, format!("`{span}` does not exist"))));
        }
    }
    if let Some(text) = tree.text(ARCHITECTURE) {
        findings.extend(dead_names(tree, text));
    }
    findings
}

fn is_path(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder)) && !span.contains(['*', '<', ' ', '…'])
}

fn dead_link(tree: &Tree, page: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = target.split_once('#').map_or((target, None), |(path, fragment)| (path, Some(fragment)));
    let file = if path.is_empty() { page.to_owned() } else { resolve(page, path) };
    if !tree.has(&file) {
        return Some(format!("the link to {target} leads nowhere"));
    }
    let headings = markdown::lines(tree.text(&file)?);
    // A heading's code spans count towards its anchor, so they are put back as they stood.
    let mut anchors = headings.iter().filter_map(|line| {
        let raw = tree.text(&file)?.lines().nth(line.number - 1)?;
        line.heading().map(|_| anchor(raw.trim_start_matches('#')))
    });
    let fragment = fragment?;
    (!anchors.any(|found| found == fragment)).then(|| format!("{file} has no heading #{fragment}"))
}

/// `path` as seen from the folder of `page`.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Functions (`name()`, `Type::name()`) must be defined, and types (`Name`) occur, in a file that the same paragraph
/// names.
fn dead_names(tree: &Tree, text: &str) -> Vec<Finding> {
    let lines = markdown::lines(text);
    let mut code: BTreeMap<usize, String> = BTreeMap::new();
    for line in &lines {
        for path in line.spans.iter().filter(|span| is_path(span)) {
            let paragraph = code.entry(line.paragraph).or_default();
            let file = tree.text(path).map(|text| (*path, text));
            for (_, text) in file.into_iter().chain(tree.under(path)).filter(|(path, _)| path.ends_with(".rs")) {
                for line in rust_source::lines(text) {
                    paragraph.push_str(&line.code);
                    paragraph.push('\n');
                }
            }
        }
    }
    let mut findings = Vec::new();
    for line in &lines {
        let code = code.get(&line.paragraph).map_or("", String::as_str);
        for span in &line.spans {
            let last = span.rsplit("::").next().unwrap_or(span);
            let missing = match last.strip_suffix("()") {
                Some(function) if is_name(function) => !has_word(code, &format!("fn {function}")),
                Some(_) => false,
                None => is_type(last) && !has_word(code, last),
            };
            if missing {
                let why = format!("`{span}` is in no file that this paragraph names");
                findings.push(Finding::new(ARCHITECTURE, line.number, why));
            }
        }
    }
    findings
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_type(text: &str) -> bool {
    is_name(text)
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub struct Seal;\nimpl Seal { pub fn close(&self) {} }\n// fn opened() {}\n";

    fn messages(page: &str, text: &str) -> Vec<String> {
        let tree = Tree::of([
            (page, text),
            ("crates/a/src/seal.rs", CODE),
            ("docs/there.md", "# Words\n## The `decide` step\n"),
        ]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        assert!(
            messages("docs/x.md", "[a](there.md) [b](../crates/a) [c](https://e.org) [d](there.md#the-decide-step)")
                .is_empty()
        );
        assert!(messages("docs/x.md", "# Here\n[a](#here)").is_empty());
        assert_eq!(messages("docs/x.md", "\n[a](gone.md)"), ["docs/x.md:2: the link to gone.md leads nowhere"]);
        assert_eq!(messages("docs/x.md", "[a](there.md#gone)"), ["docs/x.md:1: docs/there.md has no heading #gone"]);
        assert_eq!(messages("docs/x.md", "[a](#gone)"), ["docs/x.md:1: docs/x.md has no heading #gone"]);
    }

    #[test]
    fn named_paths_exist() {
        assert!(messages("README.md", "`crates/a/src/seal.rs`, `crates/a/`, `crates/*/src`, `cargo run`").is_empty());
        assert_eq!(messages("README.md", "`crates/b/`"), ["README.md:1: `crates/b/` does not exist"]);
    }

    #[test]
    fn named_paths_exist_in_documentation_too() {
        let text = "// `crates/b/`\nf();\n/// See `docs/there.md` and\n/// `docs/gone.md`.\n";
        assert_eq!(messages("crates/a/src/x.rs", text), ["crates/a/src/x.rs:4: `docs/gone.md` does not exist"]);
    }

    #[test]
    fn functions_and_types_of_the_architecture_exist_where_it_says() {
        let page = "ARCHITECTURE.md";
        assert!(messages(page, "`Seal::close()` in\n`crates/a/src/seal.rs`").is_empty());
        assert!(messages(page, "`Seal` in `crates/a`, `plain_word`, `HTTP`").is_empty());
        let gone = "is in no file that this paragraph names";
        assert_eq!(messages(page, "`opened()` in `crates/a`"), [format!("{page}:1: `opened()` {gone}")]);
        assert_eq!(messages(page, "`crates/a`\n\n`close()`"), [format!("{page}:3: `close()` {gone}")]);
        assert_eq!(messages(page, "`Door` in `crates/a`"), [format!("{page}:1: `Door` {gone}")]);
        assert!(messages("README.md", "`opened()`").is_empty());
    }
}
