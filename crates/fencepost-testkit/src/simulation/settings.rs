use std::collections::BTreeSet;

/// What a simulation is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Virtual length of the run, in milliseconds.
    pub length_ms: u64,
    /// How many workers there are.
    pub workers: usize,
    /// How many domains they share.
    pub domains: usize,
    /// The TTL of their sessions, in milliseconds.
    pub ttl_ms: u64,
    /// Whether a worker raises the fence before it reads what its write is based on.
    pub fence_on_acquire: bool,
    /// What may go wrong.
    pub faults: BTreeSet<Fault>,
    /// A deliberate mistake, to see that it is found.
    pub mistake: Option<Mistake>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            length_ms: 60_000,
            workers: 4,
            domains: 2,
            ttl_ms: 1_000,
            fence_on_acquire: true,
            faults: Fault::ALL.into(),
            mistake: None,
        }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Messages take up to three TTLs.
    Delay,
    /// Messages are lost.
    Drop,
    /// Messages arrive twice.
    Repeat,
    /// A worker and the coordinator, or a worker and the resource, hear nothing of each other for a while.
    Partition,
    /// A worker stands still for up to three TTLs and goes on where it was.
    Pause,
    /// A worker is gone, and another takes its place.
    WorkerCrash,
    /// The coordinator is gone; what it had not synced may be lost; another starts on its disk.
    CoordinatorCrash,
    /// It starts under another boot: its clock begins anew.
    Reboot,
    /// The coordinator stands still.
    Stall,
    /// An operator breaks a lease.
    Break,
    /// The resource's fences and operation records are collected.
    Collect,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Delay,
        Self::Drop,
        Self::Repeat,
        Self::Partition,
        Self::Pause,
        Self::WorkerCrash,
        Self::CoordinatorCrash,
        Self::Reboot,
        Self::Stall,
        Self::Break,
        Self::Collect,
    ];
}

/// A deliberate mistake. The simulation must find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The coordinator answers before its records are synced.
    AnswerBeforeSync,
    /// A holder counts its lease from the arrival of the answer and not from the sending of the call.
    CountFromArrival,
    /// The resource compares nothing.
    NoFence,
    /// A worker tries again under a new operation id when an answer was lost.
    FreshOperationOnRetry,
}
