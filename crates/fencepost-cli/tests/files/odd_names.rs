//! Operations and domains of every odd kind, through the file receiver: taken byte for byte, or refused at the edge.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt};

use serde_json::{Value, json};

use crate::{
    common::{Ran, Server, Shell},
    grant,
};

/// Each of a kind that somewhere means something.
const ODD: [&str; 26] = [
    "a",
    "🦀",
    "é",
    "e\u{301}",
    "/",
    "..",
    "../../etc/passwd",
    "%2F",
    "%00",
    "?",
    "#",
    "a?b=c&d",
    ":",
    "{}",
    "{a}b",
    "'",
    "\"",
    ";",
    "'; DROP TABLE x; --",
    "\\",
    "a b",
    " ",
    "-",
    "--json",
    "*",
    "\u{10ffff}",
];

fn write(shell: &Shell, file: &str, text: &str, options: &[OsString]) -> Ran {
    fs::write(shell.path("input"), text).unwrap();
    let mut words: Vec<OsString> = ["write", file, "--json"].map(OsString::from).to_vec();
    words.extend_from_slice(options);
    let mut command = shell.command(&words);
    Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap())
}

fn operation(id: &str) -> OsString {
    format!("--operation={id}").into()
}

/// No two of them meet: each is applied once, under content of its own, and replayed with that.
#[test]
fn odd_operations_are_told_apart_byte_for_byte() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let grant: OsString = format!("--grant={}", grant(&shell, "f")).into();
    let longest = "x".repeat(256);
    let all: Vec<&str> = ODD.into_iter().chain([longest.as_str()]).collect();
    for (number, id) in all.iter().enumerate() {
        let said = write(&shell, "file:f", &format!("{number}\n"), &[operation(id), grant.clone()]).exits(0).json();
        assert_eq!(said["verdict"], "applied", "{id:?}: {said}");
    }
    for (number, id) in all.iter().enumerate() {
        let said = write(&shell, "file:f", &format!("{number}\n"), &[operation(id), grant.clone()]).exits(0).json();
        assert_eq!(said["verdict"], "replayed", "{id:?}: {said}");
        let other = write(&shell, "file:f", "another\n", &[operation(id), grant.clone()]).exits(81).json();
        assert_eq!(other["reason"], "operation_conflict", "{id:?}: {other}");
    }
    assert_eq!(
        fs::read_to_string(shell.path("f")).unwrap(),
        format!("{}\n", all.len() - 1),
        "the last that was applied"
    );
    let status = shell.run(&["status", "file:f", "--json"]).exits(0).json();
    assert_eq!(status["operations"], json!(all.len()), "{status}");
}

/// Mutant: what is too long is cut, and meets another.
#[test]
fn operations_that_break_a_rule_are_refused_with_field_rule_and_limit_and_nothing_is_written() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let grant: OsString = format!("--grant={}", grant(&shell, "f")).into();
    let before = fs::read(shell.path(".f.fence")).unwrap();
    let (too_long, huge) = ("x".repeat(257), "x".repeat(100_000));
    for (id, rule) in [
        ("", "must be 1 to 256 bytes of UTF-8, found 0"),
        (&too_long, "must be 1 to 256 bytes of UTF-8, found 257"),
        (&huge, "must be 1 to 256 bytes of UTF-8, found 100000"),
        ("a\nb", "control"),
        ("a\tb", "control"),
        ("\u{7f}", "control"),
        ("\u{85}", "control"),
    ] {
        let problem = write(&shell, "file:f", "x", &[operation(id), grant.clone()]).exits(64).problem();
        let said = problem["detail"].as_str().unwrap();
        assert!(said.starts_with("operation: ") && said.contains(rule), "{said}");
        assert_eq!((&problem["code"], &problem["field"]), (&json!("invalid_input"), &json!("operation")), "{problem}");
    }
    let mut bytes = b"--operation=a".to_vec();
    bytes.extend([0xff, b'b']);
    let problem = write(&shell, "file:f", "x", &[OsString::from_vec(bytes), grant]).exits(64).problem();
    assert!(problem["detail"].as_str().unwrap().contains("must be UTF-8"), "{problem}");
    assert_eq!(fs::read(shell.path(".f.fence")).unwrap(), before);
    assert!(!shell.path("f").exists());
}

/// The name of a domain is no path: whatever it is, the records lie beside the file.
#[test]
fn a_file_may_be_of_any_domain_and_its_records_stay_where_they_belong() {
    let server = Server::start();
    for name in ODD {
        let shell = server.shell();
        shell.run(&["guard", "file:f", &format!("--domain={name}")]).exits(0);
        let words = ["run", "--advance", "file:f", "--if-held", "wait"];
        let script = "echo x | fencepost write file:f";
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
        // What looks like an option has to be told from one.
        let mut command = shell.command(&words);
        if name.starts_with("--") {
            let shown = Ran::of(command.args([name, "--", "true"]).output().unwrap()).exits(64);
            assert!(shown.stderr.contains("fencepost help run"), "{}", shown.stderr);
            continue;
        }
        let ran = command.args([name, "--", "sh", "-c", script]).env("PATH", path).output().unwrap();
        Ran::of(ran).exits(0);
        let status: Value = shell.run(&["status", "file:f", "--json"]).exits(0).json();
        assert_eq!(status["domain"], name);
        let mut names: Vec<String> = fs::read_dir(shell.folder.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [".f.fence", ".f.fence-spare", ".f.lock", "f"], "{name:?}");
    }
}

/// A grant is typed, or stands in the environment, so its names are no surer than any other.
/// Mutant: a half of a character is replaced by something.
#[test]
fn a_grant_with_a_name_that_breaks_a_rule_is_refused_and_nothing_is_written() {
    let server = Server::start();
    let shell = server.shell();
    shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
    let grant = grant(&shell, "f");
    let (before, long) = (fs::read(shell.path(".f.fence")).unwrap(), "x".repeat(513));
    for name in ["", r"\ud800", r"a\udfffb", r"a\u0000b", r"a\nb", r"\u0085", &long] {
        let odd = grant.replace(r#""domain":"f""#, &format!(r#""domain":"{name}""#));
        assert_ne!(odd, grant);
        let ran = write(&shell, "file:f", "x", &["--grant".into(), odd.clone().into()]).exits(64);
        assert!(ran.problem()["detail"].as_str().unwrap().contains("grant: "), "{name:?}: {}", ran.stderr);
        let ran = shell.command(&["read", "file:f"]).env("FENCEPOST_GRANT", &odd).output().unwrap();
        Ran::of(ran).exits(64);
        shell.run(&["advance", "file:f", "--grant", &odd]).exits(64);
    }
    // The half of a character in an escape is one where the other half follows.
    let whole = grant.replace(r#""domain":"f""#, r#""domain":"\ud83e\udd80""#);
    let ran = write(&shell, "file:f", "x", &["--grant".into(), whole.into()]).exits(81).json();
    assert_eq!(ran["reason"], "wrong_domain");
    assert_eq!(fs::read(shell.path(".f.fence")).unwrap(), before);
    assert!(!shell.path("f").exists());
}
