//! The few names that the models use, made once.

use std::sync::LazyLock;

use fencepost_core::{
    Domain, Epoch, Issuer, OperationId, Sequence, Token,
    fence::{Fingerprint, Operation},
};

pub(super) const DOMAINS: usize = 2;
pub(super) const OPERATIONS: usize = 2;

pub(super) struct Names {
    pub(super) issuer: Issuer,
    pub(super) foreign: Issuer,
    pub(super) domains: [Domain; DOMAINS],
    operations: [OperationId; OPERATIONS],
    payloads: [Fingerprint; 2],
}

pub(super) static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    issuer: Issuer::new("prod").expect("a name"),
    foreign: Issuer::new("elsewhere").expect("a name"),
    domains: ["d0", "d1"].map(|name| Domain::new(name).expect("a name")),
    operations: ["X", "Y"].map(|name| OperationId::new(name).expect("a name")),
    payloads: [b"P", b"Q"].map(|bytes| Fingerprint::of(bytes)),
});

/// An operation as its callers name it: which id, which of two requests, and the token it was born under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Intent {
    pub(super) id: usize,
    pub(super) payload: usize,
    pub(super) born: Option<Token>,
    /// Whether it is one effect over both domains, which is part of its fingerprint.
    pub(super) over_both: bool,
}

impl Intent {
    pub(super) fn operation(self) -> Operation {
        let request = NAMES.payloads[self.payload];
        let fingerprint = if self.over_both { request.over(&NAMES.domains) } else { request };
        Operation { id: NAMES.operations[self.id].clone(), fingerprint, born: self.born }
    }

    pub(super) fn told(self) -> String {
        let born = self.born.map(|born| format!(", born {born}")).unwrap_or_default();
        format!("operation {} (request {}{born})", ["X", "Y"][self.id], ["P", "Q"][self.payload])
    }
}

pub(super) fn token(epoch: u32, sequence: u64) -> Token {
    let epoch = Epoch::new(epoch).expect("a small epoch");
    Token::new(epoch, Sequence::new(sequence).expect("a small number")).expect("not both are zero")
}

pub(super) fn epoch(number: u32) -> Epoch {
    Epoch::new(number).expect("a small epoch")
}

/// What is missing is told as a dash.
pub(super) fn shown(token: Option<Token>) -> String {
    token.map_or_else(|| "-".to_owned(), |token| token.to_string())
}
