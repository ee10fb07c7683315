use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Invalid, Rule, limits};

/// What a holder wants to be shown beside its lease: an object of strings, of at most 4 KiB as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Takes the entries of an object that was `json_bytes` long as it was sent.
    ///
    /// # Errors
    /// When it was longer than 4 KiB, or a name or a value contains a control character: it is shown on terminals.
    pub fn new(entries: BTreeMap<String, String>, json_bytes: usize) -> Result<Self, Invalid> {
        if json_bytes > limits::METADATA_BYTES {
            let rule = Rule::Bytes { least: 0, most: limits::METADATA_BYTES, found: json_bytes };
            return Err(Invalid::new("metadata", rule));
        }
        let texts = entries.iter().flat_map(|(name, value)| [name, value]);
        let control = |text: &String| text.char_indices().find(|(_, c)| c.is_control());
        if let Some((at, _)) = texts.filter_map(control).next() {
            return Err(Invalid::new("metadata", Rule::ControlCharacter { at }));
        }
        Ok(Self(entries))
    }

    /// The entries, in byte order of their names.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_because_metadata_is_shown_on_terminals() {
        let of = |value: &str| Metadata::new([("k".to_owned(), value.to_owned())].into(), 20);
        assert!(of("plain, \"quoted\", é").is_ok());
        assert!(of("\u{1b}[2J").is_err());
        assert!(of("a\nb").is_err());
        assert!(Metadata::new([("a\tb".to_owned(), String::new())].into(), 20).is_err());
    }
}
