//! The receiver of the models: the core's decision over records that a mutant can get wrong.
//!
//! Without a flaw every step is done on the core's [`Register`] as well, and the two must answer and stand alike.

use fencepost_core::{
    Contract, Epoch, Invalid, Token,
    fence::{
        Closure, Condition, Decision, Fingerprint, LiveLease, Presented, Proof, RecordedResult, Register, RejectedBy,
        Rejection, SignatureRule, Standing, Verdict, decide,
    },
};

use super::{
    explorer::{Property, Tale},
    names::{DOMAINS, Intent, NAMES, OPERATIONS},
};

/// One deliberate mistake of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    EqualTokenRefused,
    FenceSetByTheLastCaller,
    ReplayRaisesNothing,
    StalenessBeforeReplay,
    CollectionLeavesTheUnfencedFloor,
    CollectionForgetsLiveLeases,
    CollectionInsertsUnchecked,
    RecordsCollectedWithoutHorizon,
    RecordInATransactionOfItsOwn,
    DomainNotCompared,
    GrantNotVerified,
    FingerprintNotCompared,
    MissingTokenPasses,
    EpochNotCompared,
    LostStateIsAFirstWrite,
    FloorBindsUnfencedDomainsOnly,
    TellNotMonotone,
    RecoveryOnlyReopens,
    RecoveryRaisesTheFloor,
    RecoveryForgetsTheEpoch,
    RecoveryOfAnyIncarnation,
}

/// A call as it reaches a receiver: the domain that it wants to change, and what its grant says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) at: usize,
    pub(super) names: usize,
    pub(super) token: Option<Token>,
    pub(super) foreign: bool,
    pub(super) contract: Contract,
    pub(super) proof: Proof,
    pub(super) intent: Option<Intent>,
}

impl Call {
    pub(super) fn new(domain: usize, token: Token) -> Self {
        Self {
            at: domain,
            names: domain,
            token: Some(token),
            foreign: false,
            contract: Contract::Safety,
            proof: Proof::Unsigned,
            intent: None,
        }
    }

    pub(super) fn with(self, intent: Option<Intent>) -> Self {
        Self { intent, ..self }
    }
}

/// A verdict without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Applied,
    Replayed,
    Rejected(Rejection),
    Invalid,
}

impl Answer {
    pub(super) fn told(&self) -> String {
        match self {
            Self::Applied => "Applied".to_owned(),
            Self::Replayed => "Replayed".to_owned(),
            Self::Rejected(Rejection::Stale { least_accepted, by, .. }) => {
                format!("Stale, at least {least_accepted} by the {}", by.as_str().replace('_', " "))
            }
            Self::Rejected(rejection) => format!("Rejected ({})", rejection.code()),
            Self::Invalid => "invalid input".to_owned(),
        }
    }

    fn of<T>(verdict: Result<Verdict<T>, Invalid>) -> Self {
        match verdict {
            Ok(Verdict::Applied(_)) => Self::Applied,
            Ok(Verdict::Replayed(_)) => Self::Replayed,
            Ok(Verdict::Rejected(rejection)) => Self::Rejected(rejection),
            Err(_) => Self::Invalid,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) fingerprint: Fingerprint,
    pub(super) born: Option<Token>,
    pub(super) applied_under: Token,
}

/// What a receiver has written down.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ledger {
    pub(super) closed: Option<Closure>,
    pub(super) known: Epoch,
    pub(super) floor: Option<Token>,
    pub(super) unfenced: Option<Token>,
    pub(super) horizon: Option<Token>,
    pub(super) fences: [Option<Token>; DOMAINS],
    pub(super) records: [[Option<Record>; OPERATIONS]; DOMAINS],
}

impl Ledger {
    fn new(known: Epoch) -> Self {
        Self {
            closed: None,
            known,
            floor: None,
            unfenced: None,
            horizon: None,
            fences: [None; DOMAINS],
            records: [[None; OPERATIONS]; DOMAINS],
        }
    }

    fn standing(&self, domain: usize, operation: Option<usize>) -> Standing {
        Standing {
            condition: self.closed.map_or(Condition::Open, Condition::Closed),
            issuer: NAMES.issuer.clone(),
            domain: NAMES.domains[domain].clone(),
            signature: SignatureRule::Optional,
            known_epoch: self.known,
            floor: self.floor,
            unfenced_floor: self.unfenced,
            fence: self.fences[domain],
            horizon: self.horizon,
            recorded: operation.and_then(|id| self.records[domain][id]).map(|record| record.fingerprint),
        }
    }

    /// The least token that a domain accepts.
    pub(super) fn least(&self, domain: usize) -> Option<Token> {
        self.floor.max(self.fences[domain].or(self.unfenced))
    }
}

/// A receiver, and the core's own beside it while nothing is wrong on purpose.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) ledger: Ledger,
    flaw: Option<Flaw>,
    twin: Option<Register>,
}

impl Receiver {
    pub(super) fn new(known: Epoch, flaw: Option<Flaw>) -> Self {
        let twin = flaw.is_none().then(|| Register::new(NAMES.issuer.clone(), known));
        Self { ledger: Ledger::new(known), flaw, twin }
    }

    /// Without the core's register beside it.
    pub(super) fn alone(&mut self) {
        self.twin = None;
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Decides by the core's function, after the flaw has had its way with what the function is shown.
    pub(super) fn decide(&self, call: Call) -> Result<Decision, Invalid> {
        let operation = call.intent.map(|intent| intent.operation());
        let mut presented = Presented {
            issuer: if call.foreign { &NAMES.foreign } else { &NAMES.issuer },
            domain: &NAMES.domains[call.names],
            contract: call.contract,
            token: call.token,
            proof: call.proof,
            operation: operation.as_ref(),
        };
        let mut standing = self.ledger.standing(call.at, call.intent.map(|intent| intent.id));
        match self.flaw {
            Some(Flaw::EqualTokenRefused) if standing.fence == call.token => {
                standing.fence = call.token.map(|token| Token::from_integer(token.as_u64() + 1).unwrap_or(Token::MAX));
            }
            Some(Flaw::StalenessBeforeReplay) if call.intent.and_then(|intent| intent.born) <= call.token => {
                let plain = Presented { operation: None, ..presented.clone() };
                if let Decision::Reject(rejection) = decide(&plain, &standing)? {
                    return Ok(Decision::Reject(rejection));
                }
            }
            Some(Flaw::DomainNotCompared) => presented.domain = &NAMES.domains[call.at],
            Some(Flaw::GrantNotVerified) => {
                (presented.proof, presented.contract) = (Proof::Unsigned, Contract::Safety);
                presented.issuer = &NAMES.issuer;
            }
            Some(Flaw::FingerprintNotCompared) => {
                standing.recorded = standing.recorded.and(presented.operation.map(|operation| operation.fingerprint));
            }
            Some(Flaw::MissingTokenPasses) if call.token.is_none() => return Ok(Decision::Apply { raise: false }),
            Some(Flaw::EpochNotCompared) => standing.known_epoch = Epoch::MAX,
            Some(Flaw::FloorBindsUnfencedDomainsOnly) if standing.fence.is_some() => standing.floor = None,
            Some(_) | None => {}
        }
        decide(&presented, &standing)
    }

    /// A write, with the record of its operation, in one step.
    pub(super) fn write(&mut self, call: Call, tale: &mut Tale) -> Answer {
        let answer = match self.decide(call) {
            Err(_) => Answer::Invalid,
            Ok(Decision::Reject(rejection)) => Answer::Rejected(rejection),
            Ok(Decision::Replay { raise }) => {
                self.raise(call, raise && !self.has(Flaw::ReplayRaisesNothing));
                Answer::Replayed
            }
            Ok(Decision::Apply { raise }) => {
                self.raise(call, raise);
                if !self.has(Flaw::RecordInATransactionOfItsOwn) {
                    self.record(call);
                }
                Answer::Applied
            }
        };
        if let Some(twin) = &mut self.twin {
            let operation = call.intent.map(|intent| intent.operation());
            let presented = presented(&call, operation.as_ref());
            let nothing = || Ok::<_, Invalid>(RecordedResult::default());
            let reference = Answer::of(twin.write(&NAMES.domains[call.at], &presented, nothing));
            tale.expect(Property::Reference, reference == answer, || format!("the core answers {reference:?}"));
        }
        self.compare(tale);
        answer
    }

    pub(super) fn record(&mut self, call: Call) {
        if let (Some(intent), Some(applied_under)) = (call.intent, call.token) {
            let record = Record { fingerprint: intent.operation().fingerprint, born: intent.born, applied_under };
            self.ledger.records[call.at][intent.id] = Some(record);
        }
    }

    pub(super) fn raise(&mut self, call: Call, raise: bool) {
        if raise {
            self.ledger.fences[call.at] = call.token;
        }
    }

    /// An advance; a fenced read decides and raises in the same way.
    pub(super) fn advance(&mut self, call: Call, tale: &mut Tale) -> Answer {
        let call = call.with(None);
        if self.has(Flaw::FenceSetByTheLastCaller) {
            self.ledger.fences[call.at] = call.token;
            return Answer::Applied;
        }
        let answer = match self.decide(call) {
            Err(_) => Answer::Invalid,
            Ok(Decision::Reject(rejection)) => Answer::Rejected(rejection),
            Ok(Decision::Apply { raise } | Decision::Replay { raise }) => {
                self.raise(call, raise);
                Answer::Applied
            }
        };
        if let Some(twin) = &mut self.twin {
            let reference = Answer::of(twin.advance(&NAMES.domains[call.at], &presented(&call, None)));
            tale.expect(Property::Reference, reference == answer, || format!("the core answers {reference:?}"));
        }
        self.compare(tale);
        answer
    }

    /// Collection of fences, by what was read from the coordinator at some earlier time.
    pub(super) fn collect(&mut self, read: CoordinatorRead, tale: &mut Tale) {
        if self.ledger.closed.is_some() {
            return;
        }
        self.take_in(read, tale);
        if let Some(twin) = &mut self.twin {
            let _ = twin.collect(read.next, &read.leases());
        }
        self.compare(tale);
    }

    fn take_in(&mut self, read: CoordinatorRead, tale: &mut Tale) {
        let forget_live = self.has(Flaw::CollectionForgetsLiveLeases);
        let mut keep = [false; DOMAINS];
        self.ledger.floor = self.ledger.floor.max(read.next.begin_of_epoch());
        for (domain, live) in read.live.iter().enumerate() {
            let Some(token) = live.filter(|_| !forget_live) else { continue };
            keep[domain] = true;
            if self.has(Flaw::CollectionInsertsUnchecked) {
                self.ledger.fences[domain] = Some(token);
                continue;
            }
            let call = Call::new(domain, token);
            if let Ok(Decision::Apply { raise }) = self.decide(call) {
                self.raise(call, raise);
            }
        }
        if !self.has(Flaw::CollectionLeavesTheUnfencedFloor) {
            self.ledger.unfenced = self.ledger.unfenced.max(Some(read.next));
        }
        for (fence, keep) in self.ledger.fences.iter_mut().zip(keep) {
            *fence = fence.filter(|fence| keep || *fence >= read.next);
        }
        tale.say(|| format!("the fences are {}", fences(&self.ledger)));
    }

    /// Collection of operation records born below `horizon`.
    pub(super) fn collect_records(&mut self, horizon: Token, tale: &mut Tale) {
        let all = self.ledger.horizon.max(Some(horizon));
        if !self.has(Flaw::RecordsCollectedWithoutHorizon) {
            self.ledger.horizon = all;
        }
        for record in self.ledger.records.iter_mut().flatten() {
            *record = record.filter(|record| Some(record.born.unwrap_or(record.applied_under)) >= all);
        }
        if let Some(twin) = &mut self.twin {
            twin.collect_operations(horizon);
        }
        self.compare(tale);
    }

    /// The receiver's own records are gone.
    pub(super) fn lose(&mut self, tale: &mut Tale) {
        if self.has(Flaw::LostStateIsAFirstWrite) {
            self.ledger = Ledger::new(self.ledger.known);
            return;
        }
        self.close(Closure::MetadataMissing, tale);
    }

    pub(super) fn close(&mut self, why: Closure, tale: &mut Tale) {
        self.ledger.closed = Some(why);
        if let Some(twin) = &mut self.twin {
            twin.close(Condition::Closed(why));
        }
        self.compare(tale);
    }

    /// Recovery of the receiver, by what was read from the coordinator at some earlier time.
    pub(super) fn recover(&mut self, known: Epoch, read: CoordinatorRead, tale: &mut Tale) {
        self.ledger.closed = None;
        if self.has(Flaw::RecoveryOnlyReopens) {
            return;
        }
        if !self.has(Flaw::RecoveryForgetsTheEpoch) {
            self.ledger.known = self.ledger.known.max(known);
        }
        if self.has(Flaw::RecoveryRaisesTheFloor) {
            self.ledger.floor = self.ledger.floor.max(Some(read.next));
        }
        self.take_in(read, tale);
        if let Some(twin) = &mut self.twin {
            twin.recover(known, read.next, &read.leases());
        }
        self.compare(tale);
    }

    /// A recovery of the coordinator tells its epoch and floor.
    pub(super) fn tell(&mut self, known: Epoch, floor: Token, tale: &mut Tale) {
        if self.has(Flaw::TellNotMonotone) {
            (self.ledger.known, self.ledger.floor) = (known, Some(floor));
        } else {
            self.ledger.known = self.ledger.known.max(known);
            self.ledger.floor = self.ledger.floor.max(Some(floor));
        }
        if let Some(twin) = &mut self.twin {
            twin.tell(known, floor);
        }
        self.compare(tale);
    }

    fn compare(&self, tale: &mut Tale) {
        let Some(twin) = &self.twin else { return };
        for domain in 0..DOMAINS {
            for operation in [None, Some(0), Some(1)] {
                let id = operation.map(|id| Intent { id, ..Intent::default() }.operation().id);
                let reference = twin.standing(&NAMES.domains[domain], id.as_ref());
                let standing = self.ledger.standing(domain, operation);
                tale.expect(Property::Reference, reference == standing, || format!("the core has {reference:?}"));
            }
        }
    }
}

fn presented<'a>(call: &Call, operation: Option<&'a fencepost_core::fence::Operation>) -> Presented<'a> {
    Presented {
        issuer: if call.foreign { &NAMES.foreign } else { &NAMES.issuer },
        domain: &NAMES.domains[call.names],
        contract: call.contract,
        token: call.token,
        proof: call.proof,
        operation,
    }
}

/// The next token and the live leases, from one consistent read of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CoordinatorRead {
    pub(super) next: Token,
    pub(super) live: [Option<Token>; DOMAINS],
}

impl CoordinatorRead {
    fn leases(&self) -> Vec<LiveLease> {
        let live = self.live.iter().enumerate();
        live.filter_map(|(at, token)| Some(LiveLease { domain: NAMES.domains[at].clone(), token: (*token)? })).collect()
    }

    pub(super) fn told(&self) -> String {
        let live: Vec<String> = self.leases().iter().map(|l| format!("{} under {}", l.domain, l.token)).collect();
        let live = if live.is_empty() { "nothing".to_owned() } else { live.join(", ") };
        format!("next token {}, live: {live}", self.next)
    }
}

fn fences(ledger: &Ledger) -> String {
    let fences = ledger.fences.iter().enumerate();
    let shown: Vec<String> =
        fences.filter_map(|(at, fence)| Some(format!("{} at {}", NAMES.domains[at], (*fence)?))).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

/// Whether the verdict calls the token itself too old or unknown.
pub(super) fn refuses_the_token(answer: &Answer) -> Option<RejectedBy> {
    match answer {
        Answer::Rejected(Rejection::Stale { by, .. }) => Some(*by),
        Answer::Rejected(Rejection::UnknownEpoch { .. }) => Some(RejectedBy::Floor),
        Answer::Rejected(_) | Answer::Applied | Answer::Replayed | Answer::Invalid => None,
    }
}
