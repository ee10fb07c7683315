use fencepost_client::{AcquireError, Loss};
use fencepost_core::fence::Rejection;
use fencepost_receiver::{AdvanceError, Guarantee};

/// Why no lease was handed over. Nothing may be done under the domain.
///
/// In every case but the first two a lease had been granted. It has been given back: where `released` is false the
/// coordinator did not confirm that, and the lease ends by itself within one TTL. Advancing is no mutation, so what
/// was advanced before the failure only makes older tokens stale.
///
/// ```
/// use fencepost::{Advance, AdvancingError, Domain, FencedLease, MemoryReceiver, Session};
///
/// async fn or_why(session: &Session, receiver: &MemoryReceiver, domain: Domain) -> Option<FencedLease> {
///     match session.acquire(domain).advance(receiver).await {
///         Ok(lease) => Some(lease),
///         Err(error) => {
///             let hint = if error.is_worth_repeating() { "try again" } else { "see to the receiver" };
///             eprintln!("{error}; {hint}");
///             None
///         }
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
pub enum AdvancingError {
    /// There was no grant.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The receiver cannot be advanced. Nothing was acquired.
    #[error("{receiver} is able to promise {strongest} at most; acquire without advancing it")]
    Incapable {
        /// The receiver.
        receiver: String,
        /// What it is able to promise.
        strongest: Guarantee,
    },
    /// The receiver refused the token. Acquiring again with [`renew`](fencepost_client::Acquire::renew) helps where
    /// an unfenced floor rules it out; a closed receiver needs its operator.
    #[error("{receiver} refused the new token: {rejection}; {}", given_back(*.released))]
    Rejected {
        /// The receiver.
        receiver: String,
        /// Its verdict.
        rejection: Rejection,
        /// Whether the release is confirmed.
        released: bool,
    },
    /// The receiver gave no verdict until the local deadline of the grant, though it was asked again and again.
    #[error("{receiver} could not be advanced in time: {}; {}", last(.error.as_ref()), given_back(*.released))]
    NotAdvanced {
        /// The receiver.
        receiver: String,
        /// The last failure; `None` where the first attempt was not answered at all.
        error: Option<AdvanceError>,
        /// Whether the release is confirmed.
        released: bool,
    },
    /// The lease was lost while the receivers were being advanced.
    #[error("the lease was lost while receivers were being advanced: {0}")]
    Lost(Loss),
}

impl AdvancingError {
    /// Whether a new acquire may succeed in this session.
    #[must_use]
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            Self::Acquire(error) => error.is_worth_repeating(),
            Self::Incapable { .. } | Self::Rejected { .. } => false,
            Self::NotAdvanced { error, .. } => error.as_ref().is_none_or(AdvanceError::retryable),
            Self::Lost(_) => true,
        }
    }
}

fn given_back(released: bool) -> &'static str {
    if released {
        "the lease was given back"
    } else {
        "the lease is not renewed any more and ends by itself within one TTL"
    }
}

fn last(error: Option<&AdvanceError>) -> String {
    error.map_or_else(|| "it did not answer".to_owned(), ToString::to_string)
}
