use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
};

/// Remove the guard of a table or a file
#[derive(Args, Debug)]
#[command(after_long_help = "\
From then on any client can change the table. The database keeps every fence and operation record, so guarding it again \
lets no old token back in. A file without its guard takes no `fencepost write` until it is guarded again.")]
pub(crate) struct UnguardArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// The table, of a database
    table: Option<String>,
}

/// What loses its guard.
pub(crate) enum Guarded {
    Table(SqliteResource, String),
    File(FileResource),
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: UnguardArgs) -> Result<Guarded, Failure> {
    match (Resource::parse(&args.resource)?, args.table) {
        (Resource::Sqlite(database), Some(table)) => Ok(Guarded::Table(database, table)),
        (Resource::File(file), None) => Ok(Guarded::File(file)),
        (Resource::Sqlite(database), None) => {
            Err(Failure::new(Exit::Usage, format!("{} has tables: which one?", database.typed))
                .then(format!("fencepost unguard {} TABLE", database.typed)))
        }
        (Resource::File(file), Some(_)) => {
            Err(Failure::new(Exit::Usage, format!("{} is a file and has no tables", file.typed))
                .then(format!("fencepost unguard {}", file.typed)))
        }
    }
}

pub(crate) fn run(args: UnguardArgs, output: Output) -> Result<Exit, Failure> {
    match understand(args)? {
        Guarded::Table(database, table) => {
            let _doing = database.doing("taking the guards out of");
            let mut connection = database.connect()?;
            fencepost_rusqlite::unguard(&mut connection, &table).map_err(|error| database.failed(error))?;
            if output.json {
                output.json(&json!({"table": table, "mode": null}))?;
            } else {
                output.line(&format!("{table} has no guard any more: any client can change it"))?;
            }
            Ok(Exit::Done)
        }
        Guarded::File(file) => {
            let _doing = file.doing("taking the guard off");
            file.receiver.unguard().map_err(|error| file.failed(error))?;
            if output.json {
                output.json(&json!({"mode": null}))?;
            } else {
                output.line(&format!("{} has no guard any more: every fenced write is refused", file.typed))?;
            }
            Ok(Exit::Done)
        }
    }
}
