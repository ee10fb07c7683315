//! What takes longer than a second says so: on a terminal, on standard error.
//!
//! Whoever begins something that may take a while holds a [`Doing`] for as long as it goes on. The innermost one is
//! shown, once it is a second old, by a thread of its own: most of this program's work blocks the thread that does it.
//! The work never waits for the terminal, which may be stopped; what else is written there takes the line away first
//! ([`beside`]), and an answer ends everything that led to it ([`answered`]). So does a signal, whose sender wants his
//! prompt at the beginning of a line.
//!
//! What it is not: a part of the answer. Without a terminal, in the background, and with `--json`, there is none of it.

use std::{
    env,
    io::{self, IsTerminal, Write},
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGINT, SIGQUIT, SIGTERM},
    iterator::Signals,
    low_level::emulate_default_handler,
};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{
    lines::visible,
    output::{terminal_knows_codes, terminal_width},
    run::{is_in_foreground, unless_ignored},
};

/// What is over by then is not worth a word.
const SILENT: Duration = Duration::from_secs(1);
/// How often the line is drawn anew.
const REFRESH: Duration = Duration::from_millis(250);
/// How often a terminal that cannot take a line back gets another one.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// How long an answer waits for a line to be taken away. A terminal that is stopped takes nothing.
const PATIENCE: Duration = Duration::from_millis(100);

static DOINGS: Mutex<Doings> = Mutex::new(Doings { form: None, entries: Vec::new(), next: 0 });
static CHANGED: Condvar = Condvar::new();
/// Whether a signal ends this process as it would end any other.
static ENDS_BY_SIGNALS: AtomicBool = AtomicBool::new(true);
/// Held while anything is written there. Whoever holds it may look at `DOINGS`, and not the other way round.
static SCREEN: Mutex<Screen> = Mutex::new(Screen { shown: None, told: None });

/// What is said; asked for whenever it is shown, because it may be another thing by then.
type Words = Arc<dyn Fn() -> String + Send + Sync>;

/// How it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// In one line that is drawn over itself.
    Redrawn,
    /// In a line every now and then, where nothing can be taken back, or where others may write between.
    Lines,
}

struct Doings {
    form: Option<Form>,
    entries: Vec<Entry>,
    next: u64,
}

#[derive(Clone)]
struct Entry {
    id: u64,
    what: Words,
    since: Instant,
    far: Option<Far>,
}

struct Screen {
    /// What stands there now, to be taken away.
    shown: Option<String>,
    /// When a line was last written, and of what, where none is taken back.
    told: Option<(Instant, u64)>,
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
    if json || !io::stderr().is_terminal() || !is_in_foreground() {
        return;
    }
    // What stands before a pipe, and what else `run` has started, writes to the same terminal.
    let is_alone = io::stdin().is_terminal() && env::var_os("FENCEPOST_DEADLINE").is_none();
    let form = if is_alone && terminal_knows_codes() { Form::Redrawn } else { Form::Lines };
    let was_shown = doings().form.replace(form).is_some();
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
pub(crate) fn doing_as(what: impl Fn() -> String + Send + Sync + 'static) -> Doing {
    let mut doings = doings();
    if doings.form.is_none() {
        return Doing { id: None };
    }
    let id = doings.next;
    doings.next += 1;
    doings.entries.push(Entry { id, what: Arc::new(what), since: Instant::now(), far: None });
    CHANGED.notify_one();
    Doing { id: Some(id) }
}

impl Doing {
    /// Says it in other words from now on. The time goes on.
    pub(crate) fn now(&self, what: impl Into<String>) {
        let what = what.into();
        self.change(|entry| entry.what = Arc::new(move || what.clone()));
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
        if let Some(entry) = doings().entries.iter_mut().find(|entry| entry.id == id) {
            change(entry);
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        doings().entries.retain(|entry| entry.id != id);
        CHANGED.notify_one();
    }
}

/// Ends everything that goes on: the answer to it comes now, and its reader may take time over it.
pub(crate) fn answered() {
    doings().entries.clear();
    if let Some(mut screen) = screen() {
        screen.take_away();
    }
}

/// Writes something where the line stands. It comes back by itself.
pub(crate) fn beside<T>(write: impl FnOnce() -> T) -> T {
    let mut screen = screen();
    if let Some(screen) = &mut screen {
        screen.take_away();
    }
    write()
}

/// From now on the caller hears of signals and decides what they end.
pub(crate) fn leave_signals() {
    ENDS_BY_SIGNALS.store(false, Ordering::SeqCst);
}

/// Has the line taken away when a signal comes, from now on. Nobody listens before there is a line.
fn listen_for_signals() {
    static LISTENED: Once = Once::new();
    LISTENED.call_once(|| {
        let (begins, has_begun) = mpsc::channel::<()>();
        // A signal that is listened to ends nothing by itself, so whoever listens is there first.
        drop(thread::Builder::new().name("fencepost-signals".to_owned()).spawn(move || {
            let signals = Signals::new(unless_ignored(&[SIGINT, SIGQUIT, SIGTERM]));
            drop(begins);
            if let Ok(mut signals) = signals {
                signals.forever().for_each(end_by);
            }
        }));
        let _ = has_begun.recv();
    });
}

fn end_by(signal: i32) {
    let (taken, is_taken) = mpsc::channel::<()>();
    // A terminal that is stopped keeps nobody from ending.
    drop(thread::Builder::new().spawn(move || {
        answered();
        drop(taken);
    }));
    let _ = is_taken.recv_timeout(PATIENCE);
    if ENDS_BY_SIGNALS.load(Ordering::SeqCst) && emulate_default_handler(signal).is_err() {
        process::exit(128 + signal);
    }
}

fn doings() -> MutexGuard<'static, Doings> {
    // Whoever panicked has left no more than a line that is not right.
    DOINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` where the terminal takes nothing at present.
fn screen() -> Option<MutexGuard<'static, Screen>> {
    let started = Instant::now();
    loop {
        match SCREEN.try_lock() {
            Ok(screen) => return Some(screen),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if started.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn tick() {
    let mut current = doings();
    loop {
        let (form, entry) = (current.form, current.entries.last().cloned());
        drop(current);
        let is_idle = match (form, &entry) {
            (Some(form), Some(entry)) => {
                draw(form, entry, Instant::now());
                false
            }
            _ => {
                SCREEN.lock().unwrap_or_else(PoisonError::into_inner).take_away();
                true
            }
        };
        current = doings();
        let is_same = current.entries.last().map(|entry| entry.id) == entry.map(|entry| entry.id);
        current = match (is_same, is_idle) {
            (false, _) => current,
            (true, true) => CHANGED.wait(current).unwrap_or_else(PoisonError::into_inner),
            (true, false) => CHANGED.wait_timeout(current, REFRESH).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

fn draw(form: Form, entry: &Entry, now: Instant) {
    let elapsed = now.saturating_duration_since(entry.since);
    // Finding the words may take its time too.
    let text = (elapsed >= SILENT).then(|| text(&(entry.what)(), entry.far, elapsed));
    let mut screen = SCREEN.lock().unwrap_or_else(PoisonError::into_inner);
    let goes_on = doings().entries.last().is_some_and(|last| last.id == entry.id);
    match text {
        Some(text) if goes_on => screen.show(form, text, entry.id, now),
        Some(_) | None => screen.take_away(),
    }
}

impl Screen {
    fn show(&mut self, form: Form, text: String, id: u64, now: Instant) {
        let text = visible(&text).into_owned();
        // Where standard error is closed, nobody looks on.
        let _ = match form {
            Form::Redrawn => {
                listen_for_signals();
                // A line that goes over the edge could not be taken back.
                let text = cut(&text, terminal_width(io::stderr()).unwrap_or(80).saturating_sub(1));
                if self.shown.as_ref() == Some(&text) {
                    return;
                }
                let written = write!(io::stderr(), "\r{text}\u{1b}[K");
                self.shown = Some(text);
                written
            }
            Form::Lines => {
                if self.told.is_some_and(|(told, of)| of == id && now - told < LINE_EVERY) {
                    return;
                }
                self.told = Some((now, id));
                writeln!(io::stderr(), "{text}")
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
    let line = format!("fencepost: {what}{far} ({})", readable_seconds(elapsed.as_secs()));
    // A name may be of anything.
    line.replace(char::is_control, "?")
}

/// Whole seconds that have passed, or minutes, for people.
pub(crate) fn readable_seconds(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}

/// As much of it as fits into so many columns.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |c: &char| {
        let rest = left.checked_sub(c.width().unwrap_or(0));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
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
        assert_eq!(text("reading a\nb\u{1b}[2J", None, SILENT), "fencepost: reading a?b?[2J (1 s)");
    }

    #[test]
    fn a_line_never_goes_over_the_edge() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("äöü", 2), "ä…");
        assert_eq!(cut("abc", 0), "…");
        assert_eq!(cut("漢字漢字", 8), "漢字漢字");
        assert_eq!(cut("漢字漢字", 6), "漢字…");
    }

    /// Nobody looks on here. Mutant: a `doing` is noted all the same.
    #[test]
    fn without_a_terminal_nothing_is_noted() {
        let doing = doing("nothing");
        doing.now("something");
        doing.is_at(1, 2);
        assert!(doing.id.is_none() && doings().entries.is_empty());
    }
}
