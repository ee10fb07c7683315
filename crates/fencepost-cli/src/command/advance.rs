use std::{env, ffi::OsString};

use clap::Args;
use fencepost_core::{
    Grant, Token,
    fence::{Rejection, Verdict},
};
use fencepost_receiver::AdvanceError;
use fencepost_wire::GrantJson;
use serde_json::{Value, json};

use crate::{exit::Exit, failure::Failure, output::Output, resource::SqliteResource, shell};

/// Raise a domain's fence to the token of a grant
#[derive(Args, Debug)]
#[command(after_long_help = "\
After it writes of every older token are refused there, before the new owner has written anything. Advance after \
acquiring and before the first read that a write will be based on:

  eval \"$(fencepost acquire nightly --export)\" || exit $?
  fencepost advance sqlite:shop.db || exit $?

With --json: {\"verdict\":\"applied\"} or {\"verdict\":\"rejected\",\"reason\":…}. Every rejection exits 81.")]
pub(crate) struct AdvanceArgs {
    /// The database, as sqlite:PATH
    resource: OsString,
    /// The grant as one line of JSON [default: FENCEPOST_GRANT]
    #[arg(long, value_name = "JSON")]
    grant: Option<String>,
}

pub(crate) fn run(args: AdvanceArgs, output: Output) -> Result<Exit, Failure> {
    let resource = SqliteResource::parse(&args.resource)?;
    let Some(grant) = grant(args.grant)? else {
        return rejected(&resource, &Rejection::Missing, output);
    };
    resource.connect()?;
    match resource.file.advance_blocking(&grant) {
        Ok(Verdict::Applied(()) | Verdict::Replayed(())) => {
            if output.json {
                output.json(&json!({"verdict": "applied"}))?;
            } else {
                output.line(&format!("{}: {} is fenced at {}", resource.typed, grant.domain, grant.token))?;
            }
            Ok(Exit::Done)
        }
        Ok(Verdict::Rejected(rejection)) => rejected(&resource, &rejection, output),
        Err(AdvanceError::Invalid(invalid)) => Err(invalid.into()),
        Err(error @ AdvanceError::Unavailable(_)) => {
            Err(Failure::new(Exit::CannotWrite, error.to_string()).then("run the same command again"))
        }
        Err(error @ AdvanceError::Unknown(_)) => {
            Err(Failure::new(Exit::Unknown, error.to_string()).then("run the same command again"))
        }
    }
}

/// The grant that was typed, or the one that `acquire --export` has left.
fn grant(typed: Option<String>) -> Result<Option<Grant>, Failure> {
    let from_environment = typed.is_none();
    let line = match typed {
        Some(line) => line,
        None => match env::var("FENCEPOST_GRANT") {
            Ok(line) if !line.is_empty() => line,
            Ok(_) | Err(env::VarError::NotPresent) => return Ok(None),
            Err(env::VarError::NotUnicode(_)) => return Err(malformed("is not UTF-8")),
        },
    };
    let grant = GrantJson::parse(&line).map_err(|error| malformed(&error.to_string()))?;
    if from_environment && let Ok(token) = env::var("FENCEPOST_TOKEN") {
        let token: Token = token.parse()?;
        if token != grant.token {
            let what = format!("FENCEPOST_TOKEN is {token} and FENCEPOST_GRANT has {}", grant.token);
            return Err(Failure::new(Exit::Usage, what)
                .then("take both from one acquire: eval \"$(fencepost acquire DOMAIN --export)\""));
        }
    }
    Ok(Some(grant))
}

fn malformed(why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("grant: {why}"))
        .then("take it from an acquire: eval \"$(fencepost acquire DOMAIN --export)\"")
}

fn rejected(resource: &SqliteResource, rejection: &Rejection, output: Output) -> Result<Exit, Failure> {
    if output.json {
        output.json(&verdict(rejection))?;
    }
    let failure = Failure::new(Exit::Rejected, format!("{}: rejected: {rejection}", resource.typed));
    Err(match rejection {
        Rejection::Closed(why) => resource.closed(*why),
        Rejection::Missing => failure.then("eval \"$(fencepost acquire DOMAIN --export)\", or --grant JSON"),
        Rejection::Stale { .. } | Rejection::NotCurrent => {
            failure.then("stop the work: another owner has come; then acquire anew: fencepost acquire DOMAIN")
        }
        Rejection::UnknownEpoch { .. } => {
            let path = shell::word(&resource.file.path().to_string_lossy());
            failure
                .detail("the coordinator began a new epoch that this receiver was never told of")
                .then(format!("guard a table again, naming the coordinator: fencepost guard sqlite:{path} TABLE --domain EXPR --url URL"))
        }
        Rejection::WrongIssuer => failure.then(format!("fencepost status {}", resource.typed)),
        Rejection::WrongDomain
        | Rejection::WrongContract
        | Rejection::Unverified
        | Rejection::OperationConflict
        | Rejection::OperationInProgress
        | Rejection::OperationTooOld => failure.then(format!("fencepost status {}", resource.typed)),
    })
}

/// A rejection, as programs read it.
fn verdict(rejection: &Rejection) -> Value {
    let mut value = json!({"verdict": "rejected", "reason": rejection.code()});
    match rejection {
        Rejection::Stale { presented, least_accepted, by } => {
            value["presented"] = json!(presented);
            value["least_accepted"] = json!(least_accepted);
            value["by"] = json!(by);
        }
        Rejection::UnknownEpoch { presented, known } => {
            value["presented"] = json!(presented);
            value["known_epoch"] = json!(known);
        }
        Rejection::Closed(why) => value["why"] = json!(why),
        Rejection::Missing
        | Rejection::WrongDomain
        | Rejection::WrongContract
        | Rejection::WrongIssuer
        | Rejection::Unverified
        | Rejection::OperationConflict
        | Rejection::OperationInProgress
        | Rejection::OperationTooOld
        | Rejection::NotCurrent => {}
    }
    value
}
