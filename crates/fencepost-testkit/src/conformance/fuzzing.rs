//! Doors to what the suite and its processes say to each other, and to what its races write, for the fuzzer.

use super::{
    child::{Job, Line},
    stories::races,
};

/// Whether a line is a job for a process of the suite, or one that such a process says.
#[must_use]
pub fn is_understood(line: &str) -> [bool; 2] {
    [serde_json::from_str::<Job>(line).is_ok(), serde_json::from_str::<Line>(line).is_ok()]
}

/// The token by which a value was written, as the races read it; 0 where it does not say.
#[must_use]
pub fn mark(value: &[u8]) -> u64 {
    races::mark(Some(value))
}
