//! The command `fencepost`: leases, and the guards that refuse writes of those who have lost them.
//!
//! Parsing and words live here; decisions are the libraries'. Every failure says what to type next and ends in an exit
//! code that means one thing (`exit.rs`).
//!
//! A library only so that its parsers can be reached; the program is [`main`] and nothing else.

mod command;
mod coordinator;
mod demo;
mod duration;
mod exit;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod help;
mod lines;
mod names;
mod output;
mod path;
mod progress;
mod report;
mod resource;
mod run;
mod session_file;
mod shell;
mod verdict;

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, Write},
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use fencepost_core::{Invalid, sabotage};
use serde_json::json;

use crate::{
    command as commands,
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
    output::{Output, aside},
};

/// Leases whose stale writes fail at the resource
///
/// A worker whose lease is gone can still be in the middle of a write. Fencepost gives every grant a greater token and
/// has the resource refuse a smaller one.
#[derive(Debug, Parser)]
#[command(
    name = "fencepost",
    version,
    disable_help_subcommand = true,
    max_term_width = help::WIDEST,
    after_help = "`fencepost help COMMAND` explains one with examples; `fencepost help exit-codes` lists what it exits with."
)]
struct Cli {
    /// Speak JSON: answers on standard output, errors on standard error
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    #[command(hide = true)]
    DemoWorker(demo::WorkerArgs),
    Run(Box<run::RunArgs>),
    Acquire(commands::acquire::AcquireArgs),
    Renew(commands::renew::RenewArgs),
    Release(commands::release::ReleaseArgs),
    Read(commands::read::ReadArgs),
    Write(commands::write::WriteArgs),
    Ls(commands::ls::LsArgs),
    Show(commands::show::ShowArgs),
    History(commands::history::HistoryArgs),
    Watch(commands::watch::WatchArgs),
    Explain(commands::explain::ExplainArgs),
    Guard(commands::guard::GuardArgs),
    Unguard(commands::unguard::UnguardArgs),
    Audit(commands::audit::AuditArgs),
    Status(commands::status::StatusArgs),
    Advance(commands::advance::AdvanceArgs),
    Collect(commands::collect::CollectArgs),
    Check(commands::check::CheckArgs),
    Prove(Box<commands::prove::ProveArgs>),
    #[command(hide = true)]
    ProveSender(commands::prove::SenderArgs),
    Serve(commands::serve::ServeArgs),
    Break(commands::breaking::BreakArgs),
    Recover(commands::recover::RecoverArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::completions::ManArgs),
    /// Explain a command, or the topic exit-codes
    Help {
        /// The command or topic; exit-codes lists what every command exits with
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
}

impl Command {
    /// Whether what takes long is told in the usual way. `run` shares its terminal with the command, and `demo` draws.
    fn shows_progress(&self) -> bool {
        !matches!(self, Self::Demo(_) | Self::DemoWorker(_) | Self::Run(_) | Self::ProveSender(_))
    }
}

/// The program: what was typed, and the environment, decide what it does; it exits with what this returns.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    // What stands after `--` is another program's.
    let typed = |option: &str| arguments.iter().take_while(|argument| *argument != "--").any(|typed| typed == option);
    let (json, export) = (typed("--json"), typed("--export"));
    let code = panic::catch_unwind(AssertUnwindSafe(|| run_command_line(&arguments, json))).unwrap_or_else(|_| {
        let failure = Failure::new(Exit::Bug, "this is a bug of fencepost").then(REPORT);
        failure.end_with(json)
    });
    if export && code != Exit::Done.code() && !asks_for_help(&arguments) {
        // An `eval` of nothing succeeds, and the script would go on without a lease.
        let _ = writeln!(io::stdout(), "{}", commands::handing::failing_export(code));
    }
    ExitCode::from(code)
}

fn asks_for_help(arguments: &[OsString]) -> bool {
    arguments.iter().any(|argument| argument == "--help" || argument == "-h")
}

fn run_command_line(arguments: &[OsString], json: bool) -> u8 {
    if let Some(ended) = execute_part_of_run(arguments) {
        return ended.map_or_else(|failure| failure.end_with(json), Exit::code);
    }
    // What only help and complaints need takes longer to make than most commands take to run.
    let parsed = Cli::command().color(output::colours()).try_get_matches_from(arguments);
    let is_missing = parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument);
    let parsed = match is_missing.then(|| run::with_dashed_domains(arguments)).flatten() {
        Some(dashed) => {
            run::taking_dashed_domains(Cli::command().color(output::colours())).try_get_matches_from(dashed)
        }
        None => parsed.or_else(|_| help::command().try_get_matches_from(arguments)),
    };
    let matches = match parsed {
        Ok(matches) => matches,
        Err(error) => return not_parsed(&advised(without_hidden(error), arguments), arguments, json),
    };
    let mut cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&without_hidden(error), arguments, json),
    };
    if let Command::Run(args) = &mut cli.command {
        args.take_dashed_domains(&matches);
    }
    if cli.command.shows_progress() {
        progress::show_on_terminal(cli.json);
    }
    match execute(cli.command, &matches, Output::new(cli.json)) {
        Ok(exit) => {
            progress::answered();
            exit.code()
        }
        Err(failure) => failure.in_command(matches.subcommand_name().unwrap_or_default()).end_with(cli.json),
    }
}

/// Whether this program has such a command.
fn is_a_command(word: &str) -> bool {
    word == "help" || Cli::command().find_subcommand(word).is_some()
}

/// What `run` starts of this program by itself. Nobody types that, and every run waits for it, so there is no parser.
fn execute_part_of_run(arguments: &[OsString]) -> Option<Result<Exit, Failure>> {
    let [_, part, rest @ ..] = arguments else { return None };
    if part == run::WARDEN {
        return run::WardenArgs::parse(rest).map(|args| awaited(run::run_warden(args)));
    }
    if part == run::BECOME {
        return run::BecomeArgs::parse(rest).map(|args| run::become_command(&args));
    }
    None
}

/// The same complaint without the commands that only this program itself types: the parser counts and suggests them.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let known = Cli::command();
    let is_shown = |name: &String| known.find_subcommand(name).is_none_or(|command| !command.is_hide_set());
    for kind in [ContextKind::ValidSubcommand, ContextKind::SuggestedSubcommand] {
        if let Some(ContextValue::Strings(mut names)) = error.remove(kind) {
            names.retain(is_shown);
            if !names.is_empty() {
                error.insert(kind, ContextValue::Strings(names));
            }
        }
    }
    error
}

/// The same complaint with an advice that can be followed, where the value of an option was taken for an option: behind
/// `--`, as the parser says, it would be none.
fn advised(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return error };
    let known = Cli::command();
    let command = known.find_subcommand(command_among(arguments));
    let takes_text = |option: &str| {
        let mut options = command.into_iter().flat_map(clap::Command::get_arguments);
        options.any(|known| known.get_long() == Some(option) && known.get_action().takes_values())
    };
    let before = arguments.iter().zip(arguments.iter().skip(1));
    let joined =
        before.filter(|(_, value)| value.to_string_lossy().starts_with(wrong.as_str())).find_map(|(option, value)| {
            let option = option.to_str().filter(|option| option.strip_prefix("--").is_some_and(takes_text))?;
            Some(shell::option(option, value.to_str()?).trim_start().to_owned())
        });
    if let Some(joined) = joined
        && error.remove(ContextKind::Suggested).is_some()
    {
        let tip = format!("to pass it as a value, join it to its option: '{joined}'").into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

fn not_parsed(error: &clap::Error, arguments: &[OsString], json: bool) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if json => {
            let topic = Some(command_among(arguments)).filter(|command| !command.is_empty());
            let said = told_as_json(topic.as_deref(), &error.to_string());
            said.map_or_else(|failure| failure.end_with(true), Exit::code)
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Exit::Done.code(),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::reader_gone().end_with(json),
            Err(error) => Failure::new(Exit::CannotWrite, format!("the output cannot be written: {error}"))
                .then(AGAIN)
                .then(after_a_mistake(arguments))
                .end_with(json),
        },
        ErrorKind::InvalidUtf8 => not_text(arguments).end_with(json),
        ErrorKind::ValueValidation if rule_broken_by(error).is_some() => {
            let command = command_among(arguments);
            let failure = rule_broken_by(error).map(|invalid| Failure::from(invalid.clone()));
            failure.map_or(Exit::Usage.code(), |failure| failure.in_command(&command).end_with(json))
        }
        _ if json => {
            let failure = Failure::new(Exit::Usage, error.render().to_string().trim_end());
            failure.then(after_a_mistake(arguments)).end_with(true)
        }
        _ => {
            // Where standard error is closed, the exit code still tells.
            let _ = error.print();
            aside(&format!("  next: {}", after_a_mistake(arguments)));
            Exit::Usage.code()
        }
    }
}

/// The rule of ours that a value broke.
fn rule_broken_by(error: &clap::Error) -> Option<&Invalid> {
    error.source()?.downcast_ref()
}

/// What to type after a line that was not understood.
fn after_a_mistake(arguments: &[OsString]) -> String {
    run::without_dashes(arguments)
        .unwrap_or_else(|| format!("fencepost help {}", command_among(arguments)).trim_end().to_owned())
}

/// The command that was typed; nothing where there is none.
fn command_among(arguments: &[OsString]) -> String {
    let known = Cli::command();
    let typed = arguments.iter().skip(1).take_while(|argument| *argument != "--");
    let mut shown = typed.filter_map(|word| known.find_subcommand(word).filter(|command| !command.is_hide_set()));
    shown.next().map_or_else(String::new, |command| command.get_name().to_owned())
}

/// Which words are no text, where only text will do: the parser says no more than that there is one.
fn not_text(arguments: &[OsString]) -> Failure {
    let field = |before: &OsString| {
        let option = before.to_str().and_then(|before| before.strip_prefix("--"));
        option.unwrap_or("a word").to_owned()
    };
    let preceded = arguments.iter().zip(arguments.iter().skip(1));
    let fields: Vec<String> =
        preceded.filter(|(_, word)| word.to_str().is_none()).map(|(before, _)| field(before)).collect();
    Failure::new(Exit::Usage, format!("{}: must be UTF-8", fields.join(" or ")))
        .then("type it in UTF-8; only paths may be of other bytes")
        .then(after_a_mistake(arguments))
}

fn execute(command: Command, matches: &ArgMatches, output: Output) -> Result<Exit, Failure> {
    if sabotage::active("command_panics") {
        panic!("as a defect");
    }
    match command {
        Command::Demo(args) => demo::run(args, output.json),
        Command::DemoWorker(args) => demo::run_worker(&args),
        Command::Run(args) => awaited(run::run(*args, output.of_change())),
        Command::Acquire(args) => awaited(commands::acquire::run(args, output.of_handing_over())),
        Command::Renew(commands::renew::RenewArgs {}) => awaited(commands::renew::run(output.of_change())),
        Command::Release(commands::release::ReleaseArgs {}) => awaited(commands::release::run(output.of_change())),
        Command::Read(args) => commands::read::run(args, output),
        Command::Write(args) => commands::write::run(args, output.of_change()),
        Command::Ls(args) => awaited(commands::ls::run(args, output)),
        Command::Show(args) => awaited(commands::show::run(args, output)),
        Command::History(args) => awaited(commands::history::run(args, output)),
        Command::Watch(args) => awaited(commands::watch::run(args, output)),
        Command::Explain(args) => awaited(commands::explain::run(args, output)),
        Command::Guard(args) => awaited(commands::guard::run(args, url_was_typed(matches), output.of_change())),
        Command::Unguard(args) => commands::unguard::run(args, output.of_change()),
        Command::Audit(args) => commands::audit::run(args, output),
        Command::Status(args) => commands::status::run(args, output),
        Command::Advance(args) => commands::advance::run(args, output.of_change()),
        Command::Collect(args) => awaited(commands::collect::run(args, output.of_change())),
        Command::Check(args) => commands::check::run(&args, output),
        Command::Prove(args) => awaited(commands::prove::run(*args, output)),
        Command::ProveSender(args) => awaited(commands::prove::run_sender(args)),
        Command::Serve(args) => on_all_cores(commands::serve::run(args, output.of_change())),
        Command::Break(args) => awaited(commands::breaking::run(args, output.of_change())),
        Command::Recover(args) => awaited(commands::recover::run(args, url_was_named(matches), output.of_change())),
        Command::Completions(args) => commands::completions::completions(&args, output),
        Command::Man(args) => commands::completions::man(&args, output.of_change()),
        Command::Help { words } => {
            let text = help::topic(&words)?;
            if output.json {
                return told_as_json(words.first().map(String::as_str), &text);
            }
            output.line(text.trim_end())?;
            Ok(Exit::Done)
        }
    }
}

/// What help says, for programs.
fn told_as_json(topic: Option<&str>, text: &str) -> Result<Exit, Failure> {
    Output::new(true).json(&json!({"topic": topic, "text": text.trim_end()}))?;
    Ok(Exit::Done)
}

/// Whether the coordinator was named on the command line, and not by a default.
fn url_was_typed(matches: &ArgMatches) -> bool {
    source_of_url(matches) == Some(ValueSource::CommandLine)
}

/// Whether anybody has named the coordinator, on the command line or in the environment.
fn url_was_named(matches: &ArgMatches) -> bool {
    match source_of_url(matches) {
        Some(ValueSource::CommandLine) => true,
        Some(ValueSource::EnvVariable) => coordinator::url_from_environment().is_some(),
        _ => false,
    }
}

fn source_of_url(matches: &ArgMatches) -> Option<ValueSource> {
    matches.subcommand().and_then(|(_, command)| command.value_source("url"))
}

fn awaited(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    in_runtime(tokio::runtime::Builder::new_current_thread(), work)
}

/// On all cores but one, which the coordinator's writer has for itself: a thread more than cores only takes turns with it.
fn on_all_cores(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(cores.saturating_sub(1).max(1));
    in_runtime(builder, work)
}

fn in_runtime(
    mut builder: tokio::runtime::Builder,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = builder.enable_all().build().map_err(|error| {
        Failure::new(Exit::Unreachable, format!("the system gives no thread or descriptor more: {error}")).then(AGAIN)
    })?;
    runtime.block_on(work)
}
