use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::Cause;

/// Why a file cannot be used as it is asked for. It travels as the cause of `Unavailable` and `Unknown`; get it back
/// with [`Trouble::of`].
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The folder that the file is to lie in is not there.
    #[error("there is no folder {}: make it first", .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// There is something else than a plain file.
    #[error("{} is {found}, not a plain file", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The name is a symbolic link, which a replacement would destroy.
    #[error("{} is a symbolic link: use the file itself, {}", .path.display(), .target.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// A file beside the guarded one is not what a guard has put there. It is left alone.
    #[error("{} is {found}, where the guard keeps a file of its own: move it away", .path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The file lies beside a guarded one, and its guard writes it.
    #[error("{} belongs to the guard of {}: give the file another name", .path.display(), .guarded.display())]
    Kept {
        /// The path.
        path: PathBuf,
        /// The guarded file.
        guarded: PathBuf,
    },
    /// The path names no file, or its name leaves no room for the names of the files beside it.
    #[error("{} cannot be guarded: {rule}", .path.display())]
    Name {
        /// The path.
        path: PathBuf,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// The rights do not suffice.
    #[error("{doing} {} is not permitted: {source}", .path.display())]
    Denied {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file system takes no writes.
    #[error("{} is on a read-only file system", .path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The disk or the quota is full.
    #[error("no space is left for {}", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else has been writing all the time.
    #[error("another process held the lock of {} for all of {} ms: try again, or look for a stopped process", .path.display(), .waited.as_millis())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Every record that may be forgotten is forgotten, and the others fill the sidecar.
    #[error("all {kept} operation records belong to the current token: acquire anew (renew) to make room")]
    RecordsFull {
        /// How many records are kept.
        kept: usize,
    },
    /// The sidecar was written by a newer Fencepost.
    #[error("{} has layout {found}, and this program knows up to {known}: update it", .path.display())]
    NewerLayout {
        /// The sidecar.
        path: PathBuf,
        /// Its layout.
        found: u32,
        /// The newest layout known here.
        known: u32,
    },
    /// Anything else that the operating system says.
    #[error("{doing} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl Trouble {
    /// The trouble behind an error's cause, where the file receiver made it.
    #[must_use]
    pub fn of(cause: &Cause) -> Option<&Self> {
        cause.downcast_ref()
    }

    /// Whether the file cannot be written here whoever tries again: folder, name, kind, rights or space are wrong.
    #[must_use]
    pub const fn cannot_write(&self) -> bool {
        match self {
            Self::NoFolder { .. }
            | Self::NotAFile { .. }
            | Self::Link { .. }
            | Self::NotOurs { .. }
            | Self::Kept { .. }
            | Self::Name { .. }
            | Self::Denied { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. } => true,
            Self::Busy { .. } | Self::RecordsFull { .. } | Self::NewerLayout { .. } | Self::Io { .. } => false,
        }
    }

    /// What an operating system's error means, for a call on `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            ErrorKind::PermissionDenied => Self::Denied { doing, path, source },
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path },
            _ => Self::Io { doing, path, source },
        }
    }
}
