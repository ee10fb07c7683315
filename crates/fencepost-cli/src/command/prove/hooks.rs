//! What the user arranges: a shell command that restarts the service, backs its data up or restores it.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
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
        let mut child = command.spawn().map_err(cannot)?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                break status;
            }
            if started.elapsed() > PATIENCE {
                // Only this command is its parent, so the number is still its own.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
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
