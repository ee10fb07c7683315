use std::fmt;

/// Input that breaks a rule of the vocabulary: which field, which rule, which limit, what was found.
///
/// The message is written for the person who sent the value and is the same from the library, the API and the
/// command line. Nothing has changed when it is returned; sending the same value again gives the same answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Invalid {
    field: &'static str,
    rule: Rule,
}

/// The rule that a value broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A text is shorter or longer than its limits, in bytes of UTF-8.
    Bytes {
        /// Fewest bytes allowed.
        least: usize,
        /// Most bytes allowed.
        most: usize,
        /// Bytes found.
        found: usize,
    },
    /// A text contains a control character (U+0000 to U+001F, U+007F to U+009F).
    ControlCharacter {
        /// Its byte offset.
        at: usize,
    },
    /// A number lies outside its range.
    Range {
        /// Least value allowed.
        least: u64,
        /// Greatest value allowed.
        most: u64,
        /// Value found; `None` where it does not fit 64 bits.
        found: Option<u64>,
        /// What the numbers count, e.g. `ms`.
        unit: &'static str,
    },
    /// A value does not have the form it must have.
    Form {
        /// The form, in words.
        expected: &'static str,
    },
}

impl Invalid {
    /// A value of `field` that breaks `rule`.
    #[must_use]
    pub fn new(field: &'static str, rule: Rule) -> Self {
        Self { field, rule }
    }

    /// A value of `field` that does not have the `expected` form.
    #[must_use]
    pub fn form(field: &'static str, expected: &'static str) -> Self {
        Self::new(field, Rule::Form { expected })
    }

    /// The field, by its glossary name.
    #[must_use]
    pub fn field(&self) -> &'static str {
        self.field
    }

    /// The rule that was broken.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The same broken rule under the name that the sender knows the field by.
    #[must_use]
    pub fn named(self, field: &'static str) -> Self {
        Self { field, ..self }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes { least, most, found } => {
                write!(f, "must be {least} to {most} bytes of UTF-8, found {found}")
            }
            Self::ControlCharacter { at } => {
                write!(f, "must not contain control characters, found one at byte {at}")
            }
            Self::Range { least, most, found, unit } => {
                write!(f, "must be {least} to {most}")?;
                if !unit.is_empty() {
                    write!(f, " {unit}")?;
                }
                match found {
                    Some(found) => write!(f, ", found {found}"),
                    None => write!(f, ", found a number too large to read"),
                }
            }
            Self::Form { expected } => write!(f, "must be {expected}"),
        }
    }
}
