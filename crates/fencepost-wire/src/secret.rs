use fencepost_core::Secret;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A session's secret inside an answer: in JSON its digits, and never printed by `Debug`, so that an answer may be
/// logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSecret(Secret);

impl From<Secret> for SentSecret {
    fn from(secret: Secret) -> Self {
        Self(secret)
    }
}

impl From<SentSecret> for Secret {
    fn from(sent: SentSecret) -> Self {
        sent.0
    }
}

impl Serialize for SentSecret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.expose())
    }
}

impl<'de> Deserialize<'de> for SentSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}
