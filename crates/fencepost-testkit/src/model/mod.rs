//! The rules attacked by exhaustion: every state that a small system can get into, and whether an invariant is broken
//! in one of them.
//!
//! [`explore`] walks a [`Model`] breadth first, so that what it finds is found by a shortest story. The models are
//! small and each attacks one part; where the core has a pure function or machine they call that one and not a copy.
//! [`studies`] lists them: the rules as they are, which must break nothing within the stated bounds, and mutants, each
//! with one rule taken away, which must be found out. What is checked how is written in `docs/proofs.md`.
//!
//! What it is not: a proof beyond the bounds, and no test of IO, of disks or of other people's databases.

mod apart;
mod explorer;
mod leasing;
mod ledger;
mod locking;
mod names;
mod receiving;
mod recovering;
mod reopening;
mod several;
mod small;
mod study;
mod updating;

pub use explorer::{Counterexample, Explored, Key, Model, Property, Search, Tale, explore};
pub use study::{Bounds, Expected, Line, Study};

/// Every study there is, the rules as they are before the mutants of each model.
#[must_use]
pub fn studies() -> Vec<Study> {
    [
        receiving::studies(),
        recovering::studies(),
        reopening::studies(),
        updating::studies(),
        apart::studies(),
        locking::studies(),
        several::studies(),
        leasing::studies(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
