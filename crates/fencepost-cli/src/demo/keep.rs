//! `--keep`: the coordinator's store is handed to a `fencepost serve` of its own, which outlives the demo.

use std::{
    env,
    fs::File,
    io,
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{stage::Stage, tell::Teller};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    shell,
};

const PATIENCE: Duration = Duration::from_secs(20);
const GLANCE: Duration = Duration::from_millis(20);

/// What the server that goes on needs to know.
pub(super) struct Server {
    url: String,
    address: SocketAddr,
    data: PathBuf,
    database: PathBuf,
}

impl Server {
    pub(super) fn of(stage: &Stage) -> Self {
        let (url, address) = (stage.url.clone(), stage.address);
        Self { url, address, data: stage.data.clone(), database: stage.database.clone() }
    }
}

/// Starts the server, waits until it listens, and says how to use and how to stop it. The folder stays only when the
/// server runs.
pub(super) fn keep(dir: TempDir, server: &Server, program: &str, teller: &mut Teller) -> Result<(), Failure> {
    let log = dir.path().join("serve.log");
    let failed =
        |error: io::Error| Failure::new(Exit::Bug, format!("the server cannot be kept running: {error}")).then(AGAIN);
    let output = File::create(&log).map_err(failed)?;
    let mut command = Command::new(env::current_exe().map_err(failed)?);
    command.arg("serve").arg("--data").arg(&server.data).args(["--listen", &server.address.to_string()]);
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(output);
    // Not of the terminal's foreground group, so that a Ctrl-C meant for something else does not end it.
    command.process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    if let Err(why) = until_it_listens(&mut child, server.address) {
        let _ = child.kill();
        let _ = child.wait();
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(failed(why).detail(said.trim().to_owned()));
    }
    let process = child.id();
    let kept = dir.keep();
    let (program, folder) = (shell::word(program), shell::word(&kept.to_string_lossy()));
    let database = shell::word(&server.database.to_string_lossy());
    let resource = shell::word(&format!("sqlite:{}", server.database.display()));
    let commands = [
        (
            "take a lease, and raise the fence of the database to its token",
            vec![
                format!("export FENCEPOST_URL={}", server.url),
                format!("eval \"$({program} acquire stock/apples --ttl 1m --export)\""),
                format!("{program} advance {resource}"),
            ],
        ),
        (
            "see what coordinator and database know",
            vec![format!("{program} ls"), format!("{program} status {resource} --fences")],
        ),
        ("try to write past the guard", vec![format!("sqlite3 {database} \"UPDATE stock SET amount = 0\"")]),
        // A server that ends still takes files away, and whoever removes the folder meanwhile would miss some of them.
        ("remove the files and stop the server", vec![format!("rm -r {folder}; kill {process}")]),
    ];
    teller.kept(&kept, &server.url, process, &commands)
}

fn until_it_listens(child: &mut Child, address: SocketAddr) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        if TcpStream::connect_timeout(&address, GLANCE).is_ok() {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended with {status}")));
        }
        if Instant::now() >= until {
            return Err(io::Error::other("it does not listen"));
        }
        thread::sleep(GLANCE);
    }
}
