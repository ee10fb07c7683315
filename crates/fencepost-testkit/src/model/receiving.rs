//! One receiver under every token that was ever granted: writes, advances, retries, collection, odd calls.
//!
//! A holder that pauses anywhere is a token that may still be presented at any later time. So the model has no
//! holders: each token may do everything, at any time and any number of times. The coordinator is a counter, which is
//! what the receiver has to trust it to be.

use fencepost_core::{Contract, Token, fence::Proof};

use super::{
    explorer::{Key, Model, Property, Tale, hashed},
    ledger::{Answer, Call, CoordinatorRead, Flaw, Receiver, refuses_the_token},
    names::{DOMAINS, Intent, NAMES, OPERATIONS, epoch, token},
    study::{Bounds, Expected, Study},
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Receiving {
    /// How many tokens are granted.
    pub(super) tokens: u64,
    pub(super) domains: usize,
    pub(super) operations: usize,
    /// How many different requests come under one operation id.
    pub(super) payloads: usize,
    /// Whether fences are collected.
    pub(super) collection: bool,
    /// Whether operation records are collected.
    pub(super) retention: bool,
    /// Whether calls come that no receiver may accept.
    pub(super) odd: bool,
    /// Whether a domain has several live tokens, as a shared lease would.
    pub(super) shared: bool,
    pub(super) flaw: Option<Flaw>,
}

#[derive(Clone, Debug)]
pub(super) struct State {
    receiver: Receiver,
    seen: Seen,
}

/// All but the receiver: coordinator, messages under way, and what the properties remember.
#[derive(Clone, Debug, Hash)]
struct Seen {
    next: u64,
    /// The domain of each token granted.
    granted: Vec<usize>,
    live: Vec<u64>,
    /// What a collection has read and has not brought yet.
    read: Option<CoordinatorRead>,
    /// The greatest token that each domain has accepted for anything.
    accepted: [Option<Token>; DOMAINS],
    born: [[Option<Token>; OPERATIONS]; DOMAINS],
    effects: [[u8; OPERATIONS]; DOMAINS],
    payload: [[Option<usize>; OPERATIONS]; DOMAINS],
    /// Writes whose record is still to be made, where that is another transaction.
    unrecorded: Option<(usize, Intent)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Grant(usize),
    End(u64),
    Write(u64, Option<(usize, usize)>),
    Advance(u64),
    Read,
    Collect,
    CollectRecords(u64),
    Odd(u64, Odd),
    Lose,
    Record,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Odd {
    Missing,
    OtherDomain,
    ForeignIssuer,
    Admission,
    WrongSignature,
    UnknownEpoch,
}

const ODD: [Odd; 6] =
    [Odd::Missing, Odd::OtherDomain, Odd::ForeignIssuer, Odd::Admission, Odd::WrongSignature, Odd::UnknownEpoch];

impl Model for Receiving {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        State {
            receiver: Receiver::new(epoch(0), self.flaw),
            seen: Seen {
                next: 1,
                granted: Vec::new(),
                live: Vec::new(),
                read: None,
                accepted: [None; DOMAINS],
                born: [[None; OPERATIONS]; DOMAINS],
                effects: [[0; OPERATIONS]; DOMAINS],
                payload: [[None; OPERATIONS]; DOMAINS],
                unrecorded: None,
            },
        }
    }

    fn key(&self, state: &State, key: &mut Key) {
        // Without a flaw the register beside the ledger is equal to it at every step, so it tells nothing more.
        hashed(&state.receiver.ledger, key);
        hashed(&state.seen, key);
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let seen = &state.seen;
        if seen.next <= self.tokens {
            // Domains are alike: the first grant is of the first one.
            let domains = if seen.granted.is_empty() { 1 } else { self.domains };
            actions.extend((0..domains).map(Action::Grant));
        }
        actions.extend(seen.live.iter().map(|sequence| Action::End(*sequence)));
        for sequence in 1..seen.next {
            actions.push(Action::Write(sequence, None));
            actions.push(Action::Advance(sequence));
            for operation in 0..self.operations {
                actions.extend((0..self.payloads).map(|payload| Action::Write(sequence, Some((operation, payload)))));
            }
            if self.odd {
                actions.extend(ODD.map(|odd| Action::Odd(sequence, odd)));
            }
        }
        if self.collection {
            actions.extend([Action::Read, Action::Collect]);
        }
        if self.retention {
            actions.extend((2..=seen.next).map(Action::CollectRecords));
        }
        if self.odd {
            actions.push(Action::Lose);
        }
        if seen.unrecorded.is_some() {
            actions.push(Action::Record);
        }
    }

    fn step(&self, state: &mut State, action: &Action, tale: &mut Tale) -> bool {
        let before = state.receiver.ledger.clone();
        let possible = match *action {
            Action::Grant(domain) => self.grant(&mut state.seen, domain, tale),
            Action::End(sequence) => {
                state.seen.live.retain(|live| *live != sequence);
                tale.say(|| format!("the lease under {} ends", token(0, sequence)));
                true
            }
            Action::Write(sequence, operation) => {
                write(state, sequence, operation, tale);
                true
            }
            Action::Advance(sequence) => {
                let (token, domain) = (token(0, sequence), state.seen.granted[sequence_index(sequence)]);
                let answer = state.receiver.advance(Call::new(domain, token), tale);
                tale.say(|| format!("the holder of {token} advances {}: {}", NAMES.domains[domain], answer.told()));
                if answer == Answer::Applied {
                    state.seen.accepted[domain] = state.seen.accepted[domain].max(Some(token));
                }
                rightful(state, domain, sequence, &answer, tale);
                true
            }
            Action::Read => self.read(&mut state.seen, tale),
            Action::Collect => match state.seen.read {
                Some(read) => {
                    tale.say(|| "the collection arrives".to_owned());
                    state.receiver.collect(read, tale);
                    true
                }
                None => false,
            },
            Action::CollectRecords(bound) => {
                let horizon = token(0, bound);
                state.receiver.collect_records(horizon, tale);
                tale.say(|| format!("records of operations born below {horizon} are collected"));
                true
            }
            Action::Odd(sequence, odd) => self.odd_call(state, sequence, odd, tale),
            Action::Lose => {
                tale.say(|| "the receiver's own records are lost".to_owned());
                state.receiver.lose(tale);
                true
            }
            Action::Record => {
                let Some((domain, intent)) = state.seen.unrecorded.take() else { return false };
                state.receiver.record(Call::new(domain, token(0, 1)).with(Some(intent)));
                tale.say(|| format!("{} is recorded in a transaction of its own", intent.told()));
                true
            }
        };
        let after = &state.receiver.ledger;
        if before.closed.is_none() && after.closed.is_none() {
            let falls = (0..DOMAINS).any(|domain| after.least(domain) < before.least(domain));
            tale.expect(Property::I13, !falls, || "the least token accepted went down".to_owned());
            let falls = after.known < before.known || after.floor < before.floor || after.horizon < before.horizon;
            tale.expect(Property::I13, !falls, || "known epoch, floor or horizon went down".to_owned());
        }
        possible
    }
}

fn sequence_index(sequence: u64) -> usize {
    usize::try_from(sequence).expect("small") - 1
}

impl Receiving {
    fn grant(&self, seen: &mut Seen, domain: usize, tale: &mut Tale) -> bool {
        let granted = token(0, seen.next);
        if !self.shared {
            let Seen { live, granted, .. } = seen;
            live.retain(|sequence| granted[sequence_index(*sequence)] != domain);
        }
        seen.live.push(seen.next);
        seen.granted.push(domain);
        seen.next += 1;
        tale.say(|| format!("{} is granted under {granted}", NAMES.domains[domain]));
        true
    }

    fn read(&self, seen: &mut Seen, tale: &mut Tale) -> bool {
        let mut live = [None; DOMAINS];
        for sequence in &seen.live {
            live[seen.granted[sequence_index(*sequence)]] = Some(token(0, *sequence));
        }
        let read = CoordinatorRead { next: token(0, seen.next), live };
        seen.read = Some(read);
        tale.say(|| format!("a collection reads the coordinator: {}", read.told()));
        true
    }

    fn odd_call(&self, state: &mut State, sequence: u64, odd: Odd, tale: &mut Tale) -> bool {
        let domain = state.seen.granted[sequence_index(sequence)];
        let plain = Call::new(domain, token(0, sequence));
        let (call, told) = match odd {
            Odd::Missing => (Call { token: None, ..plain }, "without a token"),
            Odd::OtherDomain => (Call { at: 1 - domain, ..plain }, "to the other domain"),
            Odd::ForeignIssuer => (Call { foreign: true, ..plain }, "of another issuer"),
            Odd::Admission => (Call { contract: Contract::Admission, ..plain }, "under contract admission"),
            Odd::WrongSignature => (Call { proof: Proof::Wrong, ..plain }, "with a wrong signature"),
            Odd::UnknownEpoch => (Call { token: Some(token(9, 1)), ..plain }, "with 9.1 that nobody granted"),
        };
        let before = state.receiver.ledger.clone();
        let answer = state.receiver.write(call, tale);
        tale.say(|| format!("a write {told}, by the holder of {}: {}", token(0, sequence), answer.told()));
        let refused = matches!(answer, Answer::Rejected(_)) && state.receiver.ledger == before;
        match odd {
            // The harm of an absurd number is done to the rightful holder afterwards.
            Odd::UnknownEpoch => {}
            _ => tale.expect(Property::I5, refused, || format!("a write {told} was accepted")),
        }
        true
    }
}

fn write(state: &mut State, sequence: u64, operation: Option<(usize, usize)>, tale: &mut Tale) {
    let (token, domain) = (token(0, sequence), state.seen.granted[sequence_index(sequence)]);
    let intent = operation.map(|(id, payload)| {
        let born = *state.seen.born[domain][id].get_or_insert(token);
        Intent { id, payload, born: Some(born), over_both: false }
    });
    let recorded = intent.and_then(|intent| state.receiver.ledger.records[domain][intent.id]);
    let before = state.receiver.ledger.clone();
    let answer = state.receiver.write(Call::new(domain, token).with(intent), tale);
    tale.say(|| {
        let what = intent.map(|intent| format!(", {}", intent.told())).unwrap_or_default();
        format!("the holder of {token} writes {}{what}: {}", NAMES.domains[domain], answer.told())
    });
    let seen = &mut state.seen;
    match &answer {
        Answer::Applied => {
            let accepted = seen.accepted[domain];
            tale.expect(Property::I3, Some(token) >= accepted, || {
                format!("{token} was applied after {} had been accepted", super::names::shown(accepted))
            });
            seen.accepted[domain] = accepted.max(Some(token));
            if let Some(intent) = intent {
                let effects = &mut seen.effects[domain][intent.id];
                *effects += 1;
                let why = || format!("operation {} took effect twice", ["X", "Y"][intent.id]);
                let property =
                    if state.receiver.has(Flaw::RecordInATransactionOfItsOwn) { Property::I4 } else { Property::I6 };
                tale.expect(property, *effects <= 1, why);
                *effects = (*effects).min(2);
                seen.payload[domain][intent.id] = Some(intent.payload);
                if state.receiver.has(Flaw::RecordInATransactionOfItsOwn) {
                    seen.unrecorded = Some((domain, intent));
                }
            }
        }
        Answer::Replayed => {
            seen.accepted[domain] = seen.accepted[domain].max(Some(token));
            if let Some(intent) = intent {
                let same = seen.payload[domain][intent.id] == Some(intent.payload);
                tale.expect(Property::I7, same, || "a request got the result of another request".to_owned());
                let once = seen.effects[domain][intent.id] == 1;
                tale.expect(Property::I6, once, || "a result was replayed without one effect".to_owned());
            }
        }
        Answer::Rejected(_) | Answer::Invalid => {
            let unchanged = before == state.receiver.ledger;
            tale.expect(Property::I4, unchanged, || "a refused write changed the records".to_owned());
        }
    }
    if let (Some(record), Some(intent), None) = (recorded, intent, before.closed) {
        let same = record.fingerprint == intent.operation().fingerprint;
        let right = match &answer {
            Answer::Replayed => same,
            Answer::Rejected(fencepost_core::fence::Rejection::OperationConflict) => !same,
            Answer::Invalid => true,
            Answer::Applied | Answer::Rejected(_) => false,
        };
        let property = if same { Property::I6 } else { Property::I7 };
        tale.expect(property, right, || format!("a recorded operation was answered with {}", answer.told()));
    }
    rightful(state, domain, sequence, &answer, tale);
}

fn rightful(state: &State, domain: usize, sequence: u64, answer: &Answer, tale: &mut Tale) {
    if state.seen.live.contains(&sequence) && state.receiver.ledger.closed.is_none() {
        let refused = refuses_the_token(answer);
        tale.expect(Property::Rightful, refused.is_none(), || {
            format!("{} is the token of a live lease of {}", token(0, sequence), NAMES.domains[domain])
        });
    }
}

/// Fences and their collection, operations and theirs, and calls that no receiver may accept.
pub(super) fn studies() -> Vec<Study> {
    const FENCES: Receiving = Receiving {
        tokens: 3,
        domains: 2,
        operations: 0,
        payloads: 0,
        collection: true,
        retention: false,
        odd: false,
        shared: false,
        flaw: None,
    };
    const OPERATIONS_OF_ONE: Receiving =
        Receiving { tokens: 3, domains: 1, operations: 2, payloads: 2, collection: false, retention: true, ..FENCES };
    const ODD_CALLS: Receiving = Receiving { operations: 1, payloads: 1, collection: false, odd: true, ..FENCES };
    let holds = |name, standard: Receiving, deep: Receiving| {
        Study::new(Expected::Holds, ("", name), move |bounds| match bounds {
            Bounds::Standard => standard,
            Bounds::Deep => deep,
        })
    };
    let mut studies = vec![
        holds("fences and their collection", FENCES, Receiving { tokens: 5, ..FENCES }),
        holds("operations and their retention", OPERATIONS_OF_ONE, Receiving { tokens: 4, ..OPERATIONS_OF_ONE }),
        holds(
            "fences, operations and both collections",
            Receiving { domains: 1, operations: 1, payloads: 1, retention: true, ..FENCES },
            Receiving { operations: 1, payloads: 2, retention: true, ..FENCES },
        ),
        holds("calls that nobody may make", ODD_CALLS, Receiving { tokens: 4, ..ODD_CALLS }),
        Study::new(Expected::Found(Property::Rightful), ("S1", "a shared lease with a token for each holder"), |_| {
            Receiving { domains: 1, collection: false, shared: true, ..FENCES }
        }),
    ];
    let mutants = [
        (FENCES, Flaw::EqualTokenRefused, Property::Rightful, ("", "an equal token is refused")),
        (FENCES, Flaw::FenceSetByTheLastCaller, Property::I3, ("", "the fence is set by the last caller")),
        (FENCES, Flaw::CollectionLeavesTheUnfencedFloor, Property::I3, ("", "collection without the unfenced floor")),
        (FENCES, Flaw::CollectionForgetsLiveLeases, Property::Rightful, ("W2", "collection forgets live leases")),
        (FENCES, Flaw::CollectionInsertsUnchecked, Property::I3, ("W2", "collection inserts fences unchecked")),
        (OPERATIONS_OF_ONE, Flaw::RecordsCollectedWithoutHorizon, Property::I6, ("W3", "records go without horizon")),
        (OPERATIONS_OF_ONE, Flaw::ReplayRaisesNothing, Property::I3, ("W5", "a replay does not raise the fence")),
        (OPERATIONS_OF_ONE, Flaw::StalenessBeforeReplay, Property::I6, ("", "staleness is checked before replay")),
        (OPERATIONS_OF_ONE, Flaw::FingerprintNotCompared, Property::I7, ("", "fingerprints are not compared")),
        (
            OPERATIONS_OF_ONE,
            Flaw::RecordInATransactionOfItsOwn,
            Property::I4,
            ("", "the record in its own transaction"),
        ),
        (ODD_CALLS, Flaw::DomainNotCompared, Property::I5, ("", "the grant's domain is not compared")),
        (ODD_CALLS, Flaw::GrantNotVerified, Property::I5, ("", "issuer, contract and signature are not looked at")),
        (ODD_CALLS, Flaw::MissingTokenPasses, Property::I5, ("", "a missing token passes")),
        (ODD_CALLS, Flaw::EpochNotCompared, Property::Rightful, ("", "an unknown epoch is accepted")),
        (ODD_CALLS, Flaw::LostStateIsAFirstWrite, Property::I3, ("", "lost records are taken for a first write")),
    ];
    for (model, flaw, property, name) in mutants {
        let mutant = Receiving { flaw: Some(flaw), ..model };
        studies.push(Study::new(Expected::Found(property), name, move |_| mutant));
    }
    studies
}
