//! Tells what happens: a timeline for people, or one JSON object a line for programs.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
    time::Duration,
};

use fencepost_core::{Domain, Token};
use serde::Serialize;
use serde_json::json;

use super::{
    layout::{Cells, Entry, Paint, Piece, entry, heading, row, wrapped},
    promise::{Checked, rows},
    protocol::{DOMAIN_EXPRESSION, TABLE, Told},
    script::{Act, Actor, Fenced, GREATER_TOKEN, KNOWS_ITS_LOSS, Scene},
    stage::Stage,
};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    output::colours_wanted,
};

/// How wide text is where there is no terminal.
const WIDTH: usize = 100;

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) act: u8,
    #[serde(rename = "at_ms", serialize_with = "whole_milliseconds")]
    pub(super) at: Duration,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) domain: Option<Domain>,
    /// Who was granted the lease last and has not given it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<Actor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<Actor>,
    pub(super) what: &'static str,
    pub(super) says: String,
    /// What the actor was granted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<Token>,
    #[serde(rename = "verdict", skip_serializing_if = "Option::is_none")]
    pub(super) told: Option<Told>,
    #[serde(rename = "seen", skip_serializing_if = "Option::is_none")]
    pub(super) got: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) promised: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<bool>,
}

fn whole_milliseconds<S: serde::Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}

#[derive(Debug)]
pub(super) struct Teller {
    json: bool,
    on_terminal: bool,
    colours: bool,
    width: usize,
    shows_progress: bool,
}

impl Teller {
    pub(super) fn new(json: bool) -> Self {
        let on_terminal = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
        let width = size.filter(|columns| on_terminal && *columns > 0).unwrap_or(WIDTH);
        Self { json, on_terminal, colours: on_terminal && colours_wanted(), width, shows_progress: false }
    }

    pub(super) fn opening(&mut self, stage: &Stage) -> Result<(), Failure> {
        let (url, data, database) = (&stage.url, &stage.data, &stage.database);
        if self.json {
            return self.object("started", json!({"url": url, "data": data, "database": database}));
        }
        self.plain(&self.painted(&[(Paint::Strong, "What becomes of a write whose lease is gone".to_owned())]))?;
        self.plain("")?;
        self.plain(&format!("  coordinator  {url}"))?;
        self.plain(&format!("               its durable store in {}", data.display()))?;
        let guard = format!("table {TABLE}, each row guarded as {DOMAIN_EXPRESSION}");
        self.plain(&format!("  database     {}", database.display()))?;
        self.plain(&format!("               {guard}"))
    }

    pub(super) fn worker(&mut self, actor: Actor, process: u32) -> Result<(), Failure> {
        if self.json {
            return self.object("worker", json!({"actor": actor, "process": process}));
        }
        self.plain(&format!("  worker {actor}     process {process}"))
    }

    pub(super) fn act(&mut self, act: &Act) -> Result<(), Failure> {
        if self.json {
            return self.object("act", json!({"act": act.number, "title": act.title}));
        }
        let title = (Paint::Strong, format!("{}. {}", act.number, act.title));
        self.plain("")?;
        self.plain(&self.painted(&[title]))
    }

    pub(super) fn scene(&mut self, scene: &Scene) -> Result<(), Failure> {
        if self.json {
            let value = json!({
                "item": scene.item, "fenced": scene.fenced, "ttl_ms": scene.ttl_ms, "tells": scene.tells,
            });
            return self.object("scene", value);
        }
        self.plain("")?;
        for line in wrapped(scene.tells, self.width.min(WIDTH) - 2) {
            self.plain(&format!("  {line}"))?;
        }
        let fenced = match scene.fenced {
            Fenced::OnFirstWrite => "no fence on acquire",
            Fenced::OnAcquire => "fence on acquire",
        };
        let terms = format!("domain {TABLE}/{}, {fenced}, a lease lasts {} s", scene.item, scene.ttl_ms / 1_000);
        if scene.has_leases() {
            self.plain(&self.painted(&[(Paint::Faint, format!("  {terms}"))]))?;
        }
        self.plain("")?;
        self.plain(&self.painted(&[(Paint::Faint, heading(self.width))]))
    }

    pub(super) fn line(&mut self, line: &Line) -> Result<(), Failure> {
        if self.json {
            let value = serde_json::to_value(line).expect("a line is JSON");
            return self.object("step", value);
        }
        let shown = Entry {
            at: line.at,
            holder: line.holder,
            actor: line.actor,
            says: &line.says,
            token: line.token.map(|token| token.to_string()).unwrap_or_default(),
            got: line.got.as_deref().unwrap_or_default(),
            kept: line.kept,
        };
        self.lines(entry(&shown, self.width))?;
        match (line.kept, &line.promised) {
            (Some(false), Some(promised)) => {
                let broken = (Paint::Broken, format!("         NOT AS PROMISED: {promised}"));
                self.plain(&self.painted(&[broken]))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// One line that is written over and over; on a terminal only.
    pub(super) fn progress(&mut self, doing: &str, since: Duration) -> Result<(), Failure> {
        if self.json || !self.on_terminal {
            return Ok(());
        }
        self.shows_progress = true;
        let pieces = [(Paint::Faint, format!("         … {doing}, {:.1} s", since.as_secs_f64()))];
        self.write(&format!("\r\u{1b}[K{}", self.painted(&pieces)))
    }

    pub(super) fn progress_ends(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.shows_progress) { self.write("\r\u{1b}[K") } else { Ok(()) }
    }

    pub(super) fn result(&mut self, checked: &[Checked], took: Duration) -> Result<(), Failure> {
        let broken = checked.iter().filter(|checked| !checked.kept).count();
        if self.json {
            let value = json!({
                "passed": broken == 0,
                "promises": checked.len(),
                "broken": broken,
                "checked": checked,
                "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            });
            return self.object("finished", value);
        }
        self.plain("")?;
        self.plain(&self.painted(&[(Paint::Strong, "What was promised, and what was seen".to_owned())]))?;
        self.plain("")?;
        let heading = Cells { act: "act", claim: "promise", promised: "promised", seen: "seen", kept: None };
        self.lines(row(&heading, self.width).into_iter().map(faint).collect())?;
        for found in rows(checked, &[GREATER_TOKEN.claim, KNOWS_ITS_LOSS.claim]) {
            let act = found.act.map_or_else(|| "all".to_owned(), |act| act.to_string());
            let times = if found.times > 1 { format!(", {} times", found.times) } else { String::new() };
            let (claim, kept) = (format!("{}{times}", found.claim), Some(found.kept));
            let cells = Cells { act: &act, claim: &claim, promised: &found.promised, seen: &found.seen, kept };
            self.lines(row(&cells, self.width))?;
        }
        self.plain("")?;
        let seconds = took.as_secs_f64();
        let verdict = match broken {
            0 => (Paint::Kept, format!("All {} promises were kept, in {seconds:.1} s.", checked.len())),
            _ => (Paint::Broken, format!("{broken} of {} promises were NOT kept.", checked.len())),
        };
        self.plain(&self.painted(&[verdict]))
    }

    pub(super) fn next(&mut self, program: &str) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        self.plain("Nothing is left behind: the workers have ended and the files are removed.")?;
        self.commands(
            "Next",
            &[
                ("play with what you have seen", vec![format!("{program} demo --keep")]),
                (
                    "start a coordinator of your own",
                    vec![format!("{program} serve --data DIR --init"), format!("{program} serve --data DIR")],
                ),
                (
                    "protect a table; count first what a guard would refuse",
                    vec![format!("{program} guard sqlite:PATH TABLE --domain EXPR --observe")],
                ),
            ],
        )
    }

    pub(super) fn commands(&mut self, title: &str, commands: &[(&str, Vec<String>)]) -> Result<(), Failure> {
        self.plain("")?;
        self.plain(&self.painted(&[(Paint::Strong, title.to_owned())]))?;
        for (why, lines) in commands {
            self.plain(&self.painted(&[(Paint::Faint, format!("  # {why}"))]))?;
            for line in lines {
                self.plain(&format!("  {line}"))?;
            }
        }
        Ok(())
    }

    pub(super) fn kept(
        &mut self,
        dir: &Path,
        url: &str,
        process: u32,
        commands: &[(&str, Vec<String>)],
    ) -> Result<(), Failure> {
        if self.json {
            return self.object("kept", json!({"dir": dir, "url": url, "process": process}));
        }
        self.plain(&format!("The server runs on at {url} (process {process}), the files are in {}.", dir.display()))?;
        self.commands("Next", commands)
    }

    fn object(&mut self, event: &str, mut value: serde_json::Value) -> Result<(), Failure> {
        value["event"] = event.into();
        self.plain(&value.to_string())
    }

    fn lines(&self, lines: Vec<Vec<Piece>>) -> Result<(), Failure> {
        for mut pieces in lines {
            while pieces.last().is_some_and(|(_, text)| text.trim().is_empty()) {
                pieces.pop();
            }
            self.plain(self.painted(&pieces).trim_end())?;
        }
        Ok(())
    }

    fn painted(&self, pieces: &[Piece]) -> String {
        pieces.iter().map(|(paint, text)| if self.colours { coloured(*paint, text) } else { text.clone() }).collect()
    }

    fn plain(&self, text: &str) -> Result<(), Failure> {
        self.write(&format!("{text}\n"))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reader_gone(),
            _ => Failure::new(Exit::CannotWrite, format!("the output cannot be written: {error}")).then(AGAIN),
        })
    }
}

fn faint(pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.into_iter().map(|(_, text)| (Paint::Faint, text)).collect()
}

fn coloured(paint: Paint, text: &str) -> String {
    let code = match paint {
        Paint::Plain => return text.to_owned(),
        Paint::Strong => "1",
        Paint::Faint => "2",
        Paint::Kept => "32",
        Paint::Broken => "1;31",
        Paint::Actor(Actor::A) => "36",
        Paint::Actor(Actor::B) => "35",
        Paint::Actor(Actor::C) => "33",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
