//! The vocabulary of Fencepost and its three pure machines.
//!
//! * [`lease`]: the coordinator's side. Who holds which domain, under which token, until when.
//! * [`holder`]: the client's side. Until when a process may believe that it holds a lease.
//! * [`fence`]: the receiver's side. Whether a presented token may change a domain.
//!
//! Nothing here does IO, reads a clock, draws a random number or waits: time comes in as a [`Moment`],
//! fresh ids come in with the command, and what is to become durable goes out as a record. That is what
//! lets the same code run under a server, inside a model checker and in a test of a thousand virtual hours.
//!
//! ```
//! use fencepost_core::{Epoch, Sequence, Token};
//!
//! let token = Token::new(Epoch::new(8016)?, Sequence::new(3)?)?;
//! assert_eq!(token.to_string(), "8016.3"); // as people read it
//! assert_eq!("8016.3".parse::<Token>()?, token);
//! assert!(token > Token::new(Epoch::new(8015)?, Sequence::MAX)?); // a later epoch wins
//! # Ok::<(), fencepost_core::Invalid>(())
//! ```

mod contract;
mod duration;
mod grant;
mod id;
mod invalid;
pub mod limits;
mod metadata;
mod moment;
mod text;
mod token;

pub mod fence;
pub mod holder;
pub mod lease;
#[doc(hidden)]
pub mod sabotage;

pub use contract::Contract;
pub use duration::{LockDelay, MaxHold, MinHold, Ttl, Wait};
pub use grant::{Correlation, Grant, Permission};
pub use id::{BootId, LeaseId, RecoveryId, RequestId, Secret, SecretHash, SessionId};
pub use invalid::{Invalid, Rule};
pub use metadata::Metadata;
pub use moment::Moment;
pub use text::{Domain, Holder, Issuer, OperationId, Reason};
pub use token::{Epoch, Sequence, Token};
