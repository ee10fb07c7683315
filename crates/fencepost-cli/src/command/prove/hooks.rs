//! What the user arranges: a shell command that restarts the service, backs its data up or restores it.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use fencepost_core::{Domain, Token};
use fencepost_testkit::prove::{Hook, Trouble};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::time::{Instant, sleep};

/// How long a hook may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Commands {
    pub(super) restart: Option<String>,
    pub(super) backup: Option<String>,
    pub(super) restore: Option<String>,
}

impl Commands {
    fn of(&self, hook: Hook) -> Option<&str> {
        match hook {
            Hook::Restart => self.restart.as_deref(),
            Hook::Backup => self.backup.as_deref(),
            Hook::Restore => self.restore.as_deref(),
        }
    }

    /// Runs a hook in a group of its own, so that one that hangs can be ended with all it has begun. What it leaves in
    /// the background after it has ended well is the user's: the service itself, most likely.
    pub(super) async fn run(&self, hook: Hook, domain: &Domain, next: Token) -> Result<(), Trouble> {
        let name = hook.as_str();
        let failed = |why: String| Trouble(format!("the {name} hook {why}"));
        let script = self.of(hook).ok_or_else(|| failed("is missing".to_owned()))?;
        let cannot = |error: std::io::Error| failed(format!("cannot be run: {error}"));
        // A file and no pipe: what stays in the background holds it open.
        let mut said = tempfile::NamedTempFile::new().map_err(cannot)?;
        said.flush().map_err(cannot)?;
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        command.stderr(said.reopen().map_err(cannot)?);
        command.env("FENCEPOST_DOMAIN", domain.as_str()).env("FENCEPOST_NEXT_TOKEN", next.to_decimal());
        let mut running = Running { child: command.spawn().map_err(cannot)?, has_ended: false };
        let started = Instant::now();
        let status = loop {
            if let Some(status) = running.ended().map_err(cannot)? {
                break status;
            }
            if started.elapsed() > PATIENCE {
                return Err(failed(format!("took longer than {} s, and was ended", PATIENCE.as_secs())));
            }
            sleep(PAUSE).await;
        };
        if status.success() {
            return Ok(());
        }
        let text = fs::read(said.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        Err(failed(format!("ended with {status}: {}", last.chars().take(200).collect::<String>())))
    }
}

/// A hook under way. Dropped before it has ended, because it hangs or because this command is interrupted, it is killed
/// with all it has begun.
struct Running {
    child: Child,
    has_ended: bool,
}

impl Running {
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.has_ended = status.is_some();
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // Only this command is its parent, so the number is still its own.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is dead and waits for whoever has inherited it does not live.
    fn lives(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    }

    /// Mutant: nothing is done where a hook is dropped.
    #[tokio::test]
    async fn a_hook_that_is_under_way_when_the_command_is_interrupted_is_ended_with_all_it_has_begun() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("pid");
        let script = format!("sleep 300 & echo $! >{0}.new; mv {0}.new {0}; wait", noted.display());
        let commands = Commands { restart: Some(script), backup: None, restore: None };
        let domain = Domain::new("d").unwrap();
        let begun = async {
            while !noted.exists() {
                // bounded: by the hook's own patience
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            ended = commands.run(Hook::Restart, &domain, "0.1".parse().unwrap()) => panic!("{ended:?}"),
            () = begun => {}
        }
        let begun = fs::read_to_string(&noted).unwrap();
        let started = std::time::Instant::now();
        while lives(begun.trim()) {
            assert!(started.elapsed() < PATIENCE, "the hook's processes live on");
            // bounded: by the line above
            sleep(PAUSE).await;
        }
    }

    #[tokio::test]
    async fn what_a_hook_leaves_in_the_background_stays() {
        let folder = tempfile::tempdir().unwrap();
        let noted = folder.path().join("pid");
        let script = format!("sleep 300 & echo $! >{}", noted.display());
        let commands = Commands { restart: Some(script), backup: None, restore: None };
        commands.run(Hook::Restart, &Domain::new("d").unwrap(), "0.1".parse().unwrap()).await.unwrap();
        let left = fs::read_to_string(&noted).unwrap();
        assert!(lives(left.trim()));
        let pid = Pid::from_raw(left.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}
