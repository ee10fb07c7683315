//! What `--help` says: the commands by what somebody wants to do.

use std::collections::BTreeMap;

use clap::{Command, CommandFactory};

use crate::{Cli, exit::Exit, failure::Failure};

/// Every command, where somebody would look for it.
const GROUPS: &[(&str, &[&str])] = &[
    ("Try it", &["demo"]),
    ("Use it", &["run", "acquire", "renew", "release", "read", "write"]),
    ("See it", &["ls", "show", "history", "watch", "explain"]),
    ("Guard it", &["guard", "unguard", "audit", "status", "advance", "collect"]),
    ("Prove it", &["check", "prove"]),
    ("Serve it", &["serve"]),
    ("Fix it", &["break", "recover"]),
    ("Look it up", &["help", "completions", "man"]),
];

/// Everything that is explained.
pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| *names).copied().chain([EXIT_CODES])
}

/// The topic that is no command.
const EXIT_CODES: &str = "exit-codes";

/// The command line with its commands grouped.
pub(crate) fn command() -> Command {
    let command = plain();
    let mut listing = String::new();
    for (group, names) in GROUPS {
        listing.push_str(&format!("{group}:\n"));
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            listing.push_str(&format!("  {name:<11} {}\n", about.unwrap_or_default()));
        }
        listing.push('\n');
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{listing}Options:\n{{options}}{{after-help}}"
    ))
}

/// The command line as it is parsed.
pub(crate) fn plain() -> Command {
    let mut built = Cli::command();
    built.build();
    // After a mistake the parser would show only what that line had in it, an option from the environment as if it had
    // to be typed.
    let usages: BTreeMap<String, String> = built
        .get_subcommands_mut()
        .map(|command| {
            let usage = command.render_usage().to_string();
            (command.get_name().to_owned(), usage.trim_start_matches("Usage: ").to_owned())
        })
        .collect();
    Cli::command().mut_subcommands(|command| match usages.get(command.get_name()) {
        Some(usage) => command.override_usage(usage),
        None => command,
    })
}

/// The text of a topic, or of a command.
///
/// # Errors
/// When there is none of that name.
pub(crate) fn topic(words: &[String]) -> Result<String, Failure> {
    let page = |arguments: &[&str]| command().try_get_matches_from(arguments).err();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => Ok(page(&["fencepost", "--help"]).map_or_else(String::new, |help| help.to_string())),
        [EXIT_CODES] => Ok(Exit::topic()),
        [name] if command().find_subcommand(name).is_some() => {
            Ok(page(&["fencepost", name, "--help"]).map_or_else(String::new, |help| help.to_string()))
        }
        [name, ..] => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(Exit::Usage, format!("there is no command or topic {name:?}"))
        .then("fencepost help")
        .then("fencepost help exit-codes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_is_shown_stands_in_exactly_one_group() {
        let command = Cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
