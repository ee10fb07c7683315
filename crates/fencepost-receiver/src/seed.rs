use fencepost_core::{Epoch, Issuer, Token, fence::LiveLease};

/// What a receiver has to learn before it may decide anything: guarding is receiver recovery from nothing.
///
/// `known_epoch`, `next` and `live` come from **one** consistent read of the coordinator that excludes grants in
/// flight (its snapshot); by hand, issuer, epoch and floor are enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverSeed {
    /// The coordinator whose grants are accepted.
    pub issuer: Issuer,
    /// The greatest epoch accepted.
    pub known_epoch: Epoch,
    /// The coordinator's next token: what is older and not of a live lease is refused where there is no fence.
    pub next: Option<Token>,
    /// The leases that were live in the same read.
    pub live: Vec<LiveLease>,
    /// The least token accepted for any domain, where an operator knows one.
    pub floor: Option<Token>,
}

impl ReceiverSeed {
    /// An issuer of which nothing was ever granted, or of which an operator vouches that no old token is about.
    #[must_use]
    pub fn new(issuer: Issuer, known_epoch: Epoch) -> Self {
        Self { issuer, known_epoch, next: None, live: Vec::new(), floor: None }
    }

    /// The same, with what the coordinator's snapshot says.
    #[must_use]
    pub fn with_snapshot(self, next: Token, live: Vec<LiveLease>) -> Self {
        Self { next: Some(next), live, ..self }
    }

    /// The least token that a receiver may accept once it has this seed: the floor, or the begin of the epoch that the
    /// coordinator was read in. It comes into a later one by ending everything of the earlier ones. Who vouches by hand
    /// says so by giving a floor.
    #[must_use]
    pub fn least_accepted(&self) -> Option<Token> {
        self.floor.max(self.next.and_then(Token::begin_of_epoch))
    }

    /// The same, with the least token that is accepted at all.
    #[must_use]
    pub fn with_floor(self, floor: Token) -> Self {
        Self { floor: Some(floor), ..self }
    }
}
