//! `fencepost demo`: the main job on real input, in about fifteen seconds.
//!
//! [`script`] says as data who does what and what is promised; [`mod@play`] makes it happen with real [worker](crew)
//! processes on a real [`stage`]; [`promise`] compares; [`tell`] shows. Nothing is left behind, however it ends: what was
//! made is owned by values that clean up when they go, and a signal ends the play like any other event.

mod crew;
mod keep;
mod layout;
mod play;
mod promise;
mod protocol;
mod script;
mod stage;
mod tell;
mod worker;

use std::{env, path::Path, time::Instant};

use clap::Args;
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::worker::{WorkerArgs, run as run_worker};
use self::{play::Player, promise::Checked, script::Act, stage::Stage, tell::Teller};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    path,
};

const AFTER_HELP: &str = "\
It starts a coordinator, its HTTP server on loopback, a SQLite database with a guarded table and three worker processes,
in a folder of its own under TMPDIR, and shows in five acts what each write gets. It takes about fifteen seconds.

Exits 0 when every promise was kept and nothing was left behind, and 70 otherwise.

With --json: one object a line for each event, at last {\"event\":\"finished\",\"passed\":true,…}.";

/// Watch a stopped worker's write being refused, with real processes and a real database.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DemoArgs {
    /// Leave the server running and the files in place, and say how to use and remove them
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Runs the demo.
///
/// # Errors
/// When a promise was not kept, or the demo could not be run to its end.
pub(crate) fn run(args: DemoArgs, json: bool) -> Result<Exit, Failure> {
    // Declared first and so dropped last: the runtime goes before the folder, and with it whatever still writes there.
    let mut room = None;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Bug, format!("no runtime can be started: {error}")).then(AGAIN))?;
    let played = runtime.block_on(until_signalled(&mut room, json));
    drop(runtime);
    match (played?, room) {
        (Played::ToTheEnd(ending), Some(room)) => finish(args, room, json, &ending),
        (Played::ToTheEnd(_), None) => unreachable!("nothing is played without a folder"),
        (Played::Signalled(number), _) => Ok(Exit::Signal(number)),
    }
}

fn make_room() -> Result<TempDir, Failure> {
    tempfile::Builder::new().prefix("fencepost-demo-").tempdir().map_err(|error| {
        let what = format!("no folder can be made in {}: {error}", env::temp_dir().display());
        Failure::new(path::exit(&error, Exit::CannotWrite), what)
            .then("set TMPDIR to a folder that can be written, and run the demo again")
    })
}

/// What is left to tell when all has been played.
struct Ending {
    checked: Vec<Checked>,
    kept_server: keep::Server,
}

enum Played {
    ToTheEnd(Ending),
    Signalled(u8),
}

/// From before there is anything to clean up, a signal ends the play instead of the process.
async fn until_signalled(room: &mut Option<TempDir>, json: bool) -> Result<Played, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(Exit::Bug, format!("signals cannot be waited for: {error}")).then(AGAIN);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let mut quit = signal(SignalKind::quit()).map_err(failed)?;
    let number = tokio::select! {
        played = play(room.insert(make_room()?).path(), json) => return played.map(Played::ToTheEnd),
        _ = interrupt.recv() => 2,
        _ = terminate.recv() => 15,
        _ = hang_up.recv() => 1,
        _ = quit.recv() => 3,
    };
    Ok(Played::Signalled(number))
}

async fn play(dir: &Path, json: bool) -> Result<Ending, Failure> {
    let (acts, started): (Vec<Act>, _) = (script::acts(), Instant::now());
    let mut teller = Teller::new(json);
    let stage = Stage::set(dir, &acts).await?;
    teller.opening(&stage)?;
    let checked = Player::new(&stage, &mut teller).play(&acts).await?;
    teller.result(&checked, started.elapsed())?;
    let kept_server = keep::Server::of(&stage);
    stage.strike().await;
    Ok(Ending { checked, kept_server })
}

fn finish(args: DemoArgs, dir: TempDir, json: bool, ending: &Ending) -> Result<Exit, Failure> {
    let Ending { checked, kept_server } = ending;
    let program = env::args().next().unwrap_or_else(|| "fencepost".to_owned());
    let mut teller = Teller::new(json);
    if args.keep {
        keep::keep(dir, kept_server, &program, &mut teller)?;
    } else {
        let path = dir.path().to_owned();
        dir.close().map_err(|error| {
            Failure::new(Exit::CannotWrite, format!("{} cannot be removed: {error}", path.display()))
                .then(format!("rm -r {}", path::word(&path)))
        })?;
        teller.next(&program)?;
    }
    match checked.iter().filter(|checked| !checked.kept).count() {
        0 => Ok(Exit::Done),
        broken => Err(Failure::new(Exit::Bug, format!("{broken} of {} promises were not kept", checked.len()))
            .then("report it with the output of `fencepost demo --json`")),
    }
}

/// Whether the line is a request to a worker, or its reply.
#[cfg(feature = "fuzzing")]
pub(crate) fn is_understood(line: &str) -> bool {
    serde_json::from_str::<protocol::Request>(line).is_ok() || serde_json::from_str::<protocol::Reply>(line).is_ok()
}
