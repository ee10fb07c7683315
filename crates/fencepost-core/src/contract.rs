use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// What a lease is for. It decides what an acquire hands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contract {
    /// Part of a safety protocol: token and grant are handed out, and receivers accept them.
    #[default]
    Safety,
    /// Decides who may start; overlap is tolerated and reported. A correlation string is handed out, no token.
    Admission,
    /// An optimisation: two workers at once are merely wasteful. Neither token nor correlation is handed out.
    Advisory,
}

impl Contract {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Safety => "safety",
            Self::Admission => "admission",
            Self::Advisory => "advisory",
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Contract {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        [Self::Safety, Self::Admission, Self::Advisory]
            .into_iter()
            .find(|contract| contract.as_str() == text)
            .ok_or_else(|| Invalid::form("contract", "safety, admission or advisory"))
    }
}
