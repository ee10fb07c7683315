//! Stories about the lease machine, in virtual time. Token 0.2 means epoch 0, sequence 2.

#![allow(missing_docs, clippy::unwrap_used, reason = "a story stops where it cannot go on")]

mod breaking;
mod full;
mod holding;
mod properties;
mod releasing;
mod restarting;
mod sessions;
mod waiting;
mod world;
