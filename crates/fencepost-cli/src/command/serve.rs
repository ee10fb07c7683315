use std::{
    fs, io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use fencepost_coordinator::embedded::{Embedded, InitOptions, OpenError, Options};
use fencepost_core::{Epoch, Issuer};
use fencepost_server::{BindError, Metrics, Server};
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tracing_subscriber::EnvFilter;

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    names,
    output::Output,
    path,
    progress::{self, Doing},
};

/// Run the coordinator
#[derive(Args, Debug)]
#[command(after_long_help = "\
The first time, in an empty directory:
  fencepost serve --data /var/lib/fencepost --init

From then on without --init. An empty directory is never taken for a new coordinator by itself: it may be one whose \
state was lost, and a new one must not repeat old tokens.

One whose store is lost begins again under its old name, in an epoch above every one that it has had (`fencepost status` \
of its receivers shows them). Never copy an old directory back: it would grant the same tokens twice. First wait until \
the greatest TTL in use has passed, because holders believe in their leases until then. Then tell each receiver, by its \
`fencepost guard` line again, from when on it accepts nothing older; no command tells all of them. One that was not told \
refuses what the new one grants.
  fencepost guard sqlite:shop.db invoice --domain EXPR --issuer NAME --epoch N --floor N.0
  fencepost serve --data /var/lib/fencepost-2 --init --issuer NAME --epoch N

Prints where it listens once it answers, and tells systemd (NOTIFY_SOCKET). Logs go to standard error; FENCEPOST_LOG \
chooses what, e.g. `debug` or `warn,fencepost=info`. TERM and INT stop it: calls under way are answered, leases live on \
and get one fresh TTL at the next start.")]
pub(crate) struct ServeArgs {
    /// The directory of the coordinator's store
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Make a new store in it first
    #[arg(long)]
    init: bool,
    /// The epoch of the new store [default: hours since 2026-01-01]
    #[arg(long, value_name = "N", requires = "init", value_parser = names::epoch, allow_hyphen_values = true)]
    epoch: Option<u32>,
    /// The name of the new store, of one that was lost [default: one that nobody has]
    #[arg(long, value_name = "NAME", requires = "epoch")]
    issuer: Option<String>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7421")]
    listen: String,
    /// How to write logs [default: text; json where --json is given]
    #[arg(long, value_name = "FORM")]
    log: Option<LogForm>,
    /// Let the clock push the sequence by more than a year
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    Json,
    Text,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &ServeArgs) -> Result<(Option<Epoch>, Option<Issuer>), Failure> {
    Ok((args.epoch.map(Epoch::new).transpose()?, args.issuer.as_deref().map(Issuer::new).transpose()?))
}

pub(crate) async fn run(args: ServeArgs, output: Output) -> Result<Exit, Failure> {
    start_logging(args.log.unwrap_or(if output.json { LogForm::Json } else { LogForm::Text }))?;
    let (epoch, issuer) = understand(&args)?;
    // A port that is taken is found before a store is made.
    let listener = TcpListener::bind(&args.listen).await.map_err(|error| cannot_listen(&args.listen, &error))?;
    let opening = opening(&args.data);
    if args.init {
        let options = InitOptions { epoch, issuer, ..InitOptions::default() };
        Embedded::init(&args.data, options).map_err(|error| not_opened(&args, &error))?;
    }
    let metrics = Metrics::new();
    let observer = Some(metrics.commit_observer());
    let options = Options { observer, push_far: args.force, ..Options::default() };
    let coordinator = Embedded::open(&args.data, options).map_err(|error| not_opened(&args, &error))?;
    if let Some(withheld) = coordinator.withheld_push() {
        tracing::warn!(%withheld, "the clock is more than a year ahead of the sequence; see --force");
    }
    drop(opening);
    let bound = Server::on(listener, coordinator.clone(), metrics, fencepost_server::Options::default()).await;
    let server = bound.map_err(|error| match error {
        BindError::Listen(error) => cannot_listen(&args.listen, &error),
        BindError::Coordinator(error) => Failure::new(Exit::Unreachable, error.to_string()).then(AGAIN),
    })?;
    let address = server.local_addr().map_err(|error| cannot_listen(&args.listen, &error))?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "whoever reaches this address can list and break leases: keep it in a private network");
    }
    let stop = until_told();
    let url = format!("http://{address}");
    announce(&coordinator, &url, output)?;
    server.serve(stop).await;
    coordinator.shutdown().await;
    Ok(Exit::Done)
}

/// A big store takes a while to be read, so people hear how big it is.
fn opening(data: &Path) -> Doing {
    let dir = data.display().to_string();
    let files = fs::read_dir(data).into_iter().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
    progress::doing(format!("opening the store in {dir}, {} MB", bytes.div_ceil(1_000_000)))
}

fn announce(coordinator: &Embedded, url: &str, output: Output) -> Result<(), Failure> {
    let (issuer, epoch, start) = (coordinator.issuer(), coordinator.epoch(), coordinator.start_number());
    if output.json {
        output.json(&json!({"url": url, "issuer": issuer, "epoch": epoch, "start": start}))?;
    } else {
        output.line(&format!("listening on {url} (issuer {issuer}, epoch {epoch})"))?;
    }
    tracing::info!(url, %issuer, %epoch, start, "listening");
    if let Some(path) = std::env::var_os("NOTIFY_SOCKET") {
        notify(&path).unwrap_or_else(|error| tracing::warn!(%error, "the service manager was not told"));
    }
    Ok(())
}

/// Tells a service manager that waits for it. A name that begins with `@` is an abstract one.
fn notify(path: &std::ffi::OsStr) -> io::Result<()> {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::{ffi::OsStrExt, net::SocketAddr},
    };

    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(|_| ())
}

/// The handlers are in place when this returns, before anybody can have been told that the server runs.
fn until_told() -> impl Future<Output = ()> {
    progress::leave_signals();
    let on = |kind| signal(kind).expect("the runtime can listen for signals");
    let (mut int, mut term) = (on(SignalKind::interrupt()), on(SignalKind::terminate()));
    async move {
        let signal = tokio::select! {
            _ = int.recv() => "INT",
            _ = term.recv() => "TERM",
        };
        tracing::info!(signal, "stopping");
    }
}

/// Standard error, with nothing else in the line.
struct BesideProgress;

impl io::Write for BesideProgress {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        progress::beside(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn start_logging(form: LogForm) -> Result<(), Failure> {
    let filter = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into());
    let filter = filter.parse(std::env::var("FENCEPOST_LOG").unwrap_or_default()).map_err(|error| {
        Failure::new(Exit::Configuration, format!("FENCEPOST_LOG: {error}")).then("FENCEPOST_LOG=info")
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| BesideProgress);
    match form {
        LogForm::Json => log.json().flatten_event(true).init(),
        LogForm::Text => log.with_ansi(false).init(),
    }
    Ok(())
}

fn cannot_listen(address: &str, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::PermissionDenied { Exit::Denied } else { Exit::Configuration };
    let failure = Failure::new(exit, format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.then("see whether it runs already: fencepost ls").then("take another port: --listen 127.0.0.1:0")
        }
        _ => failure.then("--listen HOST:PORT, e.g. --listen 127.0.0.1:7421"),
    }
}

fn not_opened(args: &ServeArgs, error: &OpenError) -> Failure {
    let dir = path::word(&args.data);
    let what = error.to_string();
    let configuration = || Failure::new(Exit::Configuration, what.clone());
    match error {
        OpenError::NotInitialised { .. } => {
            configuration().then(format!("a new coordinator: fencepost serve --data {dir} --init")).then(
                "one whose state was lost: never copy an old directory back; begin it again under its name, in a greater epoch: \
                 fencepost help serve",
            )
        }
        OpenError::Initialised { .. } => {
            configuration().then(format!("leave --init out: fencepost serve --data {dir}"))
        }
        OpenError::NotEmpty { .. } => configuration().then("--data with an empty directory"),
        OpenError::InUse { pid, .. } => match pid {
            Some(pid) => configuration()
                .then(format!("see what it is: ps -p {pid}"))
                .then(format!("stop it: kill {pid}; then run the same command again"))
                .then("run a second coordinator: --data with another directory"),
            None => configuration().then(format!("see who has it: fuser -v {dir}/*")),
        },
        OpenError::Layout { .. } => configuration().then("use the fencepost that wrote it"),
        OpenError::Damaged { .. } => configuration().then(
            "keep it for inspection; begin again in an empty directory, in a greater epoch: fencepost help serve",
        ),
        OpenError::ClockBehind => configuration().then("set the clock, or --epoch N"),
        OpenError::Store { .. } => match path::folder_cannot_be_written(&args.data) {
            // The store itself may be writable, and what it writes beside itself not.
            Some(error) => path::failed(format!("{what} ({dir}: {error})"), &args.data, &error, Exit::CannotWrite)
                .then("run the same command as the user that the store belongs to"),
            None => Failure::new(Exit::CannotWrite, what).then(format!("df {dir}")),
        },
        OpenError::NotADirectory { .. } => configuration()
            .then(format!("ls -ld {dir}"))
            .then("--data with a directory; where it lies on another disk, see that the disk is mounted"),
        OpenError::Denied { path, .. } => Failure::new(Exit::Denied, what)
            .then(if *path == args.data { format!("ls -ld {dir}") } else { format!("ls -ld {dir} {}", path::word(path)) })
            .then("run the same command as the user that the store belongs to"),
        OpenError::Io { path, source } => path::failed(what, path, source, Exit::CannotWrite),
        OpenError::Boot(_) => configuration().then("see that /proc is mounted"),
        OpenError::Thread(_) => Failure::new(Exit::Unreachable, what).then(AGAIN),
    }
}
