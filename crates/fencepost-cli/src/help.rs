//! What `--help` says: the commands by what somebody wants to do.

use std::{collections::BTreeMap, io};

use clap::{Command, CommandFactory};

use crate::{
    Cli,
    exit::Exit,
    failure::Failure,
    lines::{self, columns},
    output::{colours, terminal_width},
};

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

/// How wide the parser makes a page at most.
pub(crate) const WIDEST: usize = 100;

/// Everything that is explained.
pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().flat_map(|(_, names)| *names).copied().chain([EXIT_CODES])
}

/// The topic that is no command.
const EXIT_CODES: &str = "exit-codes";

/// The command line with its commands grouped.
pub(crate) fn command() -> Command {
    let command = plain(terminal_width(io::stdout()).unwrap_or(WIDEST).min(WIDEST));
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

/// The command line as it is parsed, with examples that fit into so many columns.
pub(crate) fn plain(width: usize) -> Command {
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
    Cli::command().color(colours()).mut_subcommands(|command| {
        let examples = command.get_after_long_help().map(|text| with_examples(&text.to_string(), width));
        let command = match examples {
            Some(examples) => command.after_long_help(examples),
            None => command,
        };
        match usages.get(command.get_name()) {
            Some(usage) => command.override_usage(usage),
            None => command,
        }
    })
}

/// The same text with commands that can be pasted: the parser's own way of breaking lines knows no shell.
fn with_examples(text: &str, width: usize) -> String {
    let fitting = |line: &str| {
        let Some(example) = line.strip_prefix("  ").filter(|line| line.starts_with("fencepost ")) else {
            return line.to_owned();
        };
        if columns(line) <= width {
            return line.to_owned();
        }
        let (command, comment) = example.split_once(" # ").map_or((example, None), |(one, other)| (one, Some(other)));
        let command = lines::command(&format!("  {}", command.trim_end()), width, 4);
        comment.map_or(command.clone(), |comment| format!("  # {}\n{command}", comment.trim_start()))
    };
    text.lines().map(fitting).collect::<Vec<_>>().join("\n")
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

    /// Mutant: the examples are left to the parser, which breaks them like sentences.
    #[test]
    fn an_example_is_broken_only_as_a_shell_takes_it() {
        for width in [80, 100] {
            for command in Cli::command().get_subcommands() {
                let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
                let broken = with_examples(&text, width);
                let mut goes_on = false;
                for line in broken.lines() {
                    let is_command = goes_on || line.starts_with("  fencepost ");
                    goes_on = is_command && line.ends_with(" \\");
                    assert!(!is_command || columns(line) <= width, "{line}");
                }
                let whole = |text: &str| {
                    let commands = text.replace(" \\\n    ", " ");
                    let words = |line: &str| line.split(" # ").next().unwrap().trim().to_owned();
                    commands.lines().filter(|line| line.starts_with("  fencepost ")).map(words).collect::<Vec<_>>()
                };
                assert_eq!(whole(&broken), whole(&text));
            }
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
