//! What takes longer than a second says so: on a terminal, on standard error, in one line that goes away again.
//!
//! Whoever begins something that may take a while holds a [`Doing`] for as long as it goes on. The innermost one is
//! shown, once it is a second old, by a thread of its own: most of this program's work blocks the thread that does it.
//! Whatever else is written takes the line away first ([`clear`]), so that nobody has to end a `Doing` in time.
//!
//! What it is not: a part of the answer. Without a terminal, and with `--json`, there is none of it.

use std::{
    io::{self, IsTerminal, Write},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::output::{terminal_knows_codes, terminal_width};

/// What is over by then is not worth a word.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line is drawn anew.
const REFRESH: Duration = Duration::from_millis(250);
/// How often a terminal that cannot take a line back gets another one.
const LINE_EVERY: Duration = Duration::from_secs(10);

static LINE: Mutex<Line> = Mutex::new(Line { form: None, doings: Vec::new(), next: 0, shown: None, told: None });
static CHANGED: Condvar = Condvar::new();

/// What is said; asked for whenever it is shown, because it may be another thing by then.
type Words = Box<dyn Fn() -> String + Send>;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In one line that is drawn over itself.
    Redrawn,
    /// In a line every now and then, where nothing can be taken back.
    Lines,
}

struct Line {
    form: Option<Form>,
    doings: Vec<Entry>,
    next: u64,
    /// What stands there now, to be taken away.
    shown: Option<String>,
    /// When a line was last written, and of what, where none can be taken back.
    told: Option<(Instant, u64)>,
}

struct Entry {
    id: u64,
    what: Words,
    since: Instant,
    far: Option<Far>,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Far {
    done: u64,
    of: u64,
}

/// Something that goes on until this is dropped.
#[derive(Debug)]
#[must_use = "it ends with this value"]
pub(crate) struct Doing {
    /// `None` where nobody is shown anything.
    id: Option<u64>,
}

/// Has everything that is done from now on shown, where somebody looks on: `json` says that it is a program.
pub(crate) fn show_on_terminal(json: bool) {
    if json || !io::stderr().is_terminal() {
        return;
    }
    let form = if terminal_knows_codes() { Form::Redrawn } else { Form::Lines };
    let was_shown = line().form.replace(form).is_some();
    if !was_shown {
        // Where there is no thread to be had, the work is done in silence.
        drop(thread::Builder::new().name("fencepost-progress".to_owned()).spawn(tick));
    }
}

/// Begins something, in words that fit behind "fencepost: ".
pub(crate) fn doing(what: impl Into<String>) -> Doing {
    let what = what.into();
    doing_as(move || what.clone())
}

/// The same, in words that are asked for whenever it is shown.
pub(crate) fn doing_as(what: impl Fn() -> String + Send + 'static) -> Doing {
    let mut line = line();
    if line.form.is_none() {
        return Doing { id: None };
    }
    let id = line.next;
    line.next += 1;
    line.doings.push(Entry { id, what: Box::new(what), since: Instant::now(), far: None });
    CHANGED.notify_one();
    Doing { id: Some(id) }
}

impl Doing {
    /// Says it in other words from now on. The time goes on.
    pub(crate) fn now(&self, what: impl Into<String>) {
        let what = what.into();
        self.change(|entry| entry.what = Box::new(move || what.clone()));
    }

    /// Whether anybody sees it: what is found out for nobody is not worth the time.
    pub(crate) fn is_seen(&self) -> bool {
        self.id.is_some()
    }

    /// Says how much of how much is done.
    pub(crate) fn is_at(&self, done: u64, of: u64) {
        self.change(|entry| entry.far = Some(Far { done, of }));
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        let Some(id) = self.id else { return };
        if let Some(entry) = line().doings.iter_mut().find(|entry| entry.id == id) {
            change(entry);
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let mut line = line();
        line.doings.retain(|entry| entry.id != id);
        line.take_away();
    }
}

/// Takes the line away, for something else to be written where it stands. It comes back by itself.
pub(crate) fn clear() {
    line().take_away();
}

fn line() -> MutexGuard<'static, Line> {
    // Whoever panicked has left no more than a line that is not right.
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tick() {
    let mut line = line();
    loop {
        line = if line.doings.is_empty() {
            CHANGED.wait(line).unwrap_or_else(PoisonError::into_inner)
        } else {
            line.draw(Instant::now());
            CHANGED.wait_timeout(line, REFRESH).unwrap_or_else(PoisonError::into_inner).0
        };
    }
}

impl Line {
    fn draw(&mut self, now: Instant) {
        let Some(entry) = self.doings.last() else { return };
        let elapsed = now.saturating_duration_since(entry.since);
        if elapsed < SILENT {
            return;
        }
        let text = text(&(entry.what)(), entry.far, elapsed);
        let mut stderr = io::stderr().lock();
        // Where standard error is closed, nobody looks on.
        let _ = match self.form {
            None => Ok(()),
            Some(Form::Redrawn) => {
                // A line that goes over the edge could not be taken back.
                let text = cut(&text, terminal_width(io::stderr()).unwrap_or(80).saturating_sub(1));
                if self.shown.as_ref() == Some(&text) {
                    return;
                }
                let written = write!(stderr, "\r{text}\u{1b}[K").and_then(|()| stderr.flush());
                self.shown = Some(text);
                written
            }
            Some(Form::Lines) => {
                let is_due = self.told.is_none_or(|(told, id)| id != entry.id || now - told >= LINE_EVERY);
                if !is_due {
                    return;
                }
                self.told = Some((now, entry.id));
                writeln!(stderr, "{text}")
            }
        };
    }

    fn take_away(&mut self) {
        if self.shown.take().is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn text(what: &str, far: Option<Far>, elapsed: Duration) -> String {
    let far = far.filter(|far| far.of > 0).map_or_else(String::new, |Far { done, of }| {
        // What grows while it is read is done before its end.
        format!(", {} %", (u128::from(done) * 100 / u128::from(of)).min(100))
    });
    format!("fencepost: {what}{far} ({})", readable_seconds(elapsed.as_secs()))
}

/// Whole seconds that have passed, or minutes, for people.
pub(crate) fn readable_seconds(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}

fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        Some(_) => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_how_far_and_for_how_long() {
        assert_eq!(text("checking x", None, Duration::from_millis(1_900)), "fencepost: checking x (1 s)");
        let far = |done, of| text("reading x", Some(Far { done, of }), Duration::from_secs(119));
        assert_eq!(far(1, 3), "fencepost: reading x, 33 % (119 s)");
        assert_eq!(far(9, 3), "fencepost: reading x, 100 % (119 s)");
        assert_eq!(far(9, 0), "fencepost: reading x (119 s)");
        assert_eq!(far(u64::MAX, u64::MAX), "fencepost: reading x, 100 % (119 s)");
        assert_eq!(text("waiting", None, Duration::from_secs(150)), "fencepost: waiting (2 min)");
    }

    #[test]
    fn a_line_never_goes_over_the_edge() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("äöü", 2), "ä…");
        assert_eq!(cut("abc", 0), "…");
    }

    /// Nobody looks on here. Mutant: a `doing` is noted all the same.
    #[test]
    fn without_a_terminal_nothing_is_noted() {
        let doing = doing("nothing");
        doing.now("something");
        doing.is_at(1, 2);
        assert!(doing.id.is_none() && line().doings.is_empty());
    }
}
