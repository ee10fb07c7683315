//! Servers that are measured run in processes of their own, and end with the benchmark.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// A server process, killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts the coordinator's server on this data directory, which is made where it is not there.
    pub(crate) fn fencepost(binary: &Path, data: &Path) -> Result<Self> {
        let init: &[&str] = if data.exists() { &[] } else { &["--init", "--epoch", "0"] };
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(init).arg("--data").arg(data);
        Self::printing(&mut command)
    }

    /// The process's resident memory, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Asks the process to end, and waits until it has.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts a server that prints the `http://` address it listens on.
    pub(crate) fn printing(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        for line in lines.by_ref() {
            let line = line?;
            let Some((_, rest)) = line.split_once("http://") else { continue };
            let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c)).collect();
            let address =
                text.trim_end_matches(['.', ':']).parse().with_context(|| format!("no address in {line:?}"))?;
            std::thread::spawn(move || lines.for_each(drop));
            return Ok(Self { child, address });
        }
        let _ = child.kill();
        bail!("{command:?} printed no address")
    }

    /// Starts a server that is told its port, and waits until it takes connections.
    pub(crate) fn on_port(port: u16, command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { child, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if start.elapsed() > Duration::from_secs(20) {
                bail!("{command:?} took no connection within 20 seconds");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
