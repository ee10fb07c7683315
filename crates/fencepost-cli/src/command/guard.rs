use std::ffi::OsString;

use clap::Args;
use fencepost_coordinator::Coordinator;
use fencepost_core::{Epoch, Issuer, Token, lease::LiveSnapshot};
use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{DomainExpression, Guarded, Mode, guard, status};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    coordinator::{Call, UrlArgs, failed},
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::SqliteResource,
    shell,
};

/// Refuse every write to a table that comes without the row's token
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost guard sqlite:shop.db invoice --domain \"'invoices/' || month\"
  fencepost guard sqlite:shop.db job --domain \"'jobs'\"        # the whole table is one domain
  fencepost guard sqlite:shop.db invoice --domain \"'invoices/' || month\" --observe

From then on INSERT, UPDATE, DELETE, REPLACE and upserts of any client are refused unless their transaction has entered \
the row's domain with a token that is not stale. With --observe they are counted and noted instead: for the first days. \
Running it again changes mode or expression, and takes in new columns and indexes.

The first guard of a database asks the coordinator who it is, what is live and which token comes next. Where it cannot \
be reached, an operator vouches for that by hand: --issuer NAME --epoch N --floor TOKEN.")]
pub(crate) struct GuardArgs {
    /// The database, as sqlite:PATH
    resource: OsString,
    /// The table
    table: String,
    /// The SQL expression that computes a row's domain from its columns
    #[arg(long, value_name = "EXPR")]
    domain: String,
    /// Count and note what would be refused, and refuse nothing
    #[arg(long)]
    observe: bool,
    /// By hand: the coordinator whose grants are accepted
    #[arg(long, value_name = "NAME", requires = "epoch")]
    issuer: Option<String>,
    /// By hand: the greatest epoch that is accepted
    #[arg(long, value_name = "N", requires = "issuer")]
    epoch: Option<u32>,
    /// By hand: the least token that is accepted
    #[arg(long, value_name = "TOKEN", requires = "issuer")]
    floor: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) async fn run(args: GuardArgs, url_was_typed: bool, output: Output) -> Result<Exit, Failure> {
    let resource = SqliteResource::parse(&args.resource)?;
    let expression = DomainExpression::new(&args.domain)?;
    let mode = if args.observe { Mode::Observe } else { Mode::Enforce };
    let by_hand = by_hand(&args)?;
    let mut connection = resource.connect()?;
    let seed = match by_hand {
        Some(seed) => Some(seed),
        None if !url_was_typed && is_receiver(&connection) => None,
        None => Some(from_coordinator(&args).await?),
    };
    let guarded = guard(&mut connection, &args.table, &expression, mode, seed.as_ref());
    let guarded = guarded.map_err(|error| resource.failed(error))?;
    tell(&guarded, &resource, &expression, output)?;
    Ok(Exit::Done)
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

async fn from_coordinator(args: &GuardArgs) -> Result<ReceiverSeed, Failure> {
    let snapshot = snapshot(&args.url).await.map_err(|failure| {
        failure.then("where it cannot be reached, by hand: --issuer NAME --epoch N --floor TOKEN")
    })?;
    let next = next_token(&snapshot)?;
    Ok(ReceiverSeed::new(snapshot.issuer, snapshot.epoch).with_snapshot(next, snapshot.leases))
}

/// Next token and live leases, in one consistent read.
pub(crate) async fn snapshot(url: &UrlArgs) -> Result<LiveSnapshot, Failure> {
    let snapshot = url.connect()?.snapshot(String::new()).await;
    snapshot.map_err(|error| failed(Call::Read, &url.url, error))
}

pub(crate) fn next_token(snapshot: &LiveSnapshot) -> Result<Token, Failure> {
    snapshot.next_token.ok_or_else(|| {
        Failure::new(Exit::Configuration, "the coordinator has issued every token of its epoch")
            .then("recover it into a new epoch")
    })
}

fn tell(
    guarded: &Guarded,
    resource: &SqliteResource,
    expression: &DomainExpression,
    output: Output,
) -> Result<(), Failure> {
    let refused: Vec<_> =
        guarded.refused.iter().map(|lease| json!({"domain": lease.domain, "token": lease.token})).collect();
    let mode = guarded.mode.as_str();
    if output.json {
        return output.json(&json!({
            "table": guarded.table,
            "domain": expression.as_str(),
            "mode": mode,
            "receiver_created": guarded.receiver_created,
            "refused": refused,
        }));
    }
    let what = match guarded.mode {
        Mode::Enforce => "writes without the row's token are refused",
        Mode::Observe => "writes without the row's token are noted, and go through",
    };
    output.line(&format!("guarded {} ({mode}): {what}", guarded.table))?;
    for lease in &guarded.refused {
        output.line(&format!(
            "  {} with token {} is not accepted here: its holder has to acquire anew",
            lease.domain, lease.token
        ))?;
    }
    output.line(&format!("next: fencepost audit {}", resource.typed))?;
    if guarded.mode == Mode::Observe {
        let (table, domain) = (shell::word(&guarded.table), shell::word(expression.as_str()));
        output.line(&format!(
            "once nothing is noted any more: fencepost guard {} {table} --domain {domain}",
            resource.typed
        ))?;
    }
    Ok(())
}
