use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Domain, Invalid, OperationId, Rule, Token, id::write_hex, limits};

/// One intended effect, named so that retries and new owners can tell it from a second one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The same on every retry and for every owner.
    pub id: OperationId,
    /// What the effect is to be. The same id with another fingerprint is refused.
    pub fingerprint: Fingerprint,
    /// The token under which the operation was first named. Where it is carried, the operation takes effect at most
    /// once for ever; without it, at most once while its record is retained.
    pub born: Option<Token>,
}

impl Operation {
    /// The operation `id`, whose request is exactly these bytes. Two requests that mean the same in other bytes are
    /// two fingerprints; a caller that wants them to be one gives a digest of a canonical form.
    #[must_use]
    pub fn new(id: OperationId, request: &[u8]) -> Self {
        Self { id, fingerprint: Fingerprint::of(request), born: None }
    }

    /// The same operation, first named under this token.
    #[must_use]
    pub fn born(self, token: Token) -> Self {
        Self { born: Some(token), ..self }
    }
}

/// A SHA-256 digest of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a request's bytes.
    #[must_use]
    pub fn of(request: &[u8]) -> Self {
        Self(Sha256::digest(request).into())
    }

    /// A digest that the caller made.
    #[must_use]
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The digest.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The fingerprint of this request over several domains, in any order. The same request over another set of
    /// domains is another effect.
    #[must_use]
    pub fn over<'a>(self, domains: impl IntoIterator<Item = &'a Domain>) -> Self {
        let mut domains: Vec<&Domain> = domains.into_iter().collect();
        domains.sort_unstable();
        let mut digest = Sha256::new_with_prefix(self.0);
        for domain in domains {
            digest.update((domain.as_str().len() as u64).to_be_bytes());
            digest.update(domain.as_str());
        }
        Self(digest.finalize().into())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write_hex(&[a, b, c, d], f)?;
        f.write_str("…")
    }
}

/// All 64 lower-case hex digits.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

/// What an operation answered, kept so that a retry gets the same answer. At most 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedResult(Vec<u8>);

impl RecordedResult {
    /// Takes the bytes of an answer.
    ///
    /// # Errors
    /// When there are more than 64 KiB of them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        if bytes.len() > limits::RESULT_BYTES {
            let rule = Rule::Bytes { least: 0, most: limits::RESULT_BYTES, found: bytes.len() };
            return Err(Invalid::new("result", rule));
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(text: &str) -> Domain {
        Domain::new(text).unwrap()
    }

    #[test]
    fn the_set_of_domains_is_part_of_the_fingerprint_and_its_order_is_not() {
        let request = Fingerprint::of(b"pay 5");
        let (a, b, ab) = (domain("a"), domain("b"), domain("ab"));
        assert_eq!(request.over([&a, &b]), request.over([&b, &a]));
        assert_ne!(request.over([&a, &b]), request.over([&ab]));
        assert_ne!(request.over([&a]), request.over([&b]));
    }

    #[test]
    fn a_result_of_64_kib_is_kept_and_one_byte_more_is_refused() {
        assert!(RecordedResult::new(vec![0; 65_536]).is_ok());
        assert!(RecordedResult::new(vec![0; 65_537]).is_err());
    }
}
