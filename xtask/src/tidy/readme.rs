//! The README's example is the compiled one: the lines between its marks stand in the same order in the example's file.

use super::{Finding, tree::Tree};

const README: &str = "README.md";
const EXAMPLE: &str = "crates/fencepost/examples/rejected_write.rs";
const BEGIN: &str = "<!-- example:begin -->";
const END: &str = "<!-- example:end -->";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (readme, example) = (tree.text(README).unwrap_or_default(), tree.text(EXAMPLE).unwrap_or_default());
    let code = |line: &&str| !line.trim().is_empty() && !line.starts_with("```") && *line != BEGIN && *line != END;
    let inside = readme.lines().enumerate().skip_while(|(_, line)| *line != BEGIN).take_while(|(_, line)| *line != END);
    let shown: Vec<(usize, &str)> = inside.filter(|(_, line)| code(line)).collect();
    if shown.is_empty() {
        return vec![Finding::new(README, 0, format!("shows no example between {BEGIN} and {END}"))];
    }
    let mut compiled = example.lines().map(str::trim);
    let missing = shown.into_iter().find(|(_, line)| !compiled.any(|other| other == line.trim()));
    let say = |(at, _): (usize, &str)| Finding::new(README, at + 1, format!("is not, in this order, in {EXAMPLE}"));
    missing.map(say).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(readme: &str) -> usize {
        check(&Tree::of([(README, readme), (EXAMPLE, "fn main() {\n    one();\n    two();\n}\n")])).len()
    }

    #[test]
    fn an_example_that_is_not_the_compiled_one_is_found() {
        let shown = |code: &str| format!("{BEGIN}\n```rust\n{code}\n```\n{END}\n");
        assert_eq!(found(&shown("one();\n\ntwo();")), 0);
        assert_eq!(found(&shown("two();\none();")), 1);
        assert_eq!(found(&shown("three();")), 1);
        assert_eq!(found("no example"), 1);
    }
}
