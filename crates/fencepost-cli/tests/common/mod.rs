//! The real binary, with a coordinator of its own and an environment that nothing else leaks into.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod liar;
pub mod terminal;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The binary of a test that has chosen another one than what lies where cargo has put it.
pub static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// The binary, without any setting of whoever runs the tests.
pub fn fencepost() -> Command {
    let mut command = Command::new(CHOSEN.get().map_or(Path::new(env!("CARGO_BIN_EXE_fencepost")), PathBuf::as_path));
    let ours =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("FENCEPOST_"));
    for name in ours.collect::<Vec<_>>() {
        command.env_remove(name);
    }
    for name in ["XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "COLUMNS", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command writes UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Insists on this exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        let lines: Vec<&str> = self.stdout.lines().collect();
        assert_eq!(lines.len(), 1, "one line of JSON: {:?}", self.stdout);
        serde_json::from_str(lines[0]).expect("it is JSON")
    }

    /// Standard error as one JSON value.
    #[track_caller]
    pub fn problem(&self) -> Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {:?}", self.stderr))
    }

    /// The printed line that begins with `command`, as it could be pasted into a shell.
    #[track_caller]
    pub fn next(&self, command: &str) -> String {
        let mut lines = self.stdout.lines().chain(self.stderr.lines());
        let found = lines.find_map(|line| line.find(command).map(|at| line[at..].to_owned()));
        found.unwrap_or_else(|| panic!("no {command:?} in {:?}{:?}", self.stdout, self.stderr))
    }
}

/// One user at one shell: a folder of its own, and which coordinator to talk to.
#[derive(Debug)]
pub struct Shell {
    pub folder: TempDir,
    pub url: String,
}

impl Shell {
    pub fn at(url: &str) -> Self {
        Self { folder: tempfile::tempdir().expect("a private folder"), url: url.to_owned() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn session_file(&self) -> PathBuf {
        self.path("session.json")
    }

    pub fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = fencepost();
        command.args(arguments).current_dir(self.folder.path());
        command.env("FENCEPOST_URL", &self.url).env("FENCEPOST_SESSION_FILE", self.session_file());
        command
    }

    pub fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ran {
        Ran::of(self.command(arguments).output().expect("the binary runs"))
    }

    /// Has a real shell run a script, with `fencepost` on its path.
    pub fn sh(&self, script: &str) -> Ran {
        let binary = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().expect("it is in a folder");
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
        let template = self.command(&[] as &[&str]);
        let mut command = Command::new("sh");
        command.args(["-c", script]).env("PATH", path).current_dir(self.folder.path()).stdin(Stdio::null());
        for (name, value) in template.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ran::of(command.output().expect("there is a shell"))
    }

    /// What stands in the session file.
    #[track_caller]
    pub fn kept(&self) -> Value {
        serde_json::from_slice(&fs::read(self.session_file()).expect("there is a session file")).expect("it is JSON")
    }

    /// A SQLite database with these statements run on it, as a resource.
    pub fn database(&self, name: &str, statements: &str) -> String {
        self.sqlite(name, statements).expect("the statements are right");
        format!("sqlite:{}", self.path(name).display())
    }

    /// Runs statements on a database as code that knows nothing of Fencepost.
    ///
    /// # Errors
    /// What the database says.
    pub fn sqlite(&self, name: &str, statements: &str) -> rusqlite::Result<()> {
        rusqlite::Connection::open(self.path(name))?.execute_batch(statements)
    }
}

/// A coordinator that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    data: PathBuf,
    environment: Vec<(String, String)>,
    pub url: String,
    _folder: Option<TempDir>,
}

impl Server {
    /// A new one, at epoch 0, on a free port.
    pub fn start() -> Self {
        Self::at_epoch(0)
    }

    /// A new one at another epoch.
    pub fn at_epoch(epoch: u32) -> Self {
        let folder = tempfile::tempdir().expect("a private folder");
        let data = folder.path().join("data");
        let mut server = Self::with_store_in(&data, epoch, Vec::new());
        server._folder = Some(folder);
        server
    }

    /// A new one whose store is in this directory, which is the caller's, and with more in its environment.
    pub fn with_store_in(data: &Path, epoch: u32, environment: Vec<(String, String)>) -> Self {
        let arguments = ["--init", "--epoch", &epoch.to_string(), "--listen", "127.0.0.1:0"];
        let (child, url) = serve(data, &environment, &arguments);
        Self { child, data: data.to_owned(), environment, url, _folder: None }
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn shell(&self) -> Shell {
        Shell::at(&self.url)
    }

    /// Kills it where it stands.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop, and waits until it has.
    pub fn terminate(&mut self, signal: &str) -> ExitStatus {
        send(signal, self.child.id());
        self.child.wait().expect("it is our child")
    }

    /// Starts a new store under an old name, in the same directory and at the same port: the old one was lost.
    pub fn begin_again(&mut self, issuer: &str, epoch: u32) {
        let address = self.url.strip_prefix("http://").expect("an http address").to_owned();
        let epoch = epoch.to_string();
        let arguments = ["--init", "--issuer", issuer, "--epoch", &epoch, "--listen", &address];
        let (child, url) = serve(&self.data, &self.environment, &arguments);
        assert_eq!(url, self.url);
        self.child = child;
    }

    /// Starts it again on the same store and port.
    pub fn restart(&mut self) {
        let address = self.url.strip_prefix("http://").expect("an http address").to_owned();
        let (child, url) = serve(&self.data, &self.environment, &["--listen", &address]);
        assert_eq!(url, self.url);
        self.child = child;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts `serve` and waits until it says where it listens.
fn serve(data: &Path, environment: &[(String, String)], more: &[&str]) -> (Child, String) {
    let mut command = fencepost();
    command.args(["serve", "--json", "--data"]).arg(data).args(more).stderr(Stdio::null());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn().expect("the binary runs");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it writes UTF-8");
    let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    (child, ready["url"].as_str().expect("an address").to_owned())
}

/// Sends a signal by its name.
pub fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().expect("there is a kill");
    assert!(sent.success(), "kill -s {signal} {pid}");
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "still waiting: {what}");
        // bounded: by PATIENCE
        thread::sleep(Duration::from_millis(10));
    }
}

/// Compares with a golden file, or writes it where `UPDATE_GOLDEN` is set.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut file = fs::File::create(&path).expect("the folder is there");
        file.write_all(text.as_bytes()).expect("it can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, kept, "{} differs: look at it, then UPDATE_GOLDEN=1", path.display());
}
