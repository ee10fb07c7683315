//! Restore of a receiver from its own backup, and its recovery, of which one may hang and complete much later.
//!
//! The coordinator is a counter with live leases and an epoch. What the receiver does is done by the core's decision
//! and, while nothing is wrong on purpose, by the core's reference register beside it.

use fencepost_core::{Token, fence::Closure};

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    ledger::{Answer, Call, CoordinatorRead, Flaw, Receiver, refuses_the_token},
    names::{DOMAINS, NAMES, epoch, shown, token},
    study::{Bounds, Expected, Study},
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Reopening {
    grants: usize,
    domains: usize,
    restores: u32,
    /// How many recoveries may be begun.
    recoveries: u8,
    /// How often the coordinator itself recovers, with a new epoch.
    epochs: u32,
    flaw: Option<Flaw>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    receiver: Receiver,
    backup: Option<Receiver>,
    seen: Seen,
}

#[derive(Clone, Debug, Hash)]
struct Seen {
    epoch: u32,
    next: u64,
    granted: Vec<(usize, Token)>,
    live: [Option<Token>; DOMAINS],
    incarnation: u32,
    /// Recoveries begun and not completed: the incarnation that was noted, and what was then read.
    begun: Vec<(u32, u32, CoordinatorRead)>,
    recoveries: u8,
    accepted: [Option<Token>; DOMAINS],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Grant(usize),
    End(usize),
    NewEpoch,
    Write(usize, Token),
    Advance(usize, Token),
    Backup,
    Restore,
    Begin,
    Complete(usize),
}

impl Model for Reopening {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        State {
            receiver: Receiver::new(epoch(0), self.flaw),
            backup: None,
            seen: Seen {
                epoch: 0,
                next: 1,
                granted: Vec::new(),
                live: [None; DOMAINS],
                incarnation: 1,
                begun: Vec::new(),
                recoveries: 0,
                accepted: [None; DOMAINS],
            },
        }
    }

    fn key(&self, state: &State, key: &mut Key) {
        hashed(&state.receiver.ledger, key);
        hashed(&state.backup.as_ref().map(|backup| &backup.ledger), key);
        hashed(&state.seen, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let seen = &state.seen;
        let domains = if seen.granted.is_empty() { 1 } else { self.domains };
        if seen.granted.len() < self.grants {
            actions.extend((0..domains).map(Action::Grant));
        }
        actions.extend((0..domains).map(Action::End));
        for (domain, token) in &seen.granted {
            actions.extend([Action::Write(*domain, *token), Action::Advance(*domain, *token)]);
        }
        actions.extend([Action::NewEpoch, Action::Backup, Action::Restore, Action::Begin]);
        actions.extend((0..seen.begun.len()).map(Action::Complete));
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        let seen = &mut state.seen;
        match *action {
            Action::Grant(domain) => {
                let token = token(seen.epoch, seen.next);
                seen.next += 1;
                seen.granted.push((domain, token));
                seen.live[domain] = Some(token);
                tale.say(|| format!("{} is granted under {token}", NAMES.domains[domain]));
                true
            }
            Action::End(domain) => {
                let ended = seen.live[domain].take();
                tale.say(|| format!("the lease under {} ends", shown(ended)));
                ended.is_some()
            }
            Action::NewEpoch => {
                seen.epoch += 1;
                (seen.next, seen.live) = (1, [None; DOMAINS]);
                tale.say(|| format!("the coordinator recovers and tells epoch {}", seen.epoch));
                // A closed receiver takes it as well: known epoch and floor only rise.
                state.receiver.tell(epoch(seen.epoch), token(seen.epoch, 0), tale);
                seen.epoch <= self.epochs
            }
            Action::Write(domain, token) => {
                let answer = state.receiver.write(Call::new(domain, token), tale);
                judge(state, domain, token, "writes", &answer, tale);
                true
            }
            Action::Advance(domain, token) => {
                let answer = state.receiver.advance(Call::new(domain, token), tale);
                judge(state, domain, token, "advances", &answer, tale);
                true
            }
            Action::Backup => {
                tale.say(|| "the receiver is backed up".to_owned());
                let first = state.backup.is_none() && state.receiver.ledger.closed.is_none();
                state.backup = Some(state.receiver.clone());
                first
            }
            Action::Restore => {
                let Some(backup) = state.backup.clone().filter(|_| seen.incarnation <= self.restores) else {
                    return false;
                };
                seen.incarnation += 1;
                tale.say(|| format!("the receiver is restored: incarnation {}", seen.incarnation));
                state.receiver = backup;
                state.receiver.close(Closure::OtherIncarnation, tale);
                true
            }
            Action::Begin => {
                let floor = token(seen.epoch, seen.next);
                let read = CoordinatorRead { next: floor, live: seen.live };
                seen.begun.push((seen.incarnation, seen.epoch, read));
                seen.recoveries += 1;
                let known = seen.epoch;
                tale.say(|| {
                    format!(
                        "a recovery notes incarnation {} and reads epoch {known}, {}",
                        seen.incarnation,
                        read.told()
                    )
                });
                seen.recoveries <= self.recoveries && state.receiver.ledger.closed.is_some()
            }
            Action::Complete(at) => {
                let (noted, known, read) = seen.begun.remove(at);
                let same = noted == seen.incarnation || state.receiver.has(Flaw::RecoveryOfAnyIncarnation);
                tale.say(|| {
                    let does = if same { "opens the receiver" } else { "is refused" };
                    format!("the recovery of incarnation {noted} {does}")
                });
                if same {
                    state.receiver.recover(epoch(known), read, tale);
                }
                true
            }
        }
    }
}

fn judge(state: &mut State, domain: usize, token: Token, does: &str, answer: &Answer, tale: &mut Tale) {
    tale.say(|| format!("the holder of {token} {does} {}: {}", NAMES.domains[domain], answer.told()));
    let accepted = &mut state.seen.accepted[domain];
    let closed = state.receiver.ledger.closed.is_some();
    if *answer == Answer::Applied {
        tale.expect(Property::I11, !closed, || "a closed receiver accepted".to_owned());
        tale.expect(Property::I3, Some(token) >= *accepted, || {
            format!("{token} was accepted after {} had been", shown(*accepted))
        });
        *accepted = (*accepted).max(Some(token));
    }
    if state.seen.live[domain] == Some(token) && !closed {
        tale.expect(Property::Rightful, refuses_the_token(answer).is_none(), || {
            format!("{token} is the token of the live lease, and would be granted again")
        });
    }
}

/// Restore and recovery of a receiver, and its mistakes.
pub(super) fn studies() -> Vec<Study> {
    const ONE: Reopening = Reopening { grants: 3, domains: 1, restores: 2, recoveries: 2, epochs: 0, flaw: None };
    const EPOCHS: Reopening = Reopening { grants: 2, epochs: 1, restores: 1, ..ONE };
    let holds = |name, standard: Reopening, deep: Reopening| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => standard,
            Bounds::Deep => deep,
        })
    };
    let mut studies = vec![
        holds("restores of a receiver and hung recoveries", ONE, Reopening { grants: 4, domains: 2, ..ONE }),
        holds("the same beside a recovery of the coordinator", EPOCHS, Reopening { restores: 2, grants: 3, ..EPOCHS }),
    ];
    let mutants = [
        (ONE, Flaw::RecoveryRaisesTheFloor, Property::Rightful, ("W8", "recovery raises the floor of every domain")),
        (ONE, Flaw::CollectionForgetsLiveLeases, Property::Rightful, ("W8", "recovery forgets the live leases")),
        (ONE, Flaw::RecoveryOfAnyIncarnation, Property::I3, ("W9", "a hung recovery opens a later incarnation")),
        (ONE, Flaw::RecoveryOnlyReopens, Property::I3, ("", "a restored receiver is only reopened")),
        (EPOCHS, Flaw::RecoveryForgetsTheEpoch, Property::Rightful, ("", "recovery does not learn the known epoch")),
    ];
    for (model, flaw, property, name) in mutants {
        let mutant = Reopening { flaw: Some(flaw), ..model };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant));
    }
    studies
}
