//! The calls of the API: read the request, call the coordinator, put its answer into words.

pub(crate) mod acquire;
pub(crate) mod events;
pub(crate) mod list;
pub(crate) mod look;
pub(crate) mod pages;
pub(crate) mod release;
pub(crate) mod report;
pub(crate) mod session;
