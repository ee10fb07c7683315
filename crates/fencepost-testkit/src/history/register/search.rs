//! The search: every state that the answers so far allow.

use std::collections::{HashMap, VecDeque};

use fencepost_core::Token;

use super::{
    TooMany,
    step::{Expected, Named, Rules, Step},
};

/// A state that the history so far allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    fence: Option<Token>,
    /// The value, by its number; `None` before anything is known of it.
    value: Option<u32>,
    /// Calls under way that have taken effect already, or never can, by their places among the open ones.
    taken: u128,
    /// Unanswered writes of operations that may have taken effect and been overwritten at once, by their places.
    hidden: u128,
    /// Operations of several attempts that have taken effect, each with the request that did, in order.
    done: Vec<Named>,
}

impl State {
    /// Whether a call's operation has taken effect, by whatever request.
    fn has_done(&self, step: &Step) -> bool {
        step.named.is_some_and(|named| self.done.iter().any(|done| done.operation == named.operation))
    }
}

/// How many calls of one register may be under way at a time: as many as a state has bits.
pub(super) const PLACES: usize = 128;

/// How often states may be compared for one answer, which bounds its time and its memory.
pub(super) const COMPARED: usize = 200_000;

/// The states that the history so far allows, and the calls under way.
pub(super) struct Search<'s> {
    steps: &'s [Option<Step>],
    rules: Rules,
    states: Vec<State>,
    /// Calls under way, each at its place, which is free again when the call is over. At most [`PLACES`].
    open: Vec<Option<(usize, &'s Step)>>,
    /// For each operation, how many of its attempts are still to begin, or to be answered.
    ahead: HashMap<u32, u32>,
}

impl<'s> Search<'s> {
    pub(super) fn new(steps: &'s [Option<Step>], rules: Rules) -> Self {
        let mut ahead = HashMap::new();
        for operation in steps.iter().flatten().filter_map(Step::operation) {
            *ahead.entry(operation).or_default() += 1;
        }
        let start = State { fence: None, value: None, taken: 0, hidden: 0, done: Vec::new() };
        Self { steps, rules, states: vec![start], open: Vec::new(), ahead }
    }

    /// Gives a call a place, or says that there is none.
    pub(super) fn begin(&mut self, at: usize) -> Result<(), TooMany> {
        let step = self.steps[at].as_ref().expect("only calls with a step have moments");
        match self.open.iter().position(Option::is_none) {
            Some(free) => self.open[free] = Some((at, step)),
            None if self.open.len() < PLACES => self.open.push(Some((at, step))),
            None => return Err(TooMany),
        }
        if step.outcome == Expected::Unknown {
            self.is_no_longer_ahead(step);
            let states = std::mem::take(&mut self.states);
            self.states = states.into_iter().map(|state| self.bury(state)).collect();
            self.forget();
        }
        Ok(())
    }

    /// Keeps the states in which the call has taken effect. Says whether there are any.
    pub(super) fn end(&mut self, at: usize, compared: &mut usize) -> Result<bool, TooMany> {
        let place = self.open.iter().position(|open| open.is_some_and(|(call, _)| call == at));
        let place = place.expect("an answer comes after its call");
        self.states = self.settle(place, compared)?;
        if let Some((_, step)) = self.open[place].take() {
            self.is_no_longer_ahead(step);
        }
        self.forget();
        Ok(!self.states.is_empty())
    }

    fn is_no_longer_ahead(&mut self, step: &Step) {
        if let Some(ahead) = step.operation().and_then(|operation| self.ahead.get_mut(&operation)) {
            *ahead -= 1;
        }
    }

    fn calls(&self) -> impl Iterator<Item = (usize, &'s Step)> {
        self.open.iter().enumerate().filter_map(|(place, open)| open.map(|(_, step)| (place, step)))
    }

    /// The calls under way that a state has not let take effect.
    fn left(&self, state: &State) -> impl Iterator<Item = (usize, &'s Step)> {
        let taken = state.taken;
        self.calls().filter(move |(place, _)| taken & (1 << place) == 0)
    }

    /// Every state in which the call at `target` has taken effect, reached by letting calls under way take effect
    /// before it.
    fn settle(&self, target: usize, compared: &mut usize) -> Result<Vec<State>, TooMany> {
        let twins = self.twins();
        let mut settled = Frontier::default();
        let mut seen = Frontier::default();
        let mut todo: VecDeque<(State, bool)> = self.states.iter().cloned().map(|state| (state, false)).collect();
        while let Some((mut state, is_unseen)) = todo.pop_front() {
            let taken = state.taken;
            self.take_what_changes_nothing(&mut state);
            let is_unseen = is_unseen && state.taken == taken;
            if state.taken & (1 << target) != 0 {
                state.taken &= !(1 << target);
                settled.admit(self, state)?;
                continue;
            }
            for (place, step) in self.left(&state) {
                let is_unknown = step.outcome == Expected::Unknown;
                // Of unanswered calls that nobody can tell apart, the first one stands for all.
                if twins[place] & !state.taken != 0 {
                    continue;
                }
                // Nobody has seen the unanswered write before: without it this one comes to the same, and hides it.
                if is_unseen && is_unknown && step.writes.is_some() && !self.may_be_replay(&state, place, step) {
                    continue;
                }
                for next in self.take(&state, place, step) {
                    if is_unknown && is_same(&next, &state) || !seen.admit(self, next.clone())? {
                        continue;
                    }
                    // Those that spend fewer unanswered calls come first, for they make the others needless.
                    if is_unknown {
                        todo.push_back((next, step.writes.is_some()))
                    } else {
                        todo.push_front((next, false))
                    }
                }
            }
        }
        *compared += seen.compared;
        Ok(settled.into_states())
    }

    /// For each place of an unanswered call, the places before it of those that nobody can tell from it.
    fn twins(&self) -> Vec<u128> {
        let mut twins = vec![0; self.open.len()];
        for (place, step) in self.calls().filter(|(_, step)| step.outcome == Expected::Unknown) {
            let before = self.calls().take_while(|(other, _)| *other < place).filter(|(_, other)| *other == step);
            twins[place] = before.fold(0, |places, (other, _)| places | 1 << other);
        }
        twins
    }

    /// An answered call that changes nothing takes effect as soon as it can: waiting would only leave it undone.
    fn take_what_changes_nothing(&self, state: &mut State) {
        for (place, step) in self.calls() {
            let is_left = state.taken & (1 << place) == 0 && step.outcome != Expected::Unknown;
            if is_left && self.take(state, place, step).any(|next| is_same(&next, state)) {
                state.taken |= 1 << place;
            }
        }
    }

    /// The states after a call took effect, with the answer that it was given.
    fn take(&self, state: &State, place: usize, step: &Step) -> impl Iterator<Item = State> + use<> {
        let is_stale = step.token.is_some_and(|token| state.fence.is_some_and(|fence| token < fence));
        let is_done = state.has_done(step);
        let hidden = step.named.map_or(0, |named| state.hidden & self.attempts(named.operation) & !(1 << place));
        let effect = || (!is_stale && !is_done).then(|| self.effect(state, step)).flatten();
        let replay = || {
            let fence = if is_stale { state.fence } else { state.fence.max(step.token) };
            let may_be_done = self.may_be_replay(state, place, step) || !self.rules.once;
            may_be_done.then(|| with_done(State { fence, ..state.clone() }, step.named))
        };
        let moves = match step.outcome {
            // To call a retry stale whose effect has happened would be a lie, so that no attempt was hidden before.
            Expected::Stale => {
                let not_done =
                    (is_stale && !is_done).then(|| State { hidden: state.hidden & !hidden, ..state.clone() });
                [not_done, None]
            }
            // What was in the way may have been under way only; it must not have been the same request.
            Expected::Conflict => {
                let own = step.named.map_or(0, |named| self.attempts_of(named));
                let is_another = step.named.is_none_or(|named| !state.done.contains(&named));
                [is_another.then(|| State { hidden: state.hidden & !own, ..state.clone() }), None]
            }
            Expected::Applied => [effect(), None],
            Expected::Replayed => [None, replay()],
            Expected::Unknown if is_done || hidden != 0 => [effect(), replay()],
            Expected::Unknown => [effect(), None],
        };
        moves
            .map(|next| next.map(|next| self.bury(State { taken: next.taken | 1 << place, ..next })))
            .into_iter()
            .flatten()
    }

    /// What a call that is neither stale nor done makes of a state; `None` where it read something else.
    fn effect(&self, state: &State, step: &Step) -> Option<State> {
        if let (Some(read), Some(value)) = (step.reads, state.value)
            && read != value
        {
            return None;
        }
        let fence = state.fence.max(step.token);
        let value = step.writes.or(step.reads).or(state.value);
        let overwrites = step.writes.is_some();
        let may_hide = |other: &Step| {
            let fits = state.fence <= other.token && other.token <= fence && other.operation() != step.operation();
            other.outcome == Expected::Unknown && other.named.is_some() && other.writes.is_some() && fits
        };
        let hides = self.left(state).filter(|(_, other)| overwrites && may_hide(other));
        let hidden = hides.fold(state.hidden, |hidden, (place, _)| hidden | 1 << place);
        Some(with_done(State { fence, value, hidden, ..state.clone() }, step.named))
    }

    /// Counts the unanswered calls that can do nothing any more as taken, and forgets what hidden ones were for.
    fn bury(&self, mut state: State) -> State {
        for (place, step) in self.calls() {
            let is_done = state.has_done(step);
            if is_done {
                state.hidden &= !(1 << place);
            }
            let raises_nothing = state.fence >= step.token;
            let is_stale = state.fence > step.token && step.token.is_some();
            let is_conflict = is_done && step.named.is_some_and(|named| !state.done.contains(&named));
            let changes_nothing = is_stale || is_conflict || raises_nothing && (is_done || step.writes.is_none());
            if step.outcome == Expected::Unknown && changes_nothing {
                state.taken |= 1 << place;
            }
        }
        state
    }

    /// Whether an attempt may have found its operation done, as the same request: another one is refused.
    fn may_be_replay(&self, state: &State, place: usize, step: &Step) -> bool {
        step.named.is_some_and(|named| {
            state.done.contains(&named) || state.hidden & self.attempts_of(named) & !(1 << place) != 0
        })
    }

    /// The places of an operation's unanswered attempts.
    fn attempts(&self, operation: u32) -> u128 {
        self.unanswered(|step| step.operation() == Some(operation))
    }

    /// The places of those that ask for the same.
    fn attempts_of(&self, named: Named) -> u128 {
        self.unanswered(|step| step.named == Some(named))
    }

    fn unanswered(&self, is_it: impl Fn(&Step) -> bool) -> u128 {
        let of_it = |step: &Step| step.outcome == Expected::Unknown && is_it(step);
        self.calls().filter(|(_, step)| of_it(step)).fold(0, |places, (place, _)| places | 1 << place)
    }

    /// Whether it can matter to anybody from here on that an operation has been done.
    fn matters(&self, operation: u32, state: &State) -> bool {
        self.ahead.get(&operation).is_some_and(|ahead| *ahead > 0) || self.attempts(operation) & !state.taken != 0
    }

    /// Whether whatever can follow on `other` can follow on `state` as well. The two have one fence, one value, and
    /// the same answered calls behind them.
    fn is_as_good(&self, state: &State, other: &State) -> bool {
        let may_be_done = |named: &Named| {
            state.done.contains(named)
                || state.hidden & self.attempts_of(*named) != 0
                || !self.matters(named.operation, other)
        };
        state.taken & !other.taken == 0
            && other.hidden & !state.hidden == 0
            && state.done.iter().all(|named| other.done.contains(named))
            && other.done.iter().all(may_be_done)
    }

    /// Drops unanswered calls that can never take effect any more, in whatever state, and operations that nobody will
    /// ask about.
    fn forget(&mut self) {
        let everywhere = self.states.iter().fold(u128::MAX, |all, state| all & state.taken);
        let hidden = self.states.iter().fold(0, |any, state| any | state.hidden);
        let is_asked_for = |search: &Self, operation: u32| {
            search.ahead.get(&operation).is_some_and(|ahead| *ahead > 0)
                || search.attempts(operation) & !everywhere != 0
        };
        let mut gone = 0_u128;
        for (place, step) in self.calls() {
            let is_over = step.outcome == Expected::Unknown && everywhere & (1 << place) != 0;
            let is_needed = hidden & (1 << place) != 0 && step.operation().is_some_and(|op| is_asked_for(self, op));
            if is_over && !is_needed {
                gone |= 1 << place;
            }
        }
        let asked_for: HashMap<u32, bool> = (self.states.iter().flat_map(|state| &state.done))
            .map(|named| (named.operation, is_asked_for(self, named.operation)))
            .collect();
        for state in &mut self.states {
            state.taken &= !gone;
            state.hidden &= !gone;
            state.done.retain(|named| asked_for[&named.operation]);
        }
        for (place, open) in self.open.iter_mut().enumerate() {
            if gone & (1 << place) != 0 {
                *open = None;
            }
        }
    }
}

/// Whether two states differ in nothing but the calls that led to them.
fn is_same(next: &State, state: &State) -> bool {
    next.fence == state.fence && next.value == state.value && next.hidden == state.hidden && next.done == state.done
}

fn with_done(mut state: State, named: Option<Named>) -> State {
    if let Some(named) = named
        && let Err(at) = state.done.binary_search(&named)
    {
        state.done.insert(at, named);
    }
    state
}

/// States of which none is as good as another.
#[derive(Default)]
struct Frontier {
    states: HashMap<(Option<Token>, Option<u32>, u128), Vec<State>>,
    compared: usize,
}

impl Frontier {
    /// Takes a state in, unless one that is as good is there already. Says whether it did.
    fn admit(&mut self, search: &Search<'_>, state: State) -> Result<bool, TooMany> {
        let is_answered = |step: &Step| step.outcome != Expected::Unknown;
        let answered = search.calls().filter(|(_, step)| is_answered(step)).fold(0, |all, (place, _)| all | 1 << place);
        let like = self.states.entry((state.fence, state.value, state.taken & answered)).or_default();
        self.compared += like.len() + 1;
        if self.compared > COMPARED {
            return Err(TooMany);
        }
        if like.iter().any(|known| search.is_as_good(known, &state)) {
            return Ok(false);
        }
        like.retain(|known| !search.is_as_good(&state, known));
        like.push(state);
        Ok(true)
    }

    fn into_states(self) -> Vec<State> {
        self.states.into_values().flatten().collect()
    }
}
