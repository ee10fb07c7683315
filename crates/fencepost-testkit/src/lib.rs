//! What tests are made of: faults that happen when a test says so.
//!
//! [`proxy`] stands between an HTTP client and its server and repeats, keeps back, drops and cuts what passes.
//! [`history`] checks what clients were answered against what must never happen.
//! `simulation` (feature of that name) runs the real client and server on virtual time, network and disk, from a seed.
//! [`torture`] is for runs with real processes: what is done to them, from a seed, and how what they noted is judged.
//! [`model`] explores every state of small systems and finds what breaks an invariant by a shortest story.
//! [`prove`] plays late, repeated, forgotten and foreign requests on a user's own HTTP service.
//! [`pass_on!`] makes a coordinator of another, of which some calls are changed.
//! [`conformance`] attacks a receiver of any kind through a small adapter that its author writes.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "tools")]
pub mod history;
#[cfg(feature = "tools")]
pub mod model;
#[cfg(feature = "tools")]
mod pass_on;
#[cfg(feature = "tools")]
pub mod prove;
#[cfg(feature = "tools")]
pub mod proxy;
#[cfg(feature = "tools")]
mod random;
#[cfg(feature = "simulation")]
pub mod simulation;
#[cfg(feature = "tools")]
pub mod torture;
