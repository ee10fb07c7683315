//! Grants as they are handed to a command, and what a receiver says to them.

use std::env;

use fencepost_core::{
    Grant, OperationId, Token,
    fence::{RejectedBy, Rejection, Verdict},
};
use fencepost_wire::GrantJson;
use serde_json::{Value, json};

use crate::{exit::Exit, failure::Failure, output::Output, report, resource::Resource};

/// The grant that was typed, or the one that `run` or `acquire --export` has left.
///
/// # Errors
/// When it cannot be read, or differs from the token beside it.
pub(crate) fn grant(typed: Option<String>) -> Result<Option<Grant>, Failure> {
    let from_environment = typed.is_none();
    let line = match typed {
        Some(line) => line,
        None => match left_in("FENCEPOST_GRANT")? {
            Some(line) => line,
            None => return Ok(None),
        },
    };
    let grant = GrantJson::parse(&line).map_err(|error| {
        let why = error.to_string();
        // The whole of it has no name of its own here.
        malformed(why.strip_prefix("body: ").unwrap_or(&why))
    })?;
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

/// What a variable of `run` or of `acquire --export` has; nothing in it is none.
fn left_in(variable: &str) -> Result<Option<String>, Failure> {
    match env::var(variable) {
        Ok(line) => Ok(Some(line).filter(|line| !line.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => Err(malformed(&format!("{variable} is not UTF-8"))),
    }
}

fn malformed(why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("grant: {why}"))
        .then("take it from an acquire: eval \"$(fencepost acquire DOMAIN --export)\"")
}

/// The grant to present: the given one, or that of the file's own domain among the several that `run` has left.
///
/// # Errors
/// What a receiver says where none is presented: first whether it is open at all.
pub(crate) fn presented(resource: &Resource, given: Option<Grant>, output: Output) -> Result<Grant, Failure> {
    if let Some(grant) = given {
        return Ok(grant);
    }
    let (domain, closed) = resource.guarded_as()?;
    if let Some(why) = closed {
        return Err(refused(resource, &Rejection::Closed(why), output));
    }
    let several = several()?;
    let has_some = !several.is_empty();
    let own = several.into_iter().find(|grant| domain.as_ref() == Some(&grant.domain));
    own.ok_or_else(|| {
        let failure = refused(resource, &Rejection::Missing, output);
        match (has_some, domain) {
            (true, Some(domain)) => failure.detail(format!("{SEVERAL} has none for {domain}")),
            (true, None) => failure
                .detail(format!("{SEVERAL} does not say which is meant for a database"))
                .then_only(format!("--grant JSON, with the one of {SEVERAL} that is meant")),
            (false, _) => failure,
        }
    })
}

/// Where `run` leaves the grants of several domains.
const SEVERAL: &str = "FENCEPOST_GRANTS";

fn several() -> Result<Vec<Grant>, Failure> {
    let Some(line) = left_in(SEVERAL)? else { return Ok(Vec::new()) };
    let grants: Vec<GrantJson> =
        serde_json::from_str(&line).map_err(|error| malformed(&format!("{SEVERAL} is no array of grants: {error}")))?;
    let wrong = |error| malformed(&format!("{SEVERAL} has one that is none: {error}"));
    grants.into_iter().map(|grant| Grant::try_from(grant).map_err(wrong)).collect()
}

/// Says that a receiver refused a grant, to the coordinator too, as the failure to end with.
///
/// # Errors
/// Always.
pub(crate) fn rejected(
    resource: &Resource,
    grant: &Grant,
    operation: Option<&OperationId>,
    rejection: &Rejection,
    output: Output,
) -> Result<Exit, Failure> {
    report::rejected(grant, rejection, operation);
    Err(refused(resource, rejection, output))
}

/// The verdict for programs, where they want it; and the failure to end with.
fn refused(resource: &Resource, rejection: &Rejection, output: Output) -> Failure {
    let verdict = Verdict::<Value>::Rejected(rejection.clone());
    match if output.json { output.json(&json(&verdict)) } else { Ok(()) } {
        Ok(()) => refusal(resource, rejection),
        Err(unheard) => unheard,
    }
}

/// What to do about a rejection.
pub(crate) fn refusal(resource: &Resource, rejection: &Rejection) -> Failure {
    let typed = resource.typed();
    let failure = Failure::new(Exit::Rejected, format!("{typed}: rejected: {rejection}"));
    let status = format!("fencepost status {typed}");
    let failure = match rejection {
        Rejection::Closed(why) => resource.closed(*why),
        Rejection::Missing => failure.then("eval \"$(fencepost acquire DOMAIN --export)\", or --grant JSON"),
        Rejection::Stale { by: RejectedBy::Fence, .. } | Rejection::NotCurrent => {
            failure.then("stop the work: another owner has come; then acquire anew: fencepost acquire DOMAIN")
        }
        Rejection::Stale { by: RejectedBy::Floor | RejectedBy::UnfencedFloor, .. } => failure
            .detail("every token as old as this one was shut out here, whether or not another owner has come")
            .then("stop the work, and acquire anew: fencepost acquire DOMAIN"),
        Rejection::UnknownEpoch { .. } => {
            let form = match resource {
                Resource::Sqlite(_) => "TABLE --domain EXPR",
                Resource::File(_) => "--domain NAME",
            };
            failure
                .detail("the coordinator began a new epoch that this receiver was never told of")
                .then(format!("guard it again, naming the coordinator: fencepost guard {typed} {form} --url URL"))
        }
        Rejection::OperationConflict => failure.then("another id for another content; the same id only for a retry"),
        Rejection::WrongIssuer
        | Rejection::WrongDomain
        | Rejection::WrongContract
        | Rejection::Unverified
        | Rejection::OperationInProgress
        | Rejection::OperationTooOld => failure.then(status),
    };
    failure.of_rejection(rejection)
}

/// A verdict, as programs read it.
pub(crate) fn json(verdict: &Verdict<Value>) -> Value {
    let accepted = |name: &str, result: &Value| {
        if result.is_null() { json!({"verdict": name}) } else { json!({"verdict": name, "result": result}) }
    };
    match verdict {
        Verdict::Applied(result) => accepted("applied", result),
        Verdict::Replayed(result) => accepted("replayed", result),
        Verdict::Rejected(rejection) => rejection_json(rejection),
    }
}

fn rejection_json(rejection: &Rejection) -> Value {
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
