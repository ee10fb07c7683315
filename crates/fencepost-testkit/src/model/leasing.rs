//! The life of a lease in time: two holders, one domain, a coordinator that restarts and reboots, calls that are
//! delayed, lost, repeated and late.
//!
//! Coordinator and holders are the core's own machines, [`Leases`] and [`Holdings`]; what is made durable is replayed
//! into a second [`Leases`], from which a restart goes on. Beside them a few lines compute when each lease has to end,
//! by the rules alone. A mutant gets its mistake by a change of what passes between the machines.
//!
//! Holder A has a session and two threads that each acquire under their own request id; holder B acquires once and
//! opens its session by that. Time passes in steps of a third of a TTL.

use std::{fmt::Write, hash::Hasher, time::Duration};

use fencepost_core::{
    Contract, Epoch, Holder, LeaseId, Metadata, Moment, RequestId, Secret, SecretHash, Sequence, SessionId, Token, Ttl,
    Wait,
    holder::{Attempt, Confirmed, Holdings, Jitter},
    lease::{
        Acquire, Answer, Caller, Claim, Command, Credential, EventKind, Fresh, Leases, Output, Record, Start, Terms,
        Ticket,
    },
};

use super::{
    explorer::{Key, Model, Property, Tale},
    names::NAMES,
    study::{Bounds, Expected, Study},
};

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

    fn send_acquire(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let attempts = state.threads[thread].attempts;
        let idle = state.calls[thread].is_none() && state.threads[thread].lease.is_none();
        if !idle || attempts >= self.attempts {
            return false;
        }
        let request = self.request(thread, attempts);
        state.threads[thread].attempts += 1;
        let sent = self.local(state, holder_of(thread)).as_millis() / STEP_MS;
        state.calls[thread] = Some(Call { what: What::Acquire(request), sent, answer: None });
        tale.say(|| format!("{} sends an acquire", name(thread)));
        true
    }

    /// The same on every attempt, as the rules have it.
    fn request(&self, thread: usize, attempt: u8) -> RequestId {
        let attempt = if self.has(Mistake::RequestIdPerAttempt) { attempt } else { 0 };
        RequestId::from_bytes([u8::try_from(thread).expect("few") + 1 + 16 * attempt; 16])
    }

    fn send_heartbeat(&self, state: &mut State, tale: &mut Tale) -> bool {
        if state.heartbeats >= self.heartbeats || state.calls[THREADS].is_some() {
            return false;
        }
        let now = self.local(state, 0);
        let Some(holdings) = &mut state.holdings[0] else { return false };
        let attempt = holdings.heartbeat(now);
        state.heartbeats += 1;
        let sent = now.as_millis() / STEP_MS;
        state.calls[THREADS] = Some(Call { what: What::Heartbeat(attempt), sent, answer: None });
        tale.say(|| "A sends a heartbeat".to_owned());
        true
    }

    fn receive(&self, state: &mut State, slot: usize, tale: &mut Tale) -> bool {
        let Some(call) = state.calls[slot].clone() else { return false };
        tale.say(|| format!("the coordinator decides {}", call_of(&call, slot)));
        let answer = match &call.what {
            What::Acquire(request) => self.acquire(state, slot, *request, call.sent, tale),
            What::Release => self.release(state, slot, call.sent, tale),
            What::Heartbeat(attempt) => self.heartbeat(state, attempt, call.sent, tale),
        };
        state.calls[slot] = Some(Call { answer, ..call });
        true
    }

    fn acquire(
        &self,
        state: &mut State,
        thread: usize,
        request: RequestId,
        sent: u64,
        tale: &mut Tale,
    ) -> Option<Answer> {
        let grants = state.threads[thread].grants;
        let number = u8::try_from(thread).expect("few") + 1;
        let fresh = Fresh {
            lease: LeaseId::from_bytes([number + 16 * grants; 16]),
            session: session(1),
            secret: secret(1 + state.threads[thread].attempts),
        };
        let caller = match state.threads[thread].credential.filter(|_| thread != B) {
            Some(credential) => Caller::Session(credential),
            None => Caller::Opening { holder: Holder::new("B").expect("a name"), ttl: ttl() },
        };
        let acquire = Acquire {
            caller,
            domain: NAMES.domains[0].clone(),
            request,
            contract: Contract::Safety,
            terms: Terms { reentrancy_limit: 2, ..Terms::default() },
            metadata: Metadata::default(),
            renew: false,
            wait: Wait::from_millis(0).expect("no wait"),
            fresh,
        };
        let mut answer = self.decide(state, Command::Acquire(Box::new(acquire)), sent, tale);
        if let Some(Answer::Acquired(Ok(acquired))) = &mut answer {
            let token = acquired.permission.grant().map(|grant| grant.token);
            tale.say(|| format!("granted under {} for {} ms", super::names::shown(token), acquired.remaining_ms));
            if acquired.lease == fresh.lease {
                state.threads[thread].grants += 1;
            }
            if let Some(current) = state.rules.current.as_mut().filter(|current| current.lease == acquired.lease) {
                current.holds[thread] = true;
            }
            if self.has(Mistake::WholeTtl) {
                acquired.remaining_ms = TTL_MS;
            }
        } else {
            tale.say(|| "refused".to_owned());
        }
        answer
    }

    fn release(&self, state: &mut State, thread: usize, sent: u64, tale: &mut Tale) -> Option<Answer> {
        let Thread { lease: Some(mut lease), request: Some(mut request), credential, .. } = state.threads[thread]
        else {
            return None;
        };
        let mut secret = credential.and_then(|credential| credential.secret);
        let before = state.rules.current.clone();
        if let Some(current) = &before {
            let other = (0..THREADS).find(|other| current.holds[*other]);
            let of_another = other.and_then(|other| Some((other, state.threads[other].request?)));
            let counted = self.has(Mistake::HoldsCounted) && current.lease == lease && !current.holds[thread];
            let by_domain = self.has(Mistake::ReleaseNamesTheDomain);
            if let Some((other, theirs)) = of_another.filter(|_| counted || by_domain) {
                (lease, request) = (current.lease, theirs);
                secret = state.threads[other].credential.and_then(|credential| credential.secret);
            }
        }
        let named = state.threads[thread].lease;
        if let Some(current) = state.rules.current.as_mut().filter(|current| Some(current.lease) == named) {
            current.holds[thread] = false;
        }
        let answer = self.decide(state, Command::Release { secret, lease, request }, sent, tale);
        if let Some(before) = before {
            let others = (0..THREADS).any(|other| other != thread && before.holds[other]);
            let meant = Some(before.lease) == named && !others;
            let touched = state.rules.current.as_ref().map(|current| current.lease) != Some(before.lease);
            tale.expect(Property::I10, meant || !touched, || {
                format!("the release of {} ended a lease that others hold", name(thread))
            });
        }
        answer
    }

    fn heartbeat(&self, state: &mut State, attempt: &Attempt, sent: u64, tale: &mut Tale) -> Option<Answer> {
        let caller = state.threads[0].credential?;
        let mut claim = attempt.claim();
        let named = match &claim {
            Claim::Held(named) => named.clone(),
            Claim::Unchanged(_) => state.rules.claimed.clone(),
        };
        if self.has(Mistake::GrantsGuessedReceived) {
            let current = state.rules.current.iter().filter(|current| current.session == 0);
            claim = Claim::Held(current.map(|current| current.lease).collect());
        }
        let ended =
            state.rules.current.as_ref().is_none_or(|current| current.session != 0 || current.ends <= state.now);
        let answer = self.decide(state, Command::Heartbeat { caller, claim }, sent, tale);
        if let Some(Answer::Heartbeat(Ok(heartbeat))) = &answer {
            let confirms = heartbeat.leases.as_ref().is_some_and(|leases| !leases.is_empty());
            tale.expect(Property::I8, !(ended && confirms), || "a lease was renewed after its end".to_owned());
            tale.say(|| if confirms { "renewed".to_owned() } else { "accepted".to_owned() });
            state.rules.heard(&named, state.now);
            state.rules.version = (heartbeat.version.0, state.rules.claimed.clone());
        } else {
            tale.say(|| "refused".to_owned());
        }
        answer
    }

    fn arrive(&self, state: &mut State, slot: usize, tale: &mut Tale) -> bool {
        let Some(Call { what, sent, answer: Some(answer) }) = state.calls[slot].take() else { return false };
        let holder = if slot == THREADS { 0 } else { holder_of(slot) };
        let now = self.local(state, holder);
        let sent = if self.has(Mistake::DeadlineFromArrival) { now } else { at(sent) };
        match (what, answer) {
            (What::Acquire(request), Answer::Acquired(Ok(acquired))) => {
                tale.say(|| format!("{} has its answer", name(slot)));
                if holder == 1 && state.holdings[1].is_none() {
                    let confirmed = Confirmed { sent, elapsed: Duration::ZERO, remaining_ms: TTL_MS };
                    state.holdings[1] = Some(Holdings::open(ttl(), confirmed, Jitter::NONE));
                }
                if let Some(holdings) = &mut state.holdings[holder] {
                    holdings.granted(request, &acquired, false, sent, Duration::ZERO, now);
                }
                let thread = &mut state.threads[slot];
                (thread.lease, thread.request) = (Some(acquired.lease), Some(request));
                if acquired.secret_taken {
                    let secret = Some(secret(1 + thread.attempts));
                    thread.credential = Some(Credential { session: acquired.session, secret });
                }
            }
            (What::Release, Answer::Released(_)) => {
                tale.say(|| format!("{} has the answer to its release", name(slot)));
                state.threads[slot].release = Release::Answered;
            }
            (What::Heartbeat(attempt), Answer::Heartbeat(answer)) => {
                tale.say(|| "A has the answer to its heartbeat".to_owned());
                let Some(holdings) = &mut state.holdings[0] else { return false };
                match answer {
                    Ok(heartbeat) => holdings.confirmed(&attempt, &heartbeat, Duration::ZERO, now, Jitter::NONE),
                    Err(refusal) => holdings.refused(&attempt, refusal, now),
                }
            }
            (What::Acquire(_) | What::Release | What::Heartbeat(_), _) => {
                tale.say(|| format!("{} learns that it was refused", if slot == THREADS { "A" } else { name(slot) }));
            }
        }
        true
    }

    /// A copy of an acquire that was sent before, and whose answer nobody waits for.
    fn late_acquire(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let attempts = state.threads[thread].attempts;
        if attempts == 0 {
            return false;
        }
        state.late += 1;
        tale.say(|| format!("a copy of the acquire of {} arrives", name(thread)));
        let forgotten = self.has(Mistake::IdsForgottenAtRelease) && state.threads[thread].release == Release::Answered;
        let request = if forgotten { RequestId::from_bytes([99; 16]) } else { self.request(thread, attempts - 1) };
        let sent = state.now;
        self.acquire(state, thread, request, sent, tale);
        true
    }

    fn late_release(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        if state.threads[thread].release == Release::No {
            return false;
        }
        state.late += 1;
        tale.say(|| format!("a copy of the release of {} arrives", name(thread)));
        let sent = state.now;
        self.release(state, thread, sent, tale);
        true
    }

    fn break_lease(&self, state: &mut State, thread: usize, tale: &mut Tale) -> bool {
        let Some(named) = state.threads[thread].lease else { return false };
        state.breaks += 1;
        let before = state.rules.current.as_ref().map(|current| current.lease);
        let lease = before.filter(|_| self.has(Mistake::BreakNamesTheDomain)).unwrap_or(named);
        tale.say(|| format!("an operator breaks the lease of {}", name(thread)));
        let reason = fencepost_core::Reason::new("it hangs").expect("a reason");
        let sent = state.now;
        let answer = self.decide(state, Command::Break { lease, reason }, sent, tale);
        if let Some(Answer::Broken(Ok(broken))) = answer {
            state.rules.last = state.rules.last.max(broken.fence_to);
            if self.breaks_excuse {
                state.rules.broken.push(lease);
            }
        }
        let after = state.rules.current.as_ref().map(|current| current.lease);
        tale.expect(Property::I10, before == Some(named) || before == after, || {
            "a break of an ended lease ended another".to_owned()
        });
        true
    }
}

fn send_release(state: &mut State, thread: usize, tale: &mut Tale) -> bool {
    let Thread { lease, request, release, .. } = &mut state.threads[thread];
    if lease.is_none() || *release == Release::Answered || state.calls[thread].is_some() {
        return false;
    }
    *release = Release::Sent;
    if let (Some(holdings), Some(request)) = (&mut state.holdings[holder_of(thread)], request) {
        holdings.released(*request);
    }
    state.calls[thread] = Some(Call { what: What::Release, sent: state.now, answer: None });
    tale.say(|| format!("{} sends its release", name(thread)));
    true
}

impl Rules {
    fn granted(&mut self, lease: LeaseId, session: usize, token: Option<Token>, now: u64, tale: &mut Tale) {
        let (last, current) = (self.last, &self.current);
        tale.expect(Property::I1, token > last, || {
            format!("{} was granted after {}", super::names::shown(token), super::names::shown(last))
        });
        tale.expect(Property::I2, current.is_none(), || "the domain was granted while it was held".to_owned());
        self.last = last.max(token);
        if session == 1 {
            self.session_ends[1] = now + TTL_STEPS;
            self.session_marked[1] = false;
        }
        let holds = [false; THREADS];
        self.current = Some(Current { lease, session, ends: now + TTL_STEPS, marked: false, holds });
    }

    fn ended(&mut self, lease: LeaseId) {
        self.current.take_if(|current| current.lease == lease);
        self.claimed.retain(|claimed| *claimed != lease);
    }

    /// A heartbeat of A renews its session and the leases that it names, and clears their marks.
    fn heard(&mut self, named: &[LeaseId], now: u64) {
        self.session_ends[0] = self.session_ends[0].max(now + TTL_STEPS);
        self.session_marked[0] = false;
        self.claimed = named.to_vec();
        self.claimed.retain(|lease| self.current.as_ref().is_some_and(|current| current.lease == *lease));
        if let Some(current) = self.current.as_mut().filter(|current| named.contains(&current.lease)) {
            current.ends = current.ends.max(now + TTL_STEPS);
            current.marked = false;
        }
    }

    /// What has no mark gets one fresh TTL and a mark; after a reboot everything does.
    fn start(&mut self, now: u64, rebooted: bool) {
        for (ends, marked) in self.session_ends.iter_mut().zip(&mut self.session_marked) {
            if !*marked || rebooted {
                (*ends, *marked) = (now + TTL_STEPS, true);
            }
        }
        if let Some(current) = self.current.as_mut().filter(|current| !current.marked || rebooted) {
            (current.ends, current.marked) = (now + TTL_STEPS, true);
        }
        self.claimed.clear();
    }
}

/// What has to hold in every state.
fn check(state: &State, tale: &mut Tale) {
    let current = state.rules.current.as_ref();
    if let Some(current) = current.filter(|_| state.up && state.awake) {
        let ends = current.ends.min(state.rules.session_ends[current.session]);
        tale.expect(Property::I8, state.now < ends, || format!("the lease had to end at {ends}"));
    }
    for (thread, Thread { request, lease, .. }) in state.threads.iter().enumerate() {
        let holder = holder_of(thread);
        let (Some(request), Some(holdings)) = (request, &state.holdings[holder]) else { continue };
        let local = at(if holder == 0 { state.now - state.suspended } else { state.now });
        let believes = holdings.state(*request, local).is_held();
        let broken = lease.is_some_and(|lease| state.rules.broken.contains(&lease));
        let given = current.is_some_and(|current| current.session != holder) && !broken;
        tale.expect(Property::I9, !(believes && given), || {
            format!("{} still believes, and the domain was given to another", name(thread))
        });
    }
    if let Some(current) = current.filter(|current| current.session == 0) {
        let settled = |thread: &Thread| thread.attempts == 0 || thread.release == Release::Answered;
        let all = state.threads[..B].iter().all(settled) && state.calls[..B].iter().all(Option::is_none);
        tale.expect(Property::Freed, !all, || {
            let held = if current.holds.contains(&true) { "a hold that nobody names" } else { "no hold" };
            format!("A has released all that it asked for, and still has the lease, by {held}")
        });
    }
}

/// Time and identity: the rules as they are, and each of them taken away.
pub(super) fn studies() -> Vec<Study> {
    const TIME: Leasing = Leasing {
        steps: 4,
        threads: [true, false, true],
        prompt: false,
        downtime: false,
        stalls: false,
        attempts: 1,
        heartbeats: 1,
        releases: false,
        late: 0,
        restarts: 0,
        reboots: 0,
        breaks: 0,
        breaks_excuse: true,
        mistake: None,
    };
    const STALLS: Leasing = Leasing { threads: [true, false, false], stalls: true, ..TIME };
    const RESTARTS: Leasing = Leasing { steps: 5, prompt: true, restarts: 2, ..TIME };
    const REBOOTS: Leasing = Leasing { steps: 4, downtime: true, restarts: 1, reboots: 1, ..RESTARTS };
    const IDS: Leasing =
        Leasing { steps: 1, threads: [true, true, false], attempts: 2, heartbeats: 0, releases: true, late: 1, ..TIME };
    const SUCCESSOR: Leasing =
        Leasing { steps: 0, threads: [true, false, true], attempts: 1, breaks: 1, late: 1, ..IDS };
    let holds = |name, standard: Leasing, deep: Leasing| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => standard,
            Bounds::Deep => deep,
        })
    };
    let mut studies = vec![
        holds("leases: time and delays", TIME, Leasing { steps: 5, heartbeats: 2, ..TIME }),
        holds("leases: stalls of the coordinator", STALLS, Leasing { threads: [true, false, true], ..STALLS }),
        holds("leases: time and restarts", RESTARTS, Leasing { steps: 7, heartbeats: 2, ..RESTARTS }),
        holds("leases: time and reboots", REBOOTS, Leasing { steps: 5, restarts: 2, ..REBOOTS }),
        holds("leases: requests, holds and late copies", IDS, Leasing { late: 2, restarts: 1, ..IDS }),
        holds("leases: what is late and its successor", SUCCESSOR, Leasing { steps: 3, restarts: 1, ..SUCCESSOR }),
    ];
    studies.push(Study::new(
        Expected::Limit(Property::I9),
        ("", "leases: an operator's break does not wait for the holder's deadline"),
        |_| Leasing { breaks_excuse: false, ..SUCCESSOR },
    ));
    let mutants = [
        (IDS, Mistake::RequestIdPerAttempt, Property::Freed, ("R1", "a retried acquire has an id of its own")),
        (IDS, Mistake::HoldsCounted, Property::I10, ("R2", "holds are counted and not named")),
        (IDS, Mistake::IdsForgottenAtRelease, Property::Freed, ("R3", "request ids are forgotten at release")),
        (TIME, Mistake::WholeTtl, Property::I9, ("T1", "a grant is answered with a whole TTL")),
        (RESTARTS, Mistake::GrantsGuessedReceived, Property::I8, ("T2", "a heartbeat renews what it does not name")),
        (RESTARTS, Mistake::GraceAtEveryRestart, Property::I8, ("T3", "a grace at every restart")),
        (RESTARTS, Mistake::FirstHeartbeatNotDurable, Property::I9, ("T4", "the first heartbeat is not durable")),
        (REBOOTS, Mistake::RebootNotNoticed, Property::I8, ("T4", "a reboot is taken for a restart")),
        (TIME, Mistake::DeadlineFromArrival, Property::I9, ("", "the deadline counts from the answer's arrival")),
        (TIME, Mistake::ClockStandsStill, Property::I9, ("", "the holder's clock does not count suspended time")),
        (STALLS, Mistake::StallForgiven, Property::I8, ("", "a stall of the coordinator is forgiven")),
        (RESTARTS, Mistake::AnswersBeforeCommit, Property::I1, ("", "answers leave before their records are durable")),
        (SUCCESSOR, Mistake::ReleaseNamesTheDomain, Property::I10, ("", "a release names the domain")),
        (SUCCESSOR, Mistake::BreakNamesTheDomain, Property::I10, ("", "a break names the domain")),
    ];
    for (model, mistake, property, name) in mutants {
        let mutant = Leasing { mistake: Some(mistake), ..model };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant));
    }
    studies
}
