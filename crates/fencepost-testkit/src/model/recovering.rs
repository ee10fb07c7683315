//! Backup, restore and recovery of the coordinator, with receivers of which one may be out of reach, and with two
//! machines that recover from one backup.
//!
//! The rules of recovery are transcribed here, because they are not one pure function of the core; what a receiver
//! accepts is decided by the core. Every token ever granted may write at any time. A `tell` that was sent once may
//! arrive at any later time and any number of times.

use fencepost_core::Token;

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    ledger::{Answer, Call, Flaw, Receiver, refuses_the_token},
    names::{epoch, shown, token},
    study::{Bounds, Expected, Study},
};

/// One deliberate mistake of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    /// The survey looks at fences, and not at floors and known epochs; and an equal epoch is no claim, or the receiver
    /// would refuse it.
    SurveysFencesOnly,
    /// A receiver out of reach is passed over without a bound for the epoch.
    NoEpochAbove,
    /// An equal epoch with another recovery id is taken for the same recovery.
    ClaimWithoutId,
    /// The restored coordinator goes on in its own epoch.
    KeepsTheEpoch,
    /// The restored coordinator does not notice, and grants.
    NotNoticed,
    /// The first grant does not wait for the holders of a time nobody remembers.
    DoesNotWait,
    /// The receivers are told after the first grant is possible.
    ServesBeforeTelling,
}

/// Who can bound the epoch of receivers that nobody can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Every receiver is always reached.
    NotNeeded,
    /// The operator names the greatest epoch that a finished recovery has reported.
    Operator,
    /// Restores happen in different hours, and the epoch is at least the hour.
    Hours,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Recovering {
    machines: usize,
    receivers: usize,
    grants: usize,
    restores: u8,
    /// How often epochs are planned, in all: one that starts over plans again.
    plans: u32,
    bound: Bound,
    mistake: Option<Mistake>,
    flaw: Option<Flaw>,
}

const RECEIVERS: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct State {
    receivers: Vec<Receiver>,
    seen: Seen,
}

#[derive(Clone, Debug, Hash)]
struct Seen {
    machines: Vec<Machine>,
    backup: Option<Store>,
    restores: u8,
    plans: u32,
    /// Every `tell` ever sent: receiver, epoch, recovery id.
    tells: Vec<(usize, u32, u32)>,
    claims: [Option<(u32, u32)>; RECEIVERS],
    granted: Vec<Token>,
    /// The greatest epoch of a finished recovery: what the operator knows.
    reported: u32,
    told: [u32; RECEIVERS],
    accepted: [Option<Token>; RECEIVERS],
    /// The holder that still believes.
    believes: Option<Token>,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Store {
    epoch: u32,
    next: u64,
    live: Option<Token>,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Machine {
    store: Store,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Off,
    Serving,
    /// It runs on a backup and grants nothing.
    Marked,
    Planned {
        epoch: u32,
        id: u32,
        reach: u8,
        told: u8,
    },
    /// Recovered, and waiting for those who still believe.
    Waiting,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Grant(usize),
    Backup,
    Restore(usize),
    Plan(usize, u8),
    Tell(usize),
    Finish(usize),
    Wait(usize),
    Write(usize, Token),
}

impl Model for Recovering {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let store = Store { epoch: 0, next: 1, live: None };
        let mut machines = vec![Machine { store, phase: Phase::Off }; self.machines];
        machines[0].phase = Phase::Serving;
        State {
            receivers: (0..self.receivers).map(|_| Receiver::new(epoch(0), self.flaw)).collect(),
            seen: Seen {
                machines,
                backup: None,
                restores: 0,
                plans: 0,
                tells: Vec::new(),
                claims: [None; RECEIVERS],
                granted: Vec::new(),
                reported: 0,
                told: [0; RECEIVERS],
                accepted: [None; RECEIVERS],
                believes: None,
            },
        }
    }

    fn key(&self, state: &State, key: &mut Key) {
        state.receivers.iter().for_each(|receiver| hashed(&receiver.ledger, key));
        hashed(&state.seen, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let everybody = (1_u8 << self.receivers) - 1;
        for machine in 0..self.machines {
            actions.push(Action::Grant(machine));
            actions.push(Action::Restore(machine));
            actions.push(Action::Plan(machine, everybody));
            if self.bound != Bound::NotNeeded {
                actions.extend((0..self.receivers).map(|out| Action::Plan(machine, everybody & !(1 << out))));
            }
            actions.extend([Action::Finish(machine), Action::Wait(machine)]);
        }
        actions.push(Action::Backup);
        actions.extend((0..state.seen.tells.len()).map(Action::Tell));
        for receiver in 0..self.receivers {
            actions.extend(state.seen.granted.iter().map(|token| Action::Write(receiver, *token)));
        }
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        match *action {
            Action::Grant(machine) => self.grant(&mut state.seen, machine, tale),
            Action::Backup => {
                let Machine { store, phase } = state.seen.machines[0];
                state.seen.backup = Some(store);
                tale.say(|| "a backup is made".to_owned());
                phase == Phase::Serving && state.seen.restores == 0
            }
            Action::Restore(machine) => self.restore(&mut state.seen, machine, tale),
            Action::Plan(machine, reach) => self.plan(state, machine, reach, tale),
            Action::Tell(at) => {
                self.tell(state, at, tale);
                true
            }
            Action::Finish(machine) => self.finish(&mut state.seen, machine, tale),
            Action::Wait(machine) => {
                if state.seen.machines[machine].phase != Phase::Waiting {
                    return false;
                }
                state.seen.machines[machine].phase = Phase::Serving;
                state.seen.believes = None;
                tale.say(|| format!("{} waits until nobody of the past can believe", name(machine)));
                true
            }
            Action::Write(receiver, token) => {
                write(state, receiver, token, tale);
                true
            }
        }
    }
}

fn name(machine: usize) -> &'static str {
    ["the coordinator", "the second machine"][machine]
}

impl Recovering {
    fn grant(&self, seen: &mut Seen, machine: usize, tale: &mut Tale) -> bool {
        let Machine { store, phase } = &mut seen.machines[machine];
        if *phase != Phase::Serving || seen.granted.len() >= self.grants {
            return false;
        }
        let token = token(store.epoch, store.next);
        tale.say(|| format!("{} grants d0 under {token}", name(machine)));
        let again = seen.granted.contains(&token);
        tale.expect(Property::I1, !again, || format!("{token} was granted before"));
        if self.machines == 1 {
            let last = seen.granted.last().copied();
            tale.expect(Property::I1, last < Some(token), || format!("{} was granted before {token}", shown(last)));
            // An ordinary grant follows a lease that the coordinator knows, and whose holder's deadline has passed.
            let known = seen.believes == store.live;
            tale.expect(Property::I9, known, || format!("the holder of {} still believes", shown(seen.believes)));
        }
        store.next += 1;
        store.live = Some(token);
        seen.believes = Some(token);
        if !again {
            seen.granted.push(token);
        }
        true
    }

    fn restore(&self, seen: &mut Seen, machine: usize, tale: &mut Tale) -> bool {
        let Some(store) = seen.backup.filter(|_| seen.restores < self.restores) else { return false };
        if self.machines > 1 && machine == 0 && seen.machines[0].phase != Phase::Serving {
            return false;
        }
        let unnoticed = self.mistake == Some(Mistake::NotNoticed);
        let phase = if unnoticed { Phase::Serving } else { Phase::Marked };
        seen.machines[machine] = Machine { store, phase };
        seen.restores += 1;
        tale.say(|| format!("{} is started on the backup", name(machine)));
        true
    }

    fn plan(&self, state: &mut State, machine: usize, reach: u8, tale: &mut Tale) -> bool {
        let State { receivers, seen } = state;
        let Machine { store, phase } = seen.machines[machine];
        if phase != Phase::Marked {
            return false;
        }
        let fences_only = self.mistake == Some(Mistake::SurveysFencesOnly);
        let mut above = store.epoch;
        for (_, receiver) in receivers.iter().enumerate().filter(|(at, _)| reach & 1 << at != 0) {
            let ledger = &receiver.ledger;
            let fence = ledger.fences[0].map_or(0, |fence| fence.epoch().get());
            let told = ledger.floor.max(ledger.unfenced).map_or(0, |floor| floor.epoch().get());
            above = above.max(fence);
            if !fences_only {
                above = above.max(told).max(ledger.known.get());
            }
        }
        let partial = reach.count_ones() < u32::try_from(self.receivers).unwrap_or_default();
        let (named, hour) = match self.bound {
            Bound::Operator if partial && self.mistake != Some(Mistake::NoEpochAbove) => (Some(seen.reported), 0),
            Bound::Hours => (None, u32::from(seen.restores) * 4),
            Bound::Operator | Bound::NotNeeded => (None, 0),
        };
        let chosen = (above.max(named.unwrap_or(0)) + 1).max(hour);
        seen.plans += 1;
        let id = seen.plans;
        tale.say(|| {
            let out = if partial { " with a receiver out of reach" } else { "" };
            format!("{} surveys the receivers{out} and plans epoch {chosen} (recovery {id})", name(machine))
        });
        seen.tells.extend((0..self.receivers).map(|receiver| (receiver, chosen, id)));
        seen.machines[machine].phase = Phase::Planned { epoch: chosen, id, reach, told: 0 };
        seen.plans <= self.plans
    }

    fn tell(&self, state: &mut State, at: usize, tale: &mut Tale) {
        let (receiver, told, id) = state.seen.tells[at];
        let known = state.receivers[receiver].ledger.known.get();
        let claim = state.seen.claims[receiver];
        let same = match self.mistake {
            Some(Mistake::ClaimWithoutId | Mistake::SurveysFencesOnly) => claim.is_some_and(|(epoch, _)| epoch == told),
            Some(_) | None => claim == Some((told, id)),
        };
        let careless = state.receivers[receiver].has(Flaw::TellNotMonotone);
        let accepted = told > known || same || careless;
        tale.say(|| {
            let answer = if accepted { "accepted" } else { "refused" };
            format!("receiver {receiver} is told epoch {told} (recovery {id}): {answer}")
        });
        let before = state.receivers[receiver].ledger.clone();
        if accepted {
            state.receivers[receiver].tell(epoch(told), token(told, 0), tale);
            if !same {
                state.seen.claims[receiver] = Some((told, id));
            }
            state.seen.told[receiver] = state.seen.told[receiver].max(told);
        }
        let after = &state.receivers[receiver].ledger;
        let falls = after.known < before.known || after.floor < before.floor;
        tale.expect(Property::I13, !falls, || "known epoch or floor went down".to_owned());
        let again = claim == Some((told, id)) && known == told;
        tale.expect(Property::I11, !again || *after == before, || "telling it twice changed something".to_owned());
        for machine in &mut state.seen.machines {
            if let Phase::Planned { epoch, id: mine, told: reached, .. } = &mut machine.phase
                && (*epoch, *mine) == (told, id)
            {
                if accepted {
                    *reached |= 1 << receiver;
                } else {
                    // Somebody else has the epoch: it starts over, above it.
                    machine.phase = Phase::Marked;
                }
            }
        }
    }

    fn finish(&self, seen: &mut Seen, machine: usize, tale: &mut Tale) -> bool {
        let Machine { store, phase } = &mut seen.machines[machine];
        let Phase::Planned { epoch, reach, told, .. } = *phase else { return false };
        if told & reach != reach && self.mistake != Some(Mistake::ServesBeforeTelling) {
            return false;
        }
        *store = match self.mistake {
            Some(Mistake::KeepsTheEpoch) => Store { live: None, ..*store },
            Some(_) | None => Store { epoch, next: 1, live: None },
        };
        seen.reported = seen.reported.max(epoch);
        *phase = if self.mistake == Some(Mistake::DoesNotWait) { Phase::Serving } else { Phase::Waiting };
        tale.say(|| format!("{} has recovered: its sessions have ended, its epoch is {}", name(machine), store.epoch));
        true
    }
}

fn write(state: &mut State, receiver: usize, token: Token, tale: &mut Tale) {
    let answer = state.receivers[receiver].write(Call::new(0, token), tale);
    tale.say(|| format!("the holder of {token} writes at receiver {receiver}: {}", answer.told()));
    let told = state.seen.told[receiver];
    let accepted = &mut state.seen.accepted[receiver];
    if answer == Answer::Applied {
        tale.expect(Property::I3, Some(token) >= *accepted, || {
            format!("{token} was applied after {} had been accepted", shown(*accepted))
        });
        tale.expect(Property::I11, token.epoch().get() >= told, || {
            format!("{token} was applied after epoch {told} had been told")
        });
        *accepted = (*accepted).max(Some(token));
    }
    let serving = state.seen.machines.iter().any(|machine| machine.store.live == Some(token));
    if serving && token.epoch().get() == told && Some(token) >= *accepted && state.seen.machines.len() == 1 {
        tale.expect(Property::Rightful, refuses_the_token(&answer).is_none(), || {
            format!("{token} is the token of the live lease, and its epoch was told here")
        });
    }
}

/// Recovery of the coordinator, its mistakes, and where its promise ends.
pub(super) fn studies() -> Vec<Study> {
    const ONE: Recovering = Recovering {
        machines: 1,
        receivers: 1,
        grants: 3,
        restores: 2,
        plans: 4,
        bound: Bound::NotNeeded,
        mistake: None,
        flaw: None,
    };
    const OUT_OF_REACH: Recovering = Recovering { receivers: 2, grants: 2, bound: Bound::Operator, ..ONE };
    const TWO_MACHINES: Recovering = Recovering { machines: 2, receivers: 2, grants: 2, ..ONE };
    let holds = |name, standard: Recovering, deep: Recovering| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => standard,
            Bounds::Deep => deep,
        })
    };
    let mut studies = vec![
        holds("restores of one backup", ONE, Recovering { receivers: 2, grants: 4, ..ONE }),
        holds("restores with a receiver out of reach", OUT_OF_REACH, Recovering { grants: 3, ..OUT_OF_REACH }),
        holds(
            "restores in different hours, nobody related them",
            Recovering { bound: Bound::Hours, ..OUT_OF_REACH },
            Recovering { bound: Bound::Hours, grants: 3, ..OUT_OF_REACH },
        ),
        holds("one backup started on two machines", TWO_MACHINES, Recovering { grants: 3, ..TWO_MACHINES }),
        Study::new(
            Expected::Limit(Property::I1),
            ("", "two machines recover in one hour, each out of reach of what the other told"),
            |_| Recovering { bound: Bound::Operator, plans: 2, ..TWO_MACHINES },
        ),
    ];
    let mistakes = [
        (ONE, Mistake::SurveysFencesOnly, Property::I1, ("W0", "the survey looks at fences only")),
        (OUT_OF_REACH, Mistake::NoEpochAbove, Property::I1, ("W6", "a receiver out of reach is passed over")),
        (TWO_MACHINES, Mistake::ClaimWithoutId, Property::I1, ("W7", "a claim without a recovery id")),
        (ONE, Mistake::KeepsTheEpoch, Property::I1, ("", "restore without a new epoch")),
        (ONE, Mistake::NotNoticed, Property::I1, ("", "a restore is not noticed")),
        (ONE, Mistake::DoesNotWait, Property::I9, ("", "the first grant does not wait")),
        (TWO_MACHINES, Mistake::ServesBeforeTelling, Property::I1, ("", "granting before the receivers are told")),
    ];
    for (model, mistake, property, name) in mistakes {
        let mutant = Recovering { mistake: Some(mistake), ..model };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant));
    }
    let flaws = [
        (Flaw::FloorBindsUnfencedDomainsOnly, Property::I11, ("W1", "the floor binds only domains without a fence")),
        (Flaw::TellNotMonotone, Property::I11, ("", "tell is not monotone")),
    ];
    for (flaw, property, name) in flaws {
        studies.push(Study::new(Expected::Found(property), name, move |_| Recovering { flaw: Some(flaw), ..ONE }));
    }
    studies
}
