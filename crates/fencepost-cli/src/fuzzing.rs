//! Doors to what this program parses, for the fuzzer: each takes what somebody typed, or wrote into a file or a variable,
//! and gives what is made of it, in types that anybody knows. A refusal is the JSON that would be told.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::OnceLock,
};

use clap::FromArgMatches as _;
use fencepost_client::CoordinatorEvent;
use fencepost_core::{Grant, LockDelay, MaxHold, Metadata, MinHold, Ttl, Wait, limits};
use serde_json::Value;

use crate::{
    Cli, Command, command as commands, coordinator, demo,
    duration::{self, Typed},
    failure::Failure,
    help, lines, names, resource, run, session_file, shell, verdict,
};

fn told<T>(parsed: Result<T, Failure>) -> Result<T, Value> {
    parsed.map_err(|failure| failure.json())
}

/// A whole command line, as far as it is understood before anything is opened or asked.
///
/// # Errors
/// With what would be told.
pub fn command_line(arguments: &[OsString]) -> Result<(), Value> {
    static DEFINITION: OnceLock<clap::Command> = OnceLock::new();
    let rest = arguments.get(2..).unwrap_or_default();
    let _ = (run::without_dashes(arguments), run::WardenArgs::parse(rest), run::BecomeArgs::parse(rest));
    let definition = DEFINITION.get_or_init(help::command).clone();
    let parsed = definition.try_get_matches_from(arguments).and_then(|found| Cli::from_arg_matches(&found));
    let cli = parsed.map_err(|error| Value::from(error.render().to_string()))?;
    told(match cli.command {
        Command::Run(args) => run::fuzzing::understand(*args),
        Command::Acquire(args) => commands::acquire::understand(&args),
        Command::Prove(args) => commands::prove::fuzzing::understand(&args),
        Command::Help { words } => help::topic(&words).map(drop),
        Command::Ls(args) => commands::ls::understand(&args).map(|(_, limit, _)| within_a_page(limit)),
        Command::History(args) => commands::history::understand(&args).map(|query| within_a_page(query.limit)),
        Command::Explain(args) => commands::explain::understand(&args).map(drop),
        Command::Guard(args) => commands::guard::understand(&args).map(drop),
        Command::Unguard(args) => commands::unguard::understand(args).map(drop),
        Command::Audit(args) => commands::audit::understand(&args).map(drop),
        Command::Status(args) => commands::status::understand(&args).map(drop),
        Command::Advance(args) => commands::advance::understand(args).map(drop),
        Command::Collect(args) => commands::collect::understand(&args).map(drop),
        Command::Read(args) => commands::read::understand(args).map(drop),
        Command::Write(args) => commands::write::understand(args).map(drop),
        Command::Show(args) => commands::show::understand(&args).map(drop),
        Command::Watch(args) => commands::watch::understand(&args).map(drop),
        Command::Break(args) => commands::breaking::understand(&args).map(drop),
        Command::Recover(args) => commands::recover::understand(&args).map(drop),
        Command::Serve(args) => commands::serve::understand(&args).map(drop),
        // All of their words are what the definition has made of them: switches, paths, choices, and none.
        Command::Demo(_)
        | Command::DemoWorker(_)
        | Command::Renew(_)
        | Command::Release(_)
        | Command::Check(_)
        | Command::ProveSender(_)
        | Command::Completions(_)
        | Command::Man(_) => Ok(()),
    })
}

fn within_a_page(rows: usize) {
    assert!((1..=limits::PAGE_MOST).contains(&rows), "a page of {rows} rows");
}

/// A duration after each option that takes one: how it would be typed again.
///
/// # Errors
/// With what would be told.
pub fn durations(text: &str) -> [Result<String, Value>; 5] {
    let again = |ms| duration::as_typed(ms);
    [
        told(Ttl::typed(text)).map(|ttl| again(ttl.as_millis())),
        told(Wait::typed(text)).map(|wait| again(wait.as_millis())),
        told(MaxHold::typed(text)).map(|hold| again(hold.as_millis())),
        told(MinHold::typed(text)).map(|hold| again(hold.as_millis())),
        told(LockDelay::typed(text)).map(|delay| again(delay.as_millis())),
    ]
}

/// The milliseconds of a duration, where they fit; and the texts for people of that many.
#[must_use]
pub fn milliseconds(text: &str) -> Option<(u64, [String; 3])> {
    let ms = duration::milliseconds(text)??;
    Some((ms, [duration::as_typed(ms), duration::readable(ms), duration::readable_left(ms)]))
}

/// A resource, as a shell would read it again.
///
/// # Errors
/// With what would be told.
pub fn resource(typed: &OsStr) -> Result<String, Value> {
    told(resource::Resource::parse(typed)).map(|resource| resource.typed().to_owned())
}

/// What is typed where a domain, a prefix, a reason, a lease and a holder belong.
#[must_use]
pub fn names(typed: &OsStr) -> [Option<String>; 5] {
    [
        names::domain(typed).ok().map(|domain| domain.to_string()),
        names::prefix(typed).ok(),
        names::reason(typed).ok().map(|reason| reason.to_string()),
        names::lease(typed).ok().map(|lease| lease.to_string()),
        names::holder(Some(typed)).ok().map(|holder| holder.to_string()),
    ]
}

/// `NAME=VALUE` pairs; `None` where they are none.
#[must_use]
pub fn metadata(pairs: &[OsString]) -> Option<Metadata> {
    names::metadata(pairs).ok()
}

/// The session file, as it would be written again.
///
/// # Errors
/// Why it is refused.
pub fn session_file(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let kept = session_file::Kept::parse(bytes)?;
    Ok(serde_json::to_vec(&kept).expect("a struct of strings and numbers is JSON"))
}

/// What `--grant` is given.
///
/// # Errors
/// With what would be told.
pub fn grant(line: &str) -> Result<Option<Grant>, Value> {
    told(verdict::grant(Some(line.to_owned())))
}

/// The port of an address, where no port can be that.
#[must_use]
pub fn impossible_port(url: &str) -> Option<&str> {
    coordinator::impossible_port(url)
}

/// A service to be proved: what stands in `Host`, and the path.
///
/// # Errors
/// With what would be told.
pub fn service(url: &str) -> Result<(String, String), Value> {
    told(commands::prove::fuzzing::service(url))
}

/// A header that is sent to a service that is proved; `None` where it is none, or not for anybody to set.
#[must_use]
pub fn header(typed: &str) -> Option<(String, String)> {
    commands::prove::fuzzing::header(typed)
}

/// A line between `run` and its warden, one way and the other, as it would be written again.
#[must_use]
pub fn message(line: &str) -> [Option<String>; 2] {
    run::fuzzing::message(line)
}

/// Whether a process of this program's own takes the line: the late sender of `prove`, the worker of `demo`, and those
/// who have started them.
#[must_use]
pub fn own_line(line: &str) -> bool {
    commands::prove::fuzzing::errand(line) || demo::is_understood(line)
}

/// Of a line of `/proc/PID/stat`: whose child it is, and since when.
#[must_use]
pub fn process(stat: &str) -> Option<(i32, u64)> {
    run::fuzzing::process(stat)
}

/// Of `/proc/self/status`: the set of ignored signals.
#[must_use]
pub fn ignored_signals(status: &str) -> u64 {
    run::fuzzing::ignored(status)
}

/// Whether a line opens the gate behind which a command waits.
#[must_use]
pub fn opens_the_gate(line: &str) -> bool {
    run::fuzzing::opens(line)
}

/// Of `/proc/locks`: which process has locked the file with this number.
#[must_use]
pub fn lock_holder(locks: &str, inode: u64) -> Option<u32> {
    resource::holder_among(locks, inode)
}

/// The folder of this process's control group.
#[must_use]
pub fn control_group(mounts: &str, groups: &str) -> Option<PathBuf> {
    run::fuzzing::control_group(mounts, groups)
}

/// An event, for people and for programs.
#[must_use]
pub fn event(event: &CoordinatorEvent) -> (String, Value) {
    (commands::watch::words(event), commands::watch::in_one_object(event))
}

/// The text as a word for a shell, and the same always in quotes.
#[must_use]
pub fn shell_words(text: &str) -> [String; 2] {
    [shell::word(text), shell::quoted(text)]
}

/// A text, and a command, broken into lines.
#[must_use]
pub fn broken(text: &str, width: usize, indent: usize) -> [String; 2] {
    [lines::wrapped(text, width, indent), lines::command(text, width, indent)]
}
