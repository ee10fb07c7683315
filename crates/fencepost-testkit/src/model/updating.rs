//! Two holders who read, think and write back: is every accepted update still there at the end?
//!
//! Each of a row of grants reads a counter and writes what it read plus one, pausing anywhere. What differs is when
//! the fence is at the reader's own token.

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    ledger::{Answer, Call, Receiver},
    names::{epoch, token},
    study::{Bounds, Expected, Study},
};

/// How the holder comes to its fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fencing {
    /// The acquire advances before it hands over (`FencedOnAcquire`).
    OnAcquire,
    /// The read itself raises the fence.
    FencedRead,
    /// Read and write are one guarded transaction.
    OneTransaction,
    /// By the write alone (`FencedOnFirstWrite`).
    OnFirstWrite,
    /// By an advance after the read.
    AfterTheRead,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Updating {
    holders: usize,
    fencing: Fencing,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    receiver: Receiver,
    seen: Seen,
}

#[derive(Clone, Debug, Hash)]
struct Seen {
    granted: usize,
    counter: u8,
    applied: u8,
    /// What each holder has done: whether it was handed its lease, what it read, whether it advanced after that.
    holders: Vec<(bool, Option<u8>, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Grant,
    Advance(usize),
    Read(usize),
    Write(usize),
}

impl Model for Updating {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let holders = vec![(false, None, false); self.holders];
        State { receiver: Receiver::new(epoch(0), None), seen: Seen { granted: 0, counter: 0, applied: 0, holders } }
    }

    fn key(&self, state: &State, key: &mut Key) {
        hashed(&state.receiver.ledger, key);
        hashed(&state.seen, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Grant);
        for holder in 0..state.seen.granted {
            actions.extend([Action::Advance(holder), Action::Read(holder), Action::Write(holder)]);
        }
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        match *action {
            Action::Grant => {
                if state.seen.granted == self.holders {
                    return false;
                }
                state.seen.holders[state.seen.granted].0 = self.fencing != Fencing::OnAcquire;
                state.seen.granted += 1;
                tale.say(|| format!("the domain is granted to {}", name(state.seen.granted - 1)));
                true
            }
            Action::Advance(holder) => self.advance(state, holder, tale),
            Action::Read(holder) => self.read(state, holder, tale),
            Action::Write(holder) => self.write(state, holder, tale),
        }
    }
}

fn name(holder: usize) -> &'static str {
    ["A", "B", "C", "D"][holder]
}

fn call(holder: usize) -> Call {
    Call::new(0, token(0, holder as u64 + 1))
}

impl Updating {
    fn advance(&self, state: &mut State, holder: usize, tale: &mut Tale) -> bool {
        let (handed_over, read, advanced) = state.seen.holders[holder];
        let due = match self.fencing {
            Fencing::OnAcquire => !handed_over,
            Fencing::AfterTheRead => read.is_some() && !advanced,
            Fencing::FencedRead | Fencing::OneTransaction | Fencing::OnFirstWrite => false,
        };
        if !due {
            return false;
        }
        let answer = state.receiver.advance(call(holder), tale);
        tale.say(|| format!("{} advances the fence: {}", name(holder), answer.told()));
        match answer {
            Answer::Applied if handed_over => state.seen.holders[holder].2 = true,
            Answer::Applied => state.seen.holders[holder].0 = true,
            Answer::Replayed | Answer::Rejected(_) | Answer::Invalid => {}
        }
        true
    }

    fn read(&self, state: &mut State, holder: usize, tale: &mut Tale) -> bool {
        let (handed_over, read, _) = state.seen.holders[holder];
        if !handed_over || read.is_some() || self.fencing == Fencing::OneTransaction {
            return false;
        }
        let counter = state.seen.counter;
        if self.fencing == Fencing::FencedRead {
            let answer = state.receiver.advance(call(holder), tale);
            if answer != Answer::Applied {
                tale.say(|| format!("{} reads: {}", name(holder), answer.told()));
                return true;
            }
        }
        state.seen.holders[holder].1 = Some(counter);
        tale.say(|| format!("{} reads {counter}", name(holder)));
        true
    }

    fn write(&self, state: &mut State, holder: usize, tale: &mut Tale) -> bool {
        let (_, read, advanced) = state.seen.holders[holder];
        let counter = state.seen.counter;
        let read = match self.fencing {
            Fencing::OneTransaction => Some(counter),
            Fencing::AfterTheRead => read.filter(|_| advanced),
            Fencing::OnAcquire | Fencing::FencedRead | Fencing::OnFirstWrite => read,
        };
        let Some(read) = read else { return false };
        if state.seen.applied >= 4 {
            return false;
        }
        let answer = state.receiver.write(call(holder), tale);
        tale.say(|| format!("{} writes {}: {}", name(holder), read + 1, answer.told()));
        if answer == Answer::Applied {
            state.seen.counter = read + 1;
            state.seen.applied += 1;
            // It reads anew before it writes again.
            (state.seen.holders[holder].1, state.seen.holders[holder].2) = (None, false);
            let (counter, applied) = (state.seen.counter, state.seen.applied);
            tale.expect(Property::Update, counter == applied, || {
                format!("{applied} updates were accepted and the counter stands at {counter}")
            });
        }
        true
    }
}

/// Read-modify-write under every way to a fence.
pub(super) fn studies() -> Vec<Study> {
    let holds = |name, fencing| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => Updating { holders: 3, fencing },
            Bounds::Deep => Updating { holders: 4, fencing },
        })
    };
    let loses =
        |name, fencing| Study::new(Expected::Found(Property::Update), name, move |_| Updating { holders: 2, fencing });
    vec![
        holds("read-modify-write, fenced on acquire", Fencing::OnAcquire),
        holds("read-modify-write, fenced read", Fencing::FencedRead),
        holds("read-modify-write, in one guarded transaction", Fencing::OneTransaction),
        loses(("M1", "read-modify-write, fenced on first write"), Fencing::OnFirstWrite),
        loses(("M2", "read-modify-write, advanced after the read"), Fencing::AfterTheRead),
    ]
}
