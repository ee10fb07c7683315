//! The core's decision for models whose tokens are a few small numbers, of which zero is none.

use std::sync::LazyLock;

use fencepost_core::{
    Contract, Token,
    fence::{Decision, Presented, Proof, Standing, decide},
};

use super::names::{NAMES, epoch, token};

/// What a receiver has read for its decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) floor: u8,
    pub(super) unfenced: u8,
    pub(super) fence: Option<u8>,
}

static OPEN: LazyLock<Standing> =
    LazyLock::new(|| Standing::open(NAMES.issuer.clone(), NAMES.domains[0].clone(), epoch(0)));

impl Seen {
    /// Whether a write under this token is accepted, and then whether it raises the fence.
    pub(super) fn accepts(self, presented: u8) -> Option<bool> {
        let standing = Standing {
            floor: some(self.floor),
            unfenced_floor: some(self.unfenced),
            fence: self.fence.and_then(some),
            ..OPEN.clone()
        };
        let presented = Presented {
            issuer: &NAMES.issuer,
            domain: &NAMES.domains[0],
            contract: Contract::Safety,
            token: some(presented),
            proof: Proof::Unsigned,
            operation: None,
        };
        match decide(&presented, &standing).expect("no operation is named") {
            Decision::Apply { raise } => Some(raise),
            Decision::Reject(_) => None,
            Decision::Replay { .. } => unreachable!("no operation is named"),
        }
    }

    /// The least token that is accepted.
    pub(super) fn least(self) -> u8 {
        self.floor.max(self.fence.unwrap_or(self.unfenced))
    }
}

fn some(number: u8) -> Option<Token> {
    (number > 0).then(|| token(0, number.into()))
}
