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
        let hidden = script.contains("demo-worker") || script.contains("behind-dashes");
        assert!(!hidden, "{name} offers what is hidden");
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

/// Mutant: the scripts are made of the command line as it is parsed, which takes any word behind `help`.
#[test]
fn every_word_that_help_explains_is_offered_behind_it() {
    let shell = Shell::at("http://127.0.0.1:1");
    let scripts = [
        (
            "bash",
            "source ./bash; COMP_WORDS=(fencepost help ''); COMP_CWORD=2; _fencepost fencepost '' help; echo \"${COMPREPLY[@]}\"",
        ),
        ("fish", "source ./fish; complete -C 'fencepost help '"),
    ];
    for (name, ask) in scripts {
        let script = shell.run(&["completions", name]).exits(0).stdout;
        fs::write(shell.path(name), &script).unwrap();
        let asked = Command::new(name).args(["-c", ask]).current_dir(shell.folder.path()).output();
        // Where it is missing, the check above says so.
        let Ok(asked) = asked else { continue };
        let offered = String::from_utf8(asked.stdout).unwrap();
        for word in ["acquire", "recover", "exit-codes", "help"] {
            assert!(offered.split_whitespace().any(|offered| offered == word), "{name}: no {word} in {offered:?}");
        }
        assert!(!offered.contains("demo-worker"), "{offered}");
    }
    // For the parser any word will do: what is wrong with it is told by us.
    assert!(shell.run(&["help", "no-such-topic"]).exits(64).stderr.contains("there is no command or topic"));
}

/// Mutant: `help` and `completions` do not look for `--json`.
#[test]
fn texts_are_json_where_json_is_asked_for() {
    let shell = Shell::at("http://127.0.0.1:1");
    for (words, member) in [
        (&["help"][..], "text"),
        (&["help", "acquire"], "text"),
        (&["help", "exit-codes"], "text"),
        (&["completions", "bash"], "script"),
        (&["--help"], "text"),
        (&["run", "--help"], "text"),
        (&["--version"], "text"),
    ] {
        let plain = shell.run(words).exits(0).stdout;
        let json = shell.run(&[words, &["--json"]].concat()).exits(0).json();
        assert_eq!(json[member].as_str().unwrap(), plain.trim_end(), "{words:?}");
    }
}

#[test]
fn every_command_has_a_manual_page_that_man_can_show() {
    let shell = Shell::at("http://127.0.0.1:1");
    let dir = shell.path("man/made");
    let pages = shell.command(&["man", "--json", "--dir"]).arg(&dir).output().unwrap();
    let pages = Ran::of(pages).exits(0).json();
    let pages: Vec<&str> = pages["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["fencepost.1", "fencepost-help.1", "fencepost-acquire.1", "fencepost-watch.1", "fencepost-explain.1"] {
        assert!(pages.contains(&name), "{pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("worker") || page.contains("warden")), "{pages:?}");
    let can_show = there("man");
    if !can_show {
        skip("manual pages, shown by man", "no man: Debian package man-db");
    }
    // Every page that another one names is there.
    let whole = fs::read_to_string(dir.join("fencepost.1")).unwrap().replace('\\', "");
    let named: Vec<&str> = whole.split_whitespace().filter(|word| word.starts_with("fencepost-")).collect();
    assert!(named.len() > 20, "{whole}");
    for name in named {
        let name = name.trim_end_matches("(1)");
        assert!(pages.contains(&format!("{name}.1").as_str()), "no page {name}");
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
