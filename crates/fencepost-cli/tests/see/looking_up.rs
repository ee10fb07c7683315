//! Completions and manual pages.

use std::{
    fs,
    process::{Command, Stdio},
};

use fencepost_testkit::torture::skip;

use crate::common::{Ran, Shell, fencepost};

fn there(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn completions_are_scripts_that_their_shell_can_read() {
    let shell = Shell::at("http://127.0.0.1:1");
    for (name, marker) in [
        ("bash", "complete -F _fencepost"),
        ("zsh", "#compdef fencepost"),
        ("fish", "complete -c fencepost"),
        ("elvish", "fencepost"),
        ("powershell", "fencepost"),
    ] {
        let script = shell.run(&["completions", name]).exits(0).stdout;
        assert!(script.contains(marker), "{name}");
        assert!(script.contains("invoices") || script.contains("history"), "{name} knows the commands");
        assert!(!script.contains("demo-worker"), "{name} offers what is hidden");
        let file = shell.path(name);
        fs::write(&file, script).unwrap();
        if !["bash", "zsh", "fish"].contains(&name) {
            continue;
        } else if !there(name) {
            skip(&format!("completions, read by {name}"), &format!("no {name}: Debian package {name}"));
        } else {
            let read = Ran::of(Command::new(name).arg("-n").arg(&file).output().unwrap());
            assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{name}");
        }
    }
    shell.run(&["completions", "tcsh"]).exits(64);
}

#[test]
fn every_command_has_a_manual_page_that_man_can_show() {
    let shell = Shell::at("http://127.0.0.1:1");
    let dir = shell.path("man/made");
    let pages = shell.command(&["man", "--json", "--dir"]).arg(&dir).output().unwrap();
    let pages = Ran::of(pages).exits(0).json();
    let pages: Vec<&str> = pages["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["fencepost.1", "fencepost-acquire.1", "fencepost-watch.1", "fencepost-explain.1"] {
        assert!(pages.contains(&name), "{pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("worker") || page.contains("warden")), "{pages:?}");
    let can_show = there("man");
    if !can_show {
        skip("manual pages, shown by man", "no man: Debian package man-db");
    }
    for page in pages {
        let text = fs::read_to_string(dir.join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
        if can_show {
            let shown = Command::new("man").arg("-l").arg(dir.join(page)).env("MANPAGER", "cat").output().unwrap();
            let shown = Ran::of(shown).exits(0);
            assert!(shown.stdout.is_empty() || shown.stdout.contains("NAME"), "{page}: {}", shown.stdout);
        }
    }
    let file = shell.path("file");
    fs::write(&file, "").unwrap();
    let refused = Ran::of(fencepost().args(["man", "--dir"]).arg(file.join("x")).output().unwrap()).exits(73);
    assert!(refused.stderr.contains("next: ls -ld"), "{}", refused.stderr);
}
