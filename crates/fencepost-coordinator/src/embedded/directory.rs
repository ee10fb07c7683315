//! A data directory: what it holds, who may get at it.
//!
//! It is looked at without opening anything before it is locked, because closing a file lets go of the locks that
//! SQLite has on it in the same process.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::{
    OpenError,
    lock::{DirectoryLock, LOCK_FILE, LockFailure},
    store::{
        FileId,
        sqlite::{DATABASE_FILE, SqliteStore},
    },
};

/// What SQLite keeps beside a database, as the ends of its names. A transaction may be in any of them.
pub(super) const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What a directory holds, as far as names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// No file of a store, if there is a directory at all.
    Nothing,
    /// A database under the name of a store's.
    Store,
}

/// Looks what a directory holds. Opens, makes and changes nothing.
///
/// # Errors
/// When that cannot be told, or there are remains of a store.
pub(super) fn look(dir: &Path) -> Result<Holding, OpenError> {
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => return Err(unreadable(dir, ErrorKind::NotADirectory.into())),
        Ok(_) => {}
        // A link that leads nowhere: what it led to may only be out of reach.
        Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(dir).is_ok() => {
            return Err(unreadable(dir, ErrorKind::NotADirectory.into()));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Holding::Nothing),
        Err(error) => return Err(unreadable(dir, error)),
    }
    let database = dir.join(DATABASE_FILE);
    match fs::symlink_metadata(&database) {
        // The write-ahead log lies beside what the link leads to, and everything here looks for it beside the link.
        Ok(found) if found.is_symlink() => {
            let why = "is a symbolic link; name the directory that the store itself lies in";
            return Err(unreadable(&database, io::Error::other(why)));
        }
        Ok(_) => return Ok(Holding::Store),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(&database, error)),
    }
    match COMPANIONS.map(|end| format!("{DATABASE_FILE}{end}")).iter().find(|name| dir.join(name).exists()) {
        Some(left) => Err(damaged(dir, format!("{DATABASE_FILE} is missing, but {left} is there"))),
        None => Ok(Holding::Nothing),
    }
}

/// Which file the database of a directory is at present.
pub(super) fn identity(dir: &Path) -> Result<FileId, OpenError> {
    let database = dir.join(DATABASE_FILE);
    FileId::of(&database).map_err(|error| unreadable(&database, error))
}

/// Checks that a directory's database is a whole one of ours that this process may read and write. Only for whoever has
/// the directory's lock.
///
/// # Errors
/// Says what is wrong with it.
pub(super) fn examine(dir: &Path) -> Result<(), OpenError> {
    let database = dir.join(DATABASE_FILE);
    for path in files(dir) {
        match accessat(CWD, &path, Access::READ_OK | Access::WRITE_OK, AtFlags::EACCESS) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(unreadable(&path, error.into())),
        }
    }
    let found = fs::metadata(&database).map_err(|error| unreadable(&database, error))?;
    if !found.is_file() {
        return Err(damaged(dir, format!("{DATABASE_FILE} is not a file")));
    }
    let mut head = Vec::new();
    let opened = File::open(&database).and_then(|file| file.take(SqliteStore::HEAD_BYTES).read_to_end(&mut head));
    opened.map_err(|error| unreadable(&database, error))?;
    SqliteStore::check_head(&head).map_err(|what| damaged(dir, format!("{DATABASE_FILE} {what}")))
}

/// Takes rights away from everybody but the owner on the files of a store. They hold digests of secrets, no other program
/// has any business with them, and one that only reads keeps the store from being opened.
///
/// Somebody else's files are left as they are: only their owner, or root, can change that.
pub(super) fn narrow(dir: &Path) {
    for path in files(dir).chain([dir.join(LOCK_FILE)]) {
        let Ok(found) = fs::metadata(&path) else { continue };
        let mode = found.permissions().mode();
        if mode & 0o077 != 0 {
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(mode & 0o700));
        }
    }
}

/// The database and what SQLite keeps beside it.
fn files(dir: &Path) -> impl Iterator<Item = PathBuf> {
    [""].into_iter().chain(COMPANIONS).map(move |end| dir.join(format!("{DATABASE_FILE}{end}")))
}

/// Makes a directory for its owner only, and its name durable. One that is there already keeps its mode; its name is
/// made durable all the same, because an init that was killed may have made it.
pub(super) fn create_private(dir: &Path) -> Result<(), OpenError> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| unreadable(dir, error))?;
    let is_new = !missing.is_empty();
    let named = if is_new { missing } else { vec![dir] };
    for path in named.into_iter().filter_map(Path::parent) {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match sync(path) {
            // Whoever may not read the place has not made the directory there: that was somebody else's to make durable.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !is_new => {}
            synced => synced.map_err(|error| unreadable(path, error))?,
        }
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all())
}

pub(super) fn lock(dir: &Path) -> Result<DirectoryLock, OpenError> {
    DirectoryLock::take(dir).map_err(|failure| match failure {
        LockFailure::Taken { pid } => OpenError::InUse { dir: dir.to_owned(), pid },
        LockFailure::Io(error) => unreadable(&dir.join(LOCK_FILE), error),
    })
}

/// Options for making a file that only its owner can read.
pub(super) fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

pub(super) fn damaged(dir: &Path, what: String) -> OpenError {
    OpenError::Damaged { dir: dir.to_owned(), what }
}

/// Why the filesystem did not do what it was asked for.
pub(super) fn unreadable(path: &Path, source: io::Error) -> OpenError {
    match source.kind() {
        ErrorKind::PermissionDenied => OpenError::Denied { path: path.to_owned(), source },
        ErrorKind::NotADirectory => {
            // What is no directory may be something on the way there.
            let culprit = path.ancestors().find(|path| path.exists() && !path.is_dir());
            OpenError::NotADirectory { path: culprit.unwrap_or(path).to_owned() }
        }
        _ => OpenError::Io { path: path.to_owned(), source },
    }
}
