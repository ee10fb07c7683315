//! How stories say their steps.

use fencepost_core::{
    Domain, Epoch, OperationId, Token,
    fence::{LiveLease, Operation},
};
use fencepost_receiver::VerdictCode;

use super::{
    stage::{Stage, Told, domain},
    step::{Ask, Claim, Named, Step, Write},
};

pub(super) fn token(text: &str) -> Token {
    text.parse().expect("the suite's tokens are tokens")
}

pub(super) fn operation(id: &str, request: &str) -> Operation {
    Operation::new(OperationId::new(id).expect("the suite's operations are named"), request.as_bytes())
}

pub(super) fn live(name: &str, text: &str) -> LiveLease {
    LiveLease { domain: domain(name), token: token(text) }
}

/// Writes the value under the token, to domain `d`.
pub(super) fn write(text: &str, value: &str) -> Step {
    write_to(&domain("d"), token(text), value)
}

pub(super) fn write_to(domain: &Domain, token: Token, value: &str) -> Step {
    let claim = Claim::new(domain, token);
    let ask = Ask::Write(Write { claim, target: domain.clone(), operation: None, value: value.as_bytes().to_vec() });
    Step { handle: 0, ask }
}

pub(super) fn advance(text: &str) -> Step {
    Step { handle: 0, ask: Ask::Advance(Claim::new(&domain("d"), token(text))) }
}

pub(super) fn read(text: &str) -> Step {
    Step { handle: 0, ask: Ask::Read(Claim::new(&domain("d"), token(text))) }
}

pub(super) fn collect(next: &str, live: &[LiveLease]) -> Step {
    Step { handle: 0, ask: Ask::Collect { next: token(next), live: live.to_vec(), horizon: None } }
}

pub(super) fn tell(epoch: u32, floor: &str) -> Step {
    let epoch = Epoch::new(epoch).expect("the suite's epochs are epochs");
    Step { handle: 0, ask: Ask::Tell { epoch, floor: token(floor) } }
}

pub(super) fn reopen() -> Step {
    Step { handle: 0, ask: Ask::Reopen }
}

impl Step {
    fn written(mut self, change: impl FnOnce(&mut Write)) -> Self {
        if let Ask::Write(write) = &mut self.ask {
            change(write);
        }
        self
    }

    fn claimed(mut self, change: impl FnOnce(&mut Claim)) -> Self {
        match &mut self.ask {
            Ask::Write(Write { claim, .. }) | Ask::Advance(claim) | Ask::Read(claim) => change(claim),
            Ask::Collect { .. } | Ask::Tell { .. } | Ask::Reopen => {}
        }
        self
    }

    /// As this operation; its request is its id unless said otherwise.
    pub(super) fn operation(self, id: &str) -> Self {
        let named = Named {
            id: OperationId::new(id).expect("the suite's operations are named"),
            request: id.to_owned(),
            born: None,
        };
        self.written(|write| write.operation = Some(named))
    }

    pub(super) fn request(self, request: &str) -> Self {
        self.written(|write| {
            if let Some(named) = &mut write.operation {
                named.request = request.to_owned();
            }
        })
    }

    pub(super) fn born(self, text: &str) -> Self {
        self.written(|write| {
            if let Some(named) = &mut write.operation {
                named.born = Some(token(text));
            }
        })
    }

    /// In another domain than `d`, under its own grant.
    pub(super) fn of(self, name: &str) -> Self {
        self.claimed(|claim| claim.domain = domain(name)).written(|write| write.target = domain(name))
    }

    /// Under a grant for another domain than the one that is written.
    pub(super) fn under_a_grant_of(self, name: &str) -> Self {
        self.claimed(|claim| claim.domain = domain(name))
    }

    pub(super) fn issued_by(self, issuer: &'static str) -> Self {
        self.claimed(|claim| claim.issuer = issuer)
    }

    pub(super) fn through_another_handle(self) -> Self {
        Self { handle: 1, ..self }
    }

    pub(super) fn horizon(mut self, text: &str) -> Self {
        if let Ask::Collect { horizon, .. } = &mut self.ask {
            *horizon = Some(token(text));
        }
        self
    }
}

impl Stage<'_> {
    /// The step, with the verdict that the story is about.
    pub(super) fn then(&mut self, step: Step, expected: VerdictCode) -> Told {
        let found = self.tell(&step)?;
        assert_eq!(found, Some(expected), "the reference disagrees with the story at: {step}");
        Ok(())
    }

    /// A step of maintenance.
    pub(super) fn done(&mut self, step: Step) -> Told {
        self.tell(&step).map(|_| ())
    }
}
