use std::ffi::OsString;

use clap::Args;
use fencepost_coordinator::Coordinator;
use fencepost_core::{Domain, Epoch, Issuer, Token, fence::LiveLease, lease::LiveSnapshot};
use fencepost_receiver::{ReceiverSeed, file::MaintenanceError};
use fencepost_rusqlite::{DomainExpression, Guarded, Mode, guard, status};
use fencepost_wire::ErrorCode;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    coordinator::{Call, UrlArgs, asking, failed},
    exit::Exit,
    failure::Failure,
    names,
    output::Output,
    progress,
    resource::{FileResource, Resource, SqliteResource},
    shell,
};

/// Refuse writes without the token: to a table, or through fencepost to a file
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost guard sqlite:shop.db invoice --domain \"'invoices/' || month\"
  fencepost guard sqlite:shop.db job --domain \"'jobs'\"        # the whole table is one domain
  fencepost guard sqlite:shop.db invoice --domain \"'invoices/' || month\" --observe
  fencepost guard file:report.csv --domain report              # a file has one domain, by its name

From then on INSERT, UPDATE, DELETE, REPLACE and upserts of any client are refused unless their transaction has entered \
the row's domain with a token that is not stale. With --observe they are counted and noted instead: for the first days. \
Running it again changes mode or expression, and takes in new columns and indexes.

A guarded file is changed by `fencepost write`, which keeps .NAME.fence, .NAME.fence-spare and .NAME.lock beside it: they \
belong to it and stay. No file can refuse other programs; `fencepost audit file:PATH` tells afterwards that one has written.

The first guard of a database or file asks the coordinator who it is, what is live and which token comes next. Where it cannot \
be reached, an operator vouches for that by hand: --issuer NAME --epoch N --floor TOKEN.")]
pub(crate) struct GuardArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// The table, of a database
    table: Option<String>,
    /// The SQL expression that computes a row's domain from its columns; of a file, the domain
    #[arg(long, value_name = "EXPR")]
    domain: String,
    /// Count and note what would be refused, and refuse nothing
    #[arg(long)]
    observe: bool,
    /// By hand: the coordinator whose grants are accepted
    #[arg(long, value_name = "NAME", requires = "epoch")]
    issuer: Option<String>,
    /// By hand: the greatest epoch that is accepted
    #[arg(long, value_name = "N", requires = "issuer", value_parser = names::epoch, allow_hyphen_values = true)]
    epoch: Option<u32>,
    /// By hand: the least token that is accepted
    #[arg(long, value_name = "TOKEN", requires = "issuer", allow_hyphen_values = true)]
    floor: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) async fn run(args: GuardArgs, url_was_typed: bool, output: Output) -> Result<Exit, Failure> {
    let (asked, seed) = understand(&args)?;
    match asked {
        Asked::Table(table) => guard_table(table, seed, &args, url_was_typed, output).await,
        Asked::File(file, domain) => guard_file(&file, &domain, seed, &args, url_was_typed, output).await,
    }
}

/// What is to be guarded.
pub(crate) enum Asked {
    Table(Table),
    File(FileResource, Domain),
}

/// A table, and how it is to be guarded.
pub(crate) struct Table {
    database: SqliteResource,
    name: String,
    expression: DomainExpression,
    mode: Mode,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &GuardArgs) -> Result<(Asked, Option<ReceiverSeed>), Failure> {
    let asked = match Resource::parse(&args.resource)? {
        Resource::Sqlite(database) => {
            let Some(name) = args.table.clone() else {
                return Err(Failure::new(Exit::Usage, format!("{} has tables: which one?", database.typed))
                    .then(format!("fencepost guard {} TABLE --domain EXPR", database.typed)));
            };
            let expression = DomainExpression::new(&args.domain)?;
            let mode = if args.observe { Mode::Observe } else { Mode::Enforce };
            Asked::Table(Table { database, name, expression, mode })
        }
        Resource::File(file) => {
            let again = format!("fencepost guard {} --domain NAME", file.typed);
            if args.table.is_some() {
                return Err(
                    Failure::new(Exit::Usage, format!("{} is a file and has no tables", file.typed)).then(again)
                );
            }
            if args.observe {
                let what = "--observe: nothing can stand between a file and the programs that write it";
                return Err(Failure::new(Exit::Usage, what)
                    .then(format!("{again}; fencepost audit {} tells afterwards", file.typed)));
            }
            let domain = Domain::new(&args.domain)?;
            Asked::File(file, domain)
        }
    };
    Ok((asked, by_hand(args)?))
}

async fn guard_table(
    table: Table,
    by_hand: Option<ReceiverSeed>,
    args: &GuardArgs,
    url_was_typed: bool,
    output: Output,
) -> Result<Exit, Failure> {
    let Table { database: resource, name, expression, mode } = table;
    let _guarding = progress::doing(format!("guarding {name} in {}", resource.typed));
    let mut connection = resource.connect()?;
    let seed = match by_hand {
        Some(seed) => Some(seed),
        None if !url_was_typed && is_receiver(&connection) => where_it_answers(args).await?,
        None => Some(from_coordinator(args).await?),
    };
    let guarded = guard(&mut connection, &name, &expression, mode, seed.as_ref());
    let guarded = guarded.map_err(|error| resource.failed(error))?;
    tell(&guarded, &resource, &expression, output)?;
    Ok(Exit::Done)
}

async fn guard_file(
    resource: &FileResource,
    domain: &Domain,
    by_hand: Option<ReceiverSeed>,
    args: &GuardArgs,
    url_was_typed: bool,
    output: Output,
) -> Result<Exit, Failure> {
    let typed = &resource.typed;
    let seed = match by_hand {
        Some(seed) => Some(seed),
        // A receiver keeps what it knows.
        None if !url_was_typed && !is_first_guard(resource)? => where_it_answers(args).await?,
        None => Some(from_coordinator(args).await?),
    };
    let _guarding = resource.doing("guarding");
    let guarded = resource.receiver.guard(domain, seed.as_ref()).map_err(|error| resource.failed(error))?;
    if output.json {
        output.json(&json!({
            "domain": guarded.domain,
            "receiver_created": guarded.receiver_created,
            "refused": refused_json(&guarded.refused),
        }))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("guarded {typed} for domain {}: `fencepost write` refuses older tokens", guarded.domain))?;
    tell_refused(&guarded.refused, output)?;
    let line = shell::line("fencepost run", &[guarded.domain.as_str()], &format!(" --advance {typed}"));
    output.line(&format!("next: {line} -- COMMAND"))?;
    Ok(Exit::Done)
}

/// Asked before the coordinator is, so that a folder that is not there is not hidden by one that does not answer.
fn is_first_guard(resource: &FileResource) -> Result<bool, Failure> {
    match resource.receiver.status() {
        Ok(_) => Ok(false),
        // Guarded before and unguarded since, or never: only the receiver can tell, and it takes a seed in both cases.
        Err(MaintenanceError::Closed(_)) => Ok(true),
        Err(error) => Err(resource.failed(error)),
    }
}

fn by_hand(args: &GuardArgs) -> Result<Option<ReceiverSeed>, Failure> {
    let (Some(issuer), Some(epoch)) = (&args.issuer, args.epoch) else { return Ok(None) };
    let seed = ReceiverSeed::new(Issuer::new(issuer)?, Epoch::new(epoch)?);
    Ok(Some(match &args.floor {
        None => seed,
        Some(floor) => seed.with_floor(floor.parse::<Token>().map_err(|invalid| invalid.named("floor"))?),
    }))
}

/// A receiver keeps what it knows, so a change of mode or expression needs no coordinator.
fn is_receiver(connection: &Connection) -> bool {
    status(connection).is_ok()
}

/// Asked all the same, so that the guard is not believed to be another coordinator's.
async fn where_it_answers(args: &GuardArgs) -> Result<Option<ReceiverSeed>, Failure> {
    snapshot(&args.url).await.ok().map(seed_of).transpose()
}

async fn from_coordinator(args: &GuardArgs) -> Result<ReceiverSeed, Failure> {
    let snapshot = snapshot(&args.url).await.map_err(|failure| {
        failure.then("where it cannot be reached, by hand: --issuer NAME --epoch N --floor TOKEN")
    })?;
    seed_of(snapshot)
}

/// What a receiver learns from it.
pub(crate) fn seed_of(snapshot: LiveSnapshot) -> Result<ReceiverSeed, Failure> {
    let next = next_token(&snapshot)?;
    Ok(ReceiverSeed::new(snapshot.issuer, snapshot.epoch).with_snapshot(next, snapshot.leases))
}

/// Next token and live leases, in one consistent read.
pub(crate) async fn snapshot(url: &UrlArgs) -> Result<LiveSnapshot, Failure> {
    let coordinator = url.connect()?;
    let _asking = asking(&url.url);
    let snapshot = coordinator.snapshot(String::new()).await;
    snapshot.map_err(|error| failed(Call::Read, &url.url, error))
}

pub(crate) fn next_token(snapshot: &LiveSnapshot) -> Result<Token, Failure> {
    snapshot.next_token.ok_or_else(|| {
        Failure::new(Exit::Configuration, "the coordinator has issued every token of its epoch")
            .then(ErrorCode::TokenSpaceExhausted.fix())
    })
}

/// Live leases that a receiver does not accept, for programs.
pub(crate) fn refused_json(refused: &[LiveLease]) -> Value {
    refused.iter().map(|lease| json!({"domain": lease.domain, "token": lease.token})).collect()
}

/// The same for people.
pub(crate) fn tell_refused(refused: &[LiveLease], output: Output) -> Result<(), Failure> {
    refused.iter().try_for_each(|lease| {
        output.line(&format!(
            "  {} with token {} is not accepted here: its holder has to acquire anew",
            lease.domain, lease.token
        ))
    })
}

fn tell(
    guarded: &Guarded,
    resource: &SqliteResource,
    expression: &DomainExpression,
    output: Output,
) -> Result<(), Failure> {
    let mode = guarded.mode.as_str();
    if output.json {
        return output.json(&json!({
            "table": guarded.table,
            "domain": expression.as_str(),
            "mode": mode,
            "receiver_created": guarded.receiver_created,
            "refused": refused_json(&guarded.refused),
        }));
    }
    let what = match guarded.mode {
        Mode::Enforce => "writes without the row's token are refused",
        Mode::Observe => "writes without the row's token are noted, and go through",
    };
    output.line(&format!("guarded {} ({mode}): {what}", guarded.table))?;
    tell_refused(&guarded.refused, output)?;
    output.line(&format!("next: fencepost audit {}", resource.typed))?;
    if guarded.mode == Mode::Observe {
        let domain = shell::option("--domain", expression.as_str());
        let line = shell::line(&format!("fencepost guard {}", resource.typed), &[&guarded.table], &domain);
        output.line(&format!("once nothing is noted any more: {line}"))?;
    }
    Ok(())
}
