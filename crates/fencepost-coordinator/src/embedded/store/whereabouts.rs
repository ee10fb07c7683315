//! Whether the files that are open are still the ones that lie under their names.
//!
//! A file that was deleted, or whose directory was, can be written for as long as it is open, and every write of it is
//! lost with the process. What was put in its place may grant the same domains meanwhile.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// How long an answer may rely on the last look.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The files of a store, as they were when it was opened. While they are open their numbers are not given to others.
pub(super) struct Whereabouts {
    files: Vec<Place>,
    looked: Instant,
    /// After a look that found something missing each one looks again, because nothing may be answered then.
    missing: bool,
}

struct Place {
    path: PathBuf,
    id: FileId,
}

/// Which file of this machine a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file under this name at present.
    pub(in crate::embedded) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

impl Whereabouts {
    /// Notes where the files of an open database are. Its write-ahead log has been used by now, so it is there.
    ///
    /// `noted` is the database as it was before it was opened, and before its directory was locked: a look at the name
    /// does not tell what is open under it, nor whose lock this process has.
    pub(super) fn of(database: &Path, noted: FileId) -> Result<Self, String> {
        let database = std::path::absolute(database).map_err(|error| describe(database, &error))?;
        let mut files = Vec::with_capacity(3);
        for end in ["", "-wal", "-shm"] {
            let mut name = database.clone().into_os_string();
            name.push(end);
            let path = PathBuf::from(name);
            let id = FileId::of(&path).map_err(|error| describe(&path, &error))?;
            files.push(Place { path, id });
        }
        if files[0].id != noted {
            let why = "was replaced while this process opened it: open it again when nobody moves it any more";
            return Err(format!("{} {why}", files[0].path.display()));
        }
        Ok(Self { files, looked: Instant::now(), missing: false })
    }

    /// Looks, when the last look was long enough ago.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), String> {
        if !self.missing && now.saturating_duration_since(self.looked) < LOOK_EVERY {
            return Ok(());
        }
        self.looked = now;
        let found = self.files.iter().try_for_each(Place::check);
        self.missing = found.is_err();
        found
    }
}

impl Place {
    fn check(&self) -> Result<(), String> {
        let what = match FileId::of(&self.path) {
            Ok(found) if found == self.id => return Ok(()),
            Ok(_) => "was replaced by another file",
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                "was removed"
            }
            Err(error) => return Err(describe(&self.path, &error)),
        };
        Err(format!(
            "{} {what} while this process had it open: bring the same file back, or stop this process",
            self.path.display()
        ))
    }
}

fn describe(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
