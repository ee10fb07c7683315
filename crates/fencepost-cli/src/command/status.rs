use std::ffi::OsString;

use clap::Args;
use fencepost_core::{Token, fence::Condition};
use fencepost_receiver::file::Content;
use fencepost_rusqlite::{Fence, Observation, Status, fences, observations, status};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
};

/// Most rows of a list.
const ROWS: u32 = 1_000;

/// Show what a receiver knows: issuer, epoch, floors, fences, guards
#[derive(Args, Debug)]
#[command(after_long_help = "\
A receiver that accepts nothing says why and exits 81. It changes nothing.")]
pub(crate) struct StatusArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// List the fences of a database, at most 1000
    #[arg(long)]
    fences: bool,
    /// List what guards of a database in observe mode have noted, newest first, at most 1000
    #[arg(long)]
    observations: bool,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &StatusArgs) -> Result<Resource, Failure> {
    match Resource::parse(&args.resource)? {
        Resource::File(file) if args.fences || args.observations => {
            let what = format!("{} is a file: it has one fence, and nothing can be observed", file.typed);
            Err(Failure::new(Exit::Usage, what).then(format!("fencepost status {}", file.typed)))
        }
        resource @ (Resource::Sqlite(_) | Resource::File(_)) => Ok(resource),
    }
}

pub(crate) fn run(args: StatusArgs, output: Output) -> Result<Exit, Failure> {
    match understand(&args)? {
        Resource::Sqlite(database) => of_database(&database, &args, output),
        Resource::File(file) => of_file(&file, output),
    }
}

fn of_file(resource: &FileResource, output: Output) -> Result<Exit, Failure> {
    let _reading = resource.doing("looking at");
    let status = resource.receiver.status().map_err(|error| resource.failed(error))?;
    let (is_open, why) = match status.condition {
        Condition::Open => (true, None),
        Condition::Closed(why) => (false, Some(why)),
    };
    if output.json {
        output.json(&json!({
            "condition": if is_open { "open" } else { "closed" },
            "why": why,
            "issuer": status.issuer,
            "domain": status.domain,
            "known_epoch": status.known_epoch,
            "floor": status.floor,
            "unfenced_floor": status.unfenced_floor,
            "fence": status.fence,
            "horizon": status.horizon,
            "operations": status.operations,
            "pending": status.pending,
            "content": status.content,
            "counter": status.incarnation.counter.to_string(),
            "recovery": status.incarnation.recovery,
        }))?;
    } else {
        let token = |token: Option<Token>| token.map_or_else(|| "none".to_owned(), |token| token.to_string());
        let content = |content: Content| format!("{} bytes, {content}", content.bytes);
        output.facts(
            0,
            &[
                ("condition", why.map_or_else(|| "open".to_owned(), |why| format!("closed: {why}"))),
                ("issuer", status.issuer.to_string()),
                ("domain", status.domain.to_string()),
                ("known epoch", status.known_epoch.to_string()),
                ("floor", token(status.floor)),
                ("unfenced floor", token(status.unfenced_floor)),
                ("fence", token(status.fence)),
                ("horizon", token(status.horizon)),
                ("operations", status.operations.to_string()),
                ("under way", if status.pending { "a write" } else { "nothing" }.to_owned()),
                ("accepted", status.content.map_or_else(|| "no content yet".to_owned(), content)),
            ],
        )?;
    }
    why.map_or(Ok(Exit::Done), |why| Err(resource.closed(why)))
}

fn of_database(resource: &SqliteResource, args: &StatusArgs, output: Output) -> Result<Exit, Failure> {
    let _reading = resource.doing("looking at");
    let connection = resource.connect()?;
    let read = || -> Result<_, fencepost_rusqlite::MaintenanceError> {
        Ok((status(&connection)?, listed_fences(args, &connection)?, listed_observations(args, &connection)?))
    };
    let (status, fences, observations) = read().map_err(|error| resource.failed(error))?;
    if output.json {
        output.json(&json(&status, fences.as_deref(), observations.as_deref()))?;
    } else {
        tell(&status, output)?;
        if let Some(fences) = fences {
            let row = |fence: &Fence| vec![fence.domain.to_string(), fence.token.to_string(), fence.token.to_decimal()];
            listed(output, "fences", &["DOMAIN", "FENCE", "DECIMAL"], fences.iter().map(row).collect())?;
        }
        if let Some(observations) = observations {
            let row = |seen: &Observation| {
                vec![seen.at.clone(), seen.table.clone(), seen.action.clone(), seen.domain.clone().unwrap_or_default()]
            };
            listed(
                output,
                "observations",
                &["WHEN", "TABLE", "ACTION", "DOMAIN"],
                observations.iter().map(row).collect(),
            )?;
        }
    }
    match status.condition {
        Condition::Open => Ok(Exit::Done),
        Condition::Closed(why) => Err(resource.closed(why)),
    }
}

/// A list apart from what stands before it; where it is empty, the word instead of bare headings.
fn listed(output: Output, what: &str, headings: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    output.line("")?;
    if rows.is_empty() { output.line(&format!("no {what}")) } else { output.table(headings, rows) }
}

fn listed_fences(
    args: &StatusArgs,
    connection: &Connection,
) -> Result<Option<Vec<Fence>>, fencepost_rusqlite::MaintenanceError> {
    args.fences.then(|| fences(connection, None, ROWS)).transpose()
}

fn listed_observations(
    args: &StatusArgs,
    connection: &Connection,
) -> Result<Option<Vec<Observation>>, fencepost_rusqlite::MaintenanceError> {
    args.observations.then(|| observations(connection, ROWS)).transpose()
}

fn condition(status: &Status) -> String {
    match status.condition {
        Condition::Open => "open".to_owned(),
        Condition::Closed(why) => format!("closed: {why}"),
    }
}

fn tell(status: &Status, output: Output) -> Result<(), Failure> {
    let token = |token: Option<Token>| token.map_or_else(|| "none".to_owned(), |token| token.to_string());
    let facts = [
        ("condition", condition(status)),
        ("issuer", status.issuer.to_string()),
        ("known epoch", status.known_epoch.to_string()),
        ("floor", token(status.floor)),
        ("unfenced floor", token(status.unfenced_floor)),
        ("horizon", token(status.horizon)),
        ("fences", status.fences.to_string()),
        ("operations", status.operations.to_string()),
        ("counter", status.incarnation.counter.to_string()),
        ("SQLite", status.sqlite_version.to_owned()),
    ];
    output.facts(0, &facts)?;
    let mode = |table: &fencepost_rusqlite::GuardedTable| table.mode.map_or("MISSING", |mode| mode.as_str()).to_owned();
    let rows = status.guarded.iter();
    let rows =
        rows.map(|table| vec![table.name.clone(), mode(table), table.domain.to_string(), table.observed.to_string()]);
    listed(output, "guarded tables", &["TABLE", "GUARD", "DOMAIN", "NOTED"], rows.collect())
}

fn json(status: &Status, fences: Option<&[Fence]>, observations: Option<&[Observation]>) -> Value {
    let closed = match status.condition {
        Condition::Open => None,
        Condition::Closed(why) => Some(why),
    };
    let guarded: Vec<Value> = status
        .guarded
        .iter()
        .map(|table| {
            let mode = table.mode.map(|mode| mode.as_str());
            json!({"table": table.name, "domain": table.domain.as_str(), "mode": mode, "observed": table.observed})
        })
        .collect();
    let mut value = json!({
        "condition": if closed.is_none() { "open" } else { "closed" },
        "why": closed,
        "issuer": status.issuer,
        "known_epoch": status.known_epoch,
        "floor": status.floor,
        "unfenced_floor": status.unfenced_floor,
        "horizon": status.horizon,
        "fences": status.fences,
        "operations": status.operations,
        "counter": status.incarnation.counter.to_string(),
        "recovery": status.incarnation.recovery,
        "guarded": guarded,
        "sqlite_version": status.sqlite_version,
    });
    if let Some(fences) = fences {
        let row = |fence: &Fence| json!({"domain": fence.domain, "token": fence.token});
        value["fence_items"] = fences.iter().map(row).collect();
    }
    if let Some(observations) = observations {
        let row = |seen: &Observation| json!({"table": seen.table, "action": seen.action, "domain": seen.domain, "at": seen.at});
        value["observation_items"] = observations.iter().map(row).collect();
    }
    value
}
