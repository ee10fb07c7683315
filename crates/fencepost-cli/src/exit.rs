//! What the command ends with. Scripts branch on these numbers, so they never change their meaning.

use fencepost_wire::ErrorCode;

/// An exit code with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Findings,
    Usage,
    Unreachable,
    Bug,
    CannotWrite,
    Held,
    Denied,
    Configuration,
    Lost,
    Rejected,
    Unknown,
    /// By a signal, this command or the one that it ran: 128 and its number.
    Signal(u8),
    /// What the command that it ran ended with.
    Command(u8),
}

impl Exit {
    /// Those with a number of their own, in its order.
    const NAMED: [Self; 12] = [
        Self::Done,
        Self::Findings,
        Self::Usage,
        Self::Unreachable,
        Self::Bug,
        Self::CannotWrite,
        Self::Held,
        Self::Denied,
        Self::Configuration,
        Self::Lost,
        Self::Rejected,
        Self::Unknown,
    ];

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Findings => 1,
            Self::Usage => 64,
            Self::Unreachable => 69,
            Self::Bug => 70,
            Self::CannotWrite => 73,
            Self::Held => 75,
            Self::Denied => 77,
            Self::Configuration => 78,
            Self::Lost => 80,
            Self::Rejected => 81,
            Self::Unknown => 82,
            Self::Signal(number) => 128_u8.saturating_add(number),
            Self::Command(code) => code,
        }
    }

    /// The name of a failure that ends so and has no closer one, such as what the coordinator answered or that it did not
    /// (`coordinator_unreachable`), for programs. They compare these, so they never change.
    pub(crate) const fn failure_code(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Findings => "findings",
            Self::Usage => "usage",
            Self::Unreachable => "unavailable",
            Self::Bug => ErrorCode::Internal.as_str(),
            Self::CannotWrite => "cannot_write",
            Self::Held => ErrorCode::Held.as_str(),
            Self::Denied => "denied",
            Self::Configuration => "not_set_up",
            Self::Lost => "lease_lost",
            Self::Rejected => "rejected",
            Self::Unknown => "outcome_unknown",
            Self::Signal(_) => "stopped_by_signal",
            Self::Command(_) => "command_not_run",
        }
    }

    const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Findings => {
                "`audit` found a way around a guard, `check` what must not have happened, or `prove` a broken promise"
            }
            Self::Usage => "the command line is wrong, or a name or number breaks a rule",
            Self::Unreachable => {
                "the coordinator, or the service of `prove`, does not answer or cannot decide now; nothing was granted or changed"
            }
            Self::Bug => "a bug of fencepost; please report it",
            Self::CannotWrite => "a file, a database or the output cannot be written",
            Self::Held => "another has the lease (change the number with --held-exit-code)",
            Self::Denied => "not allowed: a wrong secret, or missing rights on a file or port",
            Self::Configuration => "something has to be set up first; the message says what",
            Self::Lost => "the lease is lost, or had ended before; nothing that `run` had started runs any more",
            Self::Rejected => "a receiver rejected the token; nothing was changed",
            Self::Unknown => {
                "the answer was lost: it may have happened. Run the same command again; after `run`, see first whether its command has done anything"
            }
            Self::Signal(_) => "stopped by signal n",
            Self::Command(_) => "what the command of `run` ended with; 126 or 127 where it could not be run",
        }
    }

    /// The topic `help exit-codes`.
    pub(crate) fn topic() -> String {
        let mut text = String::from(
            "What `fencepost` exits with\n\nEvery code but 0 means: do not start, or do not rely on what was asked for.\n\n",
        );
        for exit in Self::NAMED {
            text.push_str(&format!("  {:>5}  {}\n", exit.code(), exit.meaning()));
        }
        text.push_str(&format!("  {:>5}  {}\n", "128+n", Self::Signal(0).meaning()));
        text.push_str(&format!("  {:>5}  {}\n", "other", Self::Command(0).meaning()));
        text.push_str(
            "\nIn a script:\n\n  eval \"$(fencepost acquire nightly --export)\" || case $? in 75) exit 0 ;; *) exit 1 ;; esac\n",
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: a code that is called otherwise than the page says.
    #[test]
    fn the_page_lists_what_every_failure_is_called() {
        let page = include_str!("../../../docs/commands.md");
        let (_, rest) = page.split_once("<!-- codes:begin -->").unwrap();
        let (table, _) = rest.split_once("<!-- codes:end -->").unwrap();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
        let failures = Exit::NAMED.into_iter().filter(|exit| !matches!(exit, Exit::Done | Exit::Findings));
        let named = failures.map(|exit| format!("| `{}` | {} |", exit.failure_code(), exit.code()));
        let others = [(Exit::Signal(0), "128+n"), (Exit::Command(126), "126, 127")];
        let others = others.map(|(exit, codes)| format!("| `{}` | {codes} |", exit.failure_code()));
        let expected: Vec<String> = named.chain(others).collect();
        assert_eq!(rows.len(), expected.len(), "{rows:?}");
        for (row, begin) in rows.iter().zip(&expected) {
            assert!(row.starts_with(begin), "{row}: {begin}");
        }
    }

    #[test]
    fn codes_are_unique_and_listed_in_order() {
        let codes: Vec<u8> = Exit::NAMED.iter().map(|exit| exit.code()).collect();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
        let topic = Exit::topic();
        assert!(codes.iter().all(|code| topic.contains(&format!("  {code:>5}  "))), "{topic}");
    }
}
