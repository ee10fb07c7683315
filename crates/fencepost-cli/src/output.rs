//! What goes to standard output: lines and tables for people, or JSON for programs.

use std::{
    env,
    io::{self, IsTerminal, Write},
};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::{exit::Exit, failure::Failure};

/// How to speak on standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    on_terminal: bool,
    colours: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        let on_terminal = io::stdout().is_terminal();
        Self { json, on_terminal, colours: on_terminal && colours_wanted() }
    }

    /// One line, or several.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| not_written(&error))
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

    /// Rows under their headings; as wide as the terminal allows, and unwrapped where there is none.
    ///
    /// # Errors
    /// When nobody takes it.
    pub(crate) fn table(&self, headings: &[&str], rows: Vec<Vec<String>>) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(if self.on_terminal { presets::UTF8_HORIZONTAL_ONLY } else { presets::NOTHING });
        if let Some(width) = self.on_terminal.then(width).flatten() {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        table.set_header(headings).add_rows(rows);
        let text: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        self.line(&text.join("\n"))
    }
}

/// Whether colours are wanted on a terminal.
pub(crate) fn colours_wanted() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn width() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0)
}

fn not_written(error: &io::Error) -> Failure {
    Failure::new(Exit::CannotWrite, format!("the output cannot be written: {error}"))
}
