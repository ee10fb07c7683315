//! The resources of `--advance`: which receivers they are, and what they say.

use std::ffi::OsStr;

use fencepost_core::{
    Domain, Grant,
    fence::{Condition, Rejection, Verdict},
};
use fencepost_receiver::{AdvanceError, Capabilities, Cause, Receiver};

use crate::{
    exit::Exit,
    failure::Failure,
    resource::{self, FileResource, SqliteResource},
    shell,
};

/// A resource whose fence is raised before the command starts.
#[derive(Clone, Debug)]
pub(crate) enum Resource {
    Sqlite(SqliteResource),
    File(OneDomain),
}

/// A guarded file, and the one domain that its sidecar names; known once the resource has been looked at.
#[derive(Clone, Debug)]
pub(crate) struct OneDomain {
    file: FileResource,
    domain: Option<Domain>,
}

impl Resource {
    /// # Errors
    /// When it is of no kind that can be advanced.
    pub(crate) fn parse(typed: &OsStr) -> Result<Self, Failure> {
        Ok(match resource::Resource::parse(typed)? {
            resource::Resource::Sqlite(database) => Self::Sqlite(database),
            resource::Resource::File(file) => Self::File(OneDomain { file, domain: None }),
        })
    }

    /// Looks whether it is there, before a lease is asked for.
    ///
    /// # Errors
    /// When it is not, or cannot be written, or is a file that accepts nothing or is of none of these domains.
    pub(crate) fn look(&mut self, domains: &[Domain]) -> Result<(), Failure> {
        match self {
            Self::Sqlite(database) => database.connect_to_write().map(drop),
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

    /// A storage that has not taken the new token.
    pub(crate) fn unavailable(&self, cause: &Cause) -> Failure {
        match self {
            Self::Sqlite(database) => database.unavailable(cause),
            Self::File(one) => one.file.unavailable(cause),
        }
    }

    /// What a receiver that refused the new token says.
    pub(crate) fn refused(&self, rejection: &Rejection) -> Failure {
        let typed = match self {
            Self::Sqlite(database) => &database.typed,
            Self::File(one) => &one.file.typed,
        };
        match (self, rejection) {
            (Self::Sqlite(database), Rejection::Closed(why)) => database.closed(*why),
            (Self::File(one), Rejection::Closed(why)) => one.file.closed(*why),
            (Self::Sqlite(_) | Self::File(_), rejection) => {
                Failure::new(Exit::Rejected, format!("{typed} refused the new token: {rejection}"))
                    .then(format!("fencepost status {typed}"))
                    .of_rejection(rejection)
            }
        }
    }
}

impl OneDomain {
    fn look(&mut self, domains: &[Domain]) -> Result<(), Failure> {
        let typed = &self.file.typed;
        let status = self.file.receiver.status().map_err(|error| self.file.failed(error))?;
        if let Condition::Closed(why) = status.condition {
            return Err(self.file.closed(why));
        }
        if !domains.contains(&status.domain) {
            let (domain, options) = (status.domain.as_str(), format!(" --advance {typed}"));
            let what = format!("{typed} is guarded for domain {}", shell::word(domain));
            return Err(Failure::new(Exit::Usage, what)
                .then(format!("{} -- …", shell::line("fencepost run", &[domain], &options))));
        }
        self.domain = Some(status.domain);
        Ok(())
    }
}

impl Receiver for Resource {
    fn name(&self) -> &str {
        match self {
            Self::Sqlite(database) => database.file.name(),
            Self::File(one) => one.file.receiver.name(),
        }
    }

    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Sqlite(database) => database.file.capabilities(),
            Self::File(one) => one.file.receiver.capabilities(),
        }
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        match self {
            Self::Sqlite(database) => database.file.advance(grant).await,
            Self::File(one) => one.file.receiver.advance(grant).await,
        }
    }
}
