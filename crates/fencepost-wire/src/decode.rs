use serde::de::DeserializeOwned;

use fencepost_core::{Invalid, limits};

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
        Some(b'{') => serde_json::from_slice(json).map_err(|error| locate::<T>(json, &error)),
        Some(_) | None => Err(Malformed::new("", "must be a JSON object")),
    }
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
            Malformed::new(path, rule_of(path, &why).unwrap_or(why))
        }
        // The value itself is good, so what follows it is not.
        Ok(_) => Malformed::new("", plain(first)),
    }
}

/// A value of the wrong kind as the rule that it breaks; the parser speaks of the types of a program.
fn rule_of(field: &str, why: &str) -> Option<String> {
    let wrong = ["invalid type: ", "invalid value: "].into_iter().find_map(|sign| why.strip_prefix(sign))?;
    let (found, expected) = wrong.rsplit_once(", expected ")?;
    let rule = match expected {
        "u8" | "u32" | "u64" | "usize" => match range_of(field) {
            Some((least, most, unit)) => format!("a whole number from {least} to {most}{unit}"),
            None => "a whole number, not negative".to_owned(),
        },
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        expected if expected.starts_with("struct ") => "an object".to_owned(),
        other => other.to_owned(),
    };
    Some(format!("must be {rule}, found {found}"))
}

/// The limits of the numbers that requests carry.
fn range_of(field: &str) -> Option<(u64, u64, &'static str)> {
    match field {
        "ttl_ms" => Some((limits::TTL_LEAST_MS, limits::TTL_MOST_MS, " ms")),
        "wait_ms" => Some((0, limits::WAIT_MOST_MS, " ms")),
        "max_hold_ms" => Some((limits::TTL_LEAST_MS, limits::HOLD_MOST_MS, " ms")),
        "min_hold_ms" | "lock_delay_ms" => Some((0, limits::HOLD_MOST_MS, " ms")),
        "reentrancy_limit" => Some((1, limits::REENTRANCY_LIMIT.into(), " holds")),
        _ => None,
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
