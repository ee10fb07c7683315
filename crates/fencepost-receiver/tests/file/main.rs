//! The file receiver on real file systems, with real processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod audit;
mod beside;
mod children;
mod crash;
mod history;
mod processes;
mod recovery;
mod sabotage;
mod storage;
mod support;
mod verdicts;
