//! Is there an order of the calls that explains what everybody was answered?
//!
//! A register here is the value of one domain at one resource together with its fence: a call takes effect at one
//! moment between call and answer, a write only under a token that is not below the fence, an operation only once.
//! The search walks through the history and keeps every state that the answers so far allow (Wing and Gong's search,
//! by moments, with a memo of the states). A call without an answer may take effect at any later moment, or never; it
//! is dropped as soon as every state rules it out for good.

use std::collections::{HashMap, HashSet};

use fencepost_core::Token;

use super::{
    Violation,
    call::{Action, Call, Outcome},
    story::tell,
};

/// Which rules of a register are held against the history.
#[derive(Clone, Copy)]
struct Rules {
    fence: bool,
    once: bool,
}

const ALL: Rules = Rules { fence: true, once: true };

/// A state that the history so far allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    fence: Option<Token>,
    /// The value, by its number; `None` before anything is known of it.
    value: Option<u32>,
    /// Calls under way that have taken effect already, by their places among the open ones.
    taken: u128,
    /// Operations of several attempts that have taken effect, in order.
    done: Vec<u32>,
}

/// Calls under way. Each has a place, which is free again when the call is over.
struct Open {
    /// As long as it has ever had to be, at most [`PLACES`].
    places: Vec<Option<usize>>,
}

/// How many calls of one register may be under way at a time: as many as a state has bits.
const PLACES: usize = 128;

impl Open {
    /// Gives a call a place, or says that there is none.
    fn enter(&mut self, call: usize) -> bool {
        match self.places.iter().position(Option::is_none) {
            Some(free) => self.places[free] = Some(call),
            None if self.places.len() < PLACES => self.places.push(Some(call)),
            None => return false,
        }
        true
    }

    fn place_of(&self, call: usize) -> Option<usize> {
        self.places.iter().position(|place| *place == Some(call))
    }

    /// The calls under way that a state has not let take effect.
    fn left<'a>(&'a self, state: &State) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let taken = state.taken;
        let calls = self.places.iter().enumerate().filter_map(|(place, call)| Some((place, (*call)?)));
        calls.filter(move |(place, _)| taken & (1 << place) == 0)
    }
}

/// A call in numbers.
struct Step {
    token: Option<Token>,
    /// The value written.
    writes: Option<u32>,
    /// The value read.
    reads: Option<u32>,
    operation: Option<u32>,
    outcome: Expected,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Applied,
    Replayed,
    Stale,
    Unknown,
}

/// More calls were under way than can be searched.
pub(super) struct TooMany;

/// # Errors
/// When more than 128 calls of the register were under way at a time; nothing is said about it then.
pub(super) fn check(calls: &[&Call]) -> Result<Option<Violation>, TooMany> {
    let Some(broken_at) = explain(calls, ALL)? else { return Ok(None) };
    let end = calls[broken_at].answered;
    let until_then: Vec<&Call> = calls.iter().copied().filter(|call| Some(call.called) < end).collect();
    let broken = |calls: &[&Call], rules: Rules| matches!(explain(calls, rules), Ok(Some(_)));
    let (no_fence, not_once) = (Rules { fence: false, ..ALL }, Rules { once: false, ..ALL });
    let (invariant, what, without) = if !broken(&until_then, no_fence) {
        ("I3", "no order explains the answers unless a stale call had its way", Some(no_fence))
    } else if !broken(&until_then, not_once) {
        ("I6", "no order explains the answers unless operation records were ignored", Some(not_once))
    } else {
        ("register", "no order of the calls explains the answers: an update was lost or a value made up", None)
    };
    // What is left out must leave the reason as it is: explained without the rule, and not with it.
    let story = shorten(until_then, |calls| broken(calls, ALL) && without.is_none_or(|rules| !broken(calls, rules)));
    Ok(Some(Violation { invariant, what: what.to_owned(), story: tell(&story) }))
}

/// The position of the first call whose answer no order explains.
fn explain(calls: &[&Call], rules: Rules) -> Result<Option<usize>, TooMany> {
    let steps = number(calls, rules);
    let mut moments: Vec<(usize, bool, usize)> = Vec::new();
    for (at, (call, step)) in calls.iter().zip(&steps).enumerate() {
        if step.is_some() {
            moments.push((call.called, false, at));
            moments.extend(call.answered.filter(|_| call.outcome != Outcome::Unknown).map(|time| (time, true, at)));
        }
    }
    moments.sort_unstable();
    let mut states = HashSet::from([State { fence: None, value: None, taken: 0, done: Vec::new() }]);
    let mut open = Open { places: Vec::new() };
    let step_of = |at: usize| steps[at].as_ref().expect("only calls with a step have moments");
    for (_, is_answer, at) in moments {
        if !is_answer {
            if !open.enter(at) {
                return Err(TooMany);
            }
            continue;
        }
        let place = open.place_of(at).expect("an answer comes after its call");
        states = settle(states, &open, place, &step_of, rules);
        if states.is_empty() {
            return Ok(Some(at));
        }
        open.places[place] = None;
        forget(&mut states, &mut open, &step_of, rules);
    }
    Ok(None)
}

/// Every state in which the call at `place` has taken effect, reached by letting calls under way take effect before it.
fn settle<'s>(
    states: HashSet<State>,
    open: &Open,
    place: usize,
    step_of: &impl Fn(usize) -> &'s Step,
    rules: Rules,
) -> HashSet<State> {
    let mut settled = HashSet::new();
    let mut seen: HashSet<State> = HashSet::new();
    let mut todo: Vec<State> = states.into_iter().collect();
    while let Some(mut state) = todo.pop() {
        // What changes nothing takes effect as soon as it can: waiting would only leave it undone.
        for (place, call) in open.left(&state) {
            let took = take(&state, step_of(call), rules);
            if took.is_some_and(|next| (next.fence, next.value, &next.done) == (state.fence, state.value, &state.done))
            {
                state.taken |= 1 << place;
            }
        }
        if state.taken & (1 << place) != 0 {
            state.taken &= !(1 << place);
            settled.insert(state);
            continue;
        }
        for (place, call) in open.left(&state) {
            if let Some(mut next) = take(&state, step_of(call), rules) {
                next.taken |= 1 << place;
                if seen.insert(next.clone()) {
                    todo.push(next);
                }
            }
        }
    }
    settled
}

/// The state after a call took effect, if it can have, with the answer that it was given.
fn take(state: &State, step: &Step, rules: Rules) -> Option<State> {
    let stale = step.token.is_some_and(|token| state.fence.is_some_and(|fence| token < fence));
    let done = step.operation.is_some_and(|operation| state.done.contains(&operation));
    match step.outcome {
        // To call a retry stale whose effect has happened would be a lie.
        Expected::Stale => return (stale && !(rules.once && done)).then(|| state.clone()),
        Expected::Replayed if rules.once && !done => return None,
        Expected::Unknown if rules.once && done => return Some(replayed(state, step, stale)),
        Expected::Replayed => return Some(replayed(state, step, stale)),
        Expected::Applied | Expected::Unknown => {}
    }
    if rules.fence && stale || rules.once && done {
        return None;
    }
    if let (Some(read), Some(value)) = (step.reads, state.value)
        && read != value
    {
        return None;
    }
    let mut next = state.clone();
    next.fence = next.fence.max(step.token);
    next.value = step.writes.or(step.reads).or(next.value);
    if let Some(operation) = step.operation
        && let Err(at) = next.done.binary_search(&operation)
    {
        next.done.insert(at, operation);
    }
    Some(next)
}

/// A replay changes no value; under a token that is not stale it raises the fence.
fn replayed(state: &State, step: &Step, stale: bool) -> State {
    let fence = if stale { state.fence } else { state.fence.max(step.token) };
    State { fence, ..state.clone() }
}

/// Drops calls without an answer that can never take effect any more, in whatever state.
fn forget<'s>(states: &mut HashSet<State>, open: &mut Open, step_of: &impl Fn(usize) -> &'s Step, rules: Rules) {
    let mut gone = 0_u128;
    for (place, call) in open.places.iter_mut().enumerate() {
        let Some(step) = call.map(step_of).filter(|step| step.outcome == Expected::Unknown) else { continue };
        let lost = states.iter().all(|state| {
            let raises_nothing = state.fence >= step.token;
            let stale = rules.fence && state.fence > step.token && step.token.is_some();
            let done = rules.once && step.operation.is_some_and(|operation| state.done.contains(&operation));
            state.taken & (1 << place) != 0 || stale || done && raises_nothing
        });
        if lost {
            gone |= 1 << place;
            *call = None;
        }
    }
    if gone != 0 {
        let without = |state: State| State { taken: state.taken & !gone, ..state };
        *states = std::mem::take(states).into_iter().map(without).collect();
    }
}

/// Values and operations as numbers. Calls that say nothing about the register have no step.
fn number<'a>(calls: &[&'a Call], rules: Rules) -> Vec<Option<Step>> {
    let mut values: HashMap<&'a str, u32> = HashMap::new();
    let mut operations: HashMap<&str, (u32, u32)> = HashMap::new();
    for call in calls {
        if let Some(operation) = call.action.operation() {
            let next = u32::try_from(operations.len()).unwrap_or(u32::MAX);
            operations.entry(operation).or_insert((next, 0)).1 += 1;
        }
    }
    let mut value_of = |text: &'a str| {
        let next = u32::try_from(values.len()).unwrap_or(u32::MAX);
        *values.entry(text).or_insert(next)
    };
    let mut steps = Vec::with_capacity(calls.len());
    for call in calls.iter().copied() {
        let outcome = match &call.outcome {
            Outcome::Applied | Outcome::Value(_) => Some(Expected::Applied),
            Outcome::Replayed => Some(Expected::Replayed),
            Outcome::Unknown => Some(Expected::Unknown),
            Outcome::Rejected { reason } if reason == "stale" && rules.fence => Some(Expected::Stale),
            Outcome::Rejected { .. } | Outcome::Refused | Outcome::Granted { .. } | Outcome::Done => None,
        };
        let writes = match &call.action {
            Action::Write { value, .. } => Some(value_of(value)),
            _ => None,
        };
        let reads = match &call.outcome {
            Outcome::Value(value) => Some(value_of(value)),
            _ => None,
        };
        let operation = call.action.operation().and_then(|id| operations.get(id));
        let operation = operation.filter(|(_, attempts)| *attempts > 1).map(|(number, _)| *number);
        let says_nothing = outcome == Some(Expected::Unknown) && writes.is_none() && call.action.token().is_none();
        steps.push(outcome.filter(|_| !says_nothing).map(|outcome| Step {
            token: call.action.token(),
            writes,
            reads,
            operation,
            outcome,
        }));
    }
    steps
}

/// How often a story is tried without some of its calls: long histories are cut down far enough, not to the bone.
const TRIES: usize = 2_000;

/// Leaves out calls as long as what is left shows the same.
fn shorten<'a>(mut story: Vec<&'a Call>, shows: impl Fn(&[&'a Call]) -> bool) -> Vec<&'a Call> {
    let mut tries = 0;
    let mut chunk = story.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        while start < story.len() && tries < TRIES {
            tries += 1;
            let mut shorter = story.clone();
            shorter.drain(start..(start + chunk).min(story.len()));
            if shows(&shorter) {
                story = shorter;
            } else {
                start += chunk;
            }
        }
        if chunk == 1 {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    story
}
