use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use super::directory::private;

/// The name of the lock file inside the data directory.
pub(super) const LOCK_FILE: &str = "lock";

/// Keeps a second process out of a data directory while this one lives.
///
/// It is there for the error message. What keeps a second writer from doing harm is the start number in the store: a
/// stopped process keeps its lock, and some filesystems do not lock at all.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

/// Why the directory was not locked.
#[derive(Debug)]
pub(super) enum LockFailure {
    /// Another process has it.
    Taken {
        /// Its id, where it could be read.
        pid: Option<u32>,
    },
    /// The file could not be opened or written.
    Io(io::Error),
}

impl DirectoryLock {
    /// Takes the lock and writes this process's id into the file.
    pub(super) fn take(dir: &Path) -> Result<Self, LockFailure> {
        let path = dir.join(LOCK_FILE);
        let mut file = private().create(true).truncate(false).open(path).map_err(LockFailure::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(LockFailure::Taken { pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(LockFailure::Io(error)),
        }
        // On a full disk the id cannot be written; the lock is held all the same.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}
