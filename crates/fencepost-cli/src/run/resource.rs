//! The resources of `--advance`: which receivers they are, and what they say.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use fencepost_core::{
    Domain, Grant,
    fence::{Closure, Rejection, Verdict},
};
use fencepost_receiver::{
    AdvanceError, Capabilities, Receiver,
    file::{FileReceiver, MaintenanceError, Trouble},
};

use crate::{exit::Exit, failure::Failure, resource::SqliteResource, shell};

/// A resource whose fence is raised before the command starts.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    Sqlite(SqliteResource),
    File(FileResource),
}

/// A guarded file.
#[derive(Clone, Debug)]
pub(crate) struct FileResource {
    receiver: FileReceiver,
    typed: String,
    /// The one domain that its sidecar names; known once the resource has been looked at.
    domain: Option<Domain>,
}

impl Resource {
    /// # Errors
    /// When it is of no kind that can be advanced.
    pub(crate) fn parse(typed: &OsStr) -> Result<Self, Failure> {
        match typed.as_bytes().strip_prefix(b"file:") {
            Some(b"") => Err(Failure::new(Exit::Usage, "resource: \"file:\" names no file").then("file:PATH")),
            Some(path) => {
                let receiver = FileReceiver::new(OsStr::from_bytes(path));
                let typed = shell::word(&typed.to_string_lossy());
                Ok(Self::File(FileResource { receiver, typed, domain: None }))
            }
            None => SqliteResource::parse(typed).map(Self::Sqlite),
        }
    }

    /// Looks whether it is there, before a lease is asked for.
    ///
    /// # Errors
    /// When it is not, or is of none of these domains.
    pub(crate) fn look(&mut self, domains: &[Domain]) -> Result<(), Failure> {
        match self {
            Self::Sqlite(database) => database.connect().map(drop),
            Self::File(file) => file.look(domains),
        }
    }

    /// Whether it has a fence for this domain.
    pub(crate) fn is_of(&self, domain: &Domain) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::File(file) => file.domain.as_ref() == Some(domain),
        }
    }

    /// What a receiver that refused the new token says.
    pub(crate) fn refused(&self, rejection: &Rejection) -> Failure {
        let typed = match self {
            Self::Sqlite(database) => &database.typed,
            Self::File(file) => &file.typed,
        };
        match (self, rejection) {
            (Self::Sqlite(database), Rejection::Closed(why)) => database.closed(*why),
            (Self::File(file), Rejection::Closed(why)) => file.closed(*why),
            (Self::Sqlite(_) | Self::File(_), rejection) => {
                Failure::new(Exit::Rejected, format!("{typed} refused the new token: {rejection}"))
                    .then(format!("fencepost status {typed}"))
            }
        }
    }
}

impl FileResource {
    fn look(&mut self, domains: &[Domain]) -> Result<(), Failure> {
        let status = self.receiver.status().map_err(|error| match error {
            MaintenanceError::Closed(why) => self.closed(why),
            MaintenanceError::Unavailable(trouble) | MaintenanceError::Unknown(trouble) => troubled(&trouble),
            MaintenanceError::Invalid(invalid) => invalid.into(),
            error @ (MaintenanceError::SeedNeeded
            | MaintenanceError::WrongIssuer { .. }
            | MaintenanceError::WrongDomain { .. }
            | MaintenanceError::Overtaken) => Failure::new(Exit::Configuration, error.to_string()),
        })?;
        if !domains.contains(&status.domain) {
            let domain = shell::word(status.domain.as_str());
            return Err(Failure::new(Exit::Usage, format!("{} is guarded for domain {domain}", self.typed))
                .then(format!("fencepost run {domain} --advance {} -- …", self.typed)));
        }
        self.domain = Some(status.domain);
        Ok(())
    }

    fn closed(&self, why: Closure) -> Failure {
        let what = format!("{}: {}", self.typed, Rejection::Closed(why));
        match why {
            Closure::NotGuarded => {
                Failure::new(Exit::Configuration, what).then(format!("fencepost guard {} --domain DOMAIN", self.typed))
            }
            Closure::MetadataMissing
            | Closure::FenceMissing
            | Closure::OtherIncarnation
            | Closure::WentBack
            | Closure::Recovering
            | Closure::ByOperator => Failure::new(Exit::Rejected, what).then(format!("fencepost audit {}", self.typed)),
        }
    }
}

fn troubled(trouble: &Trouble) -> Failure {
    Failure::new(Exit::CannotWrite, trouble.to_string()).then("see to the file, then run the same command again")
}

impl Receiver for Resource {
    fn name(&self) -> &str {
        match self {
            Self::Sqlite(database) => database.file.name(),
            Self::File(file) => file.receiver.name(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Sqlite(database) => database.file.capabilities(),
            Self::File(file) => file.receiver.capabilities(),
        }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        match self {
            Self::Sqlite(database) => database.file.advance(grant).await,
            Self::File(file) => file.receiver.advance(grant).await,
        }
    }
}
