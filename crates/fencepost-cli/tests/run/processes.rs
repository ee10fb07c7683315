//! Running commands and looking at the processes they consist of.

use std::{
    fs, io,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::common::{PATIENCE, Shell, until};

/// A `run` under way. What is left of it is killed with the value.
pub(crate) struct Running {
    child: Child,
    mark: String,
    told: String,
}

/// Writes the moment into a file every few milliseconds, for as long as it lives.
pub(crate) const BEAT: &str = "beat() { while :; do cut -d' ' -f1 /proc/uptime >>beats; sleep 0.02; done; }; ";

/// A command that ends by nothing but KILL: with a child, a grandchild, and one that has left group, session and parent.
pub(crate) fn stubborn() -> String {
    format!(
        "{BEAT} trap '' TERM HUP INT QUIT; beat & (sh -c '{}beat' & wait) & \
         (setsid sh -c '{}echo $$ >away; beat' &); echo here >up; wait",
        BEAT.replace('\'', r"'\''"),
        BEAT.replace('\'', r"'\''"),
    )
}

/// What a shell types to stop a process and to see that no thread of it runs any more.
pub(crate) fn stops_wholly(pid: u32) -> String {
    format!("kill -STOP {pid}; while grep -qv ') T ' /proc/{pid}/task/*/stat; do sleep 0.01; done")
}

/// Milliseconds on the clock of `/proc/uptime`.
pub(crate) fn now_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000).unwrap()
}

impl Running {
    /// Starts `fencepost run ARGUMENTS`.
    pub(crate) fn start(shell: &Shell, arguments: &[&str]) -> Self {
        Self::of(shell.command(&[&["run"], arguments].concat()))
    }

    /// Starts this command, whatever it is, with a mark in its environment by which its processes are found.
    pub(crate) fn of(mut command: Command) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mark = format!("RUN_TEST_MARK={}-{number}-{}", std::process::id(), now_ms());
        let (name, value) = mark.split_once('=').unwrap();
        let child = command.env(name, value).stdout(Stdio::null()).spawn().unwrap();
        Self { child, mark, told: String::new() }
    }

    /// The same, with nothing to read and its standard error kept.
    pub(crate) fn of_quiet(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        Self::of(command)
    }

    /// Starts the stubborn command and waits until all of it is there.
    pub(crate) fn stubborn(shell: &Shell, options: &[&str]) -> Self {
        let script = stubborn();
        let mut command = shell.command(&[&["run"], options, &["--", "sh", "-c", &script]].concat());
        // Nobody stops a group by TSTP and the like that has no parent in its session, as this one's may not have.
        command.process_group(0);
        let running = Self::of(command);
        running.wait_for(&shell.path("up"));
        running.wait_for(&shell.path("away"));
        running.wait_for(&shell.path("beats"));
        until("all of the command runs", || running.members().len() >= 6);
        running
    }

    fn wait_for(&self, path: &Path) {
        until("the command has come that far", || path.exists());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The living processes of the command, `run` and its warden not among them.
    pub(crate) fn members(&self) -> Vec<u32> {
        marked(&self.mark).into_iter().filter(|(_, name)| name != "fencepost").map(|(pid, _)| pid).collect()
    }

    /// Waits until the command has become this program. (A shell may lose a signal just before it starts another.)
    pub(crate) fn becomes(&self, program: &str) {
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        until("the command runs", || self.members().iter().any(|pid| name(pid).trim() == program));
    }

    /// Everything alive, `run` and its warden too.
    pub(crate) fn all(&self) -> Vec<u32> {
        marked(&self.mark).into_iter().map(|(pid, _)| pid).collect()
    }

    /// The process that starts and stops the command.
    pub(crate) fn warden(&self) -> u32 {
        self.part("run-warden")
    }

    /// The process that waits to become the command.
    pub(crate) fn first(&self) -> u32 {
        self.part("run-become")
    }

    fn part(&self, word: &str) -> u32 {
        let mut found = None;
        until("that part of `run` is there", || {
            found = self.all().into_iter().find(|pid| command_line(*pid).starts_with(&format!("fencepost {word} ")));
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            // bounded: a short look again and again, or time that has to pass for the story
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end and insists on this exit code.
    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) {
        let status = self.end();
        // Whoever was left would also keep standard error open.
        self.is_gone();
        if let Some(stderr) = self.child.stderr.take() {
            self.told = io::read_to_string(stderr).unwrap();
        }
        assert_eq!(status.code(), Some(code), "signal {:?}: {:?}", status.signal(), self.told);
    }

    /// What it has written to standard error until its end.
    pub(crate) fn told(&self) -> &str {
        &self.told
    }

    /// Insists that nothing of it lives.
    #[track_caller]
    pub(crate) fn is_gone(&self) {
        let left: Vec<String> = self.all().iter().map(|pid| command_line(*pid)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.all() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
        }
    }
}

fn command_line(pid: u32) -> String {
    fs::read(format!("/proc/{pid}/cmdline"))
        .map_or_else(|_| pid.to_string(), |line| String::from_utf8_lossy(&line).replace('\0', " "))
}

/// Living processes with a mark in their environment.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if !environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            continue;
        }
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let is_alive = stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'));
        if is_alive {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push((pid, name.trim().to_owned()));
        }
    }
    found
}

/// When the command last ran, as it says itself; in milliseconds.
pub(crate) fn last_beat(shell: &Shell) -> u64 {
    let beats = fs::read_to_string(shell.path("beats")).unwrap();
    let ms = |line: &str| {
        let (seconds, hundredths) = line.split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000 + hundredths.parse::<u64>().ok()? * 10)
    };
    beats.lines().filter(|line| line.len() > 3).filter_map(ms).max().unwrap()
}
