//! The worker processes, from the outside: started, spoken to, stopped, continued and always taken along at the end.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{sync::mpsc, time::timeout};

use super::{
    protocol::{Reply, Request},
    script::Actor,
};
use crate::{exit::Exit, failure::Failure};

/// The hidden subcommand under which this binary is a worker.
pub(super) const SUBCOMMAND: &str = "demo-worker";
/// Longer than anything in the demo takes, even on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker process. It is killed when this is dropped, stopped or not.
pub(super) struct Worker {
    actor: Actor,
    child: Child,
    requests: ChildStdin,
    replies: mpsc::UnboundedReceiver<String>,
}

fn broken(actor: Actor, what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Bug, format!("worker {actor} {what}: {why}")).then("run the demo again")
}

impl Worker {
    /// Starts one. To be called on a thread that lives as long as the demo: the worker dies with it.
    ///
    /// # Errors
    /// When there can be no further process.
    pub(super) fn start(actor: Actor, url: &str, database: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| broken(actor, "cannot be started", error);
        let program = env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg(SUBCOMMAND).args(["--name", actor.as_str(), "--url", url, "--database"]).arg(database);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C goes to the demo alone, which then ends its workers.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let requests = child.stdin.take().expect("its input is a pipe");
        let output = child.stdout.take().expect("its output is a pipe");
        let (to, replies) = mpsc::unbounded_channel();
        let worker = Self { actor, child, requests, replies };
        let listen = move || BufReader::new(output).lines().map_while(Result::ok).all(|line| to.send(line).is_ok());
        thread::Builder::new().name(format!("demo-{actor}")).spawn(listen).map_err(failed)?;
        Ok(worker)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn say(&mut self, request: &Request) -> Result<(), Failure> {
        let line = serde_json::to_string(request).expect("a request is JSON");
        writeln!(self.requests, "{line}").map_err(|error| broken(self.actor, "does not listen", error))
    }

    /// # Errors
    /// When it has ended, says nothing for a minute, or says that it failed.
    pub(super) async fn hear(&mut self) -> Result<Reply, Failure> {
        let line = match timeout(PATIENCE, self.replies.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => {
                let ended = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                return Err(broken(self.actor, "has ended", ended));
            }
            Err(_) => return Err(broken(self.actor, "does not answer", "for a minute now")),
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Failed { why }) => Err(broken(self.actor, "failed", why)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(broken(self.actor, "said something that is not understood", error)),
        }
    }

    pub(super) async fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        self.say(request)?;
        self.hear().await
    }

    /// Stops the process, and returns once the kernel says that it stands still.
    pub(super) fn pause(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status =
            waitid(WaitId::Pid(self.pid()), options).map_err(|error| broken(self.actor, "cannot be watched", error))?;
        match status {
            Some(status) if status.stopped() => Ok(()),
            Some(_) | None => Err(broken(self.actor, "cannot be paused", "it has ended")),
        }
    }

    pub(super) fn resume(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.pid(), signal).map_err(|error| broken(self.actor, "takes no signal", error))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
