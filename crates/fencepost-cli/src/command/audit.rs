use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;
use fencepost_receiver::Finding;
use fencepost_rusqlite::{AuditScope, audit};
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
    shell,
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

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &AuditArgs) -> Result<Resource, Failure> {
    match Resource::parse(&args.resource)? {
        Resource::File(file) if args.all_tables => {
            Err(Failure::new(Exit::Usage, format!("--all-tables: {} is a file and has none", file.typed))
                .then(format!("fencepost audit {}", file.typed)))
        }
        resource @ (Resource::Sqlite(_) | Resource::File(_)) => Ok(resource),
    }
}

pub(crate) fn run(args: AuditArgs, output: Output) -> Result<Exit, Failure> {
    let resource = understand(&args)?;
    let mut findings = match &resource {
        Resource::Sqlite(database) => in_database(database, args.all_tables)?,
        Resource::File(file) => at_file(file)?,
    };
    for finding in &mut findings {
        finding.fix = in_place(finding, resource.typed(), resource.path());
    }
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

/// The advice as it can be typed: the libraries do not know what was.
fn in_place(finding: &Finding, typed: &str, path: &Path) -> String {
    // Behind a command's own options, a name that begins like one would be taken for one.
    let plain = |path: PathBuf| {
        let is_odd = path.as_os_str().as_encoded_bytes().starts_with(b"-");
        let path = if is_odd { Path::new(".").join(path) } else { path };
        shell::word(&path.to_string_lossy())
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let in_place = |word: &str| match word {
        "file:PATH" | "sqlite:PATH" => typed.to_owned(),
        "PATH" => plain(path.to_owned()),
        "FOLDER" => plain(folder.to_owned()),
        "TABLE" => finding.subject.as_deref().map_or_else(|| word.to_owned(), shell::word),
        _ => word.to_owned(),
    };
    match finding.subject.as_deref().filter(|subject| subject.starts_with('-')) {
        // A table with such a name has to stand behind the options.
        Some(table) if finding.fix.contains(" TABLE") => {
            let fix = finding.fix.replace(" TABLE", "");
            let line = fix.split(' ').map(in_place).collect::<Vec<_>>().join(" ");
            shell::line(&line, &[table], "")
        }
        Some(_) | None => finding.fix.split(' ').map(in_place).collect::<Vec<_>>().join(" "),
    }
}

fn json(finding: &Finding) -> Value {
    let Finding { code, severity, subject, found, fix } = finding;
    json!({"code": code, "severity": severity.as_str(), "subject": subject, "found": found, "fix": fix})
}

fn row(finding: Finding) -> Vec<String> {
    vec![finding.severity.to_string(), format!("{}: {}", finding.code, finding.found), finding.fix]
}

#[cfg(test)]
mod tests {
    use fencepost_receiver::Severity;

    use super::*;

    fn advice(fix: &str, subject: Option<&str>, typed: &str, path: &str) -> String {
        let (code, severity, found) = ("code", Severity::Notice, String::new());
        let finding = Finding { code, severity, subject: subject.map(str::to_owned), found, fix: fix.to_owned() };
        in_place(&finding, &shell::word(typed), Path::new(path))
    }

    #[test]
    fn advice_names_what_was_typed_and_a_shell_gives_it_back() {
        let recover = "recover it: fencepost recover file:PATH";
        assert_eq!(advice(recover, None, "file:f", "f"), "recover it: fencepost recover file:f");
        assert_eq!(advice(recover, None, "file:a b", "a b"), "recover it: fencepost recover 'file:a b'");
        assert_eq!(advice("chmod go-w PATH", None, "file:/x/a b", "/x/a b"), "chmod go-w '/x/a b'");
        assert_eq!(advice("chmod go-w PATH", None, "file:-R", "-R"), "chmod go-w ./-R");
        assert_eq!(advice("chmod o-w FOLDER", None, "file:f", "f"), "chmod o-w .");
        assert_eq!(advice("chmod o-w FOLDER", None, "file:/x y/f", "/x y/f"), "chmod o-w '/x y'");
        let guard = "fencepost guard sqlite:PATH TABLE --domain EXPR";
        let typed = |subject| advice(guard, subject, "sqlite:x.db", "x.db");
        assert_eq!(typed(Some("order items")), "fencepost guard sqlite:x.db 'order items' --domain EXPR");
        assert_eq!(typed(Some("-t")), "fencepost guard sqlite:x.db --domain EXPR -- '-t'");
        assert_eq!(typed(None), "fencepost guard sqlite:x.db TABLE --domain EXPR");
    }
}
