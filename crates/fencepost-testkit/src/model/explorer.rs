use std::{
    collections::HashSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

/// What a model can find broken. The numbers are those of the guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the invariants are worded in one place, docs/guarantees.md")]
pub enum Property {
    I1,
    I2,
    I3,
    I4,
    I5,
    I6,
    I7,
    I8,
    I9,
    I10,
    I11,
    I12,
    I13,
    /// The holder of the current grant is never refused as stale, and an equal token is its own.
    Rightful,
    /// Every accepted read-modify-write is still there at the end.
    Update,
    /// A lease whose holder has given back every hold that it asked for is over.
    Freed,
    /// Somebody can always go on.
    Progress,
    /// The model's receiver and the core's reference register answer and stand alike.
    Reference,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Rightful => "rightful",
            Self::Update => "no lost update",
            Self::Freed => "freed",
            Self::Progress => "progress",
            Self::Reference => "reference",
            Self::I1
            | Self::I2
            | Self::I3
            | Self::I4
            | Self::I5
            | Self::I6
            | Self::I7
            | Self::I8
            | Self::I9
            | Self::I10
            | Self::I11
            | Self::I12
            | Self::I13 => return fmt::Debug::fmt(self, f),
        };
        f.write_str(name)
    }
}

/// A system whose every state is reached by one of finitely many actions from another.
///
/// The same model always offers the same actions in the same order: an exploration has one outcome.
pub trait Model {
    /// Everything there is at one moment, what the properties need to remember included.
    type State: Clone;
    /// One atomic step of somebody.
    type Action: Clone;

    /// Where everything begins.
    fn start(&self) -> Self::State;

    /// Writes what tells the state from every other one. Two states with the same key behave alike for ever.
    fn key(&self, state: &Self::State, key: &mut Key);

    /// Everything that may happen next. Offering what turns out to be impossible is harmless.
    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Does it: says whether it was possible, tells what happened, and complains about what is broken by it.
    fn step(&self, state: &mut Self::State, action: &Self::Action, tale: &mut Tale) -> bool;
}

/// The bytes that tell states apart. Anything that can be hashed can be written here; collections write their length.
#[derive(Debug, Default)]
pub struct Key(Vec<u8>);

impl Key {
    /// Two independent 64-bit digests of the bytes as one number.
    fn digest(&self) -> u128 {
        let half = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(seed);
            hasher.write(&self.0);
            hasher.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }
}

impl Hasher for Key {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        u64::try_from(self.digest() >> 64).unwrap_or_default()
    }
}

impl fmt::Write for Key {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text.as_bytes());
        Ok(())
    }
}

/// What one step has to say. Its words are only made when somebody listens.
#[derive(Debug, Default)]
pub struct Tale {
    listening: bool,
    said: Vec<String>,
    breaches: Vec<(Property, String)>,
}

impl Tale {
    /// Tells what happened, in words of the glossary.
    pub fn say(&mut self, words: impl FnOnce() -> String) {
        if self.listening {
            self.said.push(words());
        }
    }

    /// Complains: the step just told has broken the property.
    pub fn breach(&mut self, property: Property, why: impl FnOnce() -> String) {
        self.breaches.push((property, why()));
    }

    /// Complains unless it holds.
    pub fn expect(&mut self, property: Property, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.breach(property, why);
        }
    }
}

/// How far to go, and what to look for.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Look for a breach of this property alone; `None` looks for any.
    pub property: Option<Property>,
    /// Give up after this many states: an exploration that was cut short proves nothing and says so.
    pub states: usize,
    /// Give up after this time, in the same way.
    pub time: Option<Duration>,
}

/// What an exploration has seen.
#[derive(Clone, Debug)]
pub struct Explored {
    /// Different states.
    pub states: usize,
    /// Steps taken from them.
    pub steps: usize,
    /// The number of steps to the farthest state.
    pub depth: usize,
    /// Whether every state within the model's bounds was seen, or a breach ended the search.
    pub complete: bool,
    /// A shortest way to something broken.
    pub counterexample: Option<Counterexample>,
    /// How long it took.
    pub took: Duration,
}

/// A shortest story that ends in a breach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is broken.
    pub property: Property,
    /// In which way.
    pub why: String,
    /// One line a step.
    pub story: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.story.iter().enumerate() {
            writeln!(f, "  {:>2}. {line}", number + 1)?;
        }
        write!(f, "  => {} is broken: {}", self.property, self.why)
    }
}

/// How a state was first reached.
struct Origin<A> {
    before: usize,
    action: Option<A>,
}

/// Explores breadth first: what is found is found by a shortest story.
///
/// States are remembered by a digest of 128 bits of their key. Two different states with one digest would hide one of
/// them; among a million states the odds of that are below 10^-26.
pub fn explore<M: Model>(model: &M, search: Search) -> Explored {
    let begun = Instant::now();
    let mut seen = HashSet::new();
    let mut origins = vec![Origin { before: 0, action: None }];
    let start = model.start();
    seen.insert(digest(model, &start));
    let mut front = vec![(0, start)];
    let mut explored =
        Explored { states: 1, steps: 0, depth: 0, complete: true, counterexample: None, took: Duration::ZERO };
    let mut actions = Vec::new();
    'layers: while !front.is_empty() {
        let mut next = Vec::new();
        for (at, state) in &front {
            actions.clear();
            model.actions(state, &mut actions);
            for action in &actions {
                let mut after = state.clone();
                let mut tale = Tale::default();
                if !model.step(&mut after, action, &mut tale) {
                    continue;
                }
                explored.steps += 1;
                let wanted = |(property, _): &&(Property, String)| search.property.is_none_or(|one| one == *property);
                if let Some((property, why)) = tale.breaches.iter().find(wanted) {
                    let story = retell(model, &origins, *at, action);
                    explored.counterexample = Some(Counterexample { property: *property, why: why.clone(), story });
                    break 'layers;
                }
                if seen.insert(digest(model, &after)) {
                    origins.push(Origin { before: *at, action: Some(action.clone()) });
                    next.push((origins.len() - 1, after));
                }
            }
            if origins.len() >= search.states || search.time.is_some_and(|most| begun.elapsed() >= most) {
                explored.complete = false;
                break 'layers;
            }
        }
        explored.depth += usize::from(!next.is_empty());
        front = next;
    }
    explored.states = origins.len();
    explored.took = begun.elapsed();
    explored
}

fn digest<M: Model>(model: &M, state: &M::State) -> u128 {
    let mut key = Key::default();
    model.key(state, &mut key);
    key.digest()
}

/// Walks the way to the breach once more, listening.
fn retell<M: Model>(model: &M, origins: &[Origin<M::Action>], mut at: usize, last: &M::Action) -> Vec<String> {
    let mut way = vec![last];
    while let Some(action) = &origins[at].action {
        way.push(action);
        at = origins[at].before;
    }
    let mut state = model.start();
    let mut story = Vec::new();
    for action in way.into_iter().rev() {
        let mut tale = Tale { listening: true, ..Tale::default() };
        model.step(&mut state, action, &mut tale);
        story.push(tale.said.join("; "));
    }
    story
}

/// A key for a state that can be hashed.
pub(super) fn hashed(state: &impl Hash, key: &mut Key) {
    state.hash(key);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cups that hold `sizes`, filled and poured until one holds `forbidden`.
    struct Cups {
        sizes: [u8; 2],
        forbidden: u8,
    }

    impl Model for Cups {
        type State = [u8; 2];
        type Action = (&'static str, usize);

        fn start(&self) -> Self::State {
            [0, 0]
        }

        fn key(&self, state: &Self::State, key: &mut Key) {
            hashed(state, key);
        }

        fn actions(&self, _: &Self::State, actions: &mut Vec<Self::Action>) {
            for cup in 0..2 {
                actions.extend([("fill", cup), ("empty", cup), ("pour", cup)]);
            }
        }

        fn step(&self, state: &mut Self::State, (what, cup): &Self::Action, tale: &mut Tale) -> bool {
            match *what {
                "fill" => state[*cup] = self.sizes[*cup],
                "empty" => state[*cup] = 0,
                _ => {
                    let poured = state[*cup].min(self.sizes[1 - cup] - state[1 - cup]);
                    state[*cup] -= poured;
                    state[1 - cup] += poured;
                }
            }
            tale.say(|| format!("{what} {cup}"));
            tale.expect(Property::Progress, !state.contains(&self.forbidden), || "there it is".to_owned());
            true
        }
    }

    const ANY: Search = Search { property: None, states: 1_000, time: None };

    #[test]
    fn the_story_found_is_a_shortest_one_and_the_same_every_time() {
        let cups = Cups { sizes: [3, 5], forbidden: 4 };
        let found = explore(&cups, ANY).counterexample.unwrap();
        assert_eq!(found.story, ["fill 1", "pour 1", "empty 0", "pour 1", "fill 1", "pour 1"]);
        assert_eq!(explore(&cups, ANY).counterexample, Some(found));
    }

    #[test]
    fn nothing_found_means_that_every_state_was_seen() {
        let explored = explore(&Cups { sizes: [2, 4], forbidden: 3 }, ANY);
        assert!(explored.complete && explored.counterexample.is_none());
        assert_eq!(explored.states, 6, "0 or 2 beside 0, 2 or 4");
    }

    #[test]
    fn a_search_that_was_cut_short_says_so() {
        for search in [Search { states: 5, ..ANY }, Search { time: Some(Duration::ZERO), ..ANY }] {
            assert!(!explore(&Cups { sizes: [3, 5], forbidden: 9 }, search).complete);
        }
    }

    #[test]
    fn a_property_that_is_not_looked_for_ends_nothing() {
        let search = Search { property: Some(Property::I1), ..ANY };
        let explored = explore(&Cups { sizes: [3, 5], forbidden: 4 }, search);
        assert!(explored.counterexample.is_none() && explored.complete);
    }
}
