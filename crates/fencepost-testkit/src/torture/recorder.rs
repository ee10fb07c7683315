use std::{
    fs::File,
    io::{self, Write},
    path::Path,
};

use rustix::time::{ClockId, clock_gettime};

use crate::history::{Answer, Did, Doing, Line};

/// Writes what one process calls and is answered, each line as soon as it is known: what a killed process has written is
/// there, and a call that it was in has no answer.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    who: String,
    next: u64,
    shift_us: u64,
}

/// Microseconds of this machine's `CLOCK_BOOTTIME`, less `shift_us`: what a time namespace has added to it.
#[must_use]
pub fn now_us(shift_us: u64) -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    (seconds * 1_000_000 + nanoseconds / 1_000).saturating_sub(shift_us)
}

impl Recorder {
    /// Begins a history of its own in a new file. `process` tells this process's calls from those of all others: no two
    /// may have the same. `shift_us` is what a time namespace has added to this process's clock.
    ///
    /// # Errors
    /// When the file cannot be made, or is there already.
    pub fn create(path: &Path, who: &str, process: u32, shift_us: u64) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        Ok(Self { file, who: who.to_owned(), next: u64::from(process) << 32, shift_us })
    }

    /// Notes a call that is about to be made, with what `more` adds to it. Its number is for [`answer`](Self::answer).
    ///
    /// # Errors
    /// When the line cannot be written. The call is not to be made then.
    pub fn call(&mut self, doing: Doing, domain: &str, more: impl FnOnce(&mut Line)) -> io::Result<u64> {
        self.begin(doing, |line| {
            line.domain = Some(domain.to_owned());
            more(line);
        })
    }

    /// Notes a call about a session that is about to be made.
    ///
    /// # Errors
    /// When the line cannot be written. The call is not to be made then.
    pub fn call_of_session(&mut self, doing: Doing) -> io::Result<u64> {
        self.begin(doing, |_| {})
    }

    fn begin(&mut self, doing: Doing, more: impl FnOnce(&mut Line)) -> io::Result<u64> {
        self.next += 1;
        let mut line = Line::of(Did::Called(self.next, doing));
        line.who = Some(self.who.clone());
        more(&mut line);
        self.write(line)?;
        Ok(self.next)
    }

    /// Notes what a call was answered, with what `more` adds to it.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn answer(&mut self, call: u64, got: Answer, more: impl FnOnce(&mut Line)) -> io::Result<()> {
        let mut line = Line::of(Did::Answered(call, got));
        more(&mut line);
        self.write(line)
    }

    /// The present moment on the clock of the history.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        now_us(self.shift_us)
    }

    fn write(&mut self, mut line: Line) -> io::Result<()> {
        line.at_us = Some(line.at_us.unwrap_or_else(|| self.now_us()));
        let mut text = serde_json::to_vec(&line).map_err(io::Error::other)?;
        text.push(b'\n');
        // In one piece, so that a kill leaves whole lines.
        self.file.write_all(&text)
    }
}
