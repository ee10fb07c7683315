//! A door to what is read out of an answer, for the fuzzer.

use super::{Answer, plan};

/// The value at this JSON pointer of an answer, where it is a number or a text.
#[must_use]
pub fn value(pointer: &str, answer: &Answer) -> Option<String> {
    plan::value_at(pointer, answer)
}
