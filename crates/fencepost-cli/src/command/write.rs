use std::{
    ffi::OsString,
    io::{self, IsTerminal},
};

use clap::Args;
use fencepost_core::{Grant, OperationId, Token, fence::Verdict};
use fencepost_receiver::{
    WriteError,
    file::{Content, FileReceiver, Staged},
};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
    output::Output,
    progress,
    resource::{FileResource, Resource},
    verdict,
};

/// Replace a guarded file by standard input, unless the token is stale
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  fencepost run report --advance file:report.csv -- sh -c './make-report | fencepost write file:report.csv'
  ./make-report | fencepost write file:report.csv --operation report-2026-10

The grant is that of `run` or of `acquire --export` (FENCEPOST_GRANT), or --grant. The file is replaced as a whole once all \
input has come, or not at all; readers see the old content or the new one. Empty input is refused without --allow-empty: \
most often the command before the pipe has failed. (`set -o pipefail` helps only after the fact.)

With --operation a retry, by this owner or the next, is answered `replayed` and changes nothing; the same id with other \
content is refused. Give --born too, the token under which the id was made, and that holds for ever; without it, while \
the record is kept (the last 100).

Exits 0 applied or replayed; 73 when the file cannot be written, e.g. its folder is missing; 81 rejected, nothing changed; \
82 not known. With --json: {\"verdict\":\"applied\",\"result\":{\"bytes\":…,\"sha256\":…}} and the like.")]
pub(crate) struct WriteArgs {
    /// The file, as file:PATH
    resource: OsString,
    /// What the write is, the same on every retry
    #[arg(long, value_name = "ID")]
    operation: Option<String>,
    /// The token under which the operation was first named
    #[arg(long, value_name = "TOKEN", requires = "operation", allow_hyphen_values = true)]
    born: Option<String>,
    /// Take no input at all for what was meant
    #[arg(long)]
    allow_empty: bool,
    /// The grant as one line of JSON [default: FENCEPOST_GRANT]
    #[arg(long, value_name = "JSON")]
    grant: Option<String>,
}

/// What is written to, which operation, when that was named, and under which grant.
type Asked = (FileResource, Option<OperationId>, Option<Token>, Option<Grant>);

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: WriteArgs) -> Result<Asked, Failure> {
    let file = match Resource::parse(&args.resource)? {
        Resource::File(file) => file,
        Resource::Sqlite(database) => {
            return Err(Failure::new(Exit::Usage, format!("{} is written by SQL, not by a pipe", database.typed))
                .then("write within a fenced transaction: docs/receivers/sqlite.md"));
        }
    };
    let operation = args.operation.as_deref().map(OperationId::new).transpose()?;
    let born = args.born.as_deref().map(str::parse::<Token>).transpose().map_err(|invalid| invalid.named("born"))?;
    Ok((file, operation, born, verdict::grant(args.grant)?))
}

pub(crate) fn run(args: WriteArgs, output: Output) -> Result<Exit, Failure> {
    let allow_empty = args.allow_empty;
    let (file, operation, born, grant) = understand(args)?;
    let resource = Resource::File(file.clone());
    let grant = verdict::presented(&resource, grant, output)?;
    let receiver = file.receiver.clone().allowing_empty(allow_empty);
    let staged = staged(&file, &receiver)?;
    let _writing = file.doing("writing");
    let operation = operation.map(|id| staged.operation(id));
    let operation = operation.map(|operation| born.map_or(operation.clone(), |born| operation.born(born)));
    let verdict = receiver.write_staged(&grant, operation.as_ref(), staged).map_err(|error| failed(&file, error))?;
    let (word, content) = match &verdict {
        Verdict::Applied(content) => ("applied", content),
        Verdict::Replayed(content) => ("replayed, it had happened before", content),
        Verdict::Rejected(rejection) => {
            let operation = operation.as_ref().map(|operation| &operation.id);
            return verdict::rejected(&resource, &grant, operation, rejection, output);
        }
    };
    if output.json {
        output.json(&verdict::json(&verdict.map(|content| json!(content))))?;
    } else {
        output.line(&format!("{word}: {} under token {}, {}", file.typed, grant.token, size(content)))?;
    }
    Ok(Exit::Done)
}

/// All of standard input, beside the file.
fn staged(file: &FileResource, receiver: &FileReceiver) -> Result<Staged, Failure> {
    let stdin = io::stdin().lock();
    // Whoever types it knows what is waited for.
    let _reading = (!stdin.is_terminal()).then(|| progress::doing("reading standard input, to its end"));
    receiver.stage(stdin).map_err(|error| failed(file, error))
}

fn size(content: &Content) -> String {
    format!("{} bytes", content.bytes)
}

fn failed(file: &FileResource, error: WriteError<io::Error>) -> Failure {
    match error {
        WriteError::Invalid(invalid) if invalid.field() == "content" => Failure::new(
            Exit::Usage,
            format!("{}: nothing came on standard input, and nothing was changed", file.typed),
        )
        .then("see whether the command before the pipe has failed; --allow-empty where empty is meant"),
        WriteError::Invalid(invalid) => invalid.into(),
        WriteError::Mutation(error) => {
            let what = format!("nothing was changed, standard input cannot be read: {error}");
            match error.kind() {
                io::ErrorKind::IsADirectory => {
                    Failure::new(Exit::Usage, what).then("name a file behind `<`, no folder")
                }
                _ => Failure::new(Exit::CannotWrite, what).then(AGAIN),
            }
        }
        WriteError::Unavailable(cause) => file.unavailable(&cause),
        WriteError::Misused(rule) => Failure::new(Exit::Bug, format!("nothing was changed: {rule}")).then(REPORT),
        WriteError::Unknown { operation: Some(_), .. } => {
            Failure::new(Exit::Unknown, error.to_string()).then("run the same command again, with the same --operation")
        }
        WriteError::Unknown { operation: None, .. } => Failure::new(Exit::Unknown, error.to_string())
            .then(format!("fencepost status {} shows what was accepted last", file.typed)),
    }
}
