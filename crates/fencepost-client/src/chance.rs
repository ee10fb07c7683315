use fencepost_core::{RequestId, holder::Jitter};

/// Fills bytes with chance.
#[cfg(feature = "simulation")]
pub(crate) type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// Where a session's random numbers come from.
pub(crate) enum Chance {
    /// The operating system.
    System,
    /// Whoever simulates, so that one seed makes one run.
    #[cfg(feature = "simulation")]
    Given(Box<Fill>),
}

impl Chance {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        match self {
            Self::System => getrandom::fill(bytes),
            #[cfg(feature = "simulation")]
            Self::Given(fill) => {
                fill(bytes);
                Ok(())
            }
        }
    }

    /// A request id that nobody else has drawn.
    pub(crate) fn request(&self) -> RequestId {
        let mut bytes = [0; 16];
        self.fill(&mut bytes).expect("the operating system's random source works");
        RequestId::from_bytes(bytes)
    }

    pub(crate) fn jitter(&self) -> Jitter {
        // Jitter only spreads load; without a random source there is none.
        let mut bytes = [0; 2];
        self.fill(&mut bytes).map_or(Jitter::NONE, |()| Jitter::new(u16::from_ne_bytes(bytes)))
    }
}
