//! Other processes on the same file: this test binary again, told by variables what to be.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use fencepost_core::fence::{Operation, Verdict};
use fencepost_receiver::file::{ABORT_AFTER, FileReceiver};

use crate::support::{domain, grant, operation, seed};

const ROLE: &str = "FENCEPOST_TEST_ROLE";
const FILE: &str = "FENCEPOST_TEST_FILE";
pub(crate) const NOBODY: u32 = 65_534;
/// Longer than any story takes, so that only a lock that is never given back ends in it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A content that is one pattern from end to end, so that a mixture of two shows.
pub(crate) fn pattern(name: &str) -> Vec<u8> {
    format!("{name}\n").repeat(3_000).into_bytes()
}

/// The pattern's name, `None` for anything that is not one whole pattern.
pub(crate) fn name_of(bytes: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(bytes).ok()?.lines().next()?.to_owned();
    (bytes == pattern(&name)).then_some(name)
}

/// What a child does, one word of its role after the other; in the parent's own run there is no role.
#[test]
fn child() {
    let (Ok(role), Some(path)) = (env::var(ROLE), env::var_os(FILE)) else { return };
    let receiver = FileReceiver::new(Path::new(&path)).waiting(PATIENCE).keeping(1_000);
    for order in role.split(' ') {
        let words: Vec<&str> = order.split(':').collect();
        match words.as_slice() {
            ["write", token, bytes] => say(&code(&receiver.write(&grant(token), None, bytes.as_bytes()).unwrap())),
            ["operation", token, id] => {
                let operation = operation(id, id.as_bytes());
                say(&code(&receiver.write(&grant(token), Some(&operation), &pattern(id)[..]).unwrap()));
            }
            ["try", token, bytes] => match receiver.write(&grant(token), None, bytes.as_bytes()) {
                Ok(verdict) => say(&code(&verdict)),
                Err(error) => say(&format!("{error} may_have_happened={}", error.may_have_happened())),
            },
            ["guard"] => {
                receiver.guard(&domain("f"), Some(&seed())).unwrap();
                say("guarded");
            }
            ["try_advance", token] => match receiver.advance_blocking(&grant(token)) {
                Ok(verdict) => say(&code(&verdict)),
                Err(error) => say(&error.to_string()),
            },
            ["advance", token] => say(&code(&receiver.advance_blocking(&grant(token)).unwrap())),
            ["operations", token, name, times] => {
                for n in 0..times.parse::<u32>().unwrap() {
                    let id = format!("{name}-{n}");
                    let operation: Operation = operation(&id, id.as_bytes());
                    let verdict = receiver.write(&grant(token), Some(&operation), &pattern(&id)[..]).unwrap();
                    say(&format!("{} {id}", code(&verdict)));
                }
            }
            ["rising", times] => {
                for n in 1..=times.parse::<u64>().unwrap() {
                    let token = format!("0.{n}");
                    let verdict = receiver.write(&grant(&token), None, &pattern(&n.to_string())[..]).unwrap();
                    say(&format!("{} {n}", code(&verdict)));
                }
            }
            other => panic!("no such order: {other:?}"),
        }
    }
}

fn code<T>(verdict: &Verdict<T>) -> String {
    match verdict {
        Verdict::Applied(_) => "applied".to_owned(),
        Verdict::Replayed(_) => "replayed".to_owned(),
        Verdict::Rejected(rejection) => rejection.code().to_owned(),
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nchild: {line}").unwrap();
    out.flush().unwrap();
}

pub(crate) struct Running {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(path: &Path, role: &str) -> Self {
        Self::with(path, role, &[])
    }

    /// The child dies after this step.
    pub(crate) fn dying_after(path: &Path, role: &str, step: &str) -> Self {
        Self::with(path, role, &[(ABORT_AFTER, step)])
    }

    /// The child is nobody, which only root can make it.
    pub(crate) fn as_nobody(path: &Path, role: &str) -> Self {
        Self::spawn(path, role, |command| command.uid(NOBODY).gid(NOBODY))
    }

    pub(crate) fn with(path: &Path, role: &str, variables: &[(&str, &str)]) -> Self {
        Self::spawn(path, role, |command| command.envs(variables.iter().copied()))
    }

    fn spawn(path: &Path, role: &str, change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "children::child", "--nocapture"])
            .env(ROLE, role)
            .env(FILE, path)
            .env_remove("FENCEPOST_SABOTAGE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = change(&mut command).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines }
    }

    /// The next thing it says, `None` when it has ended.
    pub(crate) fn heard(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(said) = line.trim_end().strip_prefix("child: ") {
                return Some(said.to_owned());
            }
        }
    }

    /// Everything it still says, and how it ended.
    pub(crate) fn ended(mut self) -> (Vec<String>, ExitStatus) {
        let said = std::iter::from_fn(|| self.heard()).collect();
        (said, self.process.wait().unwrap())
    }

    /// Everything it says, once it has succeeded.
    pub(crate) fn said(self) -> Vec<String> {
        let (said, status) = self.ended();
        assert!(status.success(), "{status}: {said:?}");
        said
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.id();
        let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
        assert!(sent.success());
        // A stop is sent to the process and takes its threads one after another: one that waits for a word from here
        // could still begin what it is told.
        while name == "-STOP" && !is_stopped(pid) {
            thread::yield_now();
        }
    }
}

/// Whether every thread of a process has stopped.
fn is_stopped(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T'))
    })
}
