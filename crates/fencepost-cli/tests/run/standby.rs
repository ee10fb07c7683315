//! Before there is a lease everything stands ready. Whatever happens to a part of it then, the command never starts.

use std::{
    fs,
    io::{BufRead, BufReader, IoSlice, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use fencepost_testkit::torture::skip;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use crate::{
    common::{Ran, Server, Shell, fencepost, send, until},
    processes::{Running, now_ms},
};

/// A coordinator, somebody who holds `d`, and a `run` that waits for it with everything ready.
struct Scene {
    server: Server,
    holder: Shell,
    shell: Shell,
    running: Running,
}

impl Scene {
    fn waiting(options: &[&str]) -> Self {
        let server = Server::start();
        let (holder, shell) = (server.shell(), server.shell());
        holder.run(&["acquire", "d", "--ttl", "60s", "--holder", "earlier"]).exits(0);
        let arguments = [&["d", "--wait", "5m", "--holder", "waiting"], options, &["--", "touch", "ran"]].concat();
        let running = Running::start(&shell, &arguments);
        running.first();
        let scene = Self { server, holder, shell, running };
        until("it stands in the queue", || scene.lease()["queue"] == 1);
        scene
    }

    /// Whoever holds `d`.
    fn lease(&self) -> Value {
        self.holder.run(&["show", "d", "--json"]).exits(0).json()["items"][0].clone()
    }

    fn is_free(&self) -> bool {
        self.holder.run(&["run", "d", "--", "true"]).code == Some(0)
    }

    /// Gives the lease to whoever waits, and waits until that is so.
    fn release(&self) {
        self.holder.run(&["release"]).exits(0);
        until("the next one has it", || self.lease()["holder"] != "earlier");
    }

    #[track_caller]
    fn never_started(&self) {
        until("nothing of it lives", || self.running.all().is_empty());
        assert!(!self.shell.path("ran").exists(), "it was started");
    }
}

/// Mutants: the warden goes on waiting where `run` is gone; `run` looks at no warden while it waits; the warden looks at
/// no first process while it stands by; every early end is told as a bug.
#[test]
fn whoever_is_killed_while_it_waits_the_command_never_starts() {
    for (part, code) in [("run", None), ("warden", Some(137)), ("first process", Some(137))] {
        let mut scene = Scene::waiting(&["--ttl", "2s"]);
        let pid = match part {
            "run" => scene.running.pid(),
            "warden" => scene.running.warden(),
            _ => scene.running.first(),
        };
        send("KILL", pid);
        assert_eq!(scene.running.end().code(), code, "{part}");
        scene.never_started();
        until("its place in the queue is free", || scene.lease()["queue"] == 0);
        scene.holder.run(&["release"]).exits(0);
        assert!(scene.is_free() && !scene.shell.path("ran").exists(), "{part}");
    }
}

/// A stopped warden hears nothing; the system has it go on when `run` is gone.
#[test]
fn a_warden_that_is_stopped_while_run_is_killed_starts_nothing() {
    let mut scene = Scene::waiting(&["--ttl", "2s"]);
    send("STOP", scene.running.warden());
    send("KILL", scene.running.pid());
    scene.running.end();
    until("its place in the queue is free", || scene.lease()["queue"] == 0);
    scene.holder.run(&["release"]).exits(0);
    assert!(scene.is_free() && !scene.shell.path("ran").exists());
    scene.never_started();
}

/// The lease is granted to a process that does not run, and it ends before it does.
#[test]
fn a_run_that_is_stopped_past_its_deadline_while_it_waits_starts_nothing() {
    let mut scene = Scene::waiting(&["--ttl", "1s"]);
    send("STOP", scene.running.pid());
    scene.release();
    until("another gets the domain", || scene.is_free());
    send("CONT", scene.running.pid());
    let status = scene.running.end();
    assert!(matches!(status.code(), Some(69 | 80)), "{status}");
    scene.never_started();
}

/// Mutant: `look_at_the_leases` never says that the warden must have failed.
#[test]
fn a_warden_that_is_stopped_when_the_lease_comes_starts_nothing() {
    let mut server_gone = Scene::waiting(&["--ttl", "2s"]);
    send("STOP", server_gone.running.warden());
    server_gone.release();
    server_gone.server.kill();
    server_gone.running.ends_with(80);
    server_gone.never_started();
    let told = server_gone.running.told();
    assert!(told.contains("was not started") && !told.contains("was stopped"), "{told}");
}

#[test]
fn a_warden_that_wakes_after_the_lease_has_ended_starts_nothing() {
    let mut scene = Scene::waiting(&["--ttl", "2s"]);
    send("STOP", scene.running.warden());
    scene.release();
    send("STOP", scene.running.pid());
    until("another gets the domain", || scene.is_free());
    send("CONT", scene.running.warden());
    send("CONT", scene.running.pid());
    let status = scene.running.end();
    assert!(matches!(status.code(), Some(69 | 80)), "{status}");
    scene.never_started();
}

/// Mutant: `run` does not wait for the warden that it lets go.
#[test]
fn where_there_is_no_lease_nothing_is_left_of_what_stood_by() {
    let server = Server::start();
    let shell = server.shell();
    server.shell().run(&["acquire", "d"]).exits(0);
    for (options, code) in [(&[][..], 75), (&["--if-held", "skip"], 0), (&["--wait", "100ms"], 75)] {
        let mut running = Running::start(&shell, &[&["d"], options, &["--", "touch", "ran"]].concat());
        running.ends_with(code);
        assert!(!shell.path("ran").exists());
    }
    let mut running = Running::start(&Shell::at("http://127.0.0.1:1"), &["d", "--", "touch", "ran"]);
    running.ends_with(69);
}

/// The folder of the control group that this process is in, where it may make another one in it.
pub(crate) fn own_group() -> Option<PathBuf> {
    let (mounts, groups) =
        (fs::read_to_string("/proc/self/mountinfo").ok()?, fs::read_to_string("/proc/self/cgroup").ok()?);
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let own = Path::new(mount).join(groups.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let probe = own.join(format!("fencepost-test-{}", std::process::id()));
    fs::create_dir(&probe).ok()?;
    let can_kill = probe.join("cgroup.kill").exists();
    fs::remove_dir(&probe).ok()?;
    can_kill.then_some(own)
}

/// Mutants: the first process is put into no group; the group is left when nothing was started.
#[test]
fn who_waits_is_in_the_group_already_that_is_killed_in_one_step() {
    let Some(own) = own_group() else { return skip("the control group of a command", "no rights to make one") };
    let mut scene = Scene::waiting(&[]);
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let group = own.join(format!("fencepost-run-{namespace}-{}", scene.running.warden()));
    let first = scene.running.first().to_string();
    let members = || fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    until("it is in the group", || members().lines().eq([first.as_str()]));
    send("TERM", scene.running.pid());
    scene.running.ends_with(143);
    assert!(!group.exists() && !scene.shell.path("ran").exists());
}

/// A part of `run` by itself, told whatever a test says.
struct Part {
    socket: UnixStream,
    child: std::process::Child,
}

impl Part {
    fn start(shell: &Shell, words: &[&str]) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command: Command = fencepost();
        command.args(words).args(["--", "touch", "ran"]).current_dir(shell.folder.path());
        let child = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
        Self { socket, child }
    }

    fn warden(shell: &Shell) -> Self {
        Self::start(shell, &["run-warden", "1000", "100"])
    }

    /// As a child of this very process, which has to be told to it.
    fn first(shell: &Shell, parent: u32) -> Self {
        Self::start(shell, &["run-become", &parent.to_string()])
    }

    fn hand_over(&self) {
        let nothing = fs::File::open("/dev/null").unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [nothing.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        // Whoever sees at once that it has no parent may be gone by now.
        let _ = sendmsg(&self.socket, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL);
    }

    /// Says this and nothing more, and waits for its end; what it has reported, and what it came to.
    fn ends(mut self, said: &str) -> (String, Ran) {
        // Whoever has ended before it was told takes no more.
        let _ = self.socket.write_all(said.as_bytes());
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        let reports = BufReader::new(&self.socket).lines().map_while(Result::ok).collect::<Vec<_>>().join(",");
        (reports, Ran::of(self.child.wait_with_output().unwrap()))
    }
}

/// The line that starts a command which may be believed in until then.
fn start(until_ms: u64) -> String {
    format!("start {{\"until\":{until_ms},\"variables\":[[\"A\",\"b\"]]}}\n")
}

/// What is no start.
fn doubts() -> Vec<String> {
    let start = start(now_ms() + 600_000);
    let cut = |bytes: usize| start[..start.len() - bytes].to_owned();
    let other = |word: &str| start.replacen("start", word, 1);
    vec![
        String::new(),
        "\n".to_owned(),
        "stop\n".to_owned(),
        "forward 15\n".to_owned(),
        format!("until {}\n", now_ms() + 600_000),
        format!("until {}\n{start}", now_ms() + 600_000),
        "start\n".to_owned(),
        "start {}\n".to_owned(),
        "start {\"until\":-1,\"variables\":[]}\n".to_owned(),
        cut(2),
        cut(start.len() / 2),
        other("Start"),
        other(" start"),
        format!("garbage\n{start}"),
    ]
}

/// Mutants: any order starts the command; `may_start` always says yes.
#[test]
fn a_warden_starts_nothing_on_anything_but_a_start_in_time() {
    let server = Server::start();
    let shell = server.shell();
    for doubt in doubts() {
        let warden = Part::warden(&shell);
        warden.hand_over();
        let (reports, ran) = warden.ends(&doubt);
        assert!(reports.is_empty() && ran.code == Some(0), "{doubt:?}: {reports}, {ran:?}");
        assert!(!shell.path("ran").exists(), "{doubt:?}");
    }
    for left_ms in [0, 1_000] {
        let warden = Part::warden(&shell);
        warden.hand_over();
        let (reports, _) = warden.ends(&start(now_ms() + left_ms));
        assert_eq!(reports, "too-late");
        assert!(!shell.path("ran").exists());
    }
    let nothing_handed_over = Part::warden(&shell).ends(&start(now_ms() + 600_000));
    assert!(nothing_handed_over.0.is_empty() && !shell.path("ran").exists(), "{nothing_handed_over:?}");
    // The same without any doubt, or all of this proves nothing.
    let mut warden = Part::warden(&shell);
    warden.hand_over();
    warden.socket.write_all(start(now_ms() + 600_000).as_bytes()).unwrap();
    until("it ran", || shell.path("ran").exists());
    warden.ends("");
}

/// Mutants: a line without its end is a start; the first process does not look at the clock, or at its parent.
#[test]
fn the_first_process_becomes_the_command_on_nothing_but_a_start_in_time() {
    let server = Server::start();
    let shell = server.shell();
    let me = std::process::id();
    let in_time = || start(now_ms() + 600_000);
    let cut = in_time().trim_end().to_owned();
    for doubt in doubts().into_iter().chain([cut]) {
        let first = Part::first(&shell, me);
        first.hand_over();
        let (_, ran) = first.ends(&doubt);
        assert!(ran.code == Some(70) && !shell.path("ran").exists(), "{doubt:?}: {ran:?}");
    }
    let late = Part::first(&shell, me);
    late.hand_over();
    let (_, ran) = late.ends(&start(now_ms()));
    assert!(ran.code == Some(80) && !shell.path("ran").exists(), "{ran:?}");
    let orphan = Part::first(&shell, 1);
    orphan.hand_over();
    let (_, ran) = orphan.ends(&in_time());
    assert!(ran.code == Some(70) && !shell.path("ran").exists(), "{ran:?}");
    let (_, ran) = Part::first(&shell, me).ends(&in_time());
    assert!(ran.code == Some(70) && !shell.path("ran").exists(), "{ran:?}");
    let first = Part::first(&shell, me);
    first.hand_over();
    let (_, ran) = first.ends(&in_time());
    assert!(ran.code == Some(0) && shell.path("ran").exists(), "{ran:?}");
}

/// It ends every part that waits, and whichever of them `run` hears of first, it is the same answer.
#[test]
fn a_signal_to_the_whole_group_while_it_waits_is_told_as_that_signal() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let server = Server::start();
        let (holder, shell) = (server.shell(), server.shell());
        holder.run(&["acquire", "d", "--ttl", "60s"]).exits(0);
        let mut command = shell.command(&["run", "d", "--wait", "5m", "--", "touch", "ran"]);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut running = Running::of(command);
        running.first();
        let sent = Instant::now();
        let group = format!("-{}", running.pid());
        assert!(Command::new("kill").args(["-s", signal, "--", &group]).status().unwrap().success());
        running.ends_with(code);
        assert!(sent.elapsed() < Duration::from_secs(10) && !shell.path("ran").exists());
    }
}
