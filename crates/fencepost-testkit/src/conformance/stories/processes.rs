//! Several processes, some of them killed in the middle of a write.

use std::{
    io::{self, BufRead, BufReader, Write},
    ops::RangeInclusive,
    process::{Child, ChildStdin, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use fencepost_core::{Token, fence::Verdict};

use crate::conformance::{
    Adapter, Handle,
    build::{operation, token},
    child::{Job, Line, MARK, ROLE, value},
    stage::{Failure, Stage, Teller, Told, domain},
    step::{Claim, shown},
    stories::races::mark,
};

/// How long a child may say nothing. It says something before and after each of its writes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A child, killed when it is dropped.
struct Running {
    process: Child,
    told: ChildStdin,
    /// What it says, read by a thread, because a pipe is waited for without end.
    says: Receiver<io::Result<String>>,
}

impl Running {
    /// Starts a process that waits for [`go`](Self::go).
    fn start(adapter: &dyn Adapter, job: &Job) -> Result<Self, String> {
        let mut command = adapter.process().map_err(|cause| format!("there is no process: {cause}"))?;
        command.env(ROLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().map_err(|error| format!("the process was not started: {error}"))?;
        let (told, says) = (process.stdin.take(), process.stdout.take());
        let (told, says) = told.zip(says).ok_or("the process has no pipes")?;
        let (read, lines) = mpsc::channel();
        thread::spawn(move || BufReader::new(says).lines().try_for_each(|line| read.send(line)));
        let mut running = Self { process, told, says: lines };
        running.tell(&serde_json::to_string(job).map_err(|error| error.to_string())?)?;
        match running.next()? {
            Some(Line::Ready) => Ok(running),
            other => Err(format!("the process did not call `child`: {other:?}")),
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.told, "{line}")
            .and_then(|()| self.told.flush())
            .map_err(|error| format!("the process is gone: {error}"))
    }

    fn go(&mut self) -> Result<(), String> {
        self.tell("go")
    }

    /// The next line that is the suite's; `None` at the end.
    fn next(&mut self) -> Result<Option<Line>, String> {
        loop {
            let line = match self.says.recv_timeout(PATIENCE) {
                Ok(line) => line.map_err(|error| format!("the process cannot be read: {error}"))?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => return Err(format!("a process hangs: silent for {PATIENCE:?}")),
            };
            if let Some((_, text)) = line.split_once(MARK) {
                return serde_json::from_str(text).map(Some).map_err(|error| format!("{line}: {error}"));
            }
        }
    }

    /// Everything up to the end: the writes applied, and whether one was stale.
    fn rest_of_it(&mut self) -> Result<(u64, bool), String> {
        let (mut applied, mut stale) = (0, false);
        loop {
            match self.next()? {
                Some(Line::Applied(_)) => applied += 1,
                Some(Line::Stale(_)) => stale = true,
                Some(Line::Ready | Line::Tries(_)) => {}
                Some(Line::Done) => return Ok((applied, stale)),
                Some(Line::Other(what)) => return Err(what),
                None => return Err("a process ended in the middle".to_owned()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// How often the processes race.
const RACES: u64 = 4;
/// How many processes there are in a race.
const RACERS: u64 = 4;

/// Mutants: the fence is checked before the transaction; the lock is one of the process.
pub(crate) fn processes_that_write_at_once_leave_the_newest_value(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    for first in (1..).step_by(RACERS as usize).take(RACES as usize) {
        let newest = first + RACERS - 1;
        stage.say(format!(
            "processes with the tokens 0.{first} to 0.{newest} write at once, the newest once, and somebody looks on"
        ));
        let watcher = stage.open_one_more()?;
        let ended = race(teller.adapter, &stage.place, first..=newest, watcher).map_err(|what| stage.broken(what))?;
        if ended.last() != Some(&(1, false)) {
            return Err(stage.broken("the newest token must be accepted"));
        }
        let left = stage.value(&domain("d"))?;
        if mark(left.as_deref()) != newest {
            let left = shown(&left.unwrap_or_default());
            return Err(stage.broken(format!("the newest token has written, and the value is {left}")));
        }
    }
    Ok(())
}

/// # Returns
/// What each process was answered: the writes applied, and whether one was stale.
fn race(
    adapter: &dyn Adapter,
    place: &str,
    tokens: RangeInclusive<u64>,
    mut watcher: Box<dyn Handle>,
) -> Result<Vec<(u64, bool)>, String> {
    let newest = *tokens.end();
    let mut running = Vec::new();
    for own in tokens {
        let token = Token::from_integer(own).map_err(|error| error.to_string())?;
        // The newest writes once: whoever comes late with an older token would have the last word.
        let writes = if own == newest { 1 } else { 10 };
        let job = Job { place: place.to_owned(), domain: domain("d"), token, name: None, writes, looks_on: true };
        running.push(Running::start(adapter, &job)?);
    }
    running.iter_mut().try_for_each(Running::go)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watched = scope.spawn(|| never_goes_back(watcher.as_mut(), &done));
        let ended = running.iter_mut().map(Running::rest_of_it).collect::<Result<Vec<_>, String>>();
        done.store(true, Ordering::Release);
        watched.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ended
    })
}

fn never_goes_back(watcher: &mut dyn Handle, done: &AtomicBool) -> Result<(), String> {
    let mut greatest = 0;
    while !done.load(Ordering::Acquire) {
        let seen = watcher.value(&domain("d")).map_err(|cause| format!("the value could not be read: {cause}"))?;
        let seen = mark(seen.as_deref());
        if seen < greatest {
            return Err(format!("a value of token 0.{seen} was seen after one of token 0.{greatest}"));
        }
        greatest = seen;
    }
    Ok(())
}

/// Mutants: effect, record and raise are not one commit; an acknowledged write is not there after a crash.
pub(crate) fn a_write_cut_off_by_a_kill_is_settled_by_a_retry(teller: &Teller<'_>) -> Told {
    let mut stage = teller.stage()?;
    for round in 0..u32::try_from(teller.settings.kills).unwrap_or(u32::MAX) {
        let own = token(&format!("0.{}", 10 + 2 * round));
        let cut = killed(teller, &mut stage, own, round)?;
        settle(&mut stage, own, &format!("killed{round}"), cut)?;
    }
    Ok(())
}

/// How many answers a writer gets before it is killed.
const ANSWERS: u32 = 3;

/// Starts a writer and kills it when it has been answered a few times.
///
/// # Returns
/// The number of the write that it was in, or may have been.
fn killed(teller: &Teller<'_>, stage: &mut Stage<'_>, own: Token, round: u32) -> Result<u64, Failure> {
    let job = Job {
        place: stage.place.clone(),
        domain: domain("d"),
        token: own,
        name: Some(format!("killed{round}")),
        writes: 1_000_000,
        looks_on: false,
    };
    let told = (|| {
        let mut running = Running::start(teller.adapter, &job)?;
        running.go()?;
        let (mut tried, mut answers, started) = (0, 0, Instant::now());
        while let Some(line) = running.next()? {
            match line {
                Line::Tries(n) => tried = n,
                Line::Applied(_) => answers += 1,
                Line::Ready | Line::Done => {}
                Line::Stale(n) => return Err(format!("write {n} of the newest owner was stale")),
                Line::Other(what) => return Err(what),
            }
            if answers == ANSWERS {
                // At another part of a write each time, by how long they have taken so far.
                let parts = u32::try_from(teller.settings.kills).unwrap_or(u32::MAX).saturating_add(1);
                thread::sleep(started.elapsed() / ANSWERS * (round + 1) / parts);
                running.process.kill().map_err(|error| error.to_string())?;
                answers += 1;
            }
        }
        Ok(tried)
    })();
    let tried = told.map_err(|what| stage.broken(what))?;
    stage.say(format!("a process writes under token {own} and is killed in or after write {tried}"));
    Ok(tried)
}

/// The next owner comes, sees whether the write that was cut off has happened, and retries it and the one before it.
fn settle(stage: &mut Stage<'_>, own: Token, name: &str, cut: u64) -> Told {
    let next = Token::from_integer(own.as_u64() + 1).expect("a small number is a token");
    let d = domain("d");
    let grant = Claim::new(&d, next).grant();
    let advanced = stage.handle(0)?.advance(&grant);
    if !matches!(advanced, Ok(Verdict::Applied(()))) {
        return Err(stage.broken(format!("the next owner must be let in after a kill, not: {advanced:?}")));
    }
    let happened = stage.value(&d)?.as_deref() == Some(value(own, cut).as_bytes());
    stage.say(format!("advance under {next}; write {cut} has {}happened", if happened { "" } else { "not " }));
    let retry = |stage: &mut Stage<'_>, n: u64| {
        let id = operation(&format!("{name}-{n}"), "same");
        let answer = stage.handle(0)?.write(&domain("d"), &grant, Some(&id), value(own, n).as_bytes());
        stage.say(format!("retry write {n} under token {next}: {answer:?}"));
        answer.map_err(|error| stage.broken(format!("there must be a verdict, not: {error}")))
    };
    match (retry(stage, cut)?, happened) {
        (Verdict::Applied(_), false) | (Verdict::Replayed(_), true) => {}
        (_, true) => return Err(stage.broken("the effect has happened, so its retry must be replayed")),
        (_, false) => return Err(stage.broken("the effect has not happened, so its retry must be applied")),
    }
    if let Some(before) = cut.checked_sub(1) {
        let verdict = retry(stage, before)?;
        if !matches!(verdict, Verdict::Replayed(_)) {
            return Err(stage.broken("a write that was answered before the kill must be replayed"));
        }
    }
    let found = stage.value(&d)?;
    if found.as_deref() != Some(value(own, cut).as_bytes()) {
        let found = shown(&found.unwrap_or_default());
        return Err(stage.broken(format!("the last write was {cut}, and the value is {found}")));
    }
    let late = stage.handle(0)?.write(&d, &Claim::new(&d, own).grant(), None, b"late");
    match late {
        Ok(Verdict::Rejected(rejection)) if rejection.stale().is_some() => Ok(()),
        other => Err(stage.broken(format!("the killed owner's token must be stale by now, not: {other:?}"))),
    }
}
