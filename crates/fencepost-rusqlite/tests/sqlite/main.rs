//! The receiver on real SQLite files.

mod audit;
mod bypass;
mod example;
mod history;
mod mirror;
mod processes;
mod records;
mod storage;
mod support;
mod traces;
mod transactions;
