use std::ffi::OsString;

use clap::Args;
use fencepost_receiver::Finding;
use fencepost_rusqlite::{AuditScope, audit};
use serde_json::{Value, json};

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
        let items: Vec<_> = findings.iter().map(json).collect();
        output.json(&json!({"items": items, "next_cursor": null}))?;
    } else if is_clean {
        output.line("no way around the guards was found")?;
    } else {
        output.table(&["SEVERITY", "FINDING", "WHAT TO DO"], findings.into_iter().map(row).collect())?;
    }
    Ok(if is_clean { Exit::Done } else { Exit::Findings })
}

fn in_database(database: &SqliteResource, unguarded_tables: bool) -> Result<Vec<Finding>, Failure> {
    let _auditing = database.doing("auditing");
    let connection = database.connect()?;
    let audit = audit(&connection, AuditScope { unguarded_tables }).map_err(|error| database.failed(error))?;
    Ok(audit.findings)
}

fn at_file(file: &FileResource) -> Result<Vec<Finding>, Failure> {
    let _auditing = file.doing("auditing");
    Ok(file.receiver.audit().map_err(|error| file.failed(error))?.findings)
}

fn json(finding: &Finding) -> Value {
    let Finding { code, severity, subject, found, fix } = finding;
    json!({"code": code, "severity": severity.as_str(), "subject": subject, "found": found, "fix": fix})
}

fn row(finding: Finding) -> Vec<String> {
    vec![finding.severity.to_string(), format!("{}: {}", finding.code, finding.found), finding.fix]
}
