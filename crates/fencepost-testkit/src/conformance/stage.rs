//! Where a story is told: a resource and the reference, which are asked the same and must answer the same.

use std::{collections::BTreeMap, fmt};

use fencepost_core::{
    Domain, Epoch, Issuer, OperationId,
    fence::{Presented, Rejection, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, VerdictCode, WriteError};

use super::{
    Ability, Adapter, Handle, Settings,
    reference::{Reference, Right},
    step::{Ask, ISSUER, Step, Write, short, shown},
};

/// What a receiver did against its promise, with the story that led there.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was done and answered, in order.
    pub story: Vec<String>,
    /// What must not have been.
    pub broke: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in (1..).zip(&self.story) {
            writeln!(f, "    {at:>3}. {line}")?;
        }
        write!(f, "    BROKEN: {}", self.broke)
    }
}

/// How many domains are compared after each step.
const FEW: usize = 4;

/// How a scenario ends.
pub(super) type Told = Result<(), Failure>;

/// What a scenario is told with.
pub(super) struct Teller<'a> {
    pub(super) adapter: &'a dyn Adapter,
    pub(super) settings: &'a Settings,
}

impl<'a> Teller<'a> {
    pub(super) fn has(&self, ability: Ability) -> bool {
        !self.adapter.lacks().iter().any(|(lacking, _)| *lacking == ability)
    }

    /// A fresh resource with one domain, `d`, whose receiver knows the epochs 0 and 1.
    pub(super) fn stage(&self) -> Result<Stage<'a>, Failure> {
        self.stage_with(Epoch::new(1).expect("an epoch"), &[domain("d")])
    }

    pub(super) fn stage_with(&self, known_epoch: Epoch, domains: &[Domain]) -> Result<Stage<'a>, Failure> {
        let issuer = Issuer::new(ISSUER).expect("a name");
        self.stage_of(&ReceiverSeed::new(issuer, known_epoch), domains)
    }

    pub(super) fn stage_of(&self, seed: &ReceiverSeed, domains: &[Domain]) -> Result<Stage<'a>, Failure> {
        let failed = |cause: Cause| Failure { story: Vec::new(), broke: format!("no resource was made: {cause}") };
        Ok(Stage {
            adapter: self.adapter,
            inspects: self.has(Ability::Inspection),
            place: self.adapter.create(seed, domains).map_err(failed)?,
            domains: domains.to_vec(),
            handles: BTreeMap::new(),
            reference: Reference::new(seed),
            results: BTreeMap::new(),
            story: Vec::new(),
        })
    }
}

pub(super) fn domain(name: &str) -> Domain {
    Domain::new(name).expect("the suite's domains are names")
}

/// What the receiver answered, whatever was asked.
pub(super) enum Answer {
    Verdict(Verdict<Option<Vec<u8>>>),
    Invalid(String),
    /// No verdict, and nothing happened.
    Nothing(String),
    /// No verdict, and it may have happened.
    Unknown(String),
    Done,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verdict(Verdict::Rejected(rejection)) => write!(f, "rejected: {rejection}"),
            Self::Verdict(verdict) => write!(f, "{}", VerdictCode::of(verdict)),
            Self::Invalid(why) => write!(f, "invalid: {why}"),
            Self::Nothing(why) | Self::Unknown(why) => write!(f, "no verdict: {why}"),
            Self::Done => write!(f, "done"),
        }
    }
}

pub(super) fn of_write<T>(
    answer: Result<Verdict<T>, WriteError<Cause>>,
    f: impl FnOnce(T) -> Option<Vec<u8>>,
) -> Answer {
    match answer {
        Ok(verdict) => Answer::Verdict(verdict.map(f)),
        Err(WriteError::Invalid(invalid)) => Answer::Invalid(invalid.to_string()),
        Err(error @ (WriteError::Mutation(_) | WriteError::Unavailable(_) | WriteError::Misused(_))) => {
            Answer::Nothing(error.to_string())
        }
        Err(error @ WriteError::Unknown { .. }) => Answer::Unknown(error.to_string()),
    }
}

fn of_advance(answer: Result<Verdict<()>, AdvanceError>) -> Answer {
    match answer {
        Ok(verdict) => Answer::Verdict(verdict.map(|()| None)),
        Err(AdvanceError::Invalid(invalid)) => Answer::Invalid(invalid.to_string()),
        Err(error @ AdvanceError::Unavailable(_)) => Answer::Nothing(error.to_string()),
        Err(error @ AdvanceError::Unknown(_)) => Answer::Unknown(error.to_string()),
    }
}

fn of_maintenance(answer: Result<(), Cause>) -> Answer {
    match answer {
        Ok(()) => Answer::Done,
        Err(cause) => Answer::Nothing(cause.to_string()),
    }
}

pub(super) struct Stage<'a> {
    pub(super) adapter: &'a dyn Adapter,
    inspects: bool,
    pub(super) place: String,
    pub(super) domains: Vec<Domain>,
    handles: BTreeMap<usize, Box<dyn Handle>>,
    pub(super) reference: Reference,
    /// What each operation was answered when it was applied.
    results: BTreeMap<(Domain, OperationId), Vec<u8>>,
    story: Vec<String>,
}

impl Stage<'_> {
    /// Ends the story here.
    pub(super) fn broken(&mut self, broke: impl Into<String>) -> Failure {
        Failure { story: std::mem::take(&mut self.story), broke: broke.into() }
    }

    pub(super) fn say(&mut self, line: impl Into<String>) {
        self.story.push(line.into());
    }

    pub(super) fn handle(&mut self, number: usize) -> Result<&mut dyn Handle, Failure> {
        if !self.handles.contains_key(&number) {
            let handle = self.open_one_more()?;
            self.handles.insert(number, handle);
        }
        Ok(self.handles.get_mut(&number).expect("it was opened").as_mut())
    }

    /// A handle that another thread may take.
    pub(super) fn open_one_more(&mut self) -> Result<Box<dyn Handle>, Failure> {
        self.adapter.open(&self.place).map_err(|cause| self.broken(format!("the resource was not opened: {cause}")))
    }

    pub(super) fn close(&mut self) {
        self.handles.clear();
    }

    /// Asks both, and fails where answer, values or records differ.
    pub(super) fn tell(&mut self, step: &Step) -> Result<Option<VerdictCode>, Failure> {
        let line = step.to_string();
        if matches!(step.ask, Ask::Reopen) {
            self.close();
        }
        let handle = self.handle(step.handle)?;
        let answer = match &step.ask {
            Ask::Write(Write { claim, target, operation, value }) => {
                let operation = operation.as_ref().map(|named| named.operation());
                of_write(handle.write(target, &claim.grant(), operation.as_ref(), value), Some)
            }
            Ask::Advance(claim) => of_advance(handle.advance(&claim.grant())),
            Ask::Read(claim) => of_write(handle.read(&claim.grant()), |value| value),
            Ask::Collect { next, live, horizon } => of_maintenance(handle.collect(*next, live, *horizon)),
            Ask::Tell { epoch, floor } => of_maintenance(handle.tell(*epoch, *floor)),
            Ask::Reopen => Answer::Done,
        };
        self.say(format!("{line}: {answer}"));
        let right = self.reference.ask(&step.ask);
        let code = self.same(&answer, right)?;
        self.same_result(&step.ask, answer)?;
        match step.ask.domain() {
            // A story of many domains compares the others when it ends.
            Some(domain) if self.domains.len() > FEW && self.domains.contains(domain) => self.same_state_of(domain)?,
            Some(_) | None => self.same_state()?,
        }
        Ok(code)
    }

    /// The same for what need not be a grant.
    pub(super) fn present(
        &mut self,
        what: &str,
        target: &Domain,
        presented: &Presented<'_>,
        value: &str,
    ) -> Result<Option<VerdictCode>, Failure> {
        let answer = of_write(self.handle(0)?.present(target, presented, value.as_bytes()), Some);
        self.say(format!("write {value:?} {what}: {answer}"));
        let right = self.reference.present(target, presented, value.as_bytes());
        let code = self.same(&answer, right)?;
        self.same_state()?;
        Ok(code)
    }

    fn same(&mut self, answer: &Answer, right: Right) -> Result<Option<VerdictCode>, Failure> {
        match (answer, &right) {
            (Answer::Done, Right::Done) => Ok(None),
            (Answer::Verdict(found), Right::Verdict(expected)) if alike(found, expected) => {
                Ok(Some(VerdictCode::of(found)))
            }
            (Answer::Invalid(_), Right::Invalid) => Ok(Some(VerdictCode::Malformed)),
            // Some receivers find out what is wrong only in the mutation; what counts is that nothing changed.
            (
                Answer::Verdict(Verdict::Rejected(_)) | Answer::Invalid(_) | Answer::Nothing(_),
                Right::Verdict(Verdict::Rejected(Rejection::WrongDomain)),
            ) => Ok(Some(VerdictCode::WrongDomain)),
            (_, Right::Verdict(expected)) => {
                let expected = Answer::Verdict(expected.clone().map(|()| None));
                Err(self.broken(format!("the answer must be: {expected}")))
            }
            (_, Right::Invalid) => Err(self.broken("no receiver can decide this, so it must be an error: invalid")),
            (_, Right::Done) => Err(self.broken("this must succeed")),
        }
    }

    /// A replay answers what was answered when the operation was applied, and a read what is there.
    fn same_result(&mut self, ask: &Ask, answer: Answer) -> Told {
        if let (Ask::Read(claim), Answer::Verdict(Verdict::Applied(read))) = (ask, &answer)
            && read.as_ref() != self.reference.value(&claim.domain)
        {
            return Err(self.broken("the read must give the value that is there"));
        }
        let Ask::Write(Write { target, operation: Some(named), .. }) = ask else { return Ok(()) };
        let key = (target.clone(), named.id.clone());
        match answer {
            Answer::Verdict(Verdict::Applied(Some(result))) => {
                self.results.insert(key, result);
            }
            Answer::Verdict(Verdict::Replayed(result)) => {
                let recorded = self.results.get(&key).cloned();
                if recorded.is_some() && recorded != result {
                    let (was, is) = (recorded.unwrap_or_default(), result.unwrap_or_default());
                    let broke =
                        format!("the result was {} when it was applied, and is {} now", shown(&was), shown(&is));
                    return Err(self.broken(broke));
                }
            }
            Answer::Verdict(_) | Answer::Invalid(_) | Answer::Nothing(_) | Answer::Unknown(_) | Answer::Done => {}
        }
        Ok(())
    }

    /// What the resource holds is what the reference holds, and so are the records where they can be looked at.
    pub(super) fn same_state(&mut self) -> Told {
        self.domains.clone().iter().try_for_each(|domain| self.same_state_of(domain))
    }

    fn same_state_of(&mut self, domain: &Domain) -> Told {
        let found = self.value(domain)?;
        let right = self.reference.value(domain).cloned();
        if found != right {
            let show = |value: Option<Vec<u8>>| value.map_or("nothing".to_owned(), |value| shown(&value));
            let (found, right) = (show(found), show(right));
            let domain = short(domain.as_str());
            return Err(self.broken(format!("the value of {domain} must be {right}, and is {found}")));
        }
        if self.inspects {
            let found = self.handle(0)?.records(domain);
            let found = found.map_err(|cause| self.broken(format!("the records could not be read: {cause}")))?;
            let right = self.reference.records(domain);
            if found != right {
                let broke = format!("the receiver must know {right:?} of {domain}, and knows {found:?}");
                return Err(self.broken(broke));
            }
        }
        Ok(())
    }

    pub(super) fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Failure> {
        let found = self.handle(0)?.value(domain);
        found.map_err(|cause| self.broken(format!("the value of {domain} could not be read: {cause}")))
    }
}

/// Equal, but for what only the receiver knows: the result of a write, and why it is closed.
fn alike(found: &Verdict<Option<Vec<u8>>>, right: &Verdict<()>) -> bool {
    match (found, right) {
        (Verdict::Applied(_), Verdict::Applied(())) | (Verdict::Replayed(_), Verdict::Replayed(())) => true,
        (Verdict::Rejected(Rejection::Closed(_)), Verdict::Rejected(Rejection::Closed(_))) => true,
        (Verdict::Rejected(found), Verdict::Rejected(right)) => found == right,
        (Verdict::Applied(_) | Verdict::Replayed(_) | Verdict::Rejected(_), _) => false,
    }
}
