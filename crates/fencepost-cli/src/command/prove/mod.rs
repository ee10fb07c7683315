//! `fencepost prove`: the scenarios of [`fencepost_testkit::prove`] on a service of the user's own.
//!
//! [`target`] says what may be spoken to, [`grants`] has the coordinator, [`sender`] the process that is stopped,
//! [`hooks`] what the user arranges, [`tell`] the words.

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod grants;
mod hooks;
mod sender;
mod target;
mod tell;
mod world;

use std::{ffi::OsString, time::Duration};

use clap::Args;
use fencepost_core::{Epoch, Invalid, Rule};
use fencepost_testkit::prove::{Call, Hooks, Line, NoAnswer, Plan, Request, Target, World as _};
use tokio::signal::unix::{SignalKind, signal};

use self::{hooks::Commands, target::Service, world::RealWorld};
use crate::{duration::Typed, exit::Exit, failure::Failure, names, output::Output, progress};

pub(crate) use self::sender::{SenderArgs, run as run_sender};

/// Try on your own HTTP service whether it refuses late, repeated, forgotten and foreign writes
#[derive(Args, Debug)]
#[command(after_long_help = "\
It writes to the service: take a resource that was made for it. The service takes Fencepost-Token, Fencepost-Domain, \
Idempotency-Key and Fencepost-Operation-Born, and answers with Fencepost-Verdict; docs/prove.md has the table, and what \
each scenario tries. Tokens are real ones, of a coordinator that runs inside this command for as long as it takes.

Example, for a service that sets a balance by PUT and advances its fence by POST:
  fencepost prove http://127.0.0.1:8080/accounts/7 --domain accounts/7 \\
    --advance POST:/accounts/7/fence --also DELETE:/accounts/7 \\
    --restart-hook 'systemctl restart bank'

Exits 0 when nothing failed, 1 when something did or could not be tried though it was asked for, and 69 when the \
service does not answer at all. A late request that is accepted before the new owner's first write is no failure: it is \
the lesser guarantee, and the report says so.")]
pub(crate) struct ProveArgs {
    /// The resource on the service: http://HOST:PORT/PATH
    url: String,
    /// The domain that the service asks a token of for this resource
    #[arg(long)]
    domain: OsString,
    /// How the value is set [default: PUT to the path of URL]
    #[arg(long, value_name = "METHOD:PATH")]
    write: Option<String>,
    /// The body of a write, with {value} where the number stands
    #[arg(long, value_name = "TEXT", default_value = "{\"value\": {value}}")]
    body: String,
    /// Where the value is read, as JSON [default: the path of URL]
    #[arg(long, value_name = "PATH")]
    read: Option<String>,
    /// Where it stands in what is read
    #[arg(long, value_name = "POINTER", default_value = "/value")]
    read_pointer: String,
    /// How the fence is advanced; without it only FencedOnFirstWrite can be shown
    #[arg(long, value_name = "METHOD:PATH")]
    advance: Option<String>,
    /// Another way to change the resource, such as DELETE:PATH; may be given again
    #[arg(long, value_name = "METHOD:PATH")]
    also: Vec<String>,
    /// A header of every request, such as 'Authorization: Bearer …'; may be given again
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The epoch of the tokens: one that the service knows
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = names::epoch, allow_hyphen_values = true)]
    epoch: u32,
    /// How often old and new owner write at one time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = names::rounds, allow_hyphen_values = true)]
    rounds: u32,
    /// How long to wait for an answer
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true)]
    timeout: String,
    /// Really stop a process between preparing a write and sending it
    #[arg(long)]
    pause: bool,
    /// What restarts the service, for sh -c
    #[arg(long, value_name = "COMMAND")]
    restart_hook: Option<String>,
    /// What takes a backup of its data
    #[arg(long, value_name = "COMMAND", requires = "restore_hook")]
    backup_hook: Option<String>,
    /// What restores its data from that backup; finds the coordinator's next token in FENCEPOST_NEXT_TOKEN
    #[arg(long, value_name = "COMMAND", requires = "backup_hook")]
    restore_hook: Option<String>,
    /// Send a token of the greatest epoch, last of all: a service that takes it has locked every owner out
    #[arg(long)]
    absurd_token: bool,
    /// Go on although the service is not on this machine
    #[arg(long)]
    yes_this_is_mine: bool,
}

const LEAST_PATIENCE_MS: u64 = 100;
const MOST_PATIENCE_MS: u64 = 60_000;

/// How long an answer may take.
struct Patience(Duration);

impl Typed for Patience {
    const OPTION: &'static str = "--timeout";
    const FIELD: &'static str = "timeout_ms";

    fn from_ms(ms: u64) -> Result<Self, Invalid> {
        let (least, most) = (LEAST_PATIENCE_MS, MOST_PATIENCE_MS);
        if !(least..=most).contains(&ms) {
            return Err(Invalid::new(Self::FIELD, Rule::Range { least, most, found: Some(ms), unit: "ms" }));
        }
        Ok(Self(Duration::from_millis(ms)))
    }
}

pub(crate) async fn run(args: ProveArgs, output: Output) -> Result<Exit, Failure> {
    let Patience(patience) = Patience::typed(&args.timeout)?;
    let epoch = Epoch::new(args.epoch)?;
    let headers = target::headers(&args.header)?;
    let service = Service::parse(&args.url)?;
    let plan = plan(&args, &service)?;
    let address = service.resolve(args.yes_this_is_mine).await?;
    let line = Line { address, host: service.host.clone(), headers, patience };
    let commands = Commands { restart: args.restart_hook, backup: args.backup_hook, restore: args.restore_hook };
    let world = RealWorld::open(line, epoch, commands, plan.domain.clone())?;
    let asking = progress::doing(format!("asking the service at {}", args.url));
    answers(&world, &plan, &args.url).await?;
    drop(asking);
    progress::leave_signals();
    let on = |kind| signal(kind).expect("a current-thread runtime can listen for signals");
    // A hook has a group of its own, so what ends this command does not end the hook by itself.
    let (mut interrupt, mut terminate) = (on(SignalKind::interrupt()), on(SignalKind::terminate()));
    let (mut hangup, mut quit) = (on(SignalKind::hangup()), on(SignalKind::quit()));
    let mut trying = None;
    let begins = |scenario| {
        tell::begins(scenario, output);
        trying = Some(tell::goes_on(scenario));
    };
    let report = tokio::select! {
        report = fencepost_testkit::prove::prove(&plan, &world, begins) => report,
        _ = interrupt.recv() => return Ok(Exit::Signal(2)),
        _ = terminate.recv() => return Ok(Exit::Signal(15)),
        _ = hangup.recv() => return Ok(Exit::Signal(1)),
        _ = quit.recv() => return Ok(Exit::Signal(3)),
    };
    drop(trying);
    world.close().await;
    tell::report(&report, &args.url, &plan, output)?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::Findings })
}

fn plan(args: &ProveArgs, service: &Service) -> Result<Plan, Failure> {
    let call = |option: &'static str, text: &str| text.parse::<Call>().map_err(|invalid| invalid.named(option));
    let path = |option: &'static str, text: &str| Target::new(text).map_err(|invalid| invalid.named(option));
    let write = match &args.write {
        Some(text) => call("write", text)?,
        None => Call::new("PUT", service.target.clone())?,
    };
    let read = args.read.as_ref().map_or_else(|| Ok(service.target.clone()), |text| path("read", text))?;
    let plan = Plan {
        domain: names::domain(&args.domain)?,
        write,
        body: args.body.clone(),
        read,
        pointer: args.read_pointer.clone(),
        advance: args.advance.as_ref().map(|text| call("advance", text)).transpose()?,
        also: args.also.iter().map(|text| call("also", text)).collect::<Result<_, _>>()?,
        rounds: args.rounds,
        pause: args.pause,
        absurd: args.absurd_token,
        hooks: Hooks {
            restart: args.restart_hook.is_some(),
            backup: args.backup_hook.is_some(),
            restore: args.restore_hook.is_some(),
        },
    };
    plan.check()?;
    Ok(plan)
}

/// Whether anybody is there at all: without that there is no report to make.
async fn answers(world: &RealWorld, plan: &Plan, url: &str) -> Result<(), Failure> {
    let target = plan.read.as_str().to_owned();
    let read = Request { method: "GET".to_owned(), target, headers: Vec::new(), body: Vec::new() };
    let Err(none) = world.send(&read).await else { return Ok(()) };
    let failure = Failure::new(Exit::Unreachable, format!("the service at {url} does not answer: {none}"));
    Err(match none {
        NoAnswer::NoConnection(_) => failure.then("start it, and run the same command again"),
        NoAnswer::Late(_) => failure.then("see what it waits for; --timeout 30s waits longer"),
        NoAnswer::Cut(_) | NoAnswer::NotHttp(_) => failure.then("name the port on which it speaks HTTP/1.1"),
    })
}
