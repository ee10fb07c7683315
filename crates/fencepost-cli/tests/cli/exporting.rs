//! What `acquire --export` prints, in the shells that it is for and in one that it is not for.

use std::{
    fs,
    process::{Command, Stdio},
};

use fencepost_testkit::torture::skip;

use crate::common::{Ran, Server, Shell};

/// Both texts that an export can come to, in files: of a grant with a name that shells quote differently, and of a
/// refusal.
fn exports(shell: &Shell, holder: &Shell) -> [std::path::PathBuf; 2] {
    let granted = shell.run(&["acquire", "it's \\' \\\\ \"q\"", "--export"]).exits(0);
    holder.run(&["acquire", "taken"]).exits(0);
    let other = shell.path("other-session.json");
    let mut refused = shell.command(&["acquire", "taken", "--export"]);
    let refused = Ran::of(refused.env("FENCEPOST_SESSION_FILE", other).output().unwrap()).exits(75);
    [("granted", granted), ("refused", refused)].map(|(name, ran)| {
        fs::write(shell.path(name), ran.stdout).unwrap();
        shell.path(name)
    })
}

/// In fish `unset` is no command, and a backslash in single quotes may stand for less than itself. fish reads the whole
/// text before it does any of it, and `${` is none of its words: so it takes nothing, and says which line is to blame.
///
/// Mutant: an export begins with `unset`.
#[test]
fn fish_takes_nothing_of_an_export_and_posix_shells_take_all_of_it() {
    let server = Server::start();
    let (shell, holder) = (server.shell(), server.shell());
    let [granted, refused] = exports(&shell, &holder);
    for file in [&granted, &refused] {
        let text = fs::read_to_string(file).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(": \"${") && first.contains("not_for_fish"), "{text}");
    }
    // The strictest shell too: what is not set may not be looked at.
    let script = "set -u; unset FENCEPOST_GRANT; . ./granted; printf %s \"$FENCEPOST_DOMAIN\"; . ./refused; exit $?";
    let ran = shell.sh(script).exits(75);
    assert_eq!(ran.stdout, "it's \\' \\\\ \"q\"");

    let fish = |script: &str| {
        let mut command = Command::new("fish");
        command.args(["--no-config", "-c", script]).current_dir(shell.folder.path()).stdin(Stdio::null());
        command.env("HOME", shell.folder.path()).env_remove("FENCEPOST_DOMAIN").env("FENCEPOST_TOKEN", "7");
        command.output()
    };
    if fish("true").is_err() {
        return skip("what --export prints, refused by fish", "no fish: Debian package fish");
    }
    for script in ["source granted", "source refused", "eval (cat granted)", "eval (cat refused)"] {
        let script = format!("{script}; or echo failed; echo \"[$FENCEPOST_DOMAIN][$FENCEPOST_TOKEN]\"");
        let ran = Ran::of(fish(&script).unwrap());
        assert_eq!(ran.stdout, "failed\n[][7]\n", "{script}: {}", ran.stderr);
        assert!(!ran.stderr.is_empty(), "{script}");
    }
}
