//! The client's side: until when a process may believe that it holds a lease.
//!
//! [`Holdings`] is a state machine without IO for one session. Its driver tells it what was sent when and what came
//! back, asks it [what to send](Holdings::heartbeat) [when](Holdings::next_heartbeat), and asks for the
//! [state](Holdings::state) of a hold at a moment. It believes only what an answer confirmed, counted from the moment
//! the call was sent and not from the moment the answer came; so its deadline passes before the coordinator's own end
//! of the lease, whatever became of answers, the network or the process itself.
//!
//! What it is not: a clock (moments come in), a random source (jitter comes in), a network. It trusts answers to
//! belong to the calls they are given for; whether an answer is genuine is the driver's business.
//!
//! A wrong answer of this machine can have one kind only that is safe: to say `Lost` too early.
//!
//! ```
//! use std::time::Duration;
//!
//! use fencepost_core::holder::{Confirmed, Holdings, Jitter};
//! use fencepost_core::{Moment, Ttl};
//!
//! let opened = Confirmed { sent: Moment::from_millis(1_000), elapsed: Duration::from_millis(2), remaining_ms: 15_000 };
//! let mut holdings = Holdings::open(Ttl::from_millis(15_000)?, opened, Jitter::NONE);
//! assert_eq!(holdings.next_heartbeat(), Some(Moment::from_millis(6_000))); // a third of the TTL after it was sent
//! let attempt = holdings.heartbeat(Moment::from_millis(6_000));
//! assert_eq!(attempt.claim(), fencepost_core::lease::Claim::Held(vec![]));
//! # Ok::<(), fencepost_core::Invalid>(())
//! ```

mod deadline;
mod heartbeat;
mod holdings;
mod schedule;
mod state;

#[cfg(test)]
mod holdings_tests;
#[cfg(test)]
mod race_tests;

pub use deadline::Confirmed;
pub use heartbeat::Attempt;
pub use holdings::Holdings;
pub use schedule::Jitter;
pub use state::{LeaseState, Loss};
