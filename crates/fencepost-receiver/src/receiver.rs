use std::{fmt, future::Future};

use fencepost_core::{Grant, fence::Verdict};
use serde::{Deserialize, Serialize};

use crate::AdvanceError;

/// When tokens older than a new grant stop working at a receiver. Each is stronger than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Guarantee {
    /// Once the new owner's first write or fenced read is accepted. A late request of the old owner can still land
    /// before that, and a read-modify-write across transactions can lose an update.
    FencedOnFirstWrite,
    /// Before the new owner gets the lease: acquiring includes advancing the receiver to the new token.
    FencedOnAcquire,
    /// From the commit of the next grant, release or revocation: receiver and coordinator share a database.
    FencedOnRevoke,
}

impl Guarantee {
    /// The name in output and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FencedOnFirstWrite => "FencedOnFirstWrite",
            Self::FencedOnAcquire => "FencedOnAcquire",
            Self::FencedOnRevoke => "FencedOnRevoke",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a kind of receiver is able to do. What is not declared here is refused, never done more weakly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The strongest guarantee that it can take part in.
    pub strongest: Guarantee,
    /// Operations are recorded in the step that applies them, so that retries are replayed.
    pub operation_records: bool,
    /// A read can raise the fence first.
    pub fenced_read: bool,
    /// Writes that present nothing are refused, from whatever client.
    pub guard: bool,
    /// Fences and operation records can be collected.
    pub collection: bool,
    /// One write can change several domains under all of their tokens.
    pub several_domains: bool,
    /// A restored or moved storage is noticed.
    pub incarnation: bool,
}

/// The enforcing side of a resource, as composition sees it.
pub trait Receiver: Send + Sync {
    /// What messages call it: the URL of the resource, e.g. `sqlite:/var/lib/shop.db`.
    fn name(&self) -> &str;

    /// What it is able to do.
    fn capabilities(&self) -> Capabilities;

    /// Raises the fence of the grant's domain to its token, durably, before it answers. Doing it again is harmless:
    /// an equal token is `Applied`, an older one `Rejected` with `Stale`.
    ///
    /// # Errors
    /// When no verdict was reached. Every error may be answered by calling again; only [`AdvanceError::Invalid`] will
    /// come out the same.
    fn advance(&self, grant: &Grant) -> impl Future<Output = Result<Verdict<()>, AdvanceError>> + Send;
}
