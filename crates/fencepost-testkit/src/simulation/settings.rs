use std::collections::BTreeSet;

use super::process::RIGHT;
use crate::random::Random;

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
            length_ms: 180_000,
            workers: 4,
            domains: 2,
            ttl_ms: 3_000,
            fence_on_acquire: true,
            faults: Fault::ALL.into(),
            mistake: None,
        }
    }
}

impl Settings {
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// At which rate the clock of a worker's machine runs.
    pub(super) fn rate(&self, random: &mut Random) -> u64 {
        match self.mistake {
            Some(Mistake::SlowClocks) => RIGHT * 7 / 10,
            Some(Mistake::DriftByTheTtlAlone) => RIGHT * 96 / 100,
            _ => self.coordinators_rate(random),
        }
    }

    /// At which rate the clock of the coordinator's machine runs. The margin, a tenth of the TTL, pays for what two clocks
    /// differ by while a call waits, which is two and a third TTLs here at most, and for one TTL more.
    pub(super) fn coordinators_rate(&self, random: &mut Random) -> u64 {
        match self.mistake {
            Some(Mistake::DriftByTheTtlAlone) => RIGHT * 104 / 100,
            _ if self.has(Fault::Drift) => random.between(RIGHT * 986 / 1_000, RIGHT * 1_014 / 1_000),
            _ => RIGHT,
        }
    }
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Messages take up to three TTLs, and on a connection whatever comes after them.
    Delay,
    /// Requests to the resource and their answers are lost; connections to the coordinator break, with what was on them.
    Drop,
    /// Requests arrive twice, the copy up to three TTLs later and on a connection of its own.
    Repeat,
    /// A worker and the coordinator, or a worker and the resource, hear nothing of each other for a while.
    Partition,
    /// A worker's process stands still for up to three TTLs and goes on where it was. Its clocks go on.
    Pause,
    /// A worker's machine is suspended for up to three TTLs: its clock counts that time, its timers do not.
    Suspend,
    /// The clock of every machine runs at a rate of its own, within what the margin pays for.
    Drift,
    /// A worker is gone, and another takes its place.
    WorkerCrash,
    /// The coordinator is gone; what it had not synced may be lost; another starts on its disk.
    CoordinatorCrash,
    /// It starts under another boot: its clock begins anew.
    Reboot,
    /// The coordinator's process stands still.
    Stall,
    /// The wall clock, which a start of the coordinator reads, is anywhere.
    WallStep,
    /// An operator breaks a lease.
    Break,
    /// The resource's fences are collected, and of its operation records those that are old enough.
    Collect,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Delay,
        Self::Drop,
        Self::Repeat,
        Self::Partition,
        Self::Pause,
        Self::Suspend,
        Self::Drift,
        Self::WorkerCrash,
        Self::CoordinatorCrash,
        Self::Reboot,
        Self::Stall,
        Self::WallStep,
        Self::Break,
        Self::Collect,
    ];
}

/// A deliberate mistake. The simulation must find each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The coordinator answers before its records are synced.
    AnswerBeforeSync,
    /// A holder counts its lease from the arrival of the answer and not from the sending of the call: the coordinator
    /// says that deciding took it longer than anything can.
    CountFromArrival,
    /// The resource compares nothing.
    NoFence,
    /// A worker tries again under a new operation id when an answer was lost.
    FreshOperationOnRetry,
    /// Nobody is told of grants that nobody claims, so those of abandoned acquires are not given back.
    UnclaimedUntold,
    /// A retried acquire has a request id of its own.
    FreshRequestOnRetry,
    /// Workers' clocks are slower than the margin pays for.
    SlowClocks,
    /// Clocks differ by as much as the margin pays for over one TTL, and calls wait for longer than that.
    DriftByTheTtlAlone,
    /// The resource takes every request under one operation id for the same.
    NoFingerprint,
    /// Operations do not say under which token they were first named, and are retried after their records have gone.
    Unborn,
    /// The client's driver panics in the middle of a heartbeat.
    PanicInDriver,
    /// The coordinator panics in the middle of a release.
    PanicInCoordinator,
}
