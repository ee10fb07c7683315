//! Fence and floor in records of their own, as objects in a bucket: only one of them changes in one atomic step.
//!
//! A write reads the floor, reads the fence record, and puts object and fence together on the condition that the
//! record is the one it read. Recovery raises the floor and rewrites the records. Nothing holds a lock.

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    small::Seen,
    study::{Expected, Study},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Recovery counts as complete once the floor is raised.
    FloorOnly,
    /// A missing record is created by the first write.
    CreatedByTheFirstWrite,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    mistake: Option<Mistake>,
}

/// Token 1 and 2 are of before the recovery, whose floor is 3.
const FLOOR: u8 = 3;
const TOKENS: [u8; 3] = [1, 2, 3];
/// How often the record is replaced at most.
const PUTS: u8 = 8;

#[derive(Clone, Debug, Hash)]
pub(super) struct State {
    floor: u8,
    /// The fence record of the one object: its fence and its version.
    record: Option<(u8, u8)>,
    recovered: bool,
    writers: [Writer; TOKENS.len()],
}

#[derive(Clone, Copy, Debug, Hash)]
enum Writer {
    Idle,
    Floor(u8),
    /// It has seen the record, and would put on this condition.
    Ready(Option<(u8, u8)>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    ReadFloor(usize),
    ReadRecord(usize),
    Put(usize),
    RaiseFloor,
    Rewrite,
}

impl Model for Apart {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let provisioned = self.mistake != Some(Mistake::CreatedByTheFirstWrite);
        State {
            floor: 0,
            record: provisioned.then_some((0, 0)),
            recovered: false,
            writers: [Writer::Idle; TOKENS.len()],
        }
    }

    fn key(&self, state: &State, key: &mut Key) {
        hashed(state, key);
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        for writer in 0..TOKENS.len() {
            actions.extend([Action::ReadFloor(writer), Action::ReadRecord(writer), Action::Put(writer)]);
        }
        actions.extend([Action::RaiseFloor, Action::Rewrite]);
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        match *action {
            Action::ReadFloor(at) => {
                let idle = matches!(state.writers[at], Writer::Idle);
                state.writers[at] = Writer::Floor(state.floor);
                tale.say(|| format!("the writer under {} reads floor {}", TOKENS[at], state.floor));
                idle
            }
            Action::ReadRecord(at) => {
                let Writer::Floor(floor) = state.writers[at] else { return false };
                let token = TOKENS[at];
                let fence = state.record.map(|(fence, _)| fence);
                let missing = fence.is_none() && self.mistake != Some(Mistake::CreatedByTheFirstWrite);
                let accepted = !missing && Seen { floor, unfenced: 0, fence }.accepts(token).is_some();
                state.writers[at] = if accepted { Writer::Ready(state.record) } else { Writer::Idle };
                tale.say(|| {
                    let does = if accepted { "goes on" } else { "is refused" };
                    format!("the writer under {token} reads fence {} and {does}", fence.unwrap_or(0))
                });
                true
            }
            Action::Put(at) => put(state, at, tale),
            Action::RaiseFloor => {
                let first = state.floor == 0;
                state.floor = FLOOR;
                if self.mistake == Some(Mistake::FloorOnly) {
                    state.recovered = true;
                }
                tale.say(|| format!("recovery raises the floor to {FLOOR}"));
                first
            }
            Action::Rewrite => {
                if state.floor == 0 || state.recovered {
                    return false;
                }
                state.record = state.record.map(|(fence, version)| (fence.max(FLOOR), version + 1));
                state.recovered = true;
                tale.say(|| "recovery has rewritten every record that there is".to_owned());
                true
            }
        }
    }
}

fn put(state: &mut State, at: usize, tale: &mut Tale) -> bool {
    let Writer::Ready(seen) = state.writers[at] else { return false };
    let token = TOKENS[at];
    let lands = seen == state.record;
    state.writers[at] = Writer::Idle;
    tale.say(|| {
        let does = if lands { "lands" } else { "fails on its condition" };
        format!("the conditional put under {token} {does}")
    });
    if lands {
        let fence = state.record.map_or(0, |(fence, _)| fence);
        tale.expect(Property::I3, token >= fence, || format!("{token} was applied at fence {fence}"));
        tale.expect(Property::I11, !state.recovered || token >= FLOOR, || {
            format!("{token} was applied after recovery was complete")
        });
        state.record = Some((token, state.record.map_or(0, |(_, version)| version + 1)));
    }
    state.record.is_none_or(|(_, version)| version <= PUTS)
}

/// Floor and fence apart.
pub(super) fn studies() -> Vec<Study> {
    let mutant =
        |mistake, name| Study::new(Expected::Found(Property::I11), name, move |_| Apart { mistake: Some(mistake) });
    vec![
        Study::new(Expected::Holds, ("", "floor and fence in objects of their own"), |_| Apart { mistake: None }),
        mutant(Mistake::FloorOnly, ("O1", "recovery raises only the floor's own object")),
        mutant(Mistake::CreatedByTheFirstWrite, ("O2", "the first write creates the fence record")),
    ]
}
