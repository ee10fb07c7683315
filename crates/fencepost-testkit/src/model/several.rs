//! Writes over several domains: under all of their tokens or none, and one operation over one set.
//!
//! How the decisions for each domain become one is transcribed here; each of them is the core's.

use fencepost_core::{
    Token,
    fence::{Closure, Decision, Rejection},
};

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    ledger::{Answer, Call, Receiver},
    names::{DOMAINS, Intent, NAMES, epoch, shown, token},
    study::{Bounds, Expected, Study},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The set of domains is no part of the fingerprint.
    SetNotInTheFingerprint,
    /// The operation is recorded in the first domain only.
    RecordedOnce,
    /// Only the first domain's token is looked at.
    FirstDomainOnly,
    /// Each domain's record is kept by that domain's own token.
    RecordsGoApart,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Several {
    tokens: u64,
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    receiver: Receiver,
    seen: Seen,
}

#[derive(Clone, Debug, Hash)]
struct Seen {
    granted: Vec<usize>,
    accepted: [Option<Token>; DOMAINS],
    /// How often operation X took effect in each domain while its record was kept.
    effects: [u8; DOMAINS],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Grant(usize),
    Write([Option<Token>; DOMAINS]),
    CollectRecords(Token),
}

impl Model for Several {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        let seen = Seen { granted: Vec::new(), accepted: [None; DOMAINS], effects: [0; DOMAINS] };
        // Deciding for several domains is not the reference register's, so none runs beside.
        let mut receiver = Receiver::new(epoch(0), None);
        receiver.alone();
        State { receiver, seen }
    }

    fn key(&self, state: &State, key: &mut Key) {
        hashed(&state.receiver.ledger, key);
        hashed(&state.seen, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let granted = state.seen.granted.iter().zip(1..);
        let of = |domain: usize| {
            let tokens = granted.clone().filter(move |(at, _)| **at == domain);
            tokens.map(|(_, sequence)| Some(token(0, sequence))).chain([None]).collect::<Vec<_>>()
        };
        if (state.seen.granted.len() as u64) < self.tokens {
            actions.extend((0..DOMAINS).map(Action::Grant));
        }
        for first in of(0) {
            actions.extend(
                of(1)
                    .into_iter()
                    .filter(|second| first.or(*second).is_some())
                    .map(|second| Action::Write([first, second])),
            );
        }
        let next = state.seen.granted.len() as u64 + 1;
        actions.extend((2..=next).map(|sequence| Action::CollectRecords(token(0, sequence))));
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        match *action {
            Action::Grant(domain) => {
                state.seen.granted.push(domain);
                let granted = token(0, state.seen.granted.len() as u64);
                tale.say(|| format!("{} is granted under {granted}", NAMES.domains[domain]));
            }
            Action::Write(tokens) => self.write(state, tokens, tale),
            Action::CollectRecords(horizon) => {
                state.receiver.collect_records(horizon, tale);
                for (domain, effects) in state.seen.effects.iter_mut().enumerate() {
                    if state.receiver.ledger.records[domain][0].is_none() {
                        *effects = 0;
                    }
                }
                tale.say(|| format!("operation records of before {horizon} are collected"));
            }
        }
        true
    }
}

impl Several {
    fn write(&self, state: &mut State, tokens: [Option<Token>; DOMAINS], tale: &mut Tale) {
        let both = tokens.iter().all(Option::is_some);
        let over_both = both && self.mistake != Some(Mistake::SetNotInTheFingerprint);
        let intent = Intent { over_both, ..Intent::default() };
        let present = tokens.iter().enumerate().filter_map(|(at, token)| Some((at, (*token)?)));
        let calls: Vec<Call> = present.map(|(at, token)| Call::new(at, token).with(Some(intent))).collect();
        let answer = self.decide(&mut state.receiver, &calls);
        tale.say(|| {
            let shown = tokens
                .iter()
                .enumerate()
                .filter_map(|(at, token)| Some(format!("{} under {}", NAMES.domains[at], (*token)?)));
            format!("operation X writes {}: {}", shown.collect::<Vec<_>>().join(" and "), answer.told())
        });
        match &answer {
            Answer::Applied => {
                for call in &calls {
                    let accepted = &mut state.seen.accepted[call.at];
                    let domain = &NAMES.domains[call.at];
                    tale.expect(Property::I12, call.token >= *accepted, || {
                        format!("{domain} had accepted {} before {}", shown(*accepted), shown(call.token))
                    });
                    *accepted = (*accepted).max(call.token);
                    let effects = &mut state.seen.effects[call.at];
                    *effects += 1;
                    tale.expect(Property::I6, *effects == 1, || format!("operation X took effect twice in {domain}"));
                    *effects = 1;
                }
            }
            Answer::Replayed => {
                let all = calls.iter().all(|call| state.seen.effects[call.at] == 1);
                tale.expect(Property::I12, all, || "a result was replayed where there was no effect".to_owned());
                for call in &calls {
                    let accepted = &mut state.seen.accepted[call.at];
                    *accepted = (*accepted).max(call.token);
                }
            }
            Answer::Rejected(Rejection::Closed(_)) => {
                tale.breach(Property::I13, || "records of one operation are there in part".to_owned());
            }
            Answer::Rejected(_) | Answer::Invalid => {}
        }
    }

    /// Decides for every domain before anything is done for one.
    fn decide(&self, receiver: &mut Receiver, calls: &[Call]) -> Answer {
        let (mut applied, mut replayed) = (Vec::new(), Vec::new());
        for (at, call) in calls.iter().enumerate() {
            match receiver.decide(*call) {
                Err(_) => return Answer::Invalid,
                Ok(Decision::Apply { raise }) => applied.push((*call, raise)),
                Ok(Decision::Replay { raise }) => replayed.push((*call, raise)),
                Ok(Decision::Reject(_)) if at > 0 && self.mistake == Some(Mistake::FirstDomainOnly) => {
                    applied.push((*call, false));
                }
                Ok(Decision::Reject(rejection)) => return Answer::Rejected(rejection),
            }
        }
        let mixed = !applied.is_empty() && !replayed.is_empty();
        if mixed && self.mistake != Some(Mistake::SetNotInTheFingerprint) {
            return Answer::Rejected(Rejection::Closed(Closure::MetadataMissing));
        }
        for (call, raise) in applied.iter().chain(&replayed) {
            receiver.raise(*call, *raise);
        }
        if applied.is_empty() {
            return Answer::Replayed;
        }
        // One operation, one fate: its records go by one token.
        let kept_by = calls.iter().filter_map(|call| call.token).max();
        let recorded = if self.mistake == Some(Mistake::RecordedOnce) { 1 } else { calls.len() };
        for call in &calls[..recorded] {
            let own = self.mistake == Some(Mistake::RecordsGoApart);
            receiver.record(Call { token: if own { call.token } else { kept_by }, ..*call });
        }
        Answer::Applied
    }
}

/// Writes over several domains.
pub(super) fn studies() -> Vec<Study> {
    let mutant = |mistake, property, name| {
        Study::new(Expected::Found(property), name, move |_| Several { tokens: 4, mistake: Some(mistake) })
    };
    vec![
        Study::new(Expected::Holds, ("", "writes over several domains"), |bounds| match bounds {
            Bounds::Standard => Several { tokens: 4, mistake: None },
            Bounds::Deep => Several { tokens: 6, mistake: None },
        }),
        mutant(Mistake::SetNotInTheFingerprint, Property::I6, ("W4", "the set of domains is not in the fingerprint")),
        mutant(Mistake::RecordedOnce, Property::I6, ("W4", "the operation is recorded in one of its domains")),
        mutant(Mistake::FirstDomainOnly, Property::I12, ("", "only the first domain's token is looked at")),
        mutant(Mistake::RecordsGoApart, Property::I13, ("", "records of one operation are collected apart")),
    ]
}
