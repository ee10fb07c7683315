//! Why a command did not do what was asked: what happened, whether it can have happened all the same, what to type.

use std::io::{self, IsTerminal, Write};

use fencepost_core::Invalid;
use fencepost_wire::Problem;
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    lines::{self, wrapped},
    output::{colours_wanted, terminal_width},
};

/// What to do about a value that breaks a rule; [`Failure::in_command`] says which command.
pub(crate) const FORMS: &str = "correct that value; `fencepost help COMMAND` shows the forms";

/// A failure, ready to be told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// The number to exit with instead, where the user chose one.
    code: Option<u8>,
    what: String,
    details: Vec<String>,
    next: Vec<String>,
    problem: Option<Box<Problem>>,
    reader_gone: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        let (details, next) = (Vec::new(), Vec::new());
        Self { exit, code: None, what: what.into(), details, next, problem: None, reader_gone: false }
    }

    /// Whoever read the output has had enough. That is nothing to talk about: [`end_with`](Self::end_with) dies of it.
    pub(crate) fn reader_gone() -> Self {
        Self { reader_gone: true, ..Self::new(Exit::Signal(13), "nobody reads the output any more") }
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

    /// The same with another meaning.
    pub(crate) fn ending_in(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// The same, naming the command that was typed.
    pub(crate) fn in_command(mut self, name: &str) -> Self {
        for next in self.next.iter_mut().filter(|next| next.as_str() == FORMS) {
            *next = FORMS.replace("COMMAND", name);
        }
        self
    }

    /// The same under a number that the user chose.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = Some(code);
        self
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
        let mut stderr = io::stderr().lock();
        // Where standard error is closed, the exit code still tells.
        let _ = if json { writeln!(stderr, "{}", self.json()) } else { self.tell_people(&mut stderr) };
    }

    fn tell_people(&self, stderr: &mut io::StderrLock<'_>) -> io::Result<()> {
        let red = stderr.is_terminal() && colours_wanted();
        let (on, off) = if red { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
        let width = if stderr.is_terminal() { terminal_width(io::stderr()) } else { None }.unwrap_or(usize::MAX);
        let what = wrapped(&format!("fencepost: {}", self.what), width, 2);
        writeln!(stderr, "{on}fencepost:{off}{}", what.strip_prefix("fencepost:").unwrap_or(&what))?;
        for line in &self.details {
            writeln!(stderr, "{}", wrapped(&format!("  {line}"), width, 2))?;
        }
        for next in &self.next {
            // Only what is a command from its beginning can be broken and still be pasted.
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
                "detail": self.what,
                "may_have_happened": self.exit == Exit::Unknown,
                "retryable": matches!(self.exit, Exit::Unreachable | Exit::Held | Exit::Unknown),
            }),
        };
        value["exit_code"] = self.code().into();
        if !self.next.is_empty() {
            value["fix"] = self.next.join("; ").into();
        }
        value
    }
}

impl From<Invalid> for Failure {
    fn from(invalid: Invalid) -> Self {
        let what = invalid.to_string();
        let failure = Self::new(Exit::Usage, what).then(FORMS);
        failure.with_problem(Problem::from(invalid))
    }
}
