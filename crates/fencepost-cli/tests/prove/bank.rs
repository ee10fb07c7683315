//! A service process with its folder, and the hooks that restart and restore it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    ARGUMENTS,
    common::{Ran, fencepost},
};

/// One of the example services, on a free port. It is killed when this is dropped, whoever has started it last.
pub(crate) struct Bank {
    folder: TempDir,
    address: String,
}

impl Bank {
    pub(crate) fn start(kind: &str) -> Self {
        // Starts it in the background; `$1` is where to listen, the rest goes to the service.
        let start = format!(
            "listen=$1; shift\n{ARGUMENTS}=\"$(printf '%s\\n' {kind} --data bank.db --listen $listen \"$@\")\" \
             {} --exact service_process --nocapture >said 2>&1 &\necho $! >pid\n",
            std::env::current_exe().unwrap().display()
        );
        Self::started_by(&start)
    }

    /// The correct one in Python.
    pub(crate) fn start_in_python() -> Self {
        let service = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/services/correct.py");
        Self::started_by(&format!(
            "listen=$1; shift\n[ \"$1\" = --floor ] && shift\n\
             python3 {service} bank.db ${{listen##*:}} \"$@\" >said 2>&1 &\necho $! >pid\n"
        ))
    }

    fn started_by(start: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start = format!("cd {}\n{start}", folder.path().display());
        fs::write(folder.path().join("start"), start).unwrap();
        let mut bank = Self { folder, address: "127.0.0.1:0".to_owned() };
        bank.sh("sh start 127.0.0.1:0");
        bank.address = bank.listens();
        bank
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn sh(&self, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.folder.path()).stdin(Stdio::null());
        assert!(command.status().unwrap().success(), "{script}");
    }

    /// Waits until it says where it listens.
    fn listens(&self) -> String {
        let mut found = None;
        crate::common::until("the service listens", || {
            let Ok(said) = fs::File::open(self.path("said")) else { return false };
            let mut lines = BufReader::new(said).lines().map_while(Result::ok);
            found = lines.find_map(|line| Some(line.split_once("listening on http://")?.1.to_owned()));
            found.is_some()
        });
        found.unwrap()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/accounts/7", self.address)
    }

    pub(crate) fn restart_hook(&self) -> String {
        let (path, address) = (self.folder.path().display(), &self.address);
        format!("cd {path}; kill -9 $(cat pid); sh start {address}")
    }

    /// Nobody writes while the hook runs, so the files belong together.
    pub(crate) fn backup_hook(&self) -> String {
        format!("cd {}; mkdir -p backup; cp bank.db* backup", self.folder.path().display())
    }

    /// Restores the data, and recovers the receiver where it is told the floor: `"--floor $FENCEPOST_NEXT_TOKEN"`.
    pub(crate) fn restore_hook(&self, more: &str) -> String {
        let (path, address) = (self.folder.path().display(), &self.address);
        format!("cd {path}; kill -9 $(cat pid); rm -f bank.db*; cp backup/* .; sh start {address} {more}")
    }

    pub(crate) fn kill(&self) {
        // It may be gone already.
        let _ =
            Command::new("sh").args(["-c", "kill -9 $(cat pid) 2>/dev/null"]).current_dir(self.folder.path()).status();
    }

    /// How many operations have taken effect.
    pub(crate) fn operations(&self) -> i64 {
        let db = rusqlite::Connection::open(self.path("bank.db")).unwrap();
        db.busy_timeout(crate::common::PATIENCE).unwrap();
        db.query_row("SELECT count(*) FROM operation", [], |row| row.get(0)).unwrap()
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Proves what answers at `url` as an account of the example services.
pub(crate) fn command(url: &str, more: &[&str]) -> Command {
    let mut command = fencepost();
    command.args(["prove", url, "--domain", "accounts/7", "--json"]).args(more);
    if !more.contains(&"--timeout") {
        command.args(["--timeout", "30s"]);
    }
    command
}

pub(crate) fn prove(url: &str, more: &[&str]) -> Ran {
    Ran::of(command(url, more).output().unwrap())
}

/// What everything that the example services have is proved with.
pub(crate) const ALL: [&str; 4] = ["--advance", "POST:/accounts/7/fence", "--also", "DELETE:/accounts/7"];

/// The scenarios with this outcome, in order.
pub(crate) fn with(report: &Value, outcome: &str) -> Vec<String> {
    let scenarios = report["scenarios"].as_array().unwrap().iter();
    let named = scenarios.filter(|tried| tried["outcome"] == outcome);
    named.map(|tried| tried["scenario"].as_str().unwrap().to_owned()).collect()
}

/// One scenario of the report.
pub(crate) fn of<'a>(report: &'a Value, scenario: &str) -> &'a Value {
    let scenarios = report["scenarios"].as_array().unwrap().iter();
    scenarios.into_iter().find(|tried| tried["scenario"] == scenario).unwrap()
}
