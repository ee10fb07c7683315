use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, IsTerminal, Read},
    path::PathBuf,
};

use clap::Args;
use fencepost_testkit::history::{Malformed, Report, Violation, check, read};
use serde_json::json;

use crate::{
    exit::Exit,
    failure::Failure,
    output::{Output, counted},
    path,
    progress::{self, Doing},
};

/// Check a history of calls and answers: was anything applied that must not have been?
#[derive(Args, Debug)]
#[command(after_long_help = "\
A history has one JSON object a line; docs/history-format.md has the fields, and any program can write one:

  {\"call\":1,\"who\":\"A\",\"do\":\"write\",\"domain\":\"d\",\"token\":\"0.8\",\"value\":\"x\"}
  {\"answer\":1,\"got\":\"applied\"}

Exits 0 when every answer can be explained, and 1 with the shortest story of each one that cannot, or where so many calls \
overlap that nothing can be said. A history that breaks a rule of the format exits 64 with the line, and is not checked; one without \
any call exits 64 too, for it proves nothing.")]
pub(crate) struct CheckArgs {
    /// The history; - is standard input
    history: PathBuf,
}

/// How much is read of a history at a time.
const PIECE_BYTES: usize = 256 * 1_024;

/// A file that says how much of it has been read.
struct Watched<'a> {
    file: File,
    reading: Option<&'a Doing>,
    done: u64,
    of: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.done += length as u64;
        if let Some(reading) = self.reading {
            reading.is_at(self.done, self.of);
        }
        Ok(length)
    }
}

pub(crate) fn run(args: &CheckArgs, output: Output) -> Result<Exit, Failure> {
    let name = args.history.display();
    let unreadable = |error: &io::Error| {
        let what = format!("the history {name} cannot be read: {error}");
        path::failed(what, &args.history, error, Exit::Configuration)
    };
    let is_stdin = args.history.as_os_str() == "-";
    // Whoever types it knows what is waited for.
    let is_typed = is_stdin && io::stdin().is_terminal();
    let reading = (!is_typed).then(|| progress::doing(format!("reading {name}")));
    let input: Box<dyn BufRead + '_> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.history).map_err(|error| unreadable(&error))?;
        let of = file.metadata().map_or(0, |metadata| metadata.len());
        Box::new(BufReader::with_capacity(PIECE_BYTES, Watched { file, reading: reading.as_ref(), done: 0, of }))
    };
    let history = read(input).map_err(|malformed| match malformed {
        Malformed::Io(error) if error.kind() == ErrorKind::InvalidData => {
            Failure::new(Exit::Usage, format!("{name}: the history is not UTF-8"))
                .then("write one JSON object a line: docs/history-format.md")
        }
        Malformed::Io(error) => unreadable(&error),
        Malformed::Line { .. } => Failure::new(Exit::Usage, format!("{name}: {malformed}; nothing was checked"))
            .then("correct that line: docs/history-format.md; `fencepost help check` has an example"),
    })?;
    drop(reading);
    let checking = progress::doing(format!("checking {}", counted(history.calls.len() as u64, "call", "calls")));
    let report = check(&history);
    drop(checking);
    if report.calls == 0 {
        return Err(Failure::new(Exit::Usage, format!("{name}: the history has no calls; nothing was checked"))
            .then("see that what writes it has run: docs/history-format.md"));
    }
    if output.json {
        output.json(&json!({
            "calls": report.calls,
            "unknown": report.unknown,
            "registers": report.registers,
            "violations": report.violations.iter().map(|Violation { invariant, what, story }| {
                json!({"invariant": invariant, "what": what, "story": story})
            }).collect::<Vec<_>>(),
            "undecided": report.undecided,
        }))?;
    } else {
        tell(&report, output)?;
    }
    let is_explained = report.violations.is_empty() && report.undecided.is_empty();
    Ok(if is_explained { Exit::Done } else { Exit::Findings })
}

fn tell(report: &Report, output: Output) -> Result<(), Failure> {
    for violation in &report.violations {
        output.line(&output.strong(&format!("{}: {}", violation.invariant, violation.what)))?;
        for line in &violation.story {
            output.line(&format!("  {line}"))?;
        }
    }
    for register in &report.undecided {
        output.line(&format!("undecided: {register} has too many calls under way at a time"))?;
    }
    let looked_at = format!(
        "{}, {} of them with an unknown outcome, on {}",
        counted(report.calls as u64, "call", "calls"),
        report.unknown,
        counted(report.registers as u64, "register", "registers"),
    );
    let found = match (report.violations.len(), report.undecided.len()) {
        (0, 0) => "every answer can be explained".to_owned(),
        (violations, undecided) => {
            format!("{}, {undecided} undecided", counted(violations as u64, "violation", "violations"))
        }
    };
    output.line(&format!("{looked_at}: {found}"))
}
