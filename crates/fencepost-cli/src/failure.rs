//! Why a command did not do what was asked: what happened, whether it can have happened all the same, what to type.
//!
//! A [`Failure`] cannot be made without what comes next: [`Failure::new`] gives an [`Unadvised`], which can be neither
//! returned nor told. Before it is told, [`Failure::in_command`] sees to it that a command to type is among that.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    mem,
};

use fencepost_core::{
    Domain, Invalid,
    fence::{Rejection, Verdict},
};
use fencepost_receiver::VerdictCode;
use fencepost_wire::Problem;
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    is_a_command,
    lines::{self, visible, wrapped},
    output::{colours_wanted, terminal_width},
    progress, shell,
};

/// What to do about a value that breaks a rule; [`Failure::in_command`] says which command.
pub(crate) const FORMS: &str = "correct that value; `fencepost help COMMAND` shows the forms";

/// What to do where nothing but another try is left; [`Failure::in_command`] says which command.
pub(crate) const AGAIN: &str = "run the same command again";

/// What to do about a bug.
pub(crate) const REPORT: &str = "report it with all that was said, and with what this prints: fencepost --version";

/// What happened, and not yet what to do about it.
#[derive(Clone, Debug)]
#[must_use = "it is no failure before `then`"]
pub(crate) struct Unadvised {
    exit: Exit,
    what: String,
    details: Vec<String>,
}

impl Unadvised {
    /// The same with one more line of what is known.
    pub(crate) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// A failure, with a command, or an advice, that comes next.
    pub(crate) fn then(self, next: impl Into<String>) -> Failure {
        let Self { exit, what, details } = self;
        let next = vec![next.into()];
        let (code, name, problem) = (None, None, None);
        Failure { exit, code, name, what, details, next, problem, has_begun: false, reader_gone: false }
    }
}

/// A failure, ready to be told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// The number to exit with instead, where the user chose one.
    code: Option<u8>,
    /// What programs know it by, where that is more than the exit code says.
    name: Option<&'static str>,
    what: String,
    details: Vec<String>,
    next: Vec<String>,
    problem: Option<Box<Problem>>,
    /// Something was done: typed again, the same command does it a second time, whatever its exit code means elsewhere.
    has_begun: bool,
    reader_gone: bool,
}

impl Failure {
    /// What happened. [`Unadvised::then`] makes a failure of it.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a failure begins with what happened and is none without what comes next"
    )]
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Unadvised {
        Unadvised { exit, what: what.into(), details: Vec::new() }
    }

    /// Whoever read the output has had enough. That is nothing to talk about: [`end_with`](Self::end_with) dies of it.
    pub(crate) fn reader_gone() -> Self {
        let silent = Self::new(Exit::Signal(13), "nobody reads the output any more").then("read all of it");
        Self { reader_gone: true, ..silent }
    }

    /// The same with one more line of what is known.
    pub(crate) fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }

    /// The same with a command, or an advice, that comes next.
    pub(crate) fn then(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// The same with this advice alone.
    pub(crate) fn then_only(mut self, next: impl Into<String>) -> Self {
        self.next = vec![next.into()];
        self
    }

    /// The same, where something was done, or may have been, that no program may do again without a look.
    pub(crate) fn begun(mut self) -> Self {
        self.has_begun = true;
        self
    }

    /// The same with another that happened beside it.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.details.push(other.what);
        self.details.extend(other.details);
        self.next.extend(other.next);
        self
    }

    /// The same with the domain to guard for, where that is left open. Not the one to recover for: which one was lost with
    /// the sidecar, nobody here knows.
    pub(crate) fn guarding(mut self, domain: &Domain) -> Self {
        let named = shell::option("--domain", domain.as_str());
        for next in self.next.iter_mut().filter(|next| next.starts_with("fencepost guard ")) {
            *next = next.replace(" --domain NAME", &named);
        }
        self
    }

    /// The same as a part of what this says.
    pub(crate) fn within(mut self, what: impl Into<String>) -> Self {
        let part = mem::replace(&mut self.what, what.into());
        self.details.insert(0, part);
        self
    }

    /// The same without advice to name another coordinator, which the session file decides.
    pub(crate) fn where_kept(mut self) -> Self {
        self.next.retain(|next| !next.starts_with("name another one: --url"));
        self
    }

    /// The same with what the API calls it.
    pub(crate) fn with_problem(mut self, problem: Problem) -> Self {
        self.problem = Some(Box::new(problem));
        self
    }

    /// The same under what a receiver's verdict is called in its headers.
    pub(crate) fn of_rejection(mut self, rejection: &Rejection) -> Self {
        self.name = Some(VerdictCode::of(&Verdict::<()>::Rejected(rejection.clone())).as_str());
        self
    }

    /// The same with another meaning.
    pub(crate) fn ending_in(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// The same, naming the command that was typed. What was typed with it is not repeated: it may have secrets in it.
    pub(crate) fn in_command(mut self, name: &str) -> Self {
        for next in &mut self.next {
            if next == FORMS {
                *next = FORMS.replace("COMMAND", name);
            } else if !names_a_command(next) {
                *next = next.replace(AGAIN, &format!("{AGAIN} (fencepost {name} …)"));
            }
        }
        if !self.next.iter().any(|next| names_a_command(next)) {
            self.next.push(format!("fencepost help {name}").trim_end().to_owned());
        }
        self
    }

    /// The same under a number that the user chose.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = Some(code);
        self
    }

    /// Whether the coordinator was asked in vain.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.exit == Exit::Unreachable
    }

    /// What happened, in a sentence.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn code(&self) -> u8 {
        self.code.unwrap_or(self.exit.code())
    }

    /// Tells it, and says what to exit with. Where only the reader has gone, it does not come back: this process dies of
    /// the signal that it would have died of, had it not been ignored.
    pub(crate) fn end_with(self, json: bool) -> u8 {
        if self.reader_gone {
            // The number remains where the signal cannot be had.
            let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
        } else {
            self.tell(json);
        }
        self.code()
    }

    /// Tells it on standard error. Never on standard output: a script that reads a token from there must not find
    /// somebody else's.
    pub(crate) fn tell(&self, json: bool) {
        self.say(json.then(|| self.json()));
    }

    /// Tells it beside something that is done, whose exit code it leaves as it is.
    pub(crate) fn tell_beside(&self, json: bool) {
        self.say(json.then(|| {
            let mut value = self.json();
            let members = value.as_object_mut().expect("a problem is an object");
            members.retain(|member, _| !["exit_code", "retryable", "may_have_happened"].contains(&member.as_str()));
            value
        }));
    }

    fn say(&self, json: Option<Value>) {
        progress::answered();
        let mut stderr = io::stderr().lock();
        // Where standard error is closed, the exit code still tells.
        let _ = match json {
            Some(json) => writeln!(stderr, "{json}"),
            None => self.tell_people(&mut stderr),
        };
    }

    fn tell_people(&self, stderr: &mut io::StderrLock<'_>) -> io::Result<()> {
        let on_terminal = stderr.is_terminal();
        let red = on_terminal && colours_wanted();
        let (on, off) = if red { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
        let width = if on_terminal { terminal_width(io::stderr()) } else { None }.unwrap_or(usize::MAX);
        let shown = |text| if on_terminal { visible(text) } else { Cow::Borrowed(text) };
        let what = wrapped(&format!("fencepost: {}", shown(&self.what)), width, 2);
        writeln!(stderr, "{on}fencepost:{off}{}", what.strip_prefix("fencepost:").unwrap_or(&what))?;
        for line in &self.details {
            writeln!(stderr, "{}", wrapped(&format!("  {}", shown(line)), width, 2))?;
        }
        for next in &self.next {
            // Only what is a command from its beginning can be broken and still be pasted.
            // What is to be typed stays as it is.
            let line = format!("  next: {next}");
            let is_command = next.starts_with("fencepost ");
            writeln!(stderr, "{}", if is_command { lines::command(&line, width, 4) } else { line })?;
        }
        Ok(())
    }

    /// It as a problem, for programs.
    pub(crate) fn json(&self) -> Value {
        let mut value = match &self.problem {
            Some(problem) => {
                let mut value = serde_json::to_value(problem).expect("a problem is JSON");
                if problem.detail != self.what {
                    // What the API says names its own fields; this names what was typed.
                    value["what"] = self.what.clone().into();
                }
                value
            }
            None => json!({
                "code": self.name.unwrap_or(self.exit.failure_code()),
                "detail": self.what,
                "may_have_happened": self.has_begun || self.exit == Exit::Unknown,
                "retryable": !self.has_begun && matches!(self.exit, Exit::Unreachable | Exit::Held | Exit::Unknown),
            }),
        };
        if !self.details.is_empty() {
            value["more"] = self.details.join("; ").into();
        }
        value["exit_code"] = self.code().into();
        // Pasted as a whole it is wrong, and does not do one after the other.
        value["fix"] = self.next.join(" / ").into();
        value
    }
}

/// Whether somebody who reads it has a command of this program to type.
fn names_a_command(next: &str) -> bool {
    next.match_indices("fencepost ").any(|(at, found)| {
        let word = next[at + found.len()..].split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next();
        word.is_some_and(|word| word.starts_with("--") || is_a_command(word))
    })
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        let what = invalid.to_string();
        let failure = Self::new(Exit::Usage, what).then(FORMS);
        failure.with_problem(Problem::from(invalid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(next: &str, command: &str) -> String {
        Failure::new(Exit::Usage, "x").then(next).in_command(command).json()["fix"].as_str().unwrap().to_owned()
    }

    /// Mutant: nothing is added where no advice names a command.
    #[test]
    fn every_failure_names_a_command_to_type() {
        assert_eq!(fix(AGAIN, "ls"), "run the same command again (fencepost ls …)");
        assert_eq!(
            fix("df /x; then run the same command again", "write"),
            "df /x; then run the same command again (fencepost write …)"
        );
        assert_eq!(fix("ask again: fencepost release", "release"), "ask again: fencepost release");
        assert_eq!(fix(FORMS, "run"), "correct that value; `fencepost help run` shows the forms");
        assert_eq!(fix("mkdir -p x", "write"), "mkdir -p x / fencepost help write");
        assert_eq!(fix("leave that out", ""), "leave that out / fencepost help");
    }

    #[test]
    fn naming_the_command_twice_changes_nothing_more() {
        for next in [AGAIN, FORMS, "mkdir -p x"] {
            let once = Failure::new(Exit::Usage, "x").then(next).in_command("ls");
            assert_eq!(once.clone().in_command("ls").json(), once.json());
        }
    }
}
