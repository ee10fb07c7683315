use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process,
};

use fencepost_core::fence::{Closure, Rejection};
use fencepost_receiver::{
    Cause,
    file::{FileReceiver, MaintenanceError, Trouble},
};

use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
    path::{self, word},
    progress::{self, Doing},
    shell,
};

/// A file that is replaced as a whole, by its path.
#[derive(Clone, Debug)]
pub(crate) struct FileResource {
    pub(crate) receiver: FileReceiver,
    /// As it was typed, for commands to type next.
    pub(crate) typed: String,
}

impl FileResource {
    /// The file, or `None` where another kind of resource was typed.
    pub(crate) fn parse(typed: &OsStr) -> Option<Result<Self, Failure>> {
        let path = typed.as_bytes().strip_prefix(b"file:")?;
        if path.is_empty() {
            let failure = Failure::new(Exit::Usage, "resource: \"file:\" names no file");
            return Some(Err(failure.then("write the resource as file:PATH, e.g. file:/var/lib/report.csv")));
        }
        let receiver = FileReceiver::new(OsStr::from_bytes(path));
        Some(Ok(Self { receiver, typed: shell::word(&typed.to_string_lossy()) }))
    }

    /// Says what goes on there, for as long as it does, or that it waits for another process to be done.
    pub(crate) fn doing(&self, what: &str) -> Doing {
        let (doing, typed, lock) = (format!("{what} {}", self.typed), self.typed.clone(), self.lock());
        progress::doing_as(move || match lock.as_deref().and_then(holder) {
            Some(pid) => format!("waiting for {typed}, which process {pid} has locked"),
            None => doing.clone(),
        })
    }

    /// The file that is locked for every use of this one.
    fn lock(&self) -> Option<PathBuf> {
        let path = self.receiver.path();
        let mut name = OsString::from(".");
        name.push(path.file_name()?);
        name.push(".lock");
        Some(path.with_file_name(name))
    }

    /// What a failed piece of maintenance says.
    pub(crate) fn failed(&self, error: MaintenanceError) -> Failure {
        let what = error.to_string();
        let status = format!("fencepost status {}", self.typed);
        match error {
            MaintenanceError::Invalid(invalid) => invalid.into(),
            MaintenanceError::SeedNeeded => Failure::new(Exit::Configuration, what)
                .then("name the coordinator with --url, or give --issuer, --epoch and --floor by hand"),
            MaintenanceError::WrongIssuer { .. } => Failure::new(Exit::Rejected, what)
                .then("use the coordinator that this file was guarded for")
                .then(status),
            MaintenanceError::WrongDomain { here, .. } => Failure::new(Exit::Rejected, what).then(format!(
                "fencepost guard {}{}",
                self.typed,
                shell::option("--domain", here.as_str())
            )),
            MaintenanceError::Closed(why) => self.closed(why),
            MaintenanceError::Overtaken => {
                Failure::new(Exit::Unreachable, what).detail("nothing was changed").then(AGAIN)
            }
            MaintenanceError::Unavailable(trouble) => troubled(&trouble),
            MaintenanceError::Unknown(_) => Failure::new(Exit::Unknown, what).then(AGAIN),
        }
    }

    /// A receiver that accepts nothing.
    pub(crate) fn closed(&self, why: Closure) -> Failure {
        let rejection = Rejection::Closed(why);
        let failure = Failure::new(Exit::Rejected, format!("{}: {rejection}", self.typed));
        let failure = match why {
            Closure::NotGuarded => failure.then(format!("fencepost guard {} --domain NAME", self.typed)),
            Closure::MetadataMissing => failure
                .detail("it stays closed until it is recovered with what the coordinator says is live")
                .then(format!("fencepost recover {} --domain NAME", self.typed)),
            Closure::FenceMissing
            | Closure::OtherIncarnation
            | Closure::WentBack
            | Closure::Recovering
            | Closure::ByOperator => failure
                .detail("it stays closed until it is recovered with what the coordinator says is live")
                .then(format!("fencepost recover {}", self.typed)),
        };
        failure.of_rejection(&rejection)
    }

    /// A call that the storage did not take. Nothing was changed.
    pub(crate) fn unavailable(&self, cause: &Cause) -> Failure {
        Trouble::of(cause)
            .map_or_else(|| Failure::new(Exit::CannotWrite, format!("{}: {cause}", self.typed)).then(AGAIN), troubled)
    }
}

/// Which other process has locked it.
fn holder(lock: &Path) -> Option<u32> {
    let inode = fs::symlink_metadata(lock).ok()?.ino();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    holder_among(&locks, inode).filter(|pid| *pid != process::id())
}

/// The same, among the locks of a machine. Two files with one number on two disks are told as one, which only people read.
pub(crate) fn holder_among(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else { return None };
        let is_it = file.rsplit(':').next()?.parse() == Ok(inode);
        // A process of another namespace has no number here.
        is_it.then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 0)
    })
}

/// A file that cannot be used as it is asked for.
fn troubled(trouble: &Trouble) -> Failure {
    let failure = Failure::new(Exit::CannotWrite, trouble.to_string());
    match trouble {
        Trouble::NoFolder { folder } => failure.then(format!("mkdir -p {}", word(folder))),
        Trouble::NotAFile { path, .. } => failure.then(format!("ls -ld {}; then name a plain file", word(path))),
        Trouble::Link { path, target } => match fs::metadata(path) {
            // A link that leads nowhere leads whoever follows it in a circle.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => failure.then(path::advice(path, &error)),
            Ok(_) | Err(_) => {
                failure.then(format!("the same command with {}", shell::word(&format!("file:{}", target.display()))))
            }
        },
        Trouble::NotOurs { path, .. } => {
            failure.then(format!("ls -ld {}; then move it away and run the same command again", word(path)))
        }
        Trouble::Kept { guarded, .. } => {
            failure.then(format!("fencepost status {}", shell::word(&format!("file:{}", guarded.display()))))
        }
        Trouble::Name { .. } => failure.then("give the file another name"),
        Trouble::Denied { path, .. } => failure.then(format!("ls -ld {}", word(path))).ending_in(Exit::Denied),
        Trouble::ReadOnly { path } => failure.then(path::advice(path, &rustix::io::Errno::ROFS.into())),
        Trouble::Full { path } => failure.then(path::advice(path, &rustix::io::Errno::NOSPC.into())),
        Trouble::RecordsFull { .. } => failure.then("fencepost release, then acquire anew"),
        Trouble::NewerLayout { .. } => failure.then("use a newer build of fencepost").ending_in(Exit::Configuration),
        Trouble::Io { path, source, .. } => failure.then(path::advice(path, source)),
        Trouble::Busy { .. } => failure.then(AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_lock_is_found_by_the_number_of_its_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:2f:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:01:71 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:01:7 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 14 fe:01:8 0 EOF\n";
        assert_eq!(holder_among(locks, 7), Some(13));
        assert_eq!(holder_among(locks, 71), Some(12));
        assert_eq!(holder_among(locks, 8), None);
        assert_eq!(holder_among("", 7), None);
    }
}
