//! Help is kept as files: a change of it shows as a diff. UPDATE_GOLDEN=1 rewrites them.

use crate::common::{Ran, fencepost, golden};

fn told(arguments: &[&str]) -> String {
    let ran = Ran::of(fencepost().args(arguments).output().unwrap()).exits(0);
    assert_eq!(ran.stderr, "");
    assert!(!ran.stdout.contains('\u{1b}'), "no colours but on a terminal");
    ran.stdout
}

/// The commands that the first page lists.
fn commands() -> Vec<String> {
    let page = told(&["--help"]);
    let listing = page.split("Options:").next().unwrap();
    let names = listing.lines().filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_first_page_groups_commands_by_what_somebody_wants_to_do() {
    golden("help.txt", &told(&["--help"]));
    golden("help-short.txt", &told(&["-h"]));
    assert!(commands().len() > 12, "{:?}", commands());
}

#[test]
fn every_command_explains_itself() {
    for name in commands() {
        let page = told(&[&name, "--help"]);
        golden(&format!("help-{name}.txt"), &page);
        assert_eq!(told(&["help", &name]).trim_end(), page.trim_end(), "both ways to ask");
    }
}

#[test]
fn every_exit_code_has_a_line() {
    let topic = told(&["help", "exit-codes"]);
    golden("help-exit-codes.txt", &topic);
    for code in ["0", "1", "64", "69", "70", "73", "75", "77", "78", "80", "81", "82", "128+n"] {
        assert!(topic.lines().any(|line| line.trim_start().starts_with(&format!("{code}  "))), "{code}: {topic}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    assert_eq!(told(&["--version"]), format!("fencepost {}\n", env!("CARGO_PKG_VERSION")));
}

/// Mutant: the parser's own list is shown.
#[test]
fn nobody_is_told_of_the_commands_that_only_this_program_types() {
    for typed in [&["--json"][..], &["demo-work"], &["prove-sende"], &["prov"], &["--json", "demo-work"]] {
        let ran = Ran::of(fencepost().args(typed).output().unwrap()).exits(64);
        assert!(!ran.stderr.contains("demo-worker") && !ran.stderr.contains("prove-sender"), "{}", ran.stderr);
    }
    let listed = Ran::of(fencepost().arg("--json").output().unwrap()).exits(64).problem();
    let listed = listed["detail"].as_str().unwrap().to_owned();
    assert!(commands().iter().all(|command| listed.contains(command)), "{listed}");
}
