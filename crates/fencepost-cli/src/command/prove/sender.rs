//! A process of its own for one late request: it prepares, is really stopped, and sends when it is continued.

use std::{
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::Duration,
};

use clap::Args;
use fencepost_testkit::prove::{Answer, Line, NoAnswer, Request, Trouble};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, set_parent_process_death_signal, waitid};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    exit::Exit,
    failure::{Failure, REPORT},
};

/// The hidden subcommand under which this binary is such a process.
const SUBCOMMAND: &str = "prove-sender";
/// Longer than starting a process takes, even on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// One late request of `fencepost prove`; started by that and of no use to anybody else.
#[derive(Args, Clone, Debug)]
pub(crate) struct SenderArgs {}

/// What the process is handed. On its standard input, because headers may carry a password.
#[derive(Serialize, Deserialize)]
pub(super) struct Errand {
    address: SocketAddr,
    host: String,
    headers: Vec<(String, String)>,
    patience: Duration,
    request: Request,
}

const READY: &str = "ready";

/// # Errors
/// When nobody listens.
pub(crate) async fn run(_: SenderArgs) -> Result<Exit, Failure> {
    serve().await.map_err(|error| Failure::new(Exit::Bug, format!("the late sender: {error}")).then(REPORT))?;
    Ok(Exit::Done)
}

async fn serve() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut lines = io::stdin().lock().lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
    let errand: Errand = serde_json::from_str(&line()?)?;
    let Errand { address, host, headers, patience, request } = errand;
    let sender = Line { address, host, headers, patience };
    say(READY)?;
    line()?;
    let answer: Result<Answer, NoAnswer> = sender.send(&request).await;
    say(&serde_json::to_string(&answer)?)
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// The process from outside. It is killed when this is dropped, stopped or not.
pub(super) struct Stopped {
    child: Child,
    requests: ChildStdin,
    replies: mpsc::UnboundedReceiver<String>,
    patience: Duration,
}

fn trouble(what: &str, why: impl std::fmt::Display) -> Trouble {
    Trouble(format!("the process that is to be stopped {what}: {why}"))
}

impl Stopped {
    /// Starts it, waits until its request is ready, and stops it.
    pub(super) async fn start(line: &Line, request: &Request) -> Result<Self, Trouble> {
        let failed = |error: io::Error| trouble("cannot be started", error);
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        // A Ctrl-C goes to this command alone, which then ends it.
        command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let requests = child.stdin.take().expect("its input is a pipe");
        let output = child.stdout.take().expect("its output is a pipe");
        let (to, replies) = mpsc::unbounded_channel();
        let mut stopped = Self { child, requests, replies, patience: PATIENCE + line.patience };
        let listen = move || BufReader::new(output).lines().map_while(Result::ok).all(|line| to.send(line).is_ok());
        thread::Builder::new().name("late-sender".to_owned()).spawn(listen).map_err(failed)?;
        let errand = Errand {
            address: line.address,
            host: line.host.clone(),
            headers: line.headers.clone(),
            patience: line.patience,
            request: request.clone(),
        };
        stopped.say(&serde_json::to_string(&errand).expect("an errand is JSON"))?;
        match stopped.hear().await?.as_str() {
            READY => {}
            other => return Err(trouble("said something else than that it is ready", other)),
        }
        stopped.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status =
            waitid(WaitId::Pid(stopped.pid()), options).map_err(|error| trouble("cannot be watched", error))?;
        match status {
            Some(status) if status.stopped() => Ok(stopped),
            Some(_) | None => Err(trouble("cannot be stopped", "it has ended")),
        }
    }

    /// Continues it; it sends, and this is what it was answered.
    pub(super) async fn go_on(mut self) -> Result<Result<Answer, NoAnswer>, Trouble> {
        self.say("send")?;
        self.signal(Signal::CONT)?;
        let line = self.hear().await?;
        serde_json::from_str(&line).map_err(|error| trouble("said something that is not understood", error))
    }

    fn say(&mut self, line: &str) -> Result<(), Trouble> {
        writeln!(self.requests, "{line}").map_err(|error| trouble("does not listen", error))
    }

    async fn hear(&mut self) -> Result<String, Trouble> {
        match timeout(self.patience, self.replies.recv()).await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(trouble("has ended", "nobody told it to")),
            Err(_) => Err(trouble("says nothing", "for a minute now")),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), Trouble> {
        kill_process(self.pid(), signal).map_err(|error| trouble("takes no signal", error))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Both fail only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
