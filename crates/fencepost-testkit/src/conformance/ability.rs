use std::fmt;

/// What not every receiver can do, or not every adapter can show. What is lacking is not attacked, and the report says
/// so with the adapter's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ability {
    /// Operations are recorded with their effect, so that a retry is replayed.
    OperationRecords,
    /// [`Handle::read`](super::Handle::read): a read that raises the fence first.
    FencedRead,
    /// One resource has several domains.
    SeveralDomains,
    /// [`Handle::write_all`](super::Handle::write_all): one write under the grants of several domains.
    WriteAll,
    /// [`Handle::collect`](super::Handle::collect): fences and operation records can be collected.
    Collection,
    /// [`Handle::tell`](super::Handle::tell): epoch and floor can be learned from a recovery of the coordinator.
    Telling,
    /// [`Handle::recover`](super::Handle::recover): a receiver that is closed can be opened again.
    Recovery,
    /// [`Handle::records`](super::Handle::records): what the receiver knows can be looked at.
    Inspection,
    /// [`Handle::write_then_fail`](super::Handle::write_then_fail): a mutation can fail after it has changed something.
    FailingMutation,
    /// [`Handle::write_and_lose_the_answer`](super::Handle::write_and_lose_the_answer): a commit whose answer is lost.
    LostAnswer,
    /// [`Handle::present`](super::Handle::present): the receiver takes something that is not a grant of contract `safety`.
    Presentation,
    /// [`Adapter::write_without_token`](super::Adapter::write_without_token): who presents nothing is refused.
    Guard,
    /// [`Adapter::lose_records`](super::Adapter::lose_records): the receiver's own records can be removed.
    LostRecords,
    /// [`Adapter::back_up`](super::Adapter::back_up) and [`Adapter::restore`](super::Adapter::restore).
    RestoredBackup,
    /// [`Adapter::process`](super::Adapter::process): several processes can have one resource open, and be killed.
    Processes,
}

impl Ability {
    /// The name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OperationRecords => "operation records",
            Self::FencedRead => "fenced read",
            Self::SeveralDomains => "several domains",
            Self::WriteAll => "one write over several domains",
            Self::Collection => "collection",
            Self::Telling => "learning an epoch and a floor",
            Self::Recovery => "recovery",
            Self::Inspection => "inspection",
            Self::FailingMutation => "a mutation that fails",
            Self::LostAnswer => "a lost answer",
            Self::Presentation => "presenting no grant",
            Self::Guard => "a guard against writes without a token",
            Self::LostRecords => "lost records",
            Self::RestoredBackup => "a restored backup",
            Self::Processes => "several processes",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
