use std::collections::BTreeSet;

use crate::{
    LeaseId, Moment,
    lease::{Claim, Version},
};

/// One heartbeat on its way. Its answer, refusal or failure is given back to the machine with it.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(super) number: u64,
    pub(super) sent: Moment,
    /// What the answer can confirm.
    pub(super) named: BTreeSet<LeaseId>,
    /// The version by which `named` was named, where the coordinator knows the set already.
    pub(super) version: Option<Version>,
}

impl Attempt {
    /// What to send.
    #[must_use]
    pub fn claim(&self) -> Claim {
        match self.version {
            Some(version) => Claim::Unchanged(version),
            None => Claim::Held(self.named.iter().copied().collect()),
        }
    }

    /// When it was sent.
    #[must_use]
    pub fn sent(&self) -> Moment {
        self.sent
    }
}

/// The set of leases that the coordinator knows by a version.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) version: Version,
    pub(super) leases: BTreeSet<LeaseId>,
}
