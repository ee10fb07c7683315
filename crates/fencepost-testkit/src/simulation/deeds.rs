//! What was done in a run, counted: a check is worth what was there to be checked.

use std::{collections::BTreeMap, fmt};

macro_rules! deeds {
    ($($name:ident $text:literal,)*) => {
        /// Something that workers, the network, machines or an operator did.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Deed {
            $(#[doc = $text] $name,)*
        }

        impl Deed {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What was done, in words.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

deeds! {
    Granted "leases granted",
    NotGranted "acquires refused",
    GivenUp "acquires given up under way",
    AcquireRepeated "acquires that came again under their request id",
    Renewed "beliefs prolonged by a heartbeat",
    Released "leases released",
    Dropped "lease handles dropped",
    LeftToExpire "leases left to expire",
    Expired "leases that ended unrenewed",
    Cancelled "jobs cancelled by the loss of their lease",
    SessionClosed "sessions closed",
    Unheard "answers of the resource not heard in time",
    Applied "writes applied",
    Replayed "writes replayed to their owner",
    ReplayedToAnother "writes replayed to another owner",
    Conflicting "operation ids refused for another request",
    TooOld "retries refused because their record may be gone",
    Stale "requests refused as stale",
    Delayed "messages held up",
    RequestLost "requests to the resource lost",
    AnswerLost "answers of the resource lost",
    RepeatedAtResource "requests to the resource repeated",
    RepeatedAtCoordinator "requests to the coordinator repeated",
    ConnectionBroken "connections broken",
    CutOff "links cut",
    Paused "workers paused",
    Suspended "workers' machines suspended",
    ClockDrifts "clocks at a wrong rate",
    WorkerCrashed "workers crashed",
    CommitLost "crashes of the coordinator that lost a commit",
    CommitKept "crashes of the coordinator that kept a commit",
    Rebooted "starts of the coordinator under another boot",
    WallStepped "starts of the coordinator under a wall clock that is anywhere",
    Stalled "stalls of the coordinator",
    BreakSent "breaks sent",
    Broken "leases broken",
    BreakLost "breaks that a crash of the coordinator lost",
    FencesCollected "collections of fences",
    RecordsCollected "collections of operation records",
}

/// How often each deed was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deeds(BTreeMap<Deed, u64>);

impl Deeds {
    /// How often this was done.
    #[must_use]
    pub fn of(&self, deed: Deed) -> u64 {
        self.0.get(&deed).copied().unwrap_or(0)
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (deed, times) in &other.0 {
            *self.0.entry(*deed).or_default() += times;
        }
    }

    /// What was not done once.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        Deed::ALL.iter().filter(|deed| self.of(**deed) == 0).map(|deed| deed.as_str()).collect()
    }

    pub(super) fn count(&mut self, deed: Deed) {
        *self.0.entry(deed).or_default() += 1;
    }
}

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Deed::ALL.iter().try_for_each(|deed| writeln!(f, "{:>9}  {}", self.of(*deed), deed.as_str()))
    }
}
