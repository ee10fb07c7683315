//! The receiver's side: may this token change this domain?
//!
//! [`decide`] is the one place where that is answered. Every receiver calls it or mirrors it (SQL, Lua) and is
//! tested against it. It looks at two things: what was [`Presented`], and the [`Standing`] of the domain as the
//! receiver's own records say it, read **under the domain's lock**. What follows from a decision (raising the
//! fence, running the mutation, recording the operation) happens in the same transaction or not at all.
//!
//! [`Register`] is the whole receiver as a value: the reference against which all others are compared.
//!
//! A [`Rejection`] is a verdict and not an error: the receiver did decide. [`Invalid`](crate::Invalid) is returned
//! for input that no receiver can decide about.
//!
//! ```
//! use fencepost_core::fence::{Decision, Presented, Rejection, RejectedBy, Standing, decide};
//! use fencepost_core::{Domain, Epoch, Issuer, Token};
//!
//! let (issuer, domain) = (Issuer::new("prod")?, Domain::new("invoices/2026-11")?);
//! let mut standing = Standing::open(issuer.clone(), domain.clone(), Epoch::ZERO);
//! standing.fence = Some("0.8".parse()?);
//!
//! let late: Token = "0.7".parse()?;
//! let decision = decide(&Presented::token(&issuer, &domain, late), &standing)?;
//! assert_eq!(
//!     decision,
//!     Decision::Reject(Rejection::Stale { presented: late, least_accepted: "0.8".parse()?, by: RejectedBy::Fence })
//! );
//! # Ok::<(), fencepost_core::Invalid>(())
//! ```

mod decide;
mod operation;
mod register;
mod verdict;

pub use decide::{Condition, Decision, Presented, Proof, SignatureRule, Standing, decide};
pub use operation::{Fingerprint, Operation, RecordedResult};
pub use register::{LiveLease, Register};
pub use verdict::{Closure, RejectedBy, Rejection, Stale, Verdict};
