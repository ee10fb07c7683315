//! A suite that attacks a receiver of any kind, and compares it with the memory receiver.
//!
//! The author of a receiver writes one small [`Adapter`]: how a resource is made and opened, how a value is written
//! under a grant, how a fence is advanced, how the value is looked at. [`run`] does the rest: stories in the order of the
//! decision, operations and their retries, collection, lost and restored state, limits and odd names, random scripts,
//! races of threads and of processes. What receiver or adapter cannot do, [`Adapter::lacks`] says with a reason, and
//! the [`Report`] repeats it.
//!
//! [`conformance_tests!`](crate::conformance_tests) makes a test of each scenario instead, and [`Settings`] say how much is
//! done.
//!
//! It is not a proof: a race that was not met is not found, and an adapter that answers from the reference passes. How the
//! suite itself is attacked stands in `docs/proofs.md`; how an adapter is written, in `docs/conformance.md`.
//!
//! ```
//! use fencepost_testkit::conformance;
//! # use fencepost_core::{Domain, Grant, fence::{Operation, Verdict}};
//! # use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed};
//! # struct Broken;
//! # impl conformance::Adapter for Broken {
//! #     fn name(&self) -> String { "a receiver that cannot be made".to_owned() }
//! #     fn create(&self, _: &ReceiverSeed, _: &[Domain]) -> Result<String, Cause> { Err("out of order".into()) }
//! #     fn open(&self, _: &str) -> Result<Box<dyn conformance::Handle>, Cause> { Err("out of order".into()) }
//! # }
//! # let my_adapter = Broken;
//! let report = conformance::run(&my_adapter);
//! println!("{report}");
//! if let Some((scenario, failure)) = report.first_failure() {
//!     println!("{scenario}: {}", failure.broke);
//! }
//! # assert!(!report.passed());
//! ```

mod ability;
mod adapter;
mod build;
mod child;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod one_by_one;
mod reference;
mod report;
mod scenario;
mod script;
mod stage;
mod step;
mod stories;

pub use ability::Ability;
pub use adapter::{Adapter, Handle, Records, Written};
pub use child::child;
pub use report::{Outcome, Report, Row};
pub use scenario::{Settings, check, run, run_with, scenarios, tell};
pub use stage::Failure;
