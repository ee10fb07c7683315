use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The greatest mutation counter of one receiver that a caller has seen.
///
/// A receiver whose storage was copied back looks whole to itself. Only somebody outside who has seen a greater
/// counter can tell, so a receiver that finds its own counter below this closes with `went_back`. Clones share one
/// number. It lives as long as the process: whoever wants to notice a restore across restarts stores
/// [`greatest`](Self::greatest) somewhere else and starts [`from`](Self::from_counter) it.
#[derive(Clone, Debug, Default)]
pub struct Seen(Arc<AtomicU64>);

impl Seen {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts from a counter that was noted earlier.
    #[must_use]
    pub fn from_counter(counter: u64) -> Self {
        Self(Arc::new(AtomicU64::new(counter)))
    }

    /// Takes note of a counter; a smaller one changes nothing.
    pub fn note(&self, counter: u64) {
        self.0.fetch_max(counter, Ordering::AcqRel);
    }

    /// The greatest counter noted, 0 where there is none.
    #[must_use]
    pub fn greatest(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_number_that_only_rises() {
        let seen = Seen::from_counter(5);
        seen.clone().note(7);
        seen.note(6);
        assert_eq!(seen.greatest(), 7);
    }
}
