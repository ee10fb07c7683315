//! What goes to standard output: lines and tables for people, or JSON for programs.

use std::{
    env,
    io::{self, IsTerminal, StdoutLock, Write},
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::ColorChoice;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    lines::{self, columns, visible, wrapped},
    progress,
};

/// What it means that nobody takes the output any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unheard {
    /// The command only shows: it is over, as with any other tool whose reader has gone.
    Ends,
    /// The command changes something, and its exit code says what became of that: it goes on to say so.
    IsNoMatter,
    /// The output is what was asked for, and something is held for whoever gets it.
    IsFailure,
}

/// Whether this process has said that its output cannot be written: once is enough, however many lines it has.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// How to speak on standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    unheard: Unheard,
    on_terminal: bool,
    colours: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let on_terminal = io::stdout().is_terminal();
        Self { json, unheard: Unheard::Ends, on_terminal, colours: on_terminal && colours_wanted() }
    }

    /// For a command that changes something: a reader that has gone must not hide by which exit code it ends.
    pub(crate) fn of_change(self) -> Self {
        Self { unheard: Unheard::IsNoMatter, ..self }
    }

    /// For a command that hands something over: a reader that has gone has not got it.
    pub(crate) fn of_handing_over(self) -> Self {
        Self { unheard: Unheard::IsFailure, ..self }
    }

    /// One line, or several.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let text = if self.on_terminal { visible(text) } else { text.into() };
        self.write(|stdout| writeln!(stdout, "{text}"))
    }

    /// Whatever `write` writes.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn write(&self, write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> Result<(), Failure> {
        progress::answered();
        let mut stdout = io::stdout().lock();
        let Err(error) = write(&mut stdout).and_then(|()| stdout.flush()) else { return Ok(()) };
        match (self.unheard, error.kind()) {
            (Unheard::Ends, io::ErrorKind::BrokenPipe) => Err(Failure::reader_gone()),
            (Unheard::IsNoMatter, io::ErrorKind::BrokenPipe) => Ok(()),
            (Unheard::IsNoMatter, _) if HAS_COMPLAINED.swap(true, Ordering::Relaxed) => Ok(()),
            (Unheard::IsNoMatter, _) => {
                let what = format!("the output cannot be written ({error}); the exit code tells what was done");
                Failure::new(Exit::CannotWrite, what).then("fencepost help exit-codes").tell_beside(self.json);
                Ok(())
            }
            (Unheard::Ends | Unheard::IsFailure, _) => {
                Err(Failure::new(Exit::CannotWrite, format!("the output cannot be written: {error}")).then(AGAIN))
            }
        }
    }

    /// One JSON value on one line.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.line(&serde_json::to_string(value).expect("maps with text keys are JSON"))
    }

    /// A heading of what follows.
    pub(crate) fn strong(&self, text: &str) -> String {
        if self.colours { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Rows under their headings. On a terminal that is too narrow for them each row is a block of its own instead:
    /// an id that is broken over two lines can be neither read nor copied.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn table(&self, headings: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(if self.on_terminal { presets::UTF8_HORIZONTAL_ONLY } else { presets::NOTHING });
        table.set_header(headings).add_rows(&rows);
        let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let widest = text.iter().map(|line| columns(line)).max().unwrap_or(0);
        if self.width().is_some_and(|width| width < widest) {
            return self.blocks(headings, &rows);
        }
        self.line(&text.join("\n"))
    }

    fn blocks(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        let names: Vec<String> = headings.iter().map(|heading| heading.to_lowercase()).collect();
        for (at, row) in rows.iter().enumerate() {
            let mut cells = names.iter().zip(row);
            if let Some((name, value)) = cells.next() {
                let between = if at == 0 { "" } else { "\n" };
                self.line(&format!("{between}{}", self.strong(&format!("{name} {value}"))))?;
            }
            let facts: Vec<_> =
                cells.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (&name[..], value.clone())).collect();
            self.facts(2, &facts)?;
        }
        Ok(())
    }

    /// Names with their values, one a line; a value that the terminal has no room for begins a line of its own.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn facts(&self, indent: usize, facts: &[(&str, String)]) -> Result<(), Failure> {
        let longest = facts.iter().map(|(name, _)| columns(name)).max().unwrap_or(0);
        let (margin, under) = (" ".repeat(indent), indent + 2);
        for (name, value) in facts {
            let line = format!("{margin}{name:<longest$}  {value}");
            let Some(width) = self.width().filter(|width| columns(&line) > *width) else {
                self.line(&line)?;
                continue;
            };
            let beside = indent + longest + 2;
            let longest_word = value.split(' ').map(columns).max().unwrap_or(0);
            self.line(&if beside + longest_word <= width {
                format!(
                    "{margin}{name:<longest$}  {}",
                    wrapped(value, width.saturating_sub(beside), 0).replace('\n', &format!("\n{}", " ".repeat(beside)))
                )
            } else {
                format!("{margin}{name}\n{}", wrapped(&format!("{}{value}", " ".repeat(under)), width, under))
            })?;
        }
        Ok(())
    }

    /// A command to type, after what it is for; in lines that a shell takes as one where it is long.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn command(&self, purpose: &str, command: &str) -> Result<(), Failure> {
        let line = format!("{purpose}: {command}");
        let fitting = match self.width().filter(|width| columns(&line) > *width) {
            None => line,
            Some(width) => format!("{purpose}:\n  {}", lines::command(command, width.saturating_sub(2), 4)),
        };
        // What is to be typed stays as it is.
        self.write(|stdout| writeln!(stdout, "{fitting}"))
    }

    /// A sentence, between whose words a narrow terminal breaks it.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn sentence(&self, indent: usize, text: &str) -> Result<(), Failure> {
        let line = format!("{}{text}", " ".repeat(indent));
        self.line(&self.width().map_or(line.clone(), |width| wrapped(&line, width, indent)))
    }

    /// The columns of the terminal, where there is one.
    fn width(&self) -> Option<usize> {
        self.on_terminal.then(|| terminal_width(io::stdout())).flatten()
    }
}

/// A number with its noun.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Whether colours are wanted on a terminal.
pub(crate) fn colours_wanted() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && terminal_knows_codes()
}

/// The same for what the parser says: on a terminal, and nowhere else whatever the environment asks for.
pub(crate) fn colours() -> ColorChoice {
    let on_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
    if on_terminal && colours_wanted() { ColorChoice::Always } else { ColorChoice::Never }
}

/// Whether a terminal does anything but show what it gets.
pub(crate) fn terminal_knows_codes() -> bool {
    env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The columns of a terminal.
pub(crate) fn terminal_width(terminal: impl AsFd) -> Option<usize> {
    rustix::termios::tcgetwinsize(terminal).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// A line on standard error, beside the output. Where that is closed, the exit code still tells what counts.
pub(crate) fn aside(line: &str) {
    let line = if io::stderr().is_terminal() { visible(line) } else { line.into() };
    let _ = progress::beside(|| writeln!(io::stderr(), "{line}"));
}
