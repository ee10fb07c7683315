//! The receiver on real SQLite files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
mod bypass;
mod damage;
mod example;
mod history;
mod mirror;
mod processes;
mod records;
mod rejections;
mod storage;
mod support;
mod traces;
mod transactions;
#[cfg(feature = "sabotage")]
mod versions;
