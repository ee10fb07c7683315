use serde::de::DeserializeOwned;

use fencepost_core::Invalid;

/// JSON that does not say what it should: which field, and why.
///
/// `Display` names both. Nothing was decided or changed on the strength of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.describe())]
pub struct Malformed {
    field: String,
    why: String,
}

impl Malformed {
    /// `field` is wrong because of `why`; an empty field means the body as a whole.
    #[must_use]
    pub fn new(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: field.into(), why: why.into() }
    }

    /// The path of the field, e.g. `held[3]`; empty for the body as a whole.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    fn describe(&self) -> String {
        // A rule of the vocabulary names its own field already.
        match self.field.as_str() {
            "" => format!("body: {}", self.why),
            field if self.why.strip_prefix(field).is_some_and(|rest| rest.starts_with(": ")) => self.why.clone(),
            field => format!("{field}: {}", self.why),
        }
    }
}

impl From<Invalid> for Malformed {
    fn from(invalid: Invalid) -> Self {
        Self::new(invalid.field(), invalid.rule().to_string())
    }
}

/// Reads one JSON object and nothing behind it.
///
/// # Errors
/// Names the field that is wrong. It is looked for only when there is something wrong, so that good input is read
/// once, by the plain parser.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, Malformed> {
    // The parser would take an array for the fields in order, which nobody has been promised.
    match json.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => decode_any(json),
        Some(_) | None => Err(Malformed::new("", "must be a JSON object")),
    }
}

/// Reads one JSON value of any kind and nothing behind it.
pub(crate) fn decode_any<T: DeserializeOwned>(json: &[u8]) -> Result<T, Malformed> {
    serde_json::from_slice(json).map_err(|error| locate::<T>(json, &error))
}

#[cold]
fn locate<T: DeserializeOwned>(json: &[u8], first: &serde_json::Error) -> Malformed {
    let mut reader = serde_json::Deserializer::from_slice(json);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => {
            let why = plain(error.inner());
            for (sign, rule) in [("missing field `", "is missing"), ("duplicate field `", "is given twice")] {
                if let Some(name) = why.strip_prefix(sign).and_then(|rest| rest.strip_suffix('`')) {
                    return Malformed::new(name, rule);
                }
            }
            // A `?` stands for a place inside a value that has not got a name yet.
            let path = error.path().to_string();
            let path = path.trim_end_matches('?').trim_end_matches('.');
            Malformed::new(path, why)
        }
        // The value itself is good, so what follows it is not.
        Ok(_) => Malformed::new("", plain(first)),
    }
}

/// The reason without the place in the text, which means nothing to somebody whose program made the text; an error
/// of syntax keeps it, because there the place is all there is.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if error.is_data() {
        let place = format!(" at line {} column {}", error.line(), error.column());
        text.strip_suffix(&place).unwrap_or(&text).to_owned()
    } else {
        text
    }
}
