//! Every dependency is argued for: each has a line in `docs/dependencies.md`, each line there has a dependency, and
//! nothing is held ready in the root manifest that nobody uses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Finding, tree::Tree};

const PAGE: &str = "docs/dependencies.md";
const MANIFEST: &str = "Cargo.toml";
/// A workspace of its own, which the metadata of this one does not know.
const FUZZ: &str = "fuzz/Cargo.toml";

pub(super) fn check(tree: &Tree, metadata: &Value) -> Vec<Finding> {
    let mut used = of_members(metadata);
    let idle = of_section(tree.text(MANIFEST).unwrap_or_default(), "[workspace.dependencies]");
    let idle = idle.into_iter().filter(|name| !used.contains(name));
    let idle = idle.map(|name| Finding::new(MANIFEST, 0, format!("`{name}` is used by no member: remove it")));
    let idle: Vec<Finding> = idle.collect();
    used.extend(of_section(tree.text(FUZZ).unwrap_or_default(), "[dependencies]"));
    let argued = argued(tree.text(PAGE).unwrap_or_default());
    let missing = used.iter().filter(|name| !argued.iter().any(|(_, argued)| argued == *name));
    let dead = argued.iter().filter(|(_, name)| !used.contains(name));
    let missing = missing.map(|name| Finding::new(PAGE, 0, format!("has no line that argues for `{name}`")));
    let dead =
        dead.map(|(line, name)| Finding::new(PAGE, *line, format!("`{name}` is no dependency: remove the line")));
    idle.into_iter().chain(missing).chain(dead).collect()
}

/// What the members name, from anywhere but this workspace.
fn of_members(metadata: &Value) -> BTreeSet<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let dependencies = packages.flat_map(|package| package["dependencies"].as_array().into_iter().flatten());
    let foreign = dependencies.filter(|dependency| dependency["path"].is_null());
    foreign.filter_map(|dependency| dependency["name"].as_str()).map(str::to_owned).collect()
}

/// What a section of a manifest names, one a line, from anywhere but this workspace.
fn of_section(manifest: &str, section: &str) -> BTreeSet<String> {
    let section = manifest.lines().skip_while(|line| line.trim() != section).skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let entries = lines.filter_map(|line| line.split_once('=')).filter(|(_, value)| !value.contains("path ="));
    let names = entries.map(|(name, _)| name.split('.').next().unwrap_or(name).trim().to_owned());
    names.filter(|name| !name.starts_with('#')).collect()
}

/// The first cell of each row of the page's tables, where it is a code span.
fn argued(page: &str) -> Vec<(usize, String)> {
    let rows = page.lines().enumerate();
    rows.filter_map(|(at, line)| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        Some((at + 1, name.to_owned()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_dependency_has_a_line_and_every_line_a_dependency() {
        let manifest = "[workspace.dependencies]\nown = { path = \"crates/own\" }\nidle = \"1\"\nserde = \"1\"\n# no = 1\nhttp.version = \"1\"\n\n[profile.dev]\nx = 1\n";
        let metadata = json!({"packages": [{"dependencies": [
            {"name": "serde", "path": null}, {"name": "own", "path": "p"}, {"name": "anyhow"}, {"name": "http"}]}]});
        let page = "| crate | what for |\n|---|---|\n| `serde` | data |\n| `gone` | nothing |\n";
        let fuzz = "[dependencies]\nown = { path = \"../own\" }\nlibfuzzer-sys = \"0.4\"\nserde = \"1\"\n";
        let tree = Tree::of([(MANIFEST, manifest), (PAGE, page), (FUZZ, fuzz)]);
        let found: Vec<String> = check(&tree, &metadata).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "Cargo.toml: `idle` is used by no member: remove it",
                "docs/dependencies.md: has no line that argues for `anyhow`",
                "docs/dependencies.md: has no line that argues for `http`",
                "docs/dependencies.md: has no line that argues for `libfuzzer-sys`",
                "docs/dependencies.md:4: `gone` is no dependency: remove the line",
            ]
        );
    }
}
