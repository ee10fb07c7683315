use std::ffi::OsString;

use clap::Args;
use fencepost_receiver::file;
use fencepost_rusqlite::{AuditScope, audit};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
};

/// List every way around the guards, and what went around a file's
#[derive(Args, Debug)]
#[command(after_long_help = "\
Exits 0 when nothing was found and 1 with findings, each with what to do about it; a guard that only observes is one. \
It changes nothing. A file that holds something else than its last accepted write is `changed_outside`. What it cannot \
see, in a database: another connection's settings, edits of the file, and guards that were removed \
together with their entry.")]
pub(crate) struct AuditArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// List tables without a guard too, of a database
    #[arg(long)]
    all_tables: bool,
}

/// What an audit of either kind has found.
struct Found {
    code: &'static str,
    severity: &'static str,
    subject: Option<String>,
    found: String,
    fix: String,
}

pub(crate) fn run(args: AuditArgs, output: Output) -> Result<Exit, Failure> {
    let findings = match Resource::parse(&args.resource)? {
        Resource::Sqlite(database) => in_database(&database, args.all_tables)?,
        Resource::File(file) if args.all_tables => {
            return Err(Failure::new(Exit::Usage, format!("--all-tables: {} is a file and has none", file.typed))
                .then(format!("fencepost audit {}", file.typed)));
        }
        Resource::File(file) => at_file(&file)?,
    };
    let is_clean = findings.is_empty();
    if output.json {
        let items: Vec<_> = findings.iter().map(Found::json).collect();
        output.json(&json!({"items": items, "next_cursor": null}))?;
    } else if is_clean {
        output.line("no way around the guards was found")?;
    } else {
        output.table(&["SEVERITY", "FINDING", "WHAT TO DO"], findings.into_iter().map(Found::row).collect())?;
    }
    Ok(if is_clean { Exit::Done } else { Exit::Findings })
}

fn in_database(database: &SqliteResource, unguarded_tables: bool) -> Result<Vec<Found>, Failure> {
    let connection = database.connect()?;
    let audit = audit(&connection, AuditScope { unguarded_tables }).map_err(|error| database.failed(error))?;
    Ok(audit
        .findings
        .into_iter()
        .map(|fencepost_rusqlite::Finding { code, severity, subject, found, fix }| Found {
            code,
            severity: severity.as_str(),
            subject,
            found,
            fix,
        })
        .collect())
}

fn at_file(file: &FileResource) -> Result<Vec<Found>, Failure> {
    let audit = file.receiver.audit().map_err(|error| file.failed(error))?;
    Ok(audit
        .findings
        .into_iter()
        .map(|file::Finding { code, severity, subject, found, fix }| Found {
            code,
            severity: severity.as_str(),
            subject,
            found,
            fix,
        })
        .collect())
}

impl Found {
    fn json(&self) -> serde_json::Value {
        json!({
            "code": self.code,
            "severity": self.severity,
            "subject": self.subject,
            "found": self.found,
            "fix": self.fix,
        })
    }

    fn row(self) -> Vec<String> {
        vec![self.severity.to_owned(), format!("{}: {}", self.code, self.found), self.fix]
    }
}
