//! The command line: what is refused before anything is sent.

use crate::{
    bank::{Bank, prove},
    common::{Ran, fencepost},
};

fn refused(arguments: &[&str]) -> Ran {
    Ran::of(fencepost().arg("prove").args(arguments).output().unwrap()).exits(64)
}

#[test]
fn a_wrong_command_line_names_what_is_wrong() {
    // Nothing listens on port 1, and nobody is asked: 69 would say so.
    let url = "http://127.0.0.1:1/a";
    let cases: [(&[&str], &str); 20] = [
        (&[], "URL"),
        (&[url], "--domain"),
        (&[url, "--domain", ""], "domain"),
        (&["127.0.0.1:1/a", "--domain", "d"], "url"),
        (&["ftp://127.0.0.1/a", "--domain", "d"], "url"),
        (&["https://127.0.0.1/a", "--domain", "d"], "TLS"),
        (&["http://u:p@127.0.0.1/a", "--domain", "d"], "--header"),
        (&[url, "--domain", "d", "--write", "GET:/a"], "write"),
        (&[url, "--domain", "d", "--write", "/a"], "write"),
        (&[url, "--domain", "d", "--also", "DELETE"], "also"),
        (&[url, "--domain", "d", "--advance", "POST:http://elsewhere/"], "advance"),
        (&[url, "--domain", "d", "--read", "//elsewhere/"], "read"),
        (&[url, "--domain", "d", "--read-pointer", "value"], "read_pointer"),
        (&[url, "--domain", "d", "--body", "{\"value\": 1}"], "{value}"),
        (&[url, "--domain", "d", "--header", "Fencepost-Token: 1"], "header"),
        (&[url, "--domain", "d", "--epoch", "1048576"], "epoch"),
        (&[url, "--domain", "d", "--rounds", "0"], "rounds: must be 1 to 1000"),
        (&[url, "--domain", "d", "--timeout", "0s"], "--timeout"),
        (&[url, "--domain", "d", "--backup-hook", "true"], "--restore-hook"),
        (&[url, "--domain", "d", "--restore-hook", "true"], "--backup-hook"),
    ];
    for (arguments, named) in cases {
        let ran = refused(arguments);
        assert!(ran.stderr.contains(named), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn another_machine_is_not_written_to_unless_it_is_said() {
    // An address of documentation: nobody has it.
    let elsewhere = ["http://192.0.2.1:9/a", "--domain", "d", "--timeout", "100ms"];
    let ran = refused(&elsewhere);
    assert!(ran.stderr.contains("is not on this machine"), "{}", ran.stderr);
    let mut said = fencepost();
    said.arg("prove").args(elsewhere).arg("--yes-this-is-mine");
    Ran::of(said.output().unwrap()).exits(69);
}

#[test]
fn the_report_for_people_has_a_table_a_story_and_no_password() {
    let bank = Bank::start("delete_unchecked");
    let mut command = fencepost();
    command.args(["prove", &bank.url(), "--domain", "accounts/7", "--also", "DELETE:/accounts/7", "--rounds", "1"]);
    command.args(["--timeout", "30s", "--header", "Authorization: Bearer s3cret"]);
    let ran = Ran::of(command.output().unwrap()).exits(1);
    let mut rows = ran.stdout.lines().map(str::trim);
    assert!(
        rows.any(|row| row.starts_with("only FencedOnFirstWrite") && row.contains("late_before")),
        "{}",
        ran.stdout
    );
    assert!(rows.any(|row| row.starts_with("failed") && row.ends_with("DELETE:/accounts/7")), "{}", ran.stdout);
    for line in
        ["somebody sends DELETE /accounts/7 without a token", "428 missing_token, and", "fix:", "1 failed, 4 not tried"]
    {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("s3cret") && !ran.stderr.contains("s3cret"));
}

#[test]
fn a_service_is_written_to_as_it_is_described() {
    let bank = Bank::start("correct");
    let root = format!("http://{}", bank.address());
    let more =
        ["--write", "PUT:/accounts/7", "--read", "/accounts/7", "--body", "{\"amount\": {value}}", "--rounds", "1"];
    let report = prove(&root, &more).exits(0).json();
    assert_eq!(report["failed"], 0, "{report:#}");
    let wrong = prove(&root, &[&more[..], &["--read-pointer", "/elsewhere"]].concat()).exits(1).json();
    assert_eq!(crate::bank::of(&wrong, "first_write")["found"], "no value is to be read", "{wrong:#}");
}
