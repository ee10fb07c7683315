use std::collections::{BTreeMap, BTreeSet};

use crate::{Domain, Epoch, Invalid, Issuer, OperationId, Token};

use super::{
    Condition, Decision, Fingerprint, Operation, Presented, RecordedResult, Rejection, SignatureRule, Standing,
    Verdict, decide,
};

/// A lease that its coordinator listed as live, with the token it was granted under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveLease {
    /// The domain held.
    pub domain: Domain,
    /// The token of the current grant.
    pub token: Token,
}

/// A whole receiver as a value: a register that accepts a write iff its token is not older.
///
/// It is the reference against which every receiver and every history is compared, and the receiver of the model.
/// Each method is one atomic step. Fences, floors, known epoch and horizon only rise.
#[derive(Clone, Debug)]
pub struct Register {
    condition: Condition,
    issuer: Issuer,
    known_epoch: Epoch,
    floor: Option<Token>,
    unfenced_floor: Option<Token>,
    horizon: Option<Token>,
    fences: BTreeMap<Domain, Token>,
    operations: BTreeMap<(Domain, OperationId), Record>,
}

#[derive(Clone, Debug)]
struct Record {
    fingerprint: Fingerprint,
    born: Option<Token>,
    applied_under: Token,
    result: RecordedResult,
}

impl Register {
    /// A receiver guarded for `issuer` before anything was granted.
    #[must_use]
    pub fn new(issuer: Issuer, known_epoch: Epoch) -> Self {
        Self {
            condition: Condition::Open,
            issuer,
            known_epoch,
            floor: None,
            unfenced_floor: None,
            horizon: None,
            fences: BTreeMap::new(),
            operations: BTreeMap::new(),
        }
    }

    /// What the records say about a domain and an operation id in it.
    #[must_use]
    pub fn standing(&self, domain: &Domain, operation: Option<&OperationId>) -> Standing {
        let record = operation.and_then(|id| self.operations.get(&(domain.clone(), id.clone())));
        Standing {
            condition: self.condition,
            issuer: self.issuer.clone(),
            domain: domain.clone(),
            signature: SignatureRule::Optional,
            known_epoch: self.known_epoch,
            floor: self.floor,
            unfenced_floor: self.unfenced_floor,
            fence: self.fences.get(domain).copied(),
            horizon: self.horizon,
            recorded: record.map(|record| record.fingerprint),
        }
    }

    /// Raises the fence of `domain` without a mutation.
    ///
    /// # Errors
    /// When the input is invalid.
    pub fn advance(&mut self, domain: &Domain, presented: &Presented<'_>) -> Result<Verdict<()>, Invalid> {
        let presented = Presented { operation: None, ..presented.clone() };
        match decide(&presented, &self.standing(domain, None))? {
            Decision::Apply { raise } => {
                self.raise(domain, &presented, raise);
                Ok(Verdict::Applied(()))
            }
            Decision::Replay { .. } => unreachable!("nothing is replayed without an operation"),
            Decision::Reject(rejection) => Ok(Verdict::Rejected(rejection)),
        }
    }

    /// Runs `mutation` under the presented token, or replays what it answered before.
    ///
    /// # Errors
    /// When the input is invalid, or with the mutation's own error; nothing has changed then.
    pub fn write<E: From<Invalid>>(
        &mut self,
        domain: &Domain,
        presented: &Presented<'_>,
        mutation: impl FnOnce() -> Result<RecordedResult, E>,
    ) -> Result<Verdict<RecordedResult>, E> {
        let standing = self.standing(domain, presented.operation.map(|operation| &operation.id));
        match decide(presented, &standing)? {
            Decision::Reject(rejection) => Ok(Verdict::Rejected(rejection)),
            Decision::Replay { raise } => {
                self.raise(domain, presented, raise);
                let id = presented.operation.map(|operation| operation.id.clone());
                let record = id.and_then(|id| self.operations.get(&(domain.clone(), id)));
                Ok(Verdict::Replayed(record.map(|record| record.result.clone()).unwrap_or_default()))
            }
            Decision::Apply { raise } => {
                let result = mutation()?;
                self.raise(domain, presented, raise);
                if let (Some(operation), Some(token)) = (presented.operation, presented.token) {
                    self.record(domain, operation, token, result.clone());
                }
                Ok(Verdict::Applied(result))
            }
        }
    }

    fn raise(&mut self, domain: &Domain, presented: &Presented<'_>, raise: bool) {
        if let Some(token) = presented.token.filter(|_| raise) {
            let before = self.fences.insert(domain.clone(), token);
            assert!(before < Some(token), "a fence only rises");
        }
    }

    fn record(&mut self, domain: &Domain, operation: &Operation, applied_under: Token, result: RecordedResult) {
        let record = Record { fingerprint: operation.fingerprint, born: operation.born, applied_under, result };
        let before = self.operations.insert((domain.clone(), operation.id.clone()), record);
        assert!(before.is_none(), "an operation takes effect once");
    }

    /// Forgets the fences of domains that nobody holds.
    ///
    /// `next` is the coordinator's next token and `live` its live leases, from one consistent read. Live leases get
    /// their fence by the ordinary decision, so that a late collection re-admits nothing and shuts nobody out. Doing
    /// it twice, or late, is harmless. A closed receiver collects nothing: it could not take the live leases in.
    /// What `next` says of the coordinator's epoch ends the earlier ones here, too.
    pub fn collect(&mut self, next: Token, live: &[LiveLease]) -> Verdict<()> {
        if let Condition::Closed(why) = self.condition {
            return Verdict::Rejected(Rejection::Closed(why));
        }
        self.floor = self.floor.max(next.begin_of_epoch());
        for lease in live {
            let issuer = self.issuer.clone();
            let presented = Presented::token(&issuer, &lease.domain, lease.token);
            let _ = self.advance(&lease.domain, &presented);
        }
        self.unfenced_floor = self.unfenced_floor.max(Some(next));
        let live: BTreeSet<&Domain> = live.iter().map(|lease| &lease.domain).collect();
        self.fences.retain(|domain, fence| *fence >= next || live.contains(domain));
        Verdict::Applied(())
    }

    /// Raises the horizon to `horizon` and forgets the operation records born below it. Records without `born` go by
    /// the token they were applied under: their promise ends with retention.
    pub fn collect_operations(&mut self, horizon: Token) {
        self.horizon = self.horizon.max(Some(horizon));
        self.operations.retain(|_, record| Some(record.born.unwrap_or(record.applied_under)) >= self.horizon);
    }

    /// Closes the receiver: it refuses everything until it is recovered.
    pub fn close(&mut self, condition: Condition) {
        self.condition = condition;
    }

    /// Recovers a receiver whose storage was restored or moved: learns from the coordinator what is live now, and
    /// opens. `known_epoch`, `next` and `live` come from one consistent read of the coordinator.
    pub fn recover(&mut self, known_epoch: Epoch, next: Token, live: &[LiveLease]) {
        self.condition = Condition::Open;
        self.known_epoch = self.known_epoch.max(known_epoch);
        let _ = self.collect(next, live);
    }

    /// Takes part in a recovery of the coordinator: the new epoch becomes known, and nothing older is accepted.
    pub fn tell(&mut self, epoch: Epoch, floor: Token) {
        self.known_epoch = self.known_epoch.max(epoch);
        self.floor = self.floor.max(Some(floor));
    }

    /// The fence of a domain.
    #[must_use]
    pub fn fence(&self, domain: &Domain) -> Option<Token> {
        self.fences.get(domain).copied()
    }
}

#[cfg(test)]
#[path = "register_tests.rs"]
mod tests;
