//! The layout of a sidecar, on one screen.
//!
//! A sidecar is one JSON object that `cat` shows. It is replaced as a whole, except for its first member: `state` turns
//! from `pending` to `settled` in place, once the rename that the sidecar announces is durable. Both words have seven
//! letters, and losing the turn is harmless: whoever opens it next looks at the files again.

use std::{fmt, fs::Metadata, os::unix::fs::MetadataExt, time::UNIX_EPOCH};

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, OperationId, RecoveryId, Token,
    fence::{Closure, Condition, Fingerprint, Operation, SignatureRule, Standing},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Trouble, place::Identity};

/// The only layout so far.
pub(crate) const LAYOUT: u32 = 1;
/// Where the word of `state` begins.
pub(crate) const STATE_AT: u64 = "{\n  \"state\": \"".len() as u64;
/// What every sidecar begins with, of any layout.
pub(crate) const HEADS: [&[u8]; 2] =
    [b"{\n  \"state\": \"pending\",\n  \"layout\": ", b"{\n  \"state\": \"settled\",\n  \"layout\": "];
/// What the length of a sidecar is a multiple of.
const BLOCK: usize = 4096;
/// The word that the first member turns to.
pub(crate) const SETTLED: &[u8; 7] = b"settled";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Pending,
    Settled,
}

/// What a file holds: its length and the SHA-256 of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Length.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    #[serde(with = "hex", rename = "sha256")]
    pub digest: Fingerprint,
}

impl fmt::Display for Content {
    /// `sha256:` and 64 hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        f.write_str(&hex::digits(self.digest.as_bytes()))
    }
}

/// A content and the file that holds it. A rename keeps the inode, so it tells whether the rename has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    pub(crate) content: Content,
    pub(crate) inode: u64,
}

/// An operation that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) id: OperationId,
    #[serde(with = "hex")]
    pub(crate) fingerprint: Fingerprint,
    pub(crate) born: Option<Token>,
    pub(crate) applied_under: Token,
    pub(crate) result: Content,
}

/// A file that is about to be replaced. Inodes are used again at once, so the time of birth stands beside it where the file
/// system knows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Replaced {
    pub(crate) inode: u64,
    pub(crate) created_ns: Option<u64>,
}

impl Replaced {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let created = metadata.created().ok().and_then(|created| created.duration_since(UNIX_EPOCH).ok());
        let created_ns = created.and_then(|created| u64::try_from(created.as_nanos()).ok());
        Self { inode: metadata.ino(), created_ns }
    }
}

/// A write that was announced: the staged file is to become the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pending {
    pub(crate) stored: Stored,
    /// The file that it replaces.
    pub(crate) replaces: Option<Replaced>,
    pub(crate) operation: Option<Record>,
}

/// Everything that a file's receiver knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sidecar {
    pub(crate) state: State,
    pub(crate) layout: u32,
    pub(crate) closed: Option<Closure>,
    pub(crate) issuer: Issuer,
    pub(crate) domain: Domain,
    pub(crate) known_epoch: Epoch,
    pub(crate) floor: Option<Token>,
    pub(crate) unfenced_floor: Option<Token>,
    pub(crate) fence: Option<Token>,
    pub(crate) horizon: Option<Token>,
    pub(crate) recovery: RecoveryId,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) counter: u64,
    /// What the last accepted write has left, or what was there when the file was guarded.
    pub(crate) stored: Option<Stored>,
    /// The write that `state` speaks of. Once settled it is as good as in `stored` and `operations`.
    #[serde(rename = "announced")]
    pub(crate) pending: Option<Pending>,
    pub(crate) operations: Vec<Record>,
    checksum: String,
}

/// Why a sidecar cannot be used.
pub(crate) enum Unreadable {
    Damaged,
    Newer(u32),
}

#[derive(Deserialize)]
struct LayoutOnly {
    layout: u32,
}

impl Sidecar {
    pub(crate) fn new(issuer: Issuer, domain: Domain, known_epoch: Epoch, recovery: RecoveryId, at: Identity) -> Self {
        Self {
            state: State::Settled,
            layout: LAYOUT,
            closed: None,
            issuer,
            domain,
            known_epoch,
            floor: None,
            unfenced_floor: None,
            fence: None,
            horizon: None,
            recovery,
            device: at.device,
            inode: at.inode,
            counter: 0,
            stored: None,
            pending: None,
            operations: Vec::new(),
            checksum: String::new(),
        }
    }

    /// Reads what [`encode`](Self::encode) wrote. A pending write that is settled is taken in.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let LayoutOnly { layout } = serde_json::from_slice(bytes).map_err(|_| Unreadable::Damaged)?;
        if layout > LAYOUT {
            return Err(Unreadable::Newer(layout));
        }
        let mut sidecar: Self = serde_json::from_slice(bytes).map_err(|_| Unreadable::Damaged)?;
        if sidecar.checksum != sidecar.computed_checksum() {
            return Err(Unreadable::Damaged);
        }
        if sidecar.state == State::Settled {
            sidecar.take_in_pending();
        }
        Ok(sidecar)
    }

    /// The text to write. `state` follows from whether a write is pending.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        self.state = if self.pending.is_some() { State::Pending } else { State::Settled };
        self.checksum = self.computed_checksum();
        let mut text = serde_json::to_vec_pretty(self).expect("a sidecar has only text, numbers and lists");
        // Whole blocks, so that the next sidecar of about this size fits over this one.
        debug_assert!(HEADS.iter().any(|head| text.starts_with(head)), "a sidecar is known by its first bytes");
        text.resize((text.len() + 1).next_multiple_of(BLOCK) - 1, b' ');
        text.push(b'\n');
        text
    }

    /// Over everything but the word that is turned in place and itself.
    fn computed_checksum(&self) -> String {
        let bare = Self { state: State::Settled, checksum: String::new(), ..self.clone() };
        let text = serde_json::to_vec(&bare).expect("a sidecar has only text, numbers and lists");
        hex::digits(&Sha256::digest(text))
    }

    /// The announced write has happened.
    pub(crate) fn take_in_pending(&mut self) {
        if let Some(Pending { stored, operation, .. }) = self.pending.take() {
            self.stored = Some(stored);
            self.operations.extend(operation);
        }
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity { device: self.device, inode: self.inode }
    }

    /// Whether it accepts anything, at the place where it was found and for a caller that has seen this counter.
    pub(crate) fn condition(&self, here: Identity, seen: u64) -> Condition {
        if let Some(why) = self.closed {
            Condition::Closed(why)
        } else if self.identity() != here {
            Condition::Closed(Closure::OtherIncarnation)
        } else if self.counter < seen {
            Condition::Closed(Closure::WentBack)
        } else {
            Condition::Open
        }
    }

    /// What the decision looks at, in an open receiver.
    pub(crate) fn standing(&self, operation: Option<&OperationId>) -> Standing {
        Standing {
            condition: Condition::Open,
            issuer: self.issuer.clone(),
            domain: self.domain.clone(),
            signature: SignatureRule::Optional,
            known_epoch: self.known_epoch,
            floor: self.floor,
            unfenced_floor: self.unfenced_floor,
            fence: self.fence,
            horizon: self.horizon,
            recorded: operation.and_then(|id| self.record(id)).map(|record| record.fingerprint),
        }
    }

    pub(crate) fn record(&self, id: &OperationId) -> Option<&Record> {
        self.operations.iter().find(|record| record.id == *id)
    }

    /// Raises the fence.
    pub(crate) fn raise(&mut self, token: Token) {
        assert!(self.fence < Some(token), "a fence only rises");
        self.fence = Some(token);
    }

    /// Raises the horizon and forgets what was born below it; records without `born` go by the token they were applied
    /// under.
    pub(crate) fn forget_operations(&mut self, horizon: Token) -> u64 {
        let before = self.operations.len();
        self.horizon = self.horizon.max(Some(horizon));
        self.operations.retain(|record| Some(record.born.unwrap_or(record.applied_under)) >= self.horizon);
        (before - self.operations.len()) as u64
    }

    /// Makes room for one more record. The oldest go first, and the horizon rises before a record with `born` goes.
    ///
    /// # Errors
    /// When the horizon would have to rise above the operation that is to be recorded.
    pub(crate) fn make_room(&mut self, most: usize, grant: &Grant, operation: &Operation) -> Result<(), Trouble> {
        while self.operations.len() >= most.max(1) {
            let Some(born) = self.operations[0].born else {
                self.operations.remove(0);
                continue;
            };
            let above = Token::from_integer(born.as_u64() + 1).ok();
            match above.filter(|above| *above <= operation.born.unwrap_or(grant.token)) {
                Some(above) => {
                    self.horizon = self.horizon.max(Some(above));
                    self.operations.retain(|record| record.born.is_none_or(|born| born >= above));
                }
                None => return Err(Trouble::RecordsFull { kept: self.operations.len() }),
            }
        }
        Ok(())
    }
}

/// Digests as 64 hex digits.
mod hex {
    use fencepost_core::{SecretHash, fence::Fingerprint};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn digits(bytes: &[u8]) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }

    pub(super) fn serialize<S: Serializer>(digest: &Fingerprint, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&digits(digest.as_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digest: SecretHash = text.parse().map_err(|_| D::Error::custom("a digest is 64 lower-case hex digits"))?;
        Ok(Fingerprint::from_digest(*digest.as_bytes()))
    }
}
