//! What `acquire` leaves for `renew` and `release`: session, secret and request id, in a file that only its owner can
//! read.
//!
//! The file is written before the acquire is sent, so that an answer that is lost can be asked for again under the
//! same request id, also by another process. It has one lease: a second job needs a file of its own.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use fencepost_coordinator::SessionKey;
use fencepost_core::{Domain, LeaseId, RequestId, SessionId, Token, Ttl};
use fencepost_wire::{AcquireBody, ReleaseAnswer, decode};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure, Unadvised},
    path, progress,
};

pub(crate) const VARIABLE: &str = "FENCEPOST_SESSION_FILE";
const LAYOUT: u32 = 1;
/// Far more than any file of ours.
const MOST_BYTES: u64 = 64 * 1024;
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// What stands in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    layout: u32,
    /// The coordinator.
    pub(crate) url: String,
    pub(crate) session: SessionId,
    secret: String,
    pub(crate) ttl_ms: Ttl,
    /// The acquire as it was, or is to be, sent.
    pub(crate) asked: AcquireBody,
    /// What it was answered with; nothing before that.
    pub(crate) granted: Option<KeptGrant>,
}

/// What the acquire was answered with.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptGrant {
    pub(crate) lease: LeaseId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<Token>,
}

impl Kept {
    /// An acquire that is about to be sent.
    pub(crate) fn asking(url: &str, key: &SessionKey, ttl: Ttl, asked: AcquireBody) -> Self {
        let secret = key.secret.expose();
        Self { layout: LAYOUT, url: url.to_owned(), session: key.session, secret, ttl_ms: ttl, asked, granted: None }
    }

    /// The same, answered.
    pub(crate) fn granted(mut self, granted: KeptGrant) -> Self {
        self.granted = Some(granted);
        self
    }

    /// What stands in a file of these bytes.
    ///
    /// # Errors
    /// Why it is none of ours, or damaged.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let kept: Self = decode(text).map_err(|malformed| malformed.to_string())?;
        if kept.layout != LAYOUT {
            return Err("another version of fencepost wrote it".to_owned());
        }
        let sound = kept.key().map(|_| ()).and(kept.request().map(|_| ())).and(kept.domain().map(|_| ()));
        sound.map_err(|invalid| invalid.to_string())?;
        Ok(kept)
    }

    /// # Errors
    /// When the secret is not one.
    pub(crate) fn key(&self) -> Result<SessionKey, fencepost_core::Invalid> {
        Ok(SessionKey { session: self.session, secret: self.secret.parse()? })
    }

    pub(crate) fn request(&self) -> Result<RequestId, fencepost_core::Invalid> {
        self.asked.request_id.parse()
    }

    pub(crate) fn domain(&self) -> Result<Domain, fencepost_core::Invalid> {
        Domain::new(&self.asked.domain)
    }
}

/// What `release` has answered: a lease is given back once, and whoever asks again is told the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenBack {
    pub(crate) url: String,
    pub(crate) domain: String,
    pub(crate) lease: Option<LeaseId>,
    /// The coordinator's answer, where it gave one.
    pub(crate) answer: Option<ReleaseAnswer>,
    /// How it had ended before, where it had.
    pub(crate) lost: Option<String>,
}

/// Where the file is.
#[derive(Clone, Debug)]
pub(crate) struct SessionFile {
    path: PathBuf,
}

/// The file, with nobody else at it.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) file: SessionFile,
    lock: File,
}

impl SessionFile {
    /// # Errors
    /// When neither variable says where.
    pub(crate) fn find() -> Result<Self, Failure> {
        if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            return Ok(Self { path: path.into() });
        }
        match env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
            Some(dir) => Ok(Self { path: Path::new(&dir).join("fencepost").join("session.json") }),
            None => {
                let what = "nothing says where to keep the session";
                Err(Failure::new(Exit::Configuration, what).then(format!("export {VARIABLE}=$HOME/.fencepost-session")))
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in it; `None` where there is none.
    ///
    /// # Errors
    /// When it can be read by others, or is none of ours. It is never guessed at and never overwritten then.
    pub(crate) fn read(&self) -> Result<Option<Kept>, Failure> {
        // A pipe would be waited for until somebody writes into it.
        let no_waiting = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(no_waiting).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.io("cannot be read", &error)),
        };
        let metadata = file.metadata().map_err(|error| self.io("cannot be read", &error))?;
        let word = self.word();
        if !metadata.is_file() {
            return Err(self.refused("is no plain file").then(format!("set {VARIABLE} to another path")));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(self.refused("belongs to another user").then(format!("set {VARIABLE} to a path of your own")));
        }
        if metadata.mode() & 0o077 != 0 {
            let mode = metadata.mode() & 0o777;
            return Err(self
                .refused(&format!("has mode {mode:o}: others may have read the session's secret"))
                .then(format!("chmod 600 {word} && fencepost release, and acquire anew")));
        }
        let mut text = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut text).map_err(|error| self.io("cannot be read", &error))?;
        Kept::parse(&text).map(Some).map_err(|why| {
            self.refused(&format!("is damaged ({why})"))
                .detail("its lease, if there is one, ends by itself within one TTL")
                .then(format!("rm {word}"))
        })
    }

    /// Waits until no other command is at the file.
    ///
    /// # Errors
    /// When one still is after ten seconds, or the folder cannot be written.
    pub(crate) async fn lock(self) -> Result<Locked, Failure> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // Not those above it: a variable that names a wrong place is to be noticed.
            match DirBuilder::new().mode(0o700).create(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(self.io("cannot be made", &error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        let path = self.beside("lock");
        // In a folder that others can write to, a link must not lead the creation elsewhere, and a pipe not keep it waiting.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let lock = options.open(&path);
        let lock = lock.map_err(|error| self.io("cannot be locked", &error))?;
        if !lock.metadata().is_ok_and(|metadata| metadata.is_file()) {
            let what = format!("{} is no plain file, so the session file cannot be locked by it", path.display());
            return Err(Failure::new(Exit::Configuration, what).then(format!("set {VARIABLE} to another path")));
        }
        let what = format!("waiting for another fencepost command that uses the session file {}", self.path.display());
        let _waiting = progress::doing(what);
        let started = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Locked { file: self, lock }),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_PATIENCE => {
                    sleep(Duration::from_millis(10)).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let what = format!("another fencepost command is using the session file {}", self.path.display());
                    return Err(Failure::new(Exit::CannotWrite, what)
                        .then(format!("give each job a file of its own: {VARIABLE}=PATH")));
                }
                Err(TryLockError::Error(error)) => return Err(self.io("cannot be locked", &error)),
            }
        }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(suffix);
        path.into()
    }

    /// The path as a shell reads it.
    pub(crate) fn word(&self) -> String {
        path::word(&self.path)
    }

    fn refused(&self, why: &str) -> Unadvised {
        Failure::new(Exit::Configuration, format!("the session file {} {why}", self.path.display()))
    }

    fn io(&self, why: &str, error: &io::Error) -> Failure {
        let what = format!("the session file {} {why}: {error}", self.path.display());
        let other = format!("set {VARIABLE} to a path that can be written");
        let failure = Failure::new(path::exit(error, Exit::CannotWrite), what).then(other);
        let advice = path::advice(&self.path, error);
        if advice == AGAIN { failure } else { failure.then(advice) }
    }

    /// Whether a command has ever been at it.
    pub(crate) fn was_used(&self) -> bool {
        fs::symlink_metadata(self.beside("lock")).is_ok()
    }

    /// What `renew` and `release` say where nothing was acquired.
    pub(crate) fn nothing_kept(&self) -> Failure {
        self.refused("does not exist: nothing was acquired with it")
            .then("fencepost acquire DOMAIN")
            .then(format!("where it was acquired with another file: {VARIABLE}=PATH"))
    }
}

impl Locked {
    /// Puts it in the place of what was there, durably, before it returns.
    ///
    /// # Errors
    /// When the disk does not take it; what was there before is still there.
    pub(crate) fn write(&self, kept: &Kept) -> Result<(), Failure> {
        let file = &self.file;
        // What was given back before is over; the file may yet be lost while this is held.
        self.lock.set_len(0).map_err(|error| file.io("cannot be written", &error))?;
        let new = file.beside("new");
        let written = || -> io::Result<()> {
            // A leftover could have another owner's mode.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let mut handle = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            handle.write_all(&serde_json::to_vec(kept)?)?;
            handle.sync_all()?;
            fs::rename(&new, &file.path)?;
            let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|error| file.io("cannot be written", &error))
    }

    /// Forgets it, and notes what it was answered with, beside it: in the file that is locked.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub(crate) fn remove_given_back(&self, given: &GivenBack) -> Result<(), Failure> {
        self.remove()?;
        let note = serde_json::to_vec(given).expect("texts and numbers are JSON");
        // Where it cannot be noted, whoever asks again is told that nothing is there, which is true.
        let _ = self.lock.set_len(0).and_then(|()| self.lock.write_all_at(&note, 0));
        Ok(())
    }

    /// What was given back last, where nothing was acquired since.
    /// A note that somebody else may have written says nothing.
    pub(crate) fn given_back(&self) -> Option<GivenBack> {
        let metadata = self.lock.metadata().ok()?;
        if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return None;
        }
        let mut note = vec![0; usize::try_from(metadata.len().min(MOST_BYTES)).ok()?];
        self.lock.read_exact_at(&mut note, 0).ok()?;
        serde_json::from_slice(&note).ok()
    }

    /// Forgets it.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        match fs::remove_file(&self.file.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.file.io("cannot be removed", &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
