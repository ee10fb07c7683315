//! Everything that happened, as one number: two runs are the same when theirs are.

/// FNV-1a over 64 bits.
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
        }
    }

    pub(super) fn get(self) -> u64 {
        self.0
    }
}
