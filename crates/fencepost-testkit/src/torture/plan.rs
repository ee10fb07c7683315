//! What the nemesis does, as data.

use std::fmt;

use crate::random::Random;

/// What a plan is drawn for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// How many workers there are.
    pub workers: usize,
    /// Longer than the time to live, in milliseconds: a pause of this length costs a holder its lease.
    pub pause_ms: u64,
    /// How long a block of chaos is, in milliseconds.
    pub chaos_ms: u64,
    /// How many blocks of chaos there are. Scenes stand between them.
    pub chaos_blocks: usize,
    /// The scenes, in this order.
    pub scenes: Vec<Scene>,
}

impl Default for Wishes {
    fn default() -> Self {
        Self { workers: 5, pause_ms: 1_300, chaos_ms: 2_500, chaos_blocks: 8, scenes: Vec::new() }
    }
}

/// What is done, and when, from a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One after the other.
    pub blocks: Vec<Block>,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Deeds by the clock, from the block's begin.
    Chaos(Vec<Step>),
    /// A story with a known end, told while nothing else is disturbed.
    Scene(Scene),
}

/// A deed and when it is due, in milliseconds from the begin of its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at_ms: u64,
    /// What.
    pub deed: Deed,
}

/// What the nemesis can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// SIGSTOP.
    Stop(Target),
    /// SIGCONT.
    Continue(Target),
    /// SIGKILL. Another worker process takes a killed one's place at once; a server stays down until [`Deed::Restart`].
    Kill(Target),
    /// Starts the server on the data that it left.
    Restart,
    /// Cuts a worker's connections to the server.
    Cut(usize),
    /// From now on this happens to everything that a worker asks the server.
    Weather(usize, Weather),
    /// Nothing happens to it any more.
    Clear(usize),
    /// The kernel drops a worker's packets.
    Partition(usize, Direction),
    /// It drops none any more.
    Heal,
    /// The wall clock of server and workers is this many seconds off.
    StepClock(i64),
    /// Nothing can be written to a disk any more.
    Fill(Disk),
    /// There is room again.
    Free(Disk),
    /// A program that knows nothing of Fencepost tries to write.
    Intrude,
}

/// Whom it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The worker of this number.
    Worker(usize),
    /// The coordinator's process.
    Server,
}

/// What a proxy does to requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weather {
    /// The server gets requests this many milliseconds late.
    SlowRequests(u64),
    /// The worker gets answers this many milliseconds late.
    SlowAnswers(u64),
    /// The server gets every request twice.
    Repeating,
    /// The server acts, and its answers are lost.
    AnswersLost,
    /// Requests vanish.
    Blackhole,
}

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Those that the worker sends.
    Requests,
    /// Those that it should get.
    Answers,
    /// All.
    Both,
}

/// Whose disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disk {
    /// The coordinator's.
    Server,
    /// That of the protected resources.
    Resources,
}

/// A story with a known end, about the domain of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scene {
    /// A has read and is stopped; B acquires and reads; A goes on and writes; B writes.
    Overtake(usize),
    /// A has read and is stopped; A writes at the very moment at which B's acquire raises the fence.
    NeckAndNeck(usize),
    /// A has just been granted the domain: the server is killed at once, and started again. The grant has to be there.
    KillInTheAct(usize),
    /// The coordinator's store is lost while a holder of the domain stands before its write, and it begins again under its
    /// name in a greater epoch.
    LoseTheStore(usize),
    /// Every resource is copied back to an earlier state, noticed, and recovered.
    CopyBack,
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop(Target::Server) => write!(f, "stop the server"),
            Self::Stop(Target::Worker(worker)) => write!(f, "stop worker {worker}"),
            Self::Continue(Target::Server) => write!(f, "continue the server"),
            Self::Continue(Target::Worker(worker)) => write!(f, "continue worker {worker}"),
            Self::Kill(Target::Server) => write!(f, "kill the server"),
            Self::Kill(Target::Worker(worker)) => write!(f, "kill worker {worker}"),
            Self::Restart => write!(f, "restart the server"),
            Self::Cut(worker) => write!(f, "cut worker {worker}"),
            Self::Weather(worker, weather) => write!(f, "{} for worker {worker}", weather.kind().as_str()),
            Self::Clear(worker) => write!(f, "clear worker {worker}"),
            Self::Partition(worker, direction) => write!(f, "partition worker {worker} ({})", direction.name()),
            Self::Heal => write!(f, "heal"),
            Self::StepClock(seconds) => write!(f, "wall clock {seconds:+} s"),
            Self::Fill(disk) => write!(f, "fill {}", disk.name()),
            Self::Free(disk) => write!(f, "free {}", disk.name()),
            Self::Intrude => write!(f, "intrude"),
        }
    }
}

macro_rules! kinds {
    ($($kind:ident: $name:literal;)*) => {
        /// What deeds are counted by. A run that has not met each of them has not tried everything.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $name] $kind),*
        }

        impl Kind {
            /// Every kind there is.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The name that it is counted under.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    ServerStopped: "server stopped";
    WorkerStopped: "worker stopped";
    ServerKilled: "server killed";
    WorkerKilled: "worker killed";
    ConnectionsCut: "connections cut";
    RequestsDelayed: "requests delayed";
    AnswersDelayed: "answers delayed";
    RequestsRepeated: "requests repeated";
    AnswersLost: "answers lost";
    RequestsSwallowed: "requests swallowed";
    RequestsDropped: "packets dropped: requests";
    AnswersDropped: "packets dropped: answers";
    BothDropped: "packets dropped: both ways";
    ClockStepped: "wall clock stepped";
    ServersDiskFilled: "server's disk filled";
    ResourcesDiskFilled: "resources' disk filled";
    Intrusion: "write without a token";
}

impl Deed {
    /// What it is counted by; `None` for those that only end another one.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Stop(Target::Server) => Kind::ServerStopped,
            Self::Stop(Target::Worker(_)) => Kind::WorkerStopped,
            Self::Kill(Target::Server) => Kind::ServerKilled,
            Self::Kill(Target::Worker(_)) => Kind::WorkerKilled,
            Self::Cut(_) => Kind::ConnectionsCut,
            Self::Weather(_, weather) => weather.kind(),
            Self::Partition(_, Direction::Requests) => Kind::RequestsDropped,
            Self::Partition(_, Direction::Answers) => Kind::AnswersDropped,
            Self::Partition(_, Direction::Both) => Kind::BothDropped,
            Self::StepClock(_) => Kind::ClockStepped,
            Self::Fill(Disk::Server) => Kind::ServersDiskFilled,
            Self::Fill(Disk::Resources) => Kind::ResourcesDiskFilled,
            Self::Intrude => Kind::Intrusion,
            Self::Continue(_) | Self::Restart | Self::Clear(_) | Self::Heal | Self::Free(_) => return None,
        })
    }
}

impl Weather {
    const fn kind(self) -> Kind {
        match self {
            Self::SlowRequests(_) => Kind::RequestsDelayed,
            Self::SlowAnswers(_) => Kind::AnswersDelayed,
            Self::Repeating => Kind::RequestsRepeated,
            Self::AnswersLost => Kind::AnswersLost,
            Self::Blackhole => Kind::RequestsSwallowed,
        }
    }
}

impl Direction {
    const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Answers => "answers",
            Self::Both => "both ways",
        }
    }
}

impl Disk {
    const fn name(self) -> &'static str {
        match self {
            Self::Server => "the server's disk",
            Self::Resources => "the resources' disk",
        }
    }
}

impl Plan {
    /// The plan of a seed. Scenes stand between the blocks of chaos, as evenly as they come.
    #[must_use]
    pub fn draw(seed: u64, wishes: &Wishes) -> Self {
        let mut random = Random::new(seed);
        // Each kind of fault has its turn, so that a short run meets every one of them, another seed in another order.
        let mut turns = Turns { alone: random.next() % 10_000, shared: random.next() % 10_000 };
        let mut scenes = wishes.scenes.iter().copied();
        let mut blocks = Vec::new();
        for block in 0..wishes.chaos_blocks {
            blocks.push(Block::Chaos(chaos(&mut random, wishes, &mut turns)));
            let (done, all) = (block + 1, wishes.chaos_blocks);
            let due = wishes.scenes.len() * done / all - wishes.scenes.len() * block / all;
            blocks.extend(scenes.by_ref().take(due).map(Block::Scene));
        }
        blocks.extend(scenes.map(Block::Scene));
        Self { blocks }
    }
}

/// Which kind of fault comes next, in either lane.
struct Turns {
    alone: u64,
    shared: u64,
}

/// Two lanes at a time: one disturbs a worker and its network, the other what all of them share. Within a lane one fault
/// ends before the next begins.
fn chaos(random: &mut Random, wishes: &Wishes, turns: &mut Turns) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at_ms = random.between(0, 200);
    while at_ms < wishes.chaos_ms {
        let fault = of_a_worker(random, wishes, turns.alone);
        at_ms = fault.add(at_ms, &mut steps) + random.between(20, 200);
        turns.alone += 1;
    }
    let mut at_ms = random.between(0, 300);
    while at_ms < wishes.chaos_ms {
        let fault = of_all(random, wishes, turns.shared);
        at_ms = fault.add(at_ms, &mut steps) + random.between(100, 500);
        turns.shared += 1;
    }
    steps.sort_by_key(|step| step.at_ms);
    steps
}

/// A deed, how long it lasts, and what ends it.
struct Fault {
    begin: Deed,
    lasts_ms: u64,
    end: Option<Deed>,
}

impl Fault {
    /// Says when it is over.
    fn add(self, at_ms: u64, steps: &mut Vec<Step>) -> u64 {
        steps.push(Step { at_ms, deed: self.begin });
        steps.extend(self.end.map(|deed| Step { at_ms: at_ms + self.lasts_ms, deed }));
        at_ms + self.lasts_ms
    }
}

/// Every other one is a pause past the TTL or a kill; those are what tokens are for.
fn of_a_worker(random: &mut Random, wishes: &Wishes, turn: u64) -> Fault {
    let worker = usize::try_from(random.next() % wishes.workers.max(1) as u64).unwrap_or(0);
    let target = Target::Worker(worker);
    let short = random.between(100, wishes.pause_ms);
    let once = |begin| Fault { begin, lasts_ms: 0, end: None };
    let weather =
        |weather| Fault { begin: Deed::Weather(worker, weather), lasts_ms: short, end: Some(Deed::Clear(worker)) };
    let partition = |way| Fault { begin: Deed::Partition(worker, way), lasts_ms: short, end: Some(Deed::Heal) };
    if turn.is_multiple_of(2) {
        let lasts_ms = wishes.pause_ms + random.between(0, wishes.pause_ms / 2);
        let pause = Fault { begin: Deed::Stop(target), lasts_ms, end: Some(Deed::Continue(target)) };
        return if turn.is_multiple_of(4) { pause } else { once(Deed::Kill(target)) };
    }
    match turn / 2 % 10 {
        0 => once(Deed::Cut(worker)),
        1 => partition(Direction::Both),
        2 => weather(Weather::SlowRequests(random.between(20, 400))),
        3 => weather(Weather::AnswersLost),
        4 => once(Deed::Intrude),
        5 => weather(Weather::Repeating),
        6 => partition(Direction::Answers),
        7 => weather(Weather::SlowAnswers(random.between(20, 400))),
        8 => weather(Weather::Blackhole),
        _ => partition(Direction::Requests),
    }
}

fn of_all(random: &mut Random, wishes: &Wishes, turn: u64) -> Fault {
    let short = random.between(100, 600);
    let (begin, lasts_ms, end) = match turn % 6 {
        0 => (Deed::Kill(Target::Server), short / 2, Some(Deed::Restart)),
        1 => (Deed::Fill(Disk::Resources), short, Some(Deed::Free(Disk::Resources))),
        2 => {
            let seconds = match random.between(0, 3) {
                0 => 3_600,
                1 => -86_400,
                2 => 31_000_000,
                _ => 0,
            };
            (Deed::StepClock(seconds), 0, None)
        }
        3 => (Deed::Stop(Target::Server), short, Some(Deed::Continue(Target::Server))),
        4 => (Deed::Fill(Disk::Server), short, Some(Deed::Free(Disk::Server))),
        _ => (Deed::Stop(Target::Server), wishes.pause_ms + short, Some(Deed::Continue(Target::Server))),
    };
    Fault { begin, lasts_ms, end }
}
