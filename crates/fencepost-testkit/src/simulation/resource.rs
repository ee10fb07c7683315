//! The resource: the reference receiver with a value for each domain. Each request is one atomic step.

use std::collections::BTreeMap;

use fencepost_core::{
    Domain, Epoch, Invalid, Issuer, Token,
    fence::{Fingerprint, Operation, Presented, RecordedResult, Register, Verdict},
    lease::LiveSnapshot,
};

use super::{
    outbox::{ToResource, Wish},
    settings::Mistake,
};

pub(super) struct Resource {
    register: Register,
    values: BTreeMap<Domain, String>,
    /// Each applied write with the value it was based on, in the order in which they were applied.
    pub(super) applied: Vec<(Domain, String, String)>,
    mistake: Option<Mistake>,
    /// The tokens that the operations on record were born under, or were applied under where they do not say.
    recorded: Vec<Token>,
}

pub(super) const NOTHING: &str = "nothing";

impl Resource {
    pub(super) fn new(issuer: Issuer, mistake: Option<Mistake>) -> Self {
        let register = Register::new(issuer, Epoch::ZERO);
        Self { register, values: BTreeMap::new(), applied: Vec::new(), mistake, recorded: Vec::new() }
    }

    pub(super) fn value(&self, domain: &Domain) -> String {
        self.values.get(domain).cloned().unwrap_or_else(|| NOTHING.to_owned())
    }

    pub(super) fn handle(&mut self, request: &ToResource) -> Verdict<RecordedResult> {
        let domain = request.grant.domain.clone();
        let presented = Presented::grant(&request.grant);
        let blind = self.mistake == Some(Mistake::NoFence);
        match &request.wish {
            Wish::Read { fenced: false } => Verdict::Applied(RecordedResult::default()),
            Wish::Advance | Wish::Read { fenced: true } if blind => Verdict::Applied(RecordedResult::default()),
            Wish::Advance | Wish::Read { fenced: true } => {
                let verdict = self.register.advance(&domain, &presented).expect("the input is valid");
                verdict.map(|()| RecordedResult::default())
            }
            Wish::Write { operation, value, based_on } => {
                let operation = self.as_compared(operation);
                let presented = presented.with_operation(&operation);
                let (values, applied, recorded) = (&mut self.values, &mut self.applied, &mut self.recorded);
                let mut mutate = || -> Result<RecordedResult, Invalid> {
                    values.insert(domain.clone(), value.clone());
                    applied.push((domain.clone(), based_on.clone(), value.clone()));
                    recorded.push(operation.born.unwrap_or(request.grant.token));
                    Ok(RecordedResult::default())
                };
                if blind {
                    return Verdict::Applied(mutate().expect("the mutation does not fail"));
                }
                self.register.write(&domain, &presented, mutate).expect("the input is valid")
            }
        }
    }

    fn as_compared(&self, operation: &Operation) -> Operation {
        match self.mistake {
            Some(Mistake::NoFingerprint) => Operation { fingerprint: Fingerprint::of(b""), ..operation.clone() },
            _ => operation.clone(),
        }
    }

    /// Forgets what a consistent read of the coordinator allows to forget, which may be old by now, and the operation
    /// records born below a horizon. Says whether there is a record less.
    pub(super) fn collect(&mut self, snapshot: &LiveSnapshot, horizon: Option<Token>) -> bool {
        if let Some(next) = snapshot.next_token {
            // A collection that a closed receiver refuses is not made; this one is never closed.
            let _ = self.register.collect(next, &snapshot.leases);
        }
        let Some(horizon) = horizon else { return false };
        self.register.collect_operations(horizon);
        let before = self.recorded.len();
        self.recorded.retain(|token| *token >= horizon);
        self.recorded.len() < before
    }

    pub(super) fn fence(&self, domain: &Domain) -> Option<Token> {
        self.register.fence(domain)
    }

    /// Writes that were based on a value which another write had replaced meanwhile.
    pub(super) fn lost_updates(&self) -> usize {
        let mut latest: BTreeMap<&Domain, &str> = BTreeMap::new();
        let mut lost = 0;
        for (domain, based_on, value) in &self.applied {
            let before = latest.insert(domain, value).unwrap_or(NOTHING);
            lost += usize::from(before != based_on);
        }
        lost
    }
}
