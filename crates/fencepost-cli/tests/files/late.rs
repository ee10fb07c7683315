//! A holder that is stopped between its last look and its write, and what its write leaves behind: nothing.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Stdio},
};

use crate::common::{Ran, Server, Shell, send, until};

/// Everything in a folder: each name with its bytes and with which file that is, since when.
type Left = BTreeMap<String, (Vec<u8>, u64, i64, i64, u32)>;

fn left(folder: &Path) -> Left {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let one = |entry: fs::DirEntry| {
        let metadata = entry.metadata().unwrap();
        let identity = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.mode());
        let bytes = fs::read(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), (bytes, identity.0, identity.1, identity.2, identity.3))
    };
    entries.map(one).collect()
}

/// A shell that acquires by hand, reads, is about to write, and stops itself there.
fn stopped(shell: &Shell) -> Child {
    let script = "eval \"$(fencepost acquire f --ttl 1s --export)\" || exit 9
        cat data/f >read
        echo here >stopped; kill -STOP $$
        echo late | fencepost write file:data/f --operation late --json >verdict 2>told; echo $? >code";
    let binary = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let template = shell.command(&[] as &[&str]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).env("PATH", path).current_dir(shell.folder.path()).stdin(Stdio::null());
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Its lines about refused writes.
fn refused(url: &str) -> String {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page.lines().filter(|line| line.starts_with("fencepost_rejections")).collect::<Vec<_>>().join("\n")
}

struct Scene {
    server: Server,
    a: Shell,
    b: Shell,
    late: Child,
}

impl Scene {
    /// A has read, and is stopped before its write, until after the end of its lease.
    fn set() -> Self {
        let server = Server::start();
        let (a, b) = (server.shell(), server.shell());
        fs::create_dir(a.path("data")).unwrap();
        fs::write(a.path("data/f"), "before\n").unwrap();
        a.run(&["guard", "file:data/f", "--domain", "f"]).exits(0);
        let late = stopped(&a);
        until("A is stopped before its write", || a.path("stopped").exists() && is_stopped(late.id()));
        Self { server, a, b, late }
    }

    fn file(&self) -> String {
        format!("file:{}", self.a.path("data/f").display())
    }

    /// B does this under its own lease.
    fn b_runs(&self, options: &[&str], script: &str) -> Ran {
        let script = script.replace("FILE", &self.file()).replace("fencepost", env!("CARGO_BIN_EXE_fencepost"));
        self.b.run(&[&["run", "f", "--wait", "30s"], options, &["--", "sh", "-c", &script]].concat())
    }

    /// A goes on, and its write arrives.
    fn a_goes_on(&mut self) -> (String, String) {
        send("CONT", self.late.id());
        assert!(self.late.wait().unwrap().success());
        let read = |name: &str| fs::read_to_string(self.a.path(name)).unwrap();
        (read("code").trim().to_owned(), read("verdict"))
    }
}

/// Mutants: the rejected input is left beside the file; the record of the operation is kept; the sidecar is written anew.
#[test]
fn a_late_write_leaves_everything_byte_for_byte_as_the_new_owner_left_it() {
    let mut scene = Scene::set();
    scene.b_runs(&[], "echo of-b | fencepost write FILE --operation of-b").exits(0);
    let before = left(&scene.a.path("data"));
    assert_eq!(before["f"].0, b"of-b\n");
    let (code, verdict) = scene.a_goes_on();
    assert_eq!(code, "81");
    let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
    assert_eq!((&verdict["reason"], &verdict["by"]), (&"stale".into(), &"fence".into()), "{verdict}");
    let token = |member: &str| verdict[member].as_str().unwrap().parse::<u64>().unwrap();
    assert!(token("presented") < token("least_accepted"), "{verdict}");
    assert_eq!(left(&scene.a.path("data")), before);
    assert!(refused(&scene.server.url).contains("{reason=\"stale\"} 1"), "{}", refused(&scene.server.url));
    let told = fs::read_to_string(scene.a.path("told")).unwrap();
    assert!(told.contains("another owner has come"), "{told}");
}

/// The gap that the docs describe, as they describe it.
#[test]
fn before_the_new_owner_has_written_a_late_write_is_accepted_unless_the_fence_was_advanced() {
    let mut first_write = Scene::set();
    first_write.b_runs(&[], "true").exits(0);
    let (code, verdict) = first_write.a_goes_on();
    assert!(code == "0" && verdict.contains("applied"), "{code} {verdict}");

    let mut advanced = Scene::set();
    let file = advanced.file();
    advanced.b_runs(&["--advance", &file], "true").exits(0);
    let before = left(&advanced.a.path("data"));
    let (code, verdict) = advanced.a_goes_on();
    assert!(code == "81" && verdict.contains("stale"), "{code} {verdict}");
    assert_eq!(left(&advanced.a.path("data")), before);
    assert_eq!(before["f"].0, b"before\n");
}
