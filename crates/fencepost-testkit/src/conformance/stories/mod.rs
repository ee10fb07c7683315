//! The stories, one function each, in the order of the report.

pub(super) mod collection;
pub(super) mod guarding;
pub(super) mod names;
pub(super) mod operations;
pub(super) mod order;
pub(super) mod processes;
pub(super) mod races;
pub(super) mod storage;
pub(super) mod together;
