//! The life of a lease in time: two holders, one domain, a coordinator that restarts and reboots, calls that are
//! delayed, lost, repeated and late.
//!
//! Coordinator and holders are the core's own machines, [`Leases`] and [`Holdings`]; what is made durable is replayed
//! into a second [`Leases`], from which a restart goes on. Beside them a few lines compute when each lease has to end,
//! by the rules alone. A mutant gets its mistake by a change of what passes between the machines.
//!
//! Holder A has a session and two threads that each acquire under their own request id; holder B acquires once and
//! opens its session by that. Time passes in steps of a third of a TTL.

mod calls;
mod rules;
mod studies;

use std::{fmt::Write, hash::Hasher, time::Duration};

use fencepost_core::{
    Epoch, Holder, LeaseId, Moment, RequestId, Secret, SecretHash, Sequence, SessionId, Token, Ttl,
    holder::{Attempt, Confirmed, Holdings, Jitter},
    lease::{Answer, Command, Credential, EventKind, Leases, Output, Record, Start, Ticket},
};

use super::{
    explorer::{Key, Model, Tale},
    names::NAMES,
};

use calls::send_release;
use rules::check;

pub(super) use studies::studies;

const STEP_MS: u64 = 1_000;
const TTL_STEPS: u64 = 3;
const TTL_MS: u64 = STEP_MS * TTL_STEPS;
/// A's two threads, and B.
const THREADS: usize = 3;
const B: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// A retried acquire has a request id of its own.
    RequestIdPerAttempt,
    /// Holds are counted: a release that comes again ends another one.
    HoldsCounted,
    /// A request id is forgotten when its hold is released.
    IdsForgottenAtRelease,
    /// A grant is answered with a whole TTL, however little the session has left.
    WholeTtl,
    /// A heartbeat renews every lease of its session.
    GrantsGuessedReceived,
    /// Every restart gives everybody a fresh TTL.
    GraceAtEveryRestart,
    /// The first heartbeat after a start is not durable.
    FirstHeartbeatNotDurable,
    /// A reboot is taken for a restart.
    RebootNotNoticed,
    /// The holder counts from the arrival of the answer.
    DeadlineFromArrival,
    /// The holder's clock stands still while its machine is suspended.
    ClockStandsStill,
    /// A call is decided by the moment it was sent at: a stall is forgiven.
    StallForgiven,
    /// A release names the domain, and so whoever holds it.
    ReleaseNamesTheDomain,
    /// A break names the domain, and so whoever holds it.
    BreakNamesTheDomain,
    /// Answers leave before their records are durable.
    AnswersBeforeCommit,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Leasing {
    steps: u64,
    /// Which of the threads take part.
    threads: [bool; THREADS],
    /// Whether calls are decided as they are sent, and answers arrive at once or never.
    prompt: bool,
    /// Whether time passes between the end of a process and the next start.
    downtime: bool,
    /// Whether the coordinator may stand still while time passes, and find out by the next call.
    stalls: bool,
    /// How often a thread sends its acquire.
    attempts: u8,
    heartbeats: u8,
    releases: bool,
    /// How many copies of acquires and releases come again, at any time.
    late: u8,
    restarts: u8,
    reboots: u8,
    breaks: u8,
    /// Whether a holder is excused that believes in a lease which an operator has broken.
    breaks_excuse: bool,
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    /// The time that everybody shares and nobody knows.
    now: u64,
    up: bool,
    /// Whether the coordinator has looked at its clock since time last passed.
    awake: bool,
    start: u64,
    boot: u8,
    booted: u64,
    leases: Leases,
    disk: Leases,
    /// Records whose answers have left already, under the mistake that lets them.
    unwritten: Vec<Record>,
    holdings: [Option<Holdings>; 2],
    /// How long A's machine was suspended.
    suspended: u64,
    threads: [Thread; THREADS],
    calls: [Option<Call>; THREADS + 1],
    heartbeats: u8,
    late: u8,
    restarts: u8,
    reboots: u8,
    breaks: u8,
    rules: Rules,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    attempts: u8,
    /// How many of its acquires made a lease.
    grants: u8,
    lease: Option<LeaseId>,
    request: Option<RequestId>,
    release: Release,
    credential: Option<Credential>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Release {
    #[default]
    No,
    Sent,
    Answered,
}

#[derive(Clone, Debug)]
struct Call {
    what: What,
    sent: u64,
    answer: Option<Answer>,
}

#[derive(Clone, Debug)]
enum What {
    Acquire(RequestId),
    Release,
    Heartbeat(Attempt),
}

/// What has to be so, by the rules alone.
#[derive(Clone, Debug, Default)]
struct Rules {
    last: Option<Token>,
    current: Option<Current>,
    session_ends: [u64; 2],
    session_marked: [bool; 2],
    claimed: Vec<LeaseId>,
    /// The last version that a heartbeat was answered with, and what it named.
    version: (u64, Vec<LeaseId>),
    broken: Vec<LeaseId>,
}

#[derive(Clone, Debug)]
struct Current {
    lease: LeaseId,
    session: usize,
    ends: u64,
    marked: bool,
    /// Which threads have a hold.
    holds: [bool; THREADS],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Pass,
    Wake,
    Suspend,
    /// Send, decide, and let the answer arrive or not.
    Prompt(usize, bool),
    Acquire(usize),
    Release(usize),
    Heartbeat,
    Decide(usize),
    Arrive(usize),
    Lose(usize),
    LateAcquire(usize),
    LateRelease(usize),
    Break(usize),
    Crash,
    /// Under the mistake that lets answers out early.
    CrashAndForget,
    Restart,
    Reboot,
}

impl Model for Leasing {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let leases = Leases::new(NAMES.issuer.clone(), Epoch::ZERO);
        let mut state = State {
            now: 0,
            up: true,
            awake: true,
            start: 0,
            boot: 1,
            booted: 0,
            disk: leases.clone(),
            leases,
            unwritten: Vec::new(),
            holdings: [None, None],
            suspended: 0,
            threads: Default::default(),
            calls: Default::default(),
            heartbeats: 0,
            late: 0,
            restarts: 0,
            reboots: 0,
            breaks: 0,
            rules: Rules::default(),
        };
        let mut tale = Tale::default();
        self.begin(&mut state, &mut tale);
        let credential = Credential { session: session(0), secret: Some(secret(0)) };
        let holder = Holder::new("A").expect("a name");
        let open = Command::OpenSession { session: session(0), secret: secret(0), holder, ttl: ttl() };
        self.decide(&mut state, open, 0, &mut tale);
        let confirmed = Confirmed { sent: at(0), elapsed: Duration::ZERO, remaining_ms: TTL_MS };
        state.holdings[0] = Some(Holdings::open(ttl(), confirmed, Jitter::NONE));
        (state.rules.session_ends[0], state.rules.session_marked[0]) = (TTL_STEPS, false);
        state.threads[0].credential = Some(credential);
        state.threads[1].credential = Some(credential);
        state
    }

    fn key(&self, state: &State, key: &mut Key) {
        // The coordinator is its snapshot and what a start begins anew: the claimed leases, and the version, which
        // follows from the last one that was answered. What is on disk is the snapshot but for ends that a start sets.
        let mut machines = vec![&state.leases];
        if self.mistake.is_some() {
            machines.push(&state.disk);
        }
        for leases in machines {
            let bytes = postcard::to_stdvec(&leases.snapshot()).expect("a snapshot has a form");
            key.write(&bytes);
        }
        let State { leases: _, disk: _, unwritten, holdings, threads, calls, rules, .. } = state;
        let numbers =
            [state.now, u64::from(state.up), u64::from(state.awake), state.start, state.booted, state.suspended];
        let spent = [state.boot, state.heartbeats, state.late, state.restarts, state.reboots, state.breaks];
        // These do not tell when they are equal; their debug form tells everything that they are.
        write!(key, "{numbers:?}{spent:?}{unwritten:?}{holdings:?}{threads:?}{calls:?}{rules:?}")
            .expect("a key is long");
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Pass);
        if self.stalls {
            actions.push(Action::Wake);
        }
        if self.mistake == Some(Mistake::ClockStandsStill) {
            actions.push(Action::Suspend);
        }
        for thread in (0..THREADS).filter(|thread| self.threads[*thread]) {
            if self.prompt {
                actions.extend([Action::Prompt(thread, true), Action::Prompt(thread, false)]);
            } else {
                actions.push(Action::Acquire(thread));
            }
            if self.releases {
                actions.push(Action::Release(thread));
            }
            if state.late < self.late {
                actions.extend([Action::LateAcquire(thread), Action::LateRelease(thread)]);
            }
            if state.breaks < self.breaks {
                actions.push(Action::Break(thread));
            }
        }
        if self.prompt {
            actions.extend([Action::Prompt(THREADS, true), Action::Prompt(THREADS, false)]);
        } else {
            actions.push(Action::Heartbeat);
        }
        for (slot, call) in state.calls.iter().enumerate() {
            let Some(call) = call else { continue };
            actions.push(if call.answer.is_none() { Action::Decide(slot) } else { Action::Arrive(slot) });
            // A call that cannot be repeated is lost by never being delivered.
            let repeatable = match call.what {
                What::Acquire(_) => state.threads[slot].attempts < self.attempts,
                What::Release => true,
                What::Heartbeat(_) => state.heartbeats < self.heartbeats,
            };
            if repeatable {
                actions.push(Action::Lose(slot));
            }
        }
        if state.up {
            if state.restarts < self.restarts || state.reboots < self.reboots {
                actions.push(Action::Crash);
                if !state.unwritten.is_empty() {
                    actions.push(Action::CrashAndForget);
                }
            }
        } else {
            actions.extend([Action::Restart, Action::Reboot]);
        }
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        let possible = match *action {
            Action::Pass => (state.up || self.downtime) && self.pass(state, 0, tale),
            Action::Wake => {
                tale.say(|| "the coordinator looks at its clock".to_owned());
                self.wake(state, tale);
                true
            }
            Action::Suspend => self.pass(state, 1, tale),
            Action::Prompt(slot, arrives) => {
                let sent = match slot {
                    THREADS => self.send_heartbeat(state, tale),
                    thread => self.send_acquire(state, thread, tale),
                };
                state.up && sent && self.receive(state, slot, tale) && {
                    if arrives {
                        self.arrive(state, slot, tale);
                    } else {
                        state.calls[slot] = None;
                        tale.say(|| "the answer is lost".to_owned());
                    }
                    true
                }
            }
            Action::Acquire(thread) => self.send_acquire(state, thread, tale),
            Action::Release(thread) => send_release(state, thread, tale),
            Action::Heartbeat => self.send_heartbeat(state, tale),
            Action::Decide(slot) => state.up && self.receive(state, slot, tale),
            Action::Arrive(slot) => self.arrive(state, slot, tale),
            Action::Lose(slot) => {
                let lost = state.calls[slot].take();
                tale.say(|| format!("{} is lost", lost.as_ref().map(|call| call_of(call, slot)).unwrap_or_default()));
                true
            }
            Action::LateAcquire(thread) => state.up && self.late_acquire(state, thread, tale),
            Action::LateRelease(thread) => state.up && self.late_release(state, thread, tale),
            Action::Break(thread) => state.up && self.break_lease(state, thread, tale),
            Action::Crash => {
                state.up = false;
                let written = std::mem::take(&mut state.unwritten);
                written.iter().for_each(|record| state.disk.replay(record));
                tale.say(|| "the coordinator's process ends".to_owned());
                true
            }
            Action::CrashAndForget => {
                state.up = false;
                state.unwritten.clear();
                tale.say(|| "the coordinator's process ends, and its last records were not durable".to_owned());
                true
            }
            Action::Restart => {
                state.restarts += 1;
                tale.say(|| "the coordinator restarts".to_owned());
                self.begin(state, tale);
                state.restarts <= self.restarts
            }
            Action::Reboot => {
                state.reboots += 1;
                state.boot += u8::from(self.mistake != Some(Mistake::RebootNotNoticed));
                state.booted = state.now;
                tale.say(|| "the coordinator's machine reboots, and its clock begins anew".to_owned());
                self.begin(state, tale);
                state.reboots <= self.reboots
            }
        };
        if possible {
            check(state, tale);
        }
        possible
    }
}

fn ttl() -> Ttl {
    Ttl::from_millis(TTL_MS).expect("within the limits")
}

fn at(steps: u64) -> Moment {
    Moment::from_millis(steps * STEP_MS)
}

fn session(holder: u8) -> SessionId {
    SessionId::from_bytes([holder + 1; 16])
}

fn secret(holder: u8) -> SecretHash {
    Secret::from_bytes([holder + 1; 32]).hash()
}

/// Whose thread it is.
fn holder_of(thread: usize) -> usize {
    usize::from(thread == B)
}

fn name(thread: usize) -> &'static str {
    ["A", "A's second thread", "B"][thread]
}

fn call_of(call: &Call, slot: usize) -> String {
    let what = match call.what {
        What::Acquire(_) => format!("the acquire of {}", name(slot)),
        What::Release => format!("the release of {}", name(slot)),
        What::Heartbeat(_) => "the heartbeat of A".to_owned(),
    };
    if call.answer.is_some() { format!("the answer to {what}") } else { what }
}

impl Leasing {
    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// A holder's clock.
    fn local(&self, state: &State, holder: usize) -> Moment {
        at(if holder == 0 { state.now - state.suspended } else { state.now })
    }

    fn pass(&self, state: &mut State, suspended: u64, tale: &mut Tale) -> bool {
        state.now += 1;
        state.suspended += suspended;
        tale.say(|| format!("{} it is {}", if suspended > 0 { "A's machine is suspended," } else { "" }, state.now));
        state.awake = false;
        if state.up && !self.stalls {
            self.wake(state, tale);
        }
        state.now <= self.steps
    }

    fn wake(&self, state: &mut State, tale: &mut Tale) {
        state.awake = true;
        let output = state.leases.tick(at(state.now - state.booted));
        self.commit(state, output, tale);
    }

    /// A start of the coordinator from what is durable.
    fn begin(&self, state: &mut State, tale: &mut Tale) {
        if self.has(Mistake::GraceAtEveryRestart) {
            let leases = state.rules.current.iter().map(|current| current.lease).collect::<Vec<_>>();
            for holder in 0..2 {
                state.disk.replay(&Record::SessionHeard { session: session(holder), leases: leases.clone() });
            }
        }
        state.leases = state.disk.clone();
        state.start += 1;
        let boot = fencepost_core::BootId::from_bytes([state.boot; 16]);
        let now = at(state.now - state.booted);
        let start = Start { number: state.start, boot, at: now, least: Sequence::FIRST };
        let output = state.leases.start(start);
        state.up = true;
        let rebooted = state.booted == state.now && state.start > 1;
        state.rules.start(state.now, rebooted);
        self.commit(state, output, tale);
        self.wake(state, tale);
    }

    fn decide(&self, state: &mut State, command: Command, sent: u64, tale: &mut Tale) -> Option<Answer> {
        let now = if self.has(Mistake::StallForgiven) { sent } else { state.now };
        state.awake |= !self.has(Mistake::StallForgiven);
        let output = state.leases.step(Ticket(0), command, at(now - state.booted));
        self.commit(state, output, tale)
    }

    /// Makes durable what a step asks for, and hands out what it says.
    fn commit(&self, state: &mut State, output: Output, tale: &mut Tale) -> Option<Answer> {
        let written = output.records().iter().filter(|record| {
            !matches!(record, Record::SessionHeard { .. }) || !self.has(Mistake::FirstHeartbeatNotDurable)
        });
        if self.has(Mistake::AnswersBeforeCommit) {
            let earlier = std::mem::replace(&mut state.unwritten, written.cloned().collect());
            earlier.iter().for_each(|record| state.disk.replay(record));
        } else {
            written.for_each(|record| state.disk.replay(record));
        }
        let spoken = output.committed();
        for event in spoken.events {
            match event.kind {
                EventKind::Granted { .. } => {
                    let holder = usize::from(event.holder.as_str() == "B");
                    state.rules.granted(event.lease, holder, event.token, state.now, tale);
                }
                EventKind::Ended { end, .. } => {
                    tale.say(|| format!("a lease ends: {}", end.as_str()));
                    state.rules.ended(event.lease);
                }
            }
        }
        spoken.answers.into_iter().next().map(|(_, answer)| answer)
    }
}
