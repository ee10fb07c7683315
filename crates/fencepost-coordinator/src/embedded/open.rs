use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use fencepost_core::{
    BootId, Epoch, Issuer, Sequence,
    lease::{Leases, Start},
};

use super::{
    BootClock, Clock, Embedded, Options,
    clock::moment,
    directory::{Holding, damaged, examine, identity, lock, look, narrow, sync, unreadable},
    facts::{Facts, StopMark, Unobserved},
    handle::Shared,
    journal::Journal,
    lock::DirectoryLock,
    options::wall_clock,
    store::{
        FileId, Store, StoreError,
        sqlite::{DATABASE_FILE, OpenFailure, SqliteStore},
    },
    upkeep::Upkeeper,
    writer::{Mode, Writer},
};

/// How far the wall clock may push the sequence at one start without being told to: a year of milliseconds.
const PUSH_MOST: u64 = 366 * 24 * 60 * 60 * 1000;

/// Which coordinator this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, as receivers know it.
    pub issuer: Issuer,
    /// The generation of its identity.
    pub epoch: Epoch,
}

/// Why a data directory was not initialised or opened. Nothing has been changed in it, but for a lock file.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It holds no coordinator's store. An empty directory is never taken for a new coordinator by itself, because it
    /// may be one whose state was lost; initialise it, which chooses a fresh epoch.
    #[error("{} holds no coordinator's store; if it is to hold a new one, initialise it first", .dir.display())]
    NotInitialised {
        /// The directory.
        dir: PathBuf,
    },
    /// It holds a coordinator's store already, so it is not initialised. Open it.
    #[error("{} holds a coordinator's store already; open it, or initialise another directory", .dir.display())]
    Initialised {
        /// The directory.
        dir: PathBuf,
    },
    /// It is not empty, so it is not initialised. Name another one.
    #[error("{} is not empty ({found} is in it); initialise another directory", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// Something that is in it.
        found: String,
    },
    /// It is no directory, or lies below something that is none, or is a link that leads nowhere. Whether there is a
    /// store is not known by that.
    #[error("{} is not a directory", .path.display())]
    NotADirectory {
        /// What is no directory.
        path: PathBuf,
    },
    /// The system does not let this user read or write it. Whether there is a store is not known by that.
    #[error("{}: {source}", .path.display())]
    Denied {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has it open. Stop that one first.
    #[error("{} is in use by {}; stop that process first", .dir.display(), whom(*.pid))]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process, where it could be read.
        pid: Option<u32>,
    },
    /// The store was written by another version of this program. Use that one.
    #[error("the store in {} has layout {found}; this version knows layout {known} only", .dir.display())]
    Layout {
        /// The directory.
        dir: PathBuf,
        /// The layout found.
        found: i64,
        /// The layout known.
        known: i64,
    },
    /// The store is damaged. Nothing may be granted on it, nor on an older copy of it: initialise a new directory with
    /// the same issuer and an epoch above every one that it has had.
    #[error(
        "the store in {} is damaged: {what}. Do not delete rows to get past this: keep the directory for \
         inspection, never copy an old one back, and initialise a new one with the same issuer and a greater epoch", .dir.display()
    )]
    Damaged {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The store did not work. It may be tried again.
    #[error("the store in {} does not work: {why}", .dir.display())]
    Store {
        /// The directory.
        dir: PathBuf,
        /// What it said.
        why: String,
    },
    /// The filesystem did not do what it was asked for.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The wall clock stands before 2026, so no epoch can be chosen by it. Set the clock, or name an epoch.
    #[error("the wall clock stands before 2026; set it, or name an epoch")]
    ClockBehind,
    /// The machine does not tell which boot it runs under.
    #[error("the boot id of this machine cannot be read: {0}")]
    Boot(io::Error),
    /// The operating system gave no thread to write on.
    #[error("no thread could be started: {0}")]
    Thread(io::Error),
}

fn whom(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl Embedded {
    /// Opens a directory that was [initialised](Self::init) and starts to serve from it. Takes as long as reading the
    /// last snapshot and the log after it.
    ///
    /// # Errors
    /// When there is nothing to open, another process has it, or it is damaged.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        open_telling(dir.as_ref(), options, &|_| {})
    }

    /// Opens a directory although another process may have it open, which is thereby deposed. For tests of just that.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for the lock.
    #[doc(hidden)]
    pub fn open_without_lock(dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let dir = dir.as_ref();
        Self::start(open_sqlite(dir, identity(dir)?, &|_| {})?, None, options, dir)
    }

    /// Starts on any store; `name` stands for it in errors.
    pub(super) fn start(
        store: Box<dyn Store>,
        lock: Option<DirectoryLock>,
        options: Options,
        name: &Path,
    ) -> Result<Self, OpenError> {
        let clock = match options.clock {
            Some(clock) => clock,
            None => Arc::new(BootClock::new().map_err(OpenError::Boot)?),
        };
        let boot = clock.boot();
        let (mut journal, mut leases) = Journal::take(store).map_err(|error| unusable(error, name))?;
        let wall = wall_clock(options.wall_clock).unix_millis();
        let push = Push::at(wall, journal.header().created_unix_ms, leases.reserved(), options.push_far);
        journal.note_start(moment(clock.now()).as_millis(), wall).map_err(|error| unusable(error, name))?;
        begin(&mut journal, &mut leases, boot, clock.as_ref(), push.least).map_err(|error| unusable(error, name))?;

        let (to_writer, inbox) = mpsc::channel();
        let facts = Arc::new(Facts::new());
        let events = tokio::sync::broadcast::Sender::new(options.event_buffer.max(1));
        let shared = Shared {
            to_writer: to_writer.clone(),
            clock: Arc::clone(&clock),
            boot,
            identity: Identity { issuer: leases.issuer().clone(), epoch: leases.epoch() },
            start_number: journal.start(),
            withheld_push: push.withheld,
            facts: Arc::clone(&facts),
            history: Arc::clone(journal.history()),
            events: events.clone(),
            next_ticket: Default::default(),
            thread: Default::default(),
        };
        let upkeep = Upkeeper::new(to_writer, options.snapshot_log_bytes, journal.snapshot_bytes());
        let writer = Writer {
            inbox,
            clock,
            leases,
            journal,
            mode: Mode::Serving,
            replies: Default::default(),
            events,
            event_number: 0,
            facts: Arc::clone(&facts),
            observer: options.observer.unwrap_or_else(|| Box::new(Unobserved)),
            upkeep,
            batch_most: options.batch_most.max(1),
            closing: None,
            _lock: lock,
        };
        let run = move || {
            let _mark = StopMark(facts);
            writer.run();
        };
        let thread =
            thread::Builder::new().name("fencepost-writer".to_owned()).spawn(run).map_err(OpenError::Thread)?;
        Ok(Self::new(shared, thread))
    }
}

/// Writes down that this start has begun, before anything is answered.
fn begin(
    journal: &mut Journal,
    leases: &mut Leases,
    boot: BootId,
    clock: &dyn Clock,
    least: Sequence,
) -> Result<(), StoreError> {
    let started = leases.start(Start { number: journal.start(), boot, at: moment(clock.now()), least });
    journal.commit(started.records())?;
    let spoken = started.committed();
    assert!(spoken.answers.is_empty(), "nobody has asked anything before the start");
    Ok(())
}

/// How far a start pushes the sequence forward.
struct Push {
    least: Sequence,
    withheld: Option<Sequence>,
}

impl Push {
    /// To the milliseconds since the store was created, unless a clock that is far off would burn the sequence.
    fn at(wall_ms: u64, created_ms: u64, reserved: Sequence, far: bool) -> Self {
        let aim = Sequence::new(wall_ms.saturating_sub(created_ms)).unwrap_or(Sequence::MAX);
        if far || aim.get().saturating_sub(reserved.get()) <= PUSH_MOST {
            Self { least: aim, withheld: None }
        } else {
            Self { least: Sequence::ZERO, withheld: Some(aim) }
        }
    }
}

/// Opens, and names each step when it is done.
pub(super) fn open_telling(dir: &Path, options: Options, done: &dyn Fn(&str)) -> Result<Embedded, OpenError> {
    if look(dir)? == Holding::Nothing {
        return Err(OpenError::NotInitialised { dir: dir.to_owned() });
    }
    // Noted before the lock is taken, so that a directory that comes in between is not served under the lock of another.
    let noted = identity(dir)?;
    done("noted");
    let lock = lock(dir)?;
    done("locked");
    // An init that was killed may have left a name that is not durable yet, and answers are about to rest on it.
    sync(dir).map_err(|error| unreadable(dir, error))?;
    examine(dir)?;
    narrow(dir);
    Embedded::start(open_sqlite(dir, noted, done)?, Some(lock), options, dir)
}

fn open_sqlite(dir: &Path, noted: FileId, done: &dyn Fn(&str)) -> Result<Box<dyn Store>, OpenError> {
    match SqliteStore::open(&dir.join(DATABASE_FILE), noted, done) {
        Ok(store) => Ok(Box::new(store)),
        Err(failure) => Err(refused(failure, dir)),
    }
}

pub(super) fn refused(failure: OpenFailure, dir: &Path) -> OpenError {
    match failure {
        OpenFailure::Foreign => damaged(dir, format!("{DATABASE_FILE} is some other program's database")),
        OpenFailure::Layout(found) => OpenError::Layout { dir: dir.to_owned(), found, known: SqliteStore::LAYOUT },
        OpenFailure::Store(error) => unusable(error, dir),
    }
}

fn unusable(error: StoreError, dir: &Path) -> OpenError {
    let dir = dir.to_owned();
    match error {
        StoreError::Damaged(what) => OpenError::Damaged { dir, what },
        StoreError::Failed(why) => OpenError::Store { dir, why },
        StoreError::Deposed { by } => OpenError::Store { dir, why: format!("start {by} came in between") },
    }
}
