//! Everything that happened, as one number: two runs are the same when theirs are.

use std::fmt;

/// FNV-1a, by words of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.0 = (self.0 ^ number).wrapping_mul(0x0100_0000_01b3);
            // A product carries upwards only: without this the high bits of a word would stay in the high bits.
            self.0 ^= self.0 >> 32;
        }
    }

    /// Bytes with their number, so that no two series of texts are one.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(&[bytes.len() as u64]);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(&[u64::from_le_bytes(*word)]));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(&[u64::from_le_bytes(last)]);
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}

/// Whatever can be shown can be taken in.
impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add_bytes(text.as_bytes());
        Ok(())
    }
}
