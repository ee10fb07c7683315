//! A door to what the suite and its processes say to each other, for the fuzzer.

use super::child::{Job, Line};

/// Whether a line is a job for a process of the suite, or one that such a process says.
#[must_use]
pub fn is_understood(line: &str) -> [bool; 2] {
    [serde_json::from_str::<Job>(line).is_ok(), serde_json::from_str::<Line>(line).is_ok()]
}
