use std::ffi::OsString;

use clap::Args;
use fencepost_rusqlite::unguard;
use serde_json::json;

use crate::{exit::Exit, failure::Failure, output::Output, resource::SqliteResource};

/// Remove the guard of a table
#[derive(Args, Debug)]
#[command(after_long_help = "\
From then on any client can change the table. The database keeps every fence and operation record, so guarding it again \
lets no old token back in.")]
pub(crate) struct UnguardArgs {
    /// The database, as sqlite:PATH
    resource: OsString,
    /// The table
    table: String,
}

pub(crate) fn run(args: UnguardArgs, output: Output) -> Result<Exit, Failure> {
    let resource = SqliteResource::parse(&args.resource)?;
    let mut connection = resource.connect()?;
    unguard(&mut connection, &args.table).map_err(|error| resource.failed(error))?;
    if output.json {
        output.json(&json!({"table": args.table, "mode": null}))?;
    } else {
        output.line(&format!("{} has no guard any more: any client can change it", args.table))?;
    }
    Ok(Exit::Done)
}
