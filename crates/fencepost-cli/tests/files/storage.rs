//! Storage that takes nothing: a disk that is full, a folder that is another's.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use fencepost_testkit::torture::skip;
use serde_json::json;
use tempfile::TempDir;

use crate::{
    common::{Ran, Server, Shell, send},
    grant,
};

/// A file system of 256 KiB.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        skip("a full disk under write", "no rights to mount");
        None
    }

    fn fill(&self) {
        let filler = fs::File::create(self.0.path().join("filler")).unwrap();
        // As much as fits.
        let _ = std::io::copy(&mut std::io::repeat(7), &mut &filler);
    }

    fn empty(&self) {
        fs::remove_file(self.0.path().join("filler")).unwrap();
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_ends_in_73_with_nothing_changed_and_goes_on_when_there_is_room() {
    let server = Server::start();
    let shell = server.shell();
    let Some(disk) = Disk::mount() else { return };
    let (file, database) = (format!("file:{}", disk.file("f")), disk.file("x.db"));
    shell.run(&["guard", &file, "--domain", "f"]).exits(0);
    let write = |text: &str, grant: &str| {
        fs::write(shell.path("input"), text).unwrap();
        let mut command = shell.command(&["write", &file, "--grant", grant, "--json"]);
        Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap())
    };
    let holder = grant(&shell, "f");
    write("one\n", &holder).exits(0);
    rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE t (n INT)").unwrap();
    let resource = format!("sqlite:{database}");
    shell.run(&["guard", &resource, "t", "--domain", "'d'"]).exits(0);
    let of_table = grant(&shell, "d");
    let later = grant(&shell, "f");

    disk.fill();
    let full = write(&"x".repeat(100_000), &later).exits(73);
    let told = full.problem();
    assert_eq!((&told["exit_code"], &told["may_have_happened"]), (&json!(73), &json!(false)));
    assert!(told["fix"].as_str().unwrap().contains("df "), "{told}");
    assert_eq!(fs::read_to_string(disk.file("f")).unwrap(), "one\n");
    let full = shell.run(&["advance", &resource, "--grant", &of_table]).exits(73);
    assert!(full.next("df ").contains("make room"), "{}", full.stderr);
    let session = disk.file("session.json");
    // What was tried in between may have left room.
    disk.fill();
    let full = shell.sh(&format!("FENCEPOST_SESSION_FILE={session} fencepost acquire g")).exits(73);
    assert!(full.stderr.contains("No space left") && full.stderr.contains("next: "), "{}", full.stderr);
    assert_eq!(shell.run(&["show", "g", "--json"]).exits(0).json()["items"], json!([]), "nothing was granted");
    let full = shell.run(&["man", "--dir", &disk.file("man")]).exits(73);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);

    disk.empty();
    write(&"x".repeat(100_000), &later).exits(0);
    shell.run(&["advance", &resource, "--grant", &of_table]).exits(0);
}

fn listed(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Mutants: `Lock` has no `drop`, and leaves an empty lock file; `write_spare` leaves an empty spare sidecar.
#[test]
fn a_guard_that_finds_no_room_leaves_no_file_behind() {
    let server = Server::start();
    let shell = server.shell();
    let Some(disk) = Disk::mount() else { return };
    let file = format!("file:{}", disk.file("f"));
    disk.fill();
    let before = listed(disk.0.path());
    let full = shell.run(&["guard", &file, "--domain", "f"]).exits(73);
    assert!(full.next("df ").contains("make room"), "{}", full.stderr);
    assert_eq!(listed(disk.0.path()), before);
    shell.run(&["status", &file]).exits(81);

    disk.empty();
    shell.run(&["guard", &file, "--domain", "f"]).exits(0);
    // The first write after a guard makes the spare.
    let guarded = listed(disk.0.path());
    assert!(guarded.contains(&".f.lock".into()) && guarded.contains(&".f.fence".into()), "{guarded:?}");
    disk.fill();
    let holder = grant(&shell, "f");
    shell.run(&["advance", &file, "--grant", &holder]).exits(73);
    let after: Vec<_> = listed(disk.0.path()).into_iter().filter(|name| name != "filler").collect();
    assert_eq!(after, guarded);
    disk.empty();
    shell.run(&["advance", &file, "--grant", &holder]).exits(0);
}

/// The command without the rights that root has over others' files.
fn powerless(shell: &Shell, arguments: &[&str]) -> Command {
    let template = shell.command(arguments);
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root { Command::new("setpriv") } else { Command::new(env!("CARGO_BIN_EXE_fencepost")) };
    if is_root {
        command.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_fencepost")]);
    }
    command.args(arguments).current_dir(shell.folder.path()).stdin(Stdio::null());
    for (name, value) in template.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// A database that may be read is opened all the same, so its first write would be what fails: in `run` only after a
/// lease was granted, and again and again until that is over.
///
/// Mutants: `connect_to_write` does not look whether it can be written; `path::exit` does not tell the rights from the
/// rest.
#[test]
fn what_may_only_be_read_ends_in_77_whoever_wants_to_write_it() {
    let server = Server::start();
    let shell = server.shell();
    let database = shell.database("x.db", "CREATE TABLE t (d TEXT)");
    shell.run(&["guard", &database, "t", "--domain", "d"]).exits(0);
    let holder = grant(&shell, "d");
    let set = |name: &str, mode: u32| {
        fs::set_permissions(shell.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("x.db", 0o444);
    for words in [
        &["advance", &database, "--grant", &holder][..],
        &["run", "d", "--advance", &database, "--", "touch", "ran"],
        &["guard", &database, "t", "--domain", "d"],
        &["unguard", &database, "t"],
        &["collect", &database],
    ] {
        let denied = Ran::of(powerless(&shell, words).output().unwrap()).exits(77);
        assert!(denied.next("ls -ld ").contains("x.db"), "{words:?}: {}", denied.stderr);
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let for_programs = [&words[..at], &["--json"], &words[at..]].concat();
        let denied = Ran::of(powerless(&shell, &for_programs).output().unwrap()).exits(77);
        let problem: serde_json::Value = serde_json::from_str(denied.stderr.lines().last().unwrap()).unwrap();
        assert_eq!(problem["code"], "denied", "{problem}");
    }
    assert!(!shell.path("ran").exists());
    let granted = shell.run(&["history", "d", "--json"]).exits(0).json();
    let granted = granted["items"].as_array().unwrap().iter().filter(|item| item["event"] == "granted").count();
    assert_eq!(granted, 1, "nothing was acquired for a database that cannot be written");
    // Who only looks may.
    Ran::of(powerless(&shell, &["status", &database]).output().unwrap()).exits(0);
    set("x.db", 0o644);
    // SQLite writes a journal beside it.
    fs::create_dir(shell.path("locked")).unwrap();
    fs::rename(shell.path("x.db"), shell.path("locked/x.db")).unwrap();
    set("locked", 0o500);
    let inside = format!("sqlite:{}", shell.path("locked/x.db").display());
    let denied = Ran::of(powerless(&shell, &["advance", &inside, "--grant", &holder]).output().unwrap()).exits(77);
    assert!(denied.next("ls -ld ").contains("/locked "), "{}", denied.stderr);

    // A coordinator's store, too; and a descriptor of a file that is another's.
    let mut first = shell.command(&["serve", "--json", "--init", "--data", "store", "--listen", "127.0.0.1:0"]);
    let mut first = first.spawn().unwrap();
    BufReader::new(first.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    // To an orderly end: what a killed one leaves open is writable in itself.
    send("TERM", first.id());
    first.wait().unwrap();
    set("store", 0o500);
    let serving = ["serve", "--data", "store", "--listen", "127.0.0.1:0"];
    let denied = Ran::of(powerless(&shell, &serving).output().unwrap()).exits(77);
    assert!(denied.next("ls -ld ").contains("store"), "{}", denied.stderr);
    set("store", 0o700);
    // A descriptor that somebody with more rights has opened may be written to.
    fs::write(shell.path("status"), "").unwrap();
    let status = fs::File::options().write(true).open(shell.path("status")).unwrap();
    set("status", 0);
    let mut command = powerless(&shell, &["run", "e", "--status-fd", "0", "--", "true"]);
    Ran::of(command.stdin(status).output().unwrap()).exits(0);
    set("status", 0o600);
    assert!(fs::read_to_string(shell.path("status")).unwrap().contains("\"outcome\":\"exited\""));

    let closed = shell.path("locked");
    for (words, variable) in [
        (&["man", "--dir", "locked/man"][..], None),
        (&["serve", "--init", "--data", "locked/data", "--listen", "127.0.0.1:0"], None),
        (&["acquire", "e"], Some(("FENCEPOST_SESSION_FILE", closed.join("s")))),
        (&["demo"], Some(("TMPDIR", closed.clone()))),
        (&["prove", "http://127.0.0.1:9/x", "--domain", "d"], Some(("TMPDIR", closed.clone()))),
    ] {
        let mut command = powerless(&shell, words);
        let ran = Ran::of(command.envs(variable).output().unwrap()).exits(77);
        assert!(ran.stderr.contains("next: "), "{words:?}: {}", ran.stderr);
    }
    set("locked", 0o700);
}

#[test]
fn what_the_rights_do_not_allow_ends_in_77_and_says_where_to_look() {
    let server = Server::start();
    let shell = server.shell();
    let folder: PathBuf = shell.path("closed");
    fs::create_dir(&folder).unwrap();
    shell.run(&["guard", "file:closed/f", "--domain", "f"]).exits(0);
    let holder = grant(&shell, "f");
    fs::write(shell.path("input"), "one\n").unwrap();
    let set = |mode: u32| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    set(0o500);
    let mut command = powerless(&shell, &["write", "file:closed/f", "--grant", &holder]);
    let denied = Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap()).exits(77);
    assert!(denied.next("ls -ld ").contains("closed"), "{}", denied.stderr);
    assert!(!folder.join("f").exists());
    let denied = Ran::of(powerless(&shell, &["advance", "file:closed/f", "--grant", &holder]).output().unwrap());
    assert!(
        denied.exits(77).stderr.contains("is not permitted"),
        "there is no spare sidecar yet, and none can be made"
    );
    fs::write(shell.path("history"), "").unwrap();
    fs::set_permissions(shell.path("history"), fs::Permissions::from_mode(0o000)).unwrap();
    let denied = Ran::of(powerless(&shell, &["check", "history"]).output().unwrap()).exits(77);
    assert!(denied.stderr.contains("ls -ld history"), "{}", denied.stderr);
    set(0o700);
    let mut command = powerless(&shell, &["write", "file:closed/f", "--grant", &holder]);
    Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap()).exits(0);
}

/// A folder that may be written to and not be opened: nothing in it can be made durable. Mutant: `Unknown` ends in 73.
#[test]
fn a_write_that_may_have_happened_ends_in_82_and_the_same_command_again_settles_it() {
    let server = Server::start();
    let shell = server.shell();
    let folder = shell.path("closed");
    fs::create_dir(&folder).unwrap();
    shell.run(&["guard", "file:closed/f", "--domain", "f"]).exits(0);
    let holder = grant(&shell, "f");
    fs::write(shell.path("input"), "one\n").unwrap();
    let write = |mode: u32, operation: &[&str]| {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let arguments = [&["write", "file:closed/f", "--grant", &holder, "--json"], operation].concat();
        let mut command = powerless(&shell, &arguments);
        let ran = Ran::of(command.stdin(fs::File::open(shell.path("input")).unwrap()).output().unwrap());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        ran
    };
    for operation in [&["--operation", "first"][..], &[]] {
        let unknown = write(0o300, operation).exits(82).problem();
        assert_eq!((&unknown["exit_code"], &unknown["may_have_happened"]), (&json!(82), &json!(true)), "{unknown}");
        write(0o700, operation).exits(0);
        assert_eq!(fs::read_to_string(folder.join("f")).unwrap(), "one\n");
    }
    assert_eq!(write(0o700, &["--operation", "first"]).exits(0).json()["verdict"], "replayed");
}
