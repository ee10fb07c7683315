//! Tables in Markdown, so that they can be read on a terminal and pasted into `docs/performance.md`.

use std::fmt;

/// A table with a title.
pub(crate) struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: &str, head: &[&str]) -> Self {
        let head = head.iter().map(|cell| (*cell).to_owned()).collect();
        Self { title: title.to_owned(), head, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        writeln!(f, "### {}\n\n{}", self.title, line(&self.head))?;
        writeln!(f, "|{}", "---|".repeat(self.head.len()))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", line(row)))?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}\n"))
    }
}

pub(crate) fn rate(rate: f64) -> String {
    format!("{rate:.0}")
}

pub(crate) fn micros(time: f64) -> String {
    format!("{time:.0}")
}

pub(crate) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// What the figures were taken on.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!("{cores} cores, Linux {}, load {load} at the start", kernel.trim())
}
