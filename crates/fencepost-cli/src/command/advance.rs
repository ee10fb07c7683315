use std::ffi::OsString;

use clap::Args;
use fencepost_core::{Grant, fence::Verdict};
use fencepost_receiver::AdvanceError;
use serde_json::json;

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    output::Output,
    resource::Resource,
    verdict,
};

/// Raise a domain's fence to the token of a grant
#[derive(Args, Debug)]
#[command(after_long_help = "\
After it writes of every older token are refused there, before the new owner has written anything. Advance after \
acquiring and before the first read that a write will be based on:

  eval \"$(fencepost acquire nightly --export)\" || exit $?
  fencepost advance sqlite:shop.db || exit $?

With --json: {\"verdict\":\"applied\"} or {\"verdict\":\"rejected\",\"reason\":…}. Every rejection exits 81.")]
pub(crate) struct AdvanceArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// The grant as one line of JSON [default: FENCEPOST_GRANT]
    #[arg(long, value_name = "JSON")]
    grant: Option<String>,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: AdvanceArgs) -> Result<(Resource, Option<Grant>), Failure> {
    Ok((Resource::parse(&args.resource)?, verdict::grant(args.grant)?))
}

pub(crate) fn run(args: AdvanceArgs, output: Output) -> Result<Exit, Failure> {
    let (resource, grant) = understand(args)?;
    let grant = verdict::presented(&resource, grant, output)?;
    let advancing = match &resource {
        Resource::Sqlite(database) => database.doing("raising the fence in"),
        Resource::File(file) => file.doing("raising the fence of"),
    };
    resource.is_writable()?;
    let advanced = resource.advance_blocking(&grant);
    drop(advancing);
    match advanced {
        Ok(Verdict::Applied(()) | Verdict::Replayed(())) => {
            if output.json {
                output.json(&json!({"verdict": "applied"}))?;
            } else {
                output.line(&format!("{}: {} is fenced at {}", resource.typed(), grant.domain, grant.token))?;
            }
            Ok(Exit::Done)
        }
        Ok(Verdict::Rejected(rejection)) => verdict::rejected(&resource, &grant, None, &rejection, output),
        Err(AdvanceError::Invalid(invalid)) => Err(invalid.into()),
        Err(AdvanceError::Unavailable(cause)) => Err(resource.unavailable(&cause).detail("the fence was not raised")),
        Err(error @ AdvanceError::Unknown(_)) => Err(Failure::new(Exit::Unknown, error.to_string()).then(AGAIN)),
    }
}
