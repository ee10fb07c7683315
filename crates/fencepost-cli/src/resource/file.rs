use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use fencepost_core::fence::{Closure, Rejection};
use fencepost_receiver::{
    Cause,
    file::{FileReceiver, MaintenanceError, Trouble},
};

use crate::{exit::Exit, failure::Failure, shell};

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
                "fencepost guard {} --domain {}",
                self.typed,
                shell::word(here.as_str())
            )),
            MaintenanceError::Closed(why) => self.closed(why),
            MaintenanceError::Overtaken => {
                Failure::new(Exit::Unreachable, what).detail("nothing was changed").then("run the same command again")
            }
            MaintenanceError::Unavailable(trouble) => troubled(&trouble),
            MaintenanceError::Unknown(_) => Failure::new(Exit::Unknown, what).then("run the same command again"),
        }
    }

    /// A receiver that accepts nothing.
    pub(crate) fn closed(&self, why: Closure) -> Failure {
        let failure = Failure::new(Exit::Rejected, format!("{}: {}", self.typed, Rejection::Closed(why)));
        match why {
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
        }
    }

    /// A call that the storage did not take. Nothing was changed.
    pub(crate) fn unavailable(&self, cause: &Cause) -> Failure {
        Trouble::of(cause).map_or_else(
            || Failure::new(Exit::CannotWrite, format!("{}: {cause}", self.typed)).then("run the same command again"),
            troubled,
        )
    }
}

/// A file that cannot be used as it is asked for.
fn troubled(trouble: &Trouble) -> Failure {
    let word = |path: &Path| shell::word(&path.to_string_lossy());
    let failure = Failure::new(Exit::CannotWrite, trouble.to_string());
    match trouble {
        Trouble::NoFolder { folder } => failure.then(format!("mkdir -p {}", word(folder))),
        Trouble::NotAFile { path, .. } => failure.then(format!("ls -ld {}; then name a plain file", word(path))),
        Trouble::Link { target, .. } => {
            failure.then(format!("the same command with {}", shell::word(&format!("file:{}", target.display()))))
        }
        Trouble::Name { .. } => failure.then("give the file another name"),
        Trouble::Denied { path, .. } => failure.ending_in(Exit::Denied).then(format!("ls -ld {}", word(path))),
        Trouble::ReadOnly { path } | Trouble::Full { path } => {
            failure.then(format!("df {}; then run the same command again", word(path.parent().unwrap_or(path))))
        }
        Trouble::RecordsFull { .. } => failure.then("fencepost release, then acquire anew"),
        Trouble::NewerLayout { .. } => failure.ending_in(Exit::Configuration).then("use a newer build of fencepost"),
        Trouble::Busy { .. } | Trouble::Io { .. } => failure.then("run the same command again"),
    }
}
