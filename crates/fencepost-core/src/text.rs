use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Invalid, Rule, limits};

/// The one rule of every name: UTF-8 of a bounded length without control characters, compared byte by byte.
fn check(field: &'static str, text: &str, most: usize) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > most {
        return Err(Invalid::new(field, Rule::Bytes { least: 1, most, found: text.len() }));
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(Invalid::new(field, Rule::ControlCharacter { at })),
        None => Ok(()),
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $most:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            ///
            /// # Errors
            /// When it is empty, too long or contains a control character; nothing is cut or normalised.
            pub fn new(text: &str) -> Result<Self, Invalid> {
                check($field, text, $most)?;
                Ok(Self(text.into()))
            }

            /// The text, byte for byte as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().into()
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text!(
    /// The named thing over which authority is granted, e.g. `invoices/2026-11`. Domains are independent.
    Domain,
    "domain",
    limits::DOMAIN_BYTES
);
text!(
    /// What a holder calls itself, for people. Names repeat: nothing is ever decided by comparing them.
    Holder,
    "holder",
    limits::HOLDER_BYTES
);
text!(
    /// The id of one intended effect: the same on every retry and for every owner.
    OperationId,
    "operation",
    limits::OPERATION_ID_BYTES
);
text!(
    /// A coordinator, as a receiver knows it. A domain belongs to one issuer at a receiver.
    Issuer,
    "issuer",
    limits::ISSUER_BYTES
);
text!(
    /// Why an operator did something. Kept in the log beside what was done.
    Reason,
    "reason",
    limits::REASON_BYTES
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_at_its_limit_is_taken_and_one_byte_more_is_refused() {
        assert!(Domain::new(&"x".repeat(512)).is_ok());
        let refused = Domain::new(&"x".repeat(513)).unwrap_err();
        assert_eq!(refused.to_string(), "domain: must be 1 to 512 bytes of UTF-8, found 513");
        assert!(Holder::new("").is_err());
    }

    #[test]
    fn limits_count_bytes_and_not_characters() {
        assert!(OperationId::new(&"é".repeat(128)).is_ok());
        assert!(OperationId::new(&"é".repeat(129)).is_err());
    }

    #[test]
    fn control_characters_are_refused_wherever_they_stand() {
        for text in ["a\0b", "a\nb", "\tb", "b\u{7f}", "b\u{85}"] {
            assert!(Domain::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn odd_names_round_trip_byte_for_byte() {
        for text in ["/", "..", "%2F", "?", "#", ":{}", "';--", "\"", "e\u{301}", "é", "🦀", " ", "a b"] {
            let name = Domain::new(text).unwrap();
            assert_eq!(name.as_str(), text);
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<Domain>(&json).unwrap(), name);
        }
        assert_ne!(Domain::new("e\u{301}").unwrap(), Domain::new("é").unwrap());
    }
}
