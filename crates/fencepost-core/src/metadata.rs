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
    /// When it was longer than 4 KiB.
    pub fn new(entries: BTreeMap<String, String>, json_bytes: usize) -> Result<Self, Invalid> {
        if json_bytes > limits::METADATA_BYTES {
            let rule = Rule::Bytes { least: 0, most: limits::METADATA_BYTES, found: json_bytes };
            return Err(Invalid::new("metadata", rule));
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
