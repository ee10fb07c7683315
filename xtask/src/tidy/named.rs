//! `ARCHITECTURE.md` names every crate, and every folder of the machines that attack them: whoever reads it has heard of
//! all there is. That what it names exists is another check.

use std::collections::BTreeSet;

use super::{Finding, tree::Tree};

const PAGE: &str = "ARCHITECTURE.md";
/// The crate whose folders are machines of their own.
const MACHINES: &str = "crates/fencepost-testkit/src/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let crates = tree.under("crates").filter_map(|(path, _)| path.strip_suffix("Cargo.toml").map(str::to_owned));
    let machines = tree.under(MACHINES).filter_map(|(path, _)| folder_in(MACHINES, path));
    let there: BTreeSet<String> = crates.chain(machines).collect();
    let unnamed = there.into_iter().filter(|folder| !page.contains(&format!("`{folder}`")));
    unnamed.map(|folder| Finding::new(PAGE, 0, format!("it does not name `{folder}`"))).collect()
}

/// The folder right below `parent` that a file lies in.
fn folder_in(parent: &str, path: &str) -> Option<String> {
    let (folder, _) = path.strip_prefix(parent)?.split_once('/')?;
    Some(format!("{parent}{folder}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_machines_are_named() {
        let found = |page: &str| -> Vec<String> {
            let tree = Tree::of([
                (PAGE, page),
                ("crates/a/Cargo.toml", ""),
                ("crates/fencepost-testkit/Cargo.toml", ""),
                ("crates/fencepost-testkit/src/lib.rs", ""),
                ("crates/fencepost-testkit/src/model/deep/x.rs", ""),
            ]);
            check(&tree).iter().map(ToString::to_string).collect()
        };
        assert!(found("`crates/a/` `crates/fencepost-testkit/` `crates/fencepost-testkit/src/model/`").is_empty());
        assert_eq!(
            found("`crates/a/src/x.rs` `crates/fencepost-testkit/`"),
            [
                "ARCHITECTURE.md: it does not name `crates/a/`",
                "ARCHITECTURE.md: it does not name `crates/fencepost-testkit/src/model/`"
            ]
        );
    }
}
