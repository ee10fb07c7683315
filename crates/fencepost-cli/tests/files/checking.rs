//! `check` on histories.

use std::fs;

use serde_json::json;

use crate::common::Shell;

const STALE: &str = r#"{"call":1,"who":"A","do":"write","domain":"d","token":"0.8","value":"x"}
{"answer":1,"got":"applied"}
{"call":2,"who":"B","do":"write","domain":"d","token":"0.7","value":"y"}
{"answer":2,"got":"applied"}
"#;

fn shell(history: &str) -> Shell {
    let shell = Shell::at("http://127.0.0.1:1");
    fs::write(shell.path("history"), history).unwrap();
    shell
}

#[test]
fn a_history_that_can_be_explained_ends_in_0() {
    let fine = STALE.replace("0.7", "0.9");
    let shell = shell(&fine);
    let told = shell.run(&["check", "history"]).exits(0).stdout;
    assert!(told.contains("2 calls, 0 of them with an unknown outcome") && told.contains("explained"), "{told}");
    let json = shell.run(&["check", "history", "--json"]).exits(0).json();
    assert_eq!(json, json!({"calls": 2, "unknown": 0, "registers": 1, "violations": [], "undecided": []}));
    assert_eq!(shell.sh("fencepost check - <history").exits(0).stdout, told);
}

#[test]
fn a_stale_write_that_was_applied_ends_in_1_with_its_story() {
    let shell = shell(STALE);
    let told = shell.run(&["check", "history"]).exits(1).stdout;
    assert!(told.starts_with("I3: ") && told.contains("\n  B calls write d = y under 0.7\n"), "{told}");
    let found = shell.run(&["check", "history", "--json"]).exits(1).json();
    assert_eq!(found["violations"][0]["invariant"], "I3");
    assert_eq!(found["violations"][0]["story"].as_array().unwrap().len(), 4);
}

#[test]
fn what_cannot_be_decided_ends_in_1_and_is_not_called_explained() {
    let call =
        |number| format!("{{\"call\":{number},\"do\":\"write\",\"domain\":\"d\",\"token\":\"5\",\"value\":\"x\"}}\n");
    let shell = shell(&(0..129).map(call).collect::<String>());
    let told = shell.run(&["check", "history"]).exits(1).stdout;
    assert!(told.starts_with("undecided: d at ") && told.ends_with("0 violations, 1 undecided\n"), "{told}");
    let found = shell.run(&["check", "history", "--json"]).exits(1).json();
    assert_eq!(found["undecided"].as_array().unwrap().len(), 1);
}

#[test]
fn a_malformed_history_ends_in_64_with_the_line() {
    for (history, line) in [
        ("{}\n", 1),
        ("\n\nno json\n", 3),
        (&STALE.replace("\"0.7\"", "7"), 3),
        ("{\"answer\":9,\"got\":\"applied\"}", 1),
    ] {
        let refused = shell(history).run(&["check", "history"]).exits(64);
        assert!(refused.stderr.contains(&format!("line {line}: ")), "{history}: {}", refused.stderr);
    }
    let shell = shell("");
    shell.run(&["check", "none"]).exits(78);
    fs::write(shell.path("bytes"), b"\xff\xfe\n").unwrap();
    shell.run(&["check", "bytes"]).exits(64);
    assert!(shell.run(&["check", "bytes", "--json"]).exits(64).problem()["fix"].is_string());
}

/// Mutant: an empty history is said to be explained.
#[test]
fn a_history_without_a_call_proves_nothing_and_says_so() {
    for empty in ["", "\n\n"] {
        let shell = shell(empty);
        let told = shell.run(&["check", "history"]).exits(64);
        assert!(told.stderr.contains("history: the history has no calls; nothing was checked"), "{}", told.stderr);
        assert_eq!(told.stdout, "");
    }
    let told = shell("").run(&["check", "/dev/null", "--json"]).exits(64).problem();
    assert!(told["detail"].as_str().unwrap().contains("/dev/null: the history has no calls"), "{told}");
}
