//! Resources as they are typed: `sqlite:PATH` and `file:PATH`.

mod file;

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use fencepost_core::{
    Domain, Grant,
    fence::{Closure, Condition, Rejection, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, file as receiver};
use fencepost_rusqlite::{MaintenanceError, SqliteFile};
use rusqlite::{Connection, ErrorCode};

pub(crate) use self::file::FileResource;
#[cfg(feature = "fuzzing")]
pub(crate) use self::file::holder_among;
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    path,
    progress::{self, Doing},
    shell,
};

/// What can be guarded, by what it is.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    Sqlite(SqliteResource),
    File(FileResource),
}

impl Resource {
    /// # Errors
    /// When it is of no kind that is known, or names no file.
    pub(crate) fn parse(typed: &OsStr) -> Result<Self, Failure> {
        match FileResource::parse(typed) {
            Some(file) => file.map(Self::File),
            None => SqliteResource::parse(typed).map(Self::Sqlite),
        }
    }

    /// As it was typed, for commands to type next.
    pub(crate) fn typed(&self) -> &str {
        match self {
            Self::Sqlite(database) => &database.typed,
            Self::File(file) => &file.typed,
        }
    }

    /// The file that it is in.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Sqlite(database) => database.file.path(),
            Self::File(file) => file.receiver.path(),
        }
    }

    /// Raises the fence of the grant's domain there, and waits for that.
    ///
    /// # Errors
    /// When it was not raised, or nobody knows.
    pub(crate) fn advance_blocking(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        match self {
            Self::Sqlite(database) => database.file.advance_blocking(grant),
            Self::File(file) => file.receiver.advance_blocking(grant),
        }
    }

    /// Finds out before a change what only its failure would tell, and worse: a database is never made by it.
    ///
    /// # Errors
    /// When it is not there, or cannot be written.
    pub(crate) fn is_writable(&self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(database) => database.connect_to_write().map(drop),
            Self::File(_) => Ok(()),
        }
    }

    /// A call that the storage did not take. Nothing was changed.
    pub(crate) fn unavailable(&self, cause: &Cause) -> Failure {
        match self {
            Self::Sqlite(database) => database.unavailable(cause),
            Self::File(file) => file.unavailable(cause),
        }
    }

    /// The domain, where there is only one; and why it accepts nothing, where it does not.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub(crate) fn guarded_as(&self) -> Result<(Option<Domain>, Option<Closure>), Failure> {
        let closed = |condition| match condition {
            Condition::Open => None,
            Condition::Closed(why) => Some(why),
        };
        match self {
            Self::Sqlite(database) => match fencepost_rusqlite::status(&database.connect()?) {
                Ok(status) => Ok((None, closed(status.condition))),
                Err(MaintenanceError::Closed(why)) => Ok((None, Some(why))),
                Err(error) => Err(database.failed(error)),
            },
            Self::File(file) => match file.receiver.status() {
                Ok(status) => Ok((Some(status.domain), closed(status.condition))),
                Err(receiver::MaintenanceError::Closed(why)) => Ok((None, Some(why))),
                Err(error) => Err(file.failed(error)),
            },
        }
    }

    /// A receiver that accepts nothing.
    pub(crate) fn closed(&self, why: Closure) -> Failure {
        match self {
            Self::Sqlite(database) => database.closed(why),
            Self::File(file) => file.closed(why),
        }
    }
}

/// A SQLite database, by its path.
#[derive(Clone, Debug)]
pub(crate) struct SqliteResource {
    pub(crate) file: SqliteFile,
    /// As it was typed, for commands to type next.
    pub(crate) typed: String,
}

impl SqliteResource {
    /// # Errors
    /// When it is no `sqlite:PATH`.
    pub(crate) fn parse(typed: &OsStr) -> Result<Self, Failure> {
        let usage = |what: String| {
            Err(Failure::new(Exit::Usage, what)
                .then("write the resource as sqlite:PATH or file:PATH, e.g. sqlite:/var/lib/shop.db"))
        };
        let shown = typed.to_string_lossy();
        let Some(path) = typed.as_bytes().strip_prefix(b"sqlite:") else {
            return usage(format!("resource: {shown:?} is of no kind that this command knows"));
        };
        if path.is_empty() || path == b":memory:" {
            return usage(format!("resource: {shown:?} names no file"));
        }
        let path = PathBuf::from(OsString::from(OsStr::from_bytes(path)));
        Ok(Self { file: SqliteFile::new(path), typed: shell::word(&shown) })
    }

    /// Says what goes on there, for as long as it does.
    pub(crate) fn doing(&self, what: &str) -> Doing {
        progress::doing(format!("{what} {}", self.typed))
    }

    /// Opens it; it has to be there.
    ///
    /// # Errors
    /// When it is not, or is no database.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        let path = self.file.path();
        let shown = path.display();
        let by_name = "name the file that your program opens; fencepost never creates it";
        match std::fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => {
                return Err(Failure::new(Exit::Configuration, format!("{shown} is no plain file, and no database"))
                    .then(by_name));
            }
            Ok(_) => {}
            Err(error) => {
                let what = format!("there is no database at {shown}: {error}");
                let failure = Failure::new(path::exit(&error, Exit::Configuration), what).then(by_name);
                let is_plain = error.kind() == std::io::ErrorKind::NotFound;
                return Err(if is_plain { failure } else { failure.then(path::advice(path, &error)) });
            }
        }
        self.file.connect().map_err(|error| self.unusable(&error))
    }

    /// The same for whoever is going to write. SQLite would open what it may only read, and refuse the first write.
    ///
    /// # Errors
    /// When it cannot be opened, or not be written.
    pub(crate) fn connect_to_write(&self) -> Result<Connection, Failure> {
        let connection = self.connect()?;
        match connection.is_readonly(rusqlite::MAIN_DB) {
            Ok(true) => Err(self.not_writable(&"it can only be read")),
            Ok(false) => Ok(connection),
            Err(error) => Err(self.unusable(&error)),
        }
    }

    fn not_writable(&self, why: &dyn std::fmt::Display) -> Failure {
        let path = self.file.path();
        let what = format!("{} cannot be opened for writing: {why}", path.display());
        match path::cannot_be_written(path) {
            // A disk that takes no writes refuses nobody in particular.
            Some(error) if path::exit(&error, Exit::CannotWrite) != Exit::Denied => {
                path::failed(format!("{what} ({error})"), path, &error, Exit::CannotWrite)
            }
            Some(_) | None => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = path::word(folder.unwrap_or(Path::new(".")));
                Failure::new(Exit::Denied, what).then(format!("ls -ld {folder} {}", path::word(path)))
            }
        }
    }

    fn unusable(&self, error: &rusqlite::Error) -> Failure {
        let path = self.file.path();
        let shown = path.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Failure::new(Exit::Configuration, format!("{shown} is no sound SQLite database: {error}"))
                    .then("name the file that your program opens")
            }
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                self.not_writable(&error)
            }
            Some(ErrorCode::DiskFull) => {
                let full = std::io::Error::from(rustix::io::Errno::NOSPC);
                path::failed(format!("{shown} cannot be written: {error}"), path, &full, Exit::CannotWrite)
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Failure::new(Exit::CannotWrite, format!("{shown} is locked by another program: {error}")).then(AGAIN)
            }
            Some(ErrorCode::SystemIoFailure) => {
                let broken = std::io::Error::from(rustix::io::Errno::IO);
                path::failed(format!("{shown} cannot be used now: {error}"), path, &broken, Exit::CannotWrite)
            }
            _ => Failure::new(Exit::CannotWrite, format!("{shown} cannot be used now: {error}")).then(AGAIN),
        }
    }

    /// A call that the storage did not take. Nothing was changed.
    pub(crate) fn unavailable(&self, cause: &Cause) -> Failure {
        match cause.downcast_ref::<rusqlite::Error>() {
            Some(error) => self.unusable(error),
            None => Failure::new(Exit::CannotWrite, format!("{}: {cause}", self.typed)).then(AGAIN),
        }
    }

    /// What a failed piece of maintenance says.
    pub(crate) fn failed(&self, error: MaintenanceError) -> Failure {
        let what = error.to_string();
        let help = "fencepost help guard";
        match error {
            MaintenanceError::Invalid(invalid) => invalid.into(),
            MaintenanceError::Expression { .. } | MaintenanceError::Unguardable(_) => {
                Failure::new(Exit::Usage, what).then(help)
            }
            MaintenanceError::NotGuarded(_) => {
                Failure::new(Exit::Usage, what).then(format!("fencepost status {}", self.typed))
            }
            MaintenanceError::SeedNeeded => Failure::new(Exit::Configuration, what)
                .then("name the coordinator with --url, or give --issuer, --epoch and --floor by hand"),
            MaintenanceError::WrongIssuer { .. } => Failure::new(Exit::Rejected, what)
                .then("use the coordinator that this database was guarded for")
                .then(format!("fencepost status {}", self.typed)),
            MaintenanceError::Closed(why) => self.closed(why),
            MaintenanceError::Overtaken => {
                Failure::new(Exit::Unreachable, what).detail("nothing was changed").then(AGAIN)
            }
            MaintenanceError::SqliteTooOld(_) => {
                Failure::new(Exit::Configuration, what).then("use a newer build of fencepost")
            }
            MaintenanceError::Unavailable(error) => self.unusable(&error),
            MaintenanceError::Unknown(_) => Failure::new(Exit::Unknown, what).then(AGAIN),
        }
    }

    /// A receiver that accepts nothing.
    pub(crate) fn closed(&self, why: Closure) -> Failure {
        let rejection = Rejection::Closed(why);
        let failure = Failure::new(Exit::Rejected, format!("{}: {rejection}", self.typed));
        let failure = match why {
            Closure::NotGuarded => failure.then(format!("fencepost guard {} TABLE --domain EXPR", self.typed)),
            Closure::MetadataMissing
            | Closure::FenceMissing
            | Closure::OtherIncarnation
            | Closure::WentBack
            | Closure::Recovering
            | Closure::ByOperator => failure
                .detail("it stays closed until it is recovered with what the coordinator says is live")
                .then(format!("fencepost recover {}", self.typed)),
        };
        failure.of_rejection(&rejection)
    }
}
