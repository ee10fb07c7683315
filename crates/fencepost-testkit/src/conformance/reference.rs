//! What is right by definition: the memory receiver, and beside it the values that it protects.

use std::collections::BTreeMap;

use fencepost_core::{
    Domain, Invalid,
    fence::{Presented, RecordedResult, Verdict},
};
use fencepost_receiver::{MemoryReceiver, ReceiverSeed};

use super::{Records, step::Ask};

pub(super) struct Reference {
    receiver: MemoryReceiver,
    values: BTreeMap<Domain, Vec<u8>>,
}

/// What a step must come to.
pub(super) enum Right {
    Verdict(Verdict<()>),
    /// No receiver can decide it.
    Invalid,
    /// Maintenance, which has no verdict.
    Done,
}

impl Reference {
    pub(super) fn new(seed: &ReceiverSeed) -> Self {
        Self { receiver: MemoryReceiver::guard(seed), values: BTreeMap::new() }
    }

    pub(super) fn value(&self, domain: &Domain) -> Option<&Vec<u8>> {
        self.values.get(domain)
    }

    pub(super) fn records(&self, domain: &Domain) -> Records {
        let standing = self.receiver.register().standing(domain, None);
        Records {
            condition: standing.condition,
            known_epoch: standing.known_epoch,
            floor: standing.floor,
            unfenced_floor: standing.unfenced_floor,
            fence: standing.fence,
            horizon: standing.horizon,
        }
    }

    pub(super) fn ask(&mut self, ask: &Ask) -> Right {
        match ask {
            Ask::Write(write) => {
                let operation = write.operation.as_ref().map(|named| named.operation());
                let (grant, operation) = (write.claim.grant(), operation.as_ref());
                let presented = Presented { operation, ..Presented::grant(&grant) };
                self.present(&write.target, &presented, &write.value)
            }
            Ask::Advance(claim) | Ask::Read(claim) => match self.receiver.advance_now(&claim.grant()) {
                Ok(verdict) => Right::Verdict(verdict),
                Err(_) => Right::Invalid,
            },
            Ask::Collect { next, live, horizon } => {
                let mut register = self.receiver.register();
                let _ = register.collect(*next, live);
                if let Some(horizon) = horizon {
                    register.collect_operations(*horizon);
                }
                Right::Done
            }
            Ask::Tell { epoch, floor } => {
                self.receiver.register().tell(*epoch, *floor);
                Right::Done
            }
            Ask::Reopen => Right::Done,
        }
    }

    pub(super) fn present(&mut self, target: &Domain, presented: &Presented<'_>, value: &[u8]) -> Right {
        let values = &mut self.values;
        let mutation = || -> Result<RecordedResult, Invalid> {
            values.insert(target.clone(), value.to_vec());
            Ok(RecordedResult::default())
        };
        match self.receiver.register().write(target, presented, mutation) {
            Ok(verdict) => Right::Verdict(verdict.map(|_| ())),
            Err(_) => Right::Invalid,
        }
    }
}
