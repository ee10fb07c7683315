//! The promise of the whole module: whatever is delayed, lost or overtaken, and however the two clocks are off, the
//! holder never believes longer than the coordinator does. Played against a tiny coordinator that knows no more than
//! the rules that answers rest on, and against the real machine with a rival, breaks and restarts.
//!
//! Mutants that both have been seen to catch: the margin left out of `Confirmed::deadline`, the TTL in place of the
//! remaining time there, a deadline counted from the arrival of an answer, `expire` left out of `Holdings::confirmed`.

mod real;
mod tiny;

use std::{
    collections::{BTreeSet, BinaryHeap},
    time::Duration,
};

use proptest::prelude::*;

use crate::{
    LeaseId, Moment, RequestId, Ttl,
    lease::{Acquired, Heartbeat, HeartbeatRefusal},
};

use super::{Attempt, Confirmed, Holdings, Jitter, LeaseState};

const TTL_MS: u64 = 1_000;

/// What the holder does, and what becomes of it on the way. Delays are microseconds of real time.
#[derive(Clone, Debug)]
struct Action {
    after: u64,
    kind: Kind,
    there: u64,
    at_the_coordinator: u64,
    back: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Acquire,
    Heartbeat,
    Unanswered,
    /// Gives back the nth hold, if there is one.
    Release(usize),
    Break(u8),
    /// Somebody else wants the nth domain.
    Rival(u8),
    /// The coordinator stops and starts again on what it had made durable.
    Restart,
}

/// The two clocks: their phases, and by how much the coordinator's runs fast, in parts per thousand.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    holder_phase: u64,
    coordinator_phase: u64,
    coordinator_fast: u64,
}

impl Clocks {
    fn holder(self, real: u64) -> Moment {
        Moment::from_millis((real + self.holder_phase) / 1_000)
    }

    fn coordinator(self, real: u64) -> u64 {
        ((real + self.coordinator_phase) * (1_000 + self.coordinator_fast) / 1_000) / 1_000
    }
}

enum Message {
    Acquire(u8),
    Heartbeat(Attempt),
    Release(u8),
    Break(u8),
    Rival(u8),
    Restart,
}

enum Answer {
    Granted(u8, Acquired),
    Confirmed(Attempt, Heartbeat),
    Refused(Attempt, HeartbeatRefusal),
}

enum What {
    Received { message: Message, sent: Moment, at_the_coordinator: u64, back: Option<u64> },
    Decided { message: Message, sent: Moment, received: u64, back: Option<u64> },
    Arrived { answer: Answer, sent: Moment, elapsed: Duration },
}

/// Ordered by time, earliest first; then by number.
struct Event(u64, u64, What);

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

/// A coordinator, as far as the race needs one. All times are milliseconds on its own clock, and never go back.
trait Coordinator {
    fn decide(&mut self, message: Message, now: u64) -> Option<Answer>;

    /// The holder's leases that have not ended.
    fn live(&mut self, now: u64) -> BTreeSet<LeaseId>;
}

fn id(n: u8) -> LeaseId {
    LeaseId::from_bytes([n; 16])
}

fn request(n: u8) -> RequestId {
    RequestId::from_bytes([n; 16])
}

/// Plays the actions against a coordinator that has opened the session at the beginning of time; panics when the
/// holder believes in a lease that has ended by time.
fn play(actions: Vec<Action>, clocks: Clocks, mut coordinator: impl Coordinator) {
    let opened = Confirmed { sent: clocks.holder(0), elapsed: Duration::ZERO, remaining_ms: TTL_MS };
    let mut holdings = Holdings::open(Ttl::from_millis(TTL_MS).unwrap(), opened, Jitter::NONE);
    let mut queue = BinaryHeap::new();
    let mut number = 0;
    let mut broken: Vec<LeaseId> = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut lost: Vec<u8> = Vec::new();
    let mut acquires = 0;
    let mut actions = actions.into_iter();
    let mut next_action = actions.next();
    let mut real = 0;

    loop {
        let action_at = next_action.as_ref().map(|action| real.max(action.after));
        let event_at = queue.peek().map(|Event(at, ..)| *at);
        let takes_action = match (action_at, event_at) {
            (Some(action), Some(event)) => action < event,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        // The believing must hold up to the very moment before the next thing happens.
        let next_at = if takes_action { action_at } else { event_at }.unwrap();
        for probe in [real, real.midpoint(next_at), next_at] {
            let live = coordinator.live(clocks.coordinator(probe));
            for n in 0..acquires {
                let state = holdings.state(request(n), clocks.holder(probe));
                if !live.contains(&id(n)) && !broken.contains(&id(n)) {
                    assert!(!state.is_held(), "{n} is {state:?} at {probe} and has ended");
                }
                if lost.contains(&n) {
                    assert!(!state.is_held(), "{n} was lost and is {state:?}");
                }
                match state {
                    LeaseState::Held | LeaseState::InDoubt { .. } => {}
                    LeaseState::Lost(_) if held.contains(&n) => lost.push(n),
                    LeaseState::Lost(_) => {}
                }
            }
        }
        real = next_at;
        let now = clocks.holder(real);
        let mut push = |at: u64, what: What| {
            number += 1;
            queue.push(Event(at, number, what));
        };
        if takes_action {
            let action = next_action.take().unwrap();
            let message = match action.kind {
                Kind::Acquire if acquires < 20 => {
                    acquires += 1;
                    Some(Message::Acquire(acquires - 1))
                }
                Kind::Acquire => None,
                Kind::Heartbeat => holdings.next_heartbeat().map(|_| Message::Heartbeat(holdings.heartbeat(now))),
                Kind::Unanswered => {
                    holdings.unanswered(now, Jitter::NONE);
                    None
                }
                Kind::Release(nth) => held.get(nth).copied().map(|n| {
                    holdings.released(request(n));
                    Message::Release(n)
                }),
                Kind::Break(n) => {
                    // A break is against the holder's will: only the fence protects until the holder hears of it.
                    broken.push(id(n));
                    Some(Message::Break(n))
                }
                Kind::Rival(n) => Some(Message::Rival(n)),
                Kind::Restart => Some(Message::Restart),
            };
            if let Some(message) = message {
                let Action { there, at_the_coordinator, back, .. } = action;
                push(real + there, What::Received { message, sent: now, at_the_coordinator, back });
            }
            next_action = actions.next().map(|mut action| {
                action.after += real;
                action
            });
        } else {
            let Event(_, _, what) = queue.pop().unwrap();
            match what {
                What::Received { message, sent, at_the_coordinator, back } => {
                    number += 1;
                    let received = clocks.coordinator(real);
                    let decided = What::Decided { message, sent, received, back };
                    queue.push(Event(real + at_the_coordinator, number, decided));
                }
                What::Decided { message, sent, received, back } => {
                    let decided = clocks.coordinator(real);
                    let elapsed = Duration::from_millis(decided - received);
                    if let (Some(answer), Some(back)) = (coordinator.decide(message, decided), back) {
                        number += 1;
                        queue.push(Event(real + back, number, What::Arrived { answer, sent, elapsed }));
                    }
                }
                What::Arrived { answer, sent, elapsed } => match answer {
                    Answer::Granted(n, acquired) => {
                        holdings.granted(request(n), &acquired, false, sent, elapsed, now);
                        held.push(n);
                    }
                    Answer::Confirmed(attempt, heartbeat) => {
                        holdings.confirmed(&attempt, &heartbeat, elapsed, now, Jitter::NONE);
                    }
                    Answer::Refused(attempt, refusal) => holdings.refused(&attempt, refusal, now),
                },
            }
        }
    }
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..3_000_u64, 2 => 0..400_000_u64, 1 => 0..2_000_000_u64]
}

fn action() -> impl Strategy<Value = Action> {
    let kind = prop_oneof![
        3 => Just(Kind::Acquire),
        8 => Just(Kind::Heartbeat),
        1 => Just(Kind::Unanswered),
        1 => (0..20_usize).prop_map(Kind::Release),
        1 => (0..20_u8).prop_map(Kind::Break),
        2 => (0..20_u8).prop_map(Kind::Rival),
        1 => Just(Kind::Restart),
    ];
    (
        prop_oneof![3 => 0..50_000_u64, 2 => 0..400_000_u64, 1 => 0..1_500_000_u64],
        kind,
        delay(),
        delay(),
        prop::option::weighted(0.8, delay()),
    )
        .prop_map(|(after, kind, there, at_the_coordinator, back)| Action {
            after,
            kind,
            there,
            at_the_coordinator,
            back,
        })
}

fn clocks() -> impl Strategy<Value = Clocks> {
    (0..1_000_000_u64, 0..1_000_000_u64, 0..50_u64).prop_map(|(holder_phase, coordinator_phase, coordinator_fast)| {
        Clocks { holder_phase, coordinator_phase, coordinator_fast }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_the_order_of_answers_the_holder_never_believes_longer_than_the_coordinator(
        actions in prop::collection::vec(action(), 1..60),
        clocks in clocks(),
    ) {
        play(actions, clocks, tiny::Tiny::opened(clocks.coordinator(0)));
    }

    #[test]
    fn i9_the_holder_never_believes_in_a_lease_that_the_real_coordinator_may_give_to_another(
        actions in prop::collection::vec(action(), 1..60),
        clocks in clocks(),
    ) {
        play(actions, clocks, real::Real::opened(clocks.coordinator(0)));
    }
}
