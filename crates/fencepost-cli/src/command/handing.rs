//! What an acquire hands to whoever typed it: for people, for programs, for a shell. Never the secret.

use std::{path::Path, time::Duration};

use fencepost_coordinator::{Answered, Granted};
use fencepost_core::{Issuer, Permission};
use fencepost_wire::{AcquireAnswer, GrantJson};
use serde_json::Value;

use crate::{duration::readable_left, exit::Exit, failure::Failure, output::Output, shell};

/// Everything that `--export` may set, so that nothing of an earlier lease is left in a shell.
const VARIABLES: [&str; 5] =
    ["FENCEPOST_DOMAIN", "FENCEPOST_TOKEN", "FENCEPOST_GRANT", "FENCEPOST_GRANTS", "FENCEPOST_CORRELATION"];

/// Begins every export. A POSIX shell passes over it; fish, which would read `unset` and backslashes otherwise, takes
/// nothing of a text that has it, fails, and shows it.
const NOT_FOR_FISH: &str = r#": "${these_lines_are_for_sh_bash_and_zsh_not_for_fish-}""#;

/// A lease that was acquired.
pub(crate) struct Handed<'a> {
    pub(crate) answered: Answered<Granted>,
    /// To the local deadline.
    pub(crate) remaining: Duration,
    pub(crate) url: &'a str,
    pub(crate) url_option: String,
    pub(crate) file: &'a Path,
}

/// # Errors
/// When nobody takes the output. The lease is held then, and the file has it.
pub(crate) fn hand_over(handed: Handed<'_>, export: bool, output: Output) -> Result<Exit, Failure> {
    let written = if export {
        output.line(&exports(&handed)?)
    } else if output.json {
        output.json(&answer(handed.answered))
    } else {
        output.line(&summary(&handed))
    };
    written.map_err(|failure| failure.detail("the lease is held all the same").then_only("fencepost release"))?;
    Ok(Exit::Done)
}

/// Shell commands that fail with this code: what `eval` gets instead of nothing, which it would take for success.
pub(crate) fn failing_export(code: u8) -> String {
    format!("{NOT_FOR_FISH}\nunset {}; (exit {code})", VARIABLES.join(" "))
}

fn summary(handed: &Handed<'_>) -> String {
    let acquired = &handed.answered.answer.acquired;
    let with = match &acquired.permission {
        Permission::Safety(grant) => format!(" with token {}", grant.token),
        Permission::Admission(correlation) => format!(" as {correlation} (admission: no token)"),
        Permission::Advisory => " (advisory: no token)".to_owned(),
    };
    let left = u64::try_from(handed.remaining.as_millis()).unwrap_or(u64::MAX);
    let look = shell::line("fencepost show", &[acquired.domain.as_str()], &handed.url_option);
    format!(
        "acquired {}{with}\n  ends in    {} unless renewed: fencepost renew\n  give back  fencepost release\n  \
         look       {look}",
        acquired.domain,
        readable_left(left),
    )
}

/// The API's own answer, but for the secret.
fn answer(answered: Answered<Granted>) -> Value {
    let issuer = answered.answer.acquired.permission.grant().map(|grant| grant.issuer.clone());
    let placeholder = || Issuer::new("unknown").expect("a plain word is an issuer");
    let named = issuer.is_some();
    let mut answer = AcquireAnswer::new(answered, &issuer.unwrap_or_else(placeholder));
    answer.secret = None;
    let mut value = serde_json::to_value(answer).expect("an answer is JSON");
    if let (false, Some(members)) = (named, value.as_object_mut()) {
        // Only a grant names its issuer.
        members.remove("issuer");
    }
    value
}

fn exports(handed: &Handed<'_>) -> Result<String, Failure> {
    let acquired = &handed.answered.answer.acquired;
    let file = std::path::absolute(handed.file).ok();
    let file = file.as_deref().and_then(Path::to_str).ok_or_else(|| {
        Failure::new(Exit::Configuration, "the path of the session file is not UTF-8, so it cannot be exported")
            .then("fencepost release, and set FENCEPOST_SESSION_FILE to another path")
    })?;
    let mut set = vec![
        ("FENCEPOST_DOMAIN", acquired.domain.to_string()),
        ("FENCEPOST_URL", handed.url.to_owned()),
        ("FENCEPOST_SESSION_FILE", file.to_owned()),
    ];
    match &acquired.permission {
        Permission::Safety(grant) => {
            set.push(("FENCEPOST_TOKEN", grant.token.to_decimal()));
            set.push(("FENCEPOST_GRANT", GrantJson::from(grant).to_line()));
        }
        Permission::Admission(correlation) => set.push(("FENCEPOST_CORRELATION", correlation.to_string())),
        Permission::Advisory => {}
    }
    let unset: Vec<&str> = VARIABLES.into_iter().filter(|name| !set.iter().any(|(set, _)| set == name)).collect();
    let mut lines = vec![NOT_FOR_FISH.to_owned(), format!("unset {}", unset.join(" "))];
    lines.extend(set.iter().map(|(name, value)| format!("export {name}={}", shell::quoted(value))));
    Ok(lines.join("\n"))
}
