use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::Invalid;

fn nibble(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// The digits of an id or a digest at once. Ids are in every message, and a formatter takes a long way for each byte.
pub(crate) fn write_hex<const N: usize>(bytes: &[u8; N], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    let pairs = bytes.map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    f.write_str(str::from_utf8(pairs.as_flattened()).expect("digits are text"))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $field:literal, $form:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $bytes]);

        impl $name {
            /// The id made of these bytes. The caller draws them; nothing in this crate is random.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $bytes]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                from_hex(text).map(Self).ok_or_else(|| Invalid::form($field, $form))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
                } else {
                    Deserialize::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

id!(
    /// The public id of a session. Knowing it gives no right: the secret does.
    SessionId,
    16,
    "session",
    "32 lower-case hex digits"
);
id!(
    /// The opaque id of a lease, which coordinator calls name.
    LeaseId,
    16,
    "lease",
    "32 lower-case hex digits"
);
id!(
    /// The id of one acquire, made by the client from 128 random bits: it names the hold.
    RequestId,
    16,
    "request_id",
    "32 lower-case hex digits"
);
id!(
    /// The identity of one recovery, which makes telling an epoch a claim.
    RecoveryId,
    16,
    "recovery",
    "32 lower-case hex digits"
);
id!(
    /// One run of an operating system: moments of different boots cannot be compared.
    BootId,
    16,
    "boot",
    "32 lower-case hex digits"
);
id!(
    /// What the coordinator keeps of a session's secret. Secrets are 256 random bits, so a plain digest is enough.
    SecretHash,
    32,
    "secret",
    "64 lower-case hex digits"
);

/// A session's secret: 256 random bits that only the holder keeps.
///
/// It is never printed by `Debug`, logged, listed or put into a grant.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// The secret made of these bytes, which the caller drew from a random source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What the coordinator keeps.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash(Sha256::digest(self.0).into())
    }

    /// The text for the `Authorization` header or a private file: 64 lower-case hex digits.
    #[must_use]
    pub fn expose(&self) -> String {
        SecretHash(self.0).to_string()
    }
}

impl FromStr for Secret {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        from_hex(text).map(Self).ok_or_else(|| Invalid::form("secret", "64 lower-case hex digits"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_exactly_32_lower_case_hex_digits() {
        for text in ["00112233445566778899aabbccddeeff", "0123456789abcdeffedcba9876543210"] {
            assert_eq!(text.parse::<RequestId>().unwrap().to_string(), text);
        }
        let text = "00112233445566778899aabbccddeeff";
        for wrong in ["", &text[1..], "00112233445566778899AABBCCDDEEFF", "0011223344556677-8899aabbccddeef"] {
            assert!(wrong.parse::<RequestId>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn ids_keep_their_bytes_in_both_encodings() {
        let id = LeaseId::from_bytes([7; 16]);
        assert_eq!(serde_json::from_str::<LeaseId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        assert_eq!(postcard::from_bytes::<LeaseId>(&postcard::to_stdvec(&id).unwrap()).unwrap(), id);
    }
}
