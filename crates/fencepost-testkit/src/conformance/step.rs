//! One step of a story as a value: it can be printed, repeated and left out.

use std::fmt;

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, LeaseId, OperationId, SessionId, Token,
    fence::{LiveLease, Operation},
};

/// The issuer that every resource of the suite is guarded for.
pub(super) const ISSUER: &str = "prod";

/// Under what something is asked.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) issuer: &'static str,
    pub(super) domain: Domain,
    pub(super) token: Token,
}

impl Claim {
    pub(super) fn new(domain: &Domain, token: Token) -> Self {
        Self { issuer: ISSUER, domain: domain.clone(), token }
    }

    pub(super) fn grant(&self) -> Grant {
        let issuer = Issuer::new(self.issuer).expect("the suite's issuers are names");
        let number = self.token.as_u64().to_be_bytes();
        let mut lease = [0; 16];
        lease[..8].copy_from_slice(&number);
        // Owners differ by their tokens; their sessions do too.
        let session = SessionId::from_bytes(lease.map(|byte| !byte));
        Grant { issuer, domain: self.domain.clone(), token: self.token, lease: LeaseId::from_bytes(lease), session }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} of {}", self.token, short(self.domain.as_str()))?;
        if self.issuer != ISSUER { write!(f, " from issuer {}", self.issuer) } else { Ok(()) }
    }
}

/// An operation as stories name it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) id: OperationId,
    pub(super) request: String,
    pub(super) born: Option<Token>,
}

impl Named {
    pub(super) fn operation(&self) -> Operation {
        let operation = Operation::new(self.id.clone(), self.request.as_bytes());
        match self.born {
            Some(born) => operation.born(born),
            None => operation,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) claim: Claim,
    pub(super) target: Domain,
    pub(super) operation: Option<Named>,
    pub(super) value: Vec<u8>,
}

/// A step, asked through the n-th handle on the resource.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) handle: usize,
    pub(super) ask: Ask,
}

#[derive(Clone, Debug)]
pub(super) enum Ask {
    Write(Write),
    Advance(Claim),
    Read(Claim),
    Collect { next: Token, live: Vec<LiveLease>, horizon: Option<Token> },
    Tell { epoch: Epoch, floor: Token },
    Reopen,
}

impl Ask {
    /// The one domain that it is about.
    pub(super) fn domain(&self) -> Option<&Domain> {
        match self {
            Self::Write(write) => Some(&write.target),
            Self::Advance(claim) | Self::Read(claim) => Some(&claim.domain),
            Self::Collect { .. } | Self::Tell { .. } | Self::Reopen => None,
        }
    }
}

/// A long name by its ends and its length.
pub(super) fn short(text: &str) -> String {
    let count = text.chars().count();
    if count <= 40 {
        return format!("{text:?}");
    }
    let (head, tail): (String, String) = (text.chars().take(12).collect(), text.chars().skip(count - 4).collect());
    format!("{head:?}…{tail:?} ({} bytes)", text.len())
}

pub(super) fn shown(value: &[u8]) -> String {
    short(&String::from_utf8_lossy(value))
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {} ", shown(&self.value))?;
        if self.target != self.claim.domain {
            write!(f, "to {} ", short(self.target.as_str()))?;
        }
        write!(f, "under {}", self.claim)?;
        if let Some(named) = &self.operation {
            write!(f, " as operation {} ({:?})", short(named.id.as_str()), named.request)?;
            if let Some(born) = named.born {
                write!(f, " born {born}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.handle > 0 {
            write!(f, "through another handle: ")?;
        }
        match &self.ask {
            Ask::Write(write) => write!(f, "{write}"),
            Ask::Advance(claim) => write!(f, "advance under {claim}"),
            Ask::Read(claim) => write!(f, "fenced read under {claim}"),
            Ask::Collect { next, live, horizon } => {
                let live: Vec<_> =
                    live.iter().map(|lease| format!("{} of {}", lease.token, short(lease.domain.as_str()))).collect();
                write!(f, "collect, next token {next}, live [{}]", live.join(", "))?;
                horizon.map_or(Ok(()), |horizon| write!(f, ", horizon {horizon}"))
            }
            Ask::Tell { epoch, floor } => write!(f, "tell epoch {} and floor {floor}", epoch.get()),
            Ask::Reopen => write!(f, "close every handle and open the resource again"),
        }
    }
}
