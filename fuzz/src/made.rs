//! Values out of bytes: any that there are, and the small and the extreme ones often.

/// Bytes that are taken from the front. When there are none left they are zeros.
pub(crate) struct Made<'a>(&'a [u8]);

impl<'a> Made<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        usize::from(self.byte()) % most
    }

    pub(crate) fn one_in(&mut self, many: u8) -> bool {
        self.byte() % many == 1
    }

    pub(crate) fn of_these<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Small numbers, the ends of what there is, and any at all.
    pub(crate) fn number(&mut self) -> i64 {
        match self.byte() {
            255 => {
                let mut all = [0; 8];
                all.iter_mut().for_each(|to| *to = self.byte());
                i64::from_le_bytes(all)
            }
            254 => i64::MAX - i64::from(self.byte() % 4),
            253 => i64::MIN + i64::from(self.byte() % 4),
            252 => i64::from(u32::MAX) + i64::from(self.byte()),
            small => i64::from(small) - 8,
        }
    }

    pub(crate) fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = self.below(most + 1).min(self.0.len());
        let (some, rest) = self.0.split_at(length);
        self.0 = rest;
        some
    }

    pub(crate) fn text(&mut self, most: usize) -> String {
        String::from_utf8_lossy(self.bytes(most)).into_owned()
    }
}
