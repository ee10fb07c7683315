use fencepost_coordinator::{Explain, Watch};
use fencepost_core::lease::Counts;

/// What a server shows of its coordinator beside the calls: whether it can commit, and its gauges.
pub trait Inspect: Watch + Explain {
    /// Whether it could commit just now.
    ///
    /// # Errors
    /// Says what hinders it.
    fn ready(&self) -> Result<(), String>;

    /// How much it holds; `None` where that cannot be told at present.
    fn counts(&self) -> impl Future<Output = Option<Counts>> + Send;
}
