//! Eight workers that count up a file in a shell pipe, somebody who stops and kills them, and the tally.

use std::{
    collections::HashSet,
    fs,
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{PATIENCE, Shell, until};

const WORKERS: usize = 8;
/// What the workers do once they hold the domain. The well-known line stands in the middle; around it what was tried and
/// what was answered is noted, and between `cat` and `write` somebody may ask for a pause.
const SCRIPT: &str = r#"
n=$(cat f)
if test -e hold; then echo >held.$WORKER; until test -e go.$WORKER; do sleep 0.01; done; fi
echo "try $WORKER $n" >>log
expr 1 + $n | fencepost write file:f
code=$?
echo "$code $WORKER $n" >>log
exit $code
"#;

/// Workers under way, in a folder with `f` guarded and at 0.
pub(crate) struct Crowd<'a> {
    shell: &'a Shell,
    options: &'a [&'a str],
    is_over: AtomicBool,
    iterations: AtomicU64,
}

/// What the workers have noted.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What the file held in the end.
    pub(crate) counter: u64,
    /// What each accepted write had read.
    pub(crate) applied: Vec<u64>,
    /// What each write that was never reported had read.
    pub(crate) unreported: Vec<u64>,
    pub(crate) rejected: usize,
}

impl Tally {
    /// How many accepted writes had read what another one had read too.
    pub(crate) fn lost(&self) -> usize {
        self.applied.len() - self.applied.iter().collect::<HashSet<_>>().len()
    }
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(shell: &'a Shell, options: &'a [&'a str]) -> Self {
        fs::write(shell.path("f"), "0\n").unwrap();
        shell.run(&["guard", "file:f", "--domain", "f"]).exits(0);
        Self { shell, options, is_over: AtomicBool::new(false), iterations: AtomicU64::new(0) }
    }

    /// Lets them work while `meanwhile` goes on, and counts.
    pub(crate) fn work(&self, meanwhile: impl FnOnce(&Self)) -> Tally {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| self.worker())).collect();
            // A test that fails in between must not leave the workers going on.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| meanwhile(self)));
            self.is_over.store(true, Ordering::SeqCst);
            fs::remove_file(self.shell.path("hold")).ok();
            if let Err(panic) = result {
                self.all().into_iter().for_each(|(pid, _)| send(pid, Signal::KILL));
                std::panic::resume_unwind(panic);
            }
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        self.tally()
    }

    fn worker(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let name = self.iterations.fetch_add(1, Ordering::SeqCst).to_string();
            let mut child = self.start(&name);
            let started = Instant::now();
            while child.try_wait().unwrap().is_none() {
                if started.elapsed() > PATIENCE {
                    marked(self.mark(&name).as_bytes()).into_iter().for_each(|(pid, _)| send(pid, Signal::KILL));
                }
                // bounded: by PATIENCE
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn start(&self, name: &str) -> Child {
        let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
        let line = [&["run", "f", "--ttl", "1s", "--wait", "20s"], self.options, &["--", "sh", "-c", SCRIPT]].concat();
        let mut command = self.shell.command(&line);
        let (mark, value) =
            self.mark(name).split_once('=').map(|(mark, value)| (mark.to_owned(), value.to_owned())).unwrap();
        command.env("PATH", path).env("WORKER", name).env(mark, value);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn mark(&self, name: &str) -> String {
        format!("CROWD={}-{name}", self.shell.folder.path().display())
    }

    /// Every living process of this worker: (pid, name).
    fn members(&self, name: &str) -> Vec<(Pid, String)> {
        marked(self.mark(name).as_bytes())
    }

    fn all(&self) -> Vec<(Pid, String)> {
        let latest = self.iterations.load(Ordering::SeqCst);
        // Those before them have ended.
        (latest.saturating_sub(4 * WORKERS as u64)..latest).flat_map(|name| self.members(&name.to_string())).collect()
    }

    /// Stops holders past their TTL and kills processes at random, for this long.
    pub(crate) fn disturb(&self, how_long: Duration, mut seed: u64) {
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
        };
        let started = Instant::now();
        while started.elapsed() < how_long {
            // The holder is the one whose command runs.
            let all = self.all();
            let Some((pid, _)) = all.iter().find(|(_, name)| name != "fencepost") else { continue };
            let name = environment(*pid, "WORKER");
            let members = self.members(&name);
            if members.is_empty() {
                continue;
            }
            match random(4) {
                0 => members.iter().for_each(|(pid, _)| send(*pid, Signal::KILL)),
                1 => send(members[random(members.len())].0, Signal::KILL),
                kind => {
                    // All of it, or `run` and its warden alone, so that nobody stops the command.
                    let stopped: Vec<Pid> = members
                        .iter()
                        .filter(|(_, name)| kind == 2 || name == "fencepost")
                        .map(|(pid, _)| *pid)
                        .collect();
                    stopped.iter().for_each(|pid| send(*pid, Signal::STOP));
                    // bounded: the pause is the fault, and has to be longer than the TTL
                    thread::sleep(Duration::from_millis(1_300));
                    stopped.iter().for_each(|pid| send(*pid, Signal::CONT));
                }
            }
            // bounded: so that some writes get through between two faults
            thread::sleep(Duration::from_millis(20 + random(120) as u64));
        }
    }

    /// The pause that counts: a worker has read, its `run` is stopped past the TTL, and the next owner has read too when
    /// the first one writes. What both writes ended with.
    pub(crate) fn overtake(&self) -> (i32, i32) {
        for _ in 0..10 {
            if let Some(codes) = self.try_to_overtake() {
                return codes;
            }
        }
        panic!("no worker keeps its lease long enough");
    }

    /// `None` where a lease was lost before it came to that.
    fn try_to_overtake(&self) -> Option<(i32, i32)> {
        fs::write(self.shell.path("hold"), "").unwrap();
        let first = self.held(None)?;
        let guards: Vec<Pid> =
            self.members(&first).into_iter().filter(|(_, name)| name == "fencepost").map(|(pid, _)| pid).collect();
        guards.iter().for_each(|pid| send(*pid, Signal::STOP));
        let codes = self.held(Some(&first)).and_then(|second| {
            self.go(&first);
            let first = self.code(&first)?;
            self.go(&second);
            Some((first, self.code(&second)?))
        });
        fs::remove_file(self.shell.path("hold")).unwrap();
        let held = self.all_held();
        held.iter().for_each(|name| self.go(name));
        guards.iter().for_each(|pid| send(*pid, Signal::CONT));
        codes
    }

    fn all_held(&self) -> Vec<String> {
        let names = fs::read_dir(self.shell.folder.path()).unwrap().flatten();
        names.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("held.").map(str::to_owned)).collect()
    }

    /// A living worker, other than this one, that has read and waits.
    fn held(&self, other: Option<&str>) -> Option<String> {
        let mut found = None;
        until("a worker has read", || {
            let waiting = self.all_held().into_iter().filter(|name| Some(name.as_str()) != other);
            found = waiting
                .filter(|name| !self.shell.path(&format!("go.{name}")).exists())
                .find(|name| self.members(name).iter().any(|(_, name)| name == "sh"));
            found.is_some()
        });
        found
    }

    fn go(&self, name: &str) {
        fs::write(self.shell.path(&format!("go.{name}")), "").unwrap();
    }

    /// What this worker's write ended with; `None` where it was stopped before.
    fn code(&self, worker: &str) -> Option<i32> {
        let mut code = None;
        until("a worker has written", || {
            let is_alive = self.members(worker).iter().any(|(_, name)| name == "sh");
            code = self
                .log()
                .into_iter()
                .find(|line| line.worker == worker && line.code.is_some())
                .and_then(|line| line.code);
            code.is_some() || !is_alive
        });
        code
    }

    fn log(&self) -> Vec<Line> {
        let log = fs::read_to_string(self.shell.path("log")).unwrap_or_default();
        log.lines().filter_map(Line::read).collect()
    }

    fn tally(&self) -> Tally {
        let log = self.log();
        let reported: HashSet<&str> =
            log.iter().filter(|line| line.code.is_some()).map(|line| line.worker.as_str()).collect();
        let read_by = |is_meant: &dyn Fn(&Line) -> bool| {
            log.iter().filter(|line| is_meant(line)).filter_map(|line| line.read).collect::<Vec<_>>()
        };
        let counter = fs::read_to_string(self.shell.path("f")).unwrap();
        Tally {
            counter: counter.trim().parse().unwrap(),
            applied: read_by(&|line| line.code == Some(0)),
            unreported: read_by(&|line| line.code.is_none() && !reported.contains(line.worker.as_str())),
            rejected: read_by(&|line| line.code == Some(81)).len(),
        }
    }
}

/// A line of the workers' log: a try, or what it ended with.
struct Line {
    code: Option<i32>,
    worker: String,
    /// `None` where `cat` was killed; such a write has nothing to write.
    read: Option<u64>,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (first, worker) = (words.next()?, words.next()?.to_owned());
        let read = words.next().and_then(|word| word.parse().ok());
        Some(Self { code: first.parse().ok(), worker, read })
    }
}

fn send(pid: Pid, signal: Signal) {
    // It may have ended meanwhile.
    let _ = kill_process(pid, signal);
}

fn environment(pid: Pid, name: &str) -> String {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let prefix = format!("{name}=");
    let value = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(prefix.as_bytes()));
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// Living processes with a mark in their environment.
fn marked(mark: &[u8]) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            // A zombie has no environment any more.
            found.push((pid, fs::read_to_string(entry.path().join("comm")).unwrap_or_default().trim().to_owned()));
        }
    }
    found
}
