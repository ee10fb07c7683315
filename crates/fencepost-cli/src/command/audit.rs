use std::ffi::OsString;

use clap::Args;
use fencepost_rusqlite::{AuditScope, Finding, audit};
use serde_json::{Value, json};

use crate::{exit::Exit, failure::Failure, output::Output, resource::SqliteResource};

/// List every way around the guards
#[derive(Args, Debug)]
#[command(after_long_help = "\
Exits 0 when nothing was found and 1 with findings, each with what to do about it; a guard that only observes is one. \
It changes nothing. What it cannot see: another connection's settings, edits of the file, and guards that were removed \
together with their entry.")]
pub(crate) struct AuditArgs {
    /// The database, as sqlite:PATH
    resource: OsString,
    /// List tables without a guard too
    #[arg(long)]
    all_tables: bool,
}

pub(crate) fn run(args: AuditArgs, output: Output) -> Result<Exit, Failure> {
    let resource = SqliteResource::parse(&args.resource)?;
    let connection = resource.connect()?;
    let scope = AuditScope { unguarded_tables: args.all_tables };
    let audit = audit(&connection, scope).map_err(|error| resource.failed(error))?;
    if output.json {
        let items: Vec<Value> = audit.findings.iter().map(item).collect();
        output.json(&json!({"items": items, "next_cursor": null}))?;
    } else if audit.is_clean() {
        output.line("no way around the guards was found")?;
    } else {
        output.table(&["SEVERITY", "FINDING", "WHAT TO DO"], audit.findings.iter().map(row).collect())?;
    }
    Ok(if audit.is_clean() { Exit::Done } else { Exit::Findings })
}

fn item(finding: &Finding) -> Value {
    json!({
        "code": finding.code,
        "severity": finding.severity.as_str(),
        "subject": finding.subject,
        "found": finding.found,
        "fix": finding.fix,
    })
}

fn row(finding: &Finding) -> Vec<String> {
    vec![finding.severity.to_string(), format!("{}: {}", finding.code, finding.found), finding.fix.clone()]
}
