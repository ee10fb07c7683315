use crate::{
    Moment,
    lease::{LeaseEnd, SessionEnd},
};

/// What a holder may believe about one of its holds at a moment.
///
/// ```
/// use fencepost_core::holder::{LeaseState, Loss};
/// use fencepost_core::Moment;
///
/// assert!(LeaseState::Held.is_held());
/// assert!(LeaseState::InDoubt { until: Moment::from_millis(2_700) }.is_held());
/// assert!(!LeaseState::Lost(Loss::DeadlinePassed).is_held());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// It is held, and the coordinator answers.
    Held,
    /// It is held, and heartbeats are not answered at present. Begin nothing that lasts longer than `until`.
    InDoubt {
        /// The local deadline, unless an answer comes before.
        until: Moment,
    },
    /// It is no longer held, and never will be again. Stop the work; acquire anew to go on.
    Lost(Loss),
}

impl LeaseState {
    /// Whether the work may go on.
    #[must_use]
    pub fn is_held(self) -> bool {
        match self {
            Self::Held | Self::InDoubt { .. } => true,
            Self::Lost(_) => false,
        }
    }
}

/// Why a lease is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Loss {
    /// No heartbeat was confirmed in time, or the greatest holding time is over. The coordinator may still show the
    /// lease for the margin.
    #[error("its local deadline has passed")]
    DeadlinePassed,
    /// The coordinator says how the lease ended.
    #[error("the coordinator ended it ({})", .0.as_str())]
    Ended(LeaseEnd),
    /// The coordinator no longer remembers the lease.
    #[error("the coordinator does not know it any more")]
    Forgotten,
    /// A later acquire of this session forced a greater token for the domain.
    #[error("this session acquired the domain again with a greater token")]
    Renewed,
    /// This process gave it back.
    #[error("it was released")]
    Released,
    /// The session it hung on has ended.
    #[error("its session has ended ({})", .0.as_str())]
    SessionEnded(SessionEnd),
    /// The coordinator does not know the session, or takes its secret for another's.
    #[error("the coordinator does not know its session")]
    SessionUnknown,
}

impl Loss {
    /// Whether the coordinator may still count the lease as held, so that giving it back helps those who wait.
    #[must_use]
    pub fn may_be_live_at_the_coordinator(self) -> bool {
        match self {
            Self::DeadlinePassed => true,
            Self::Ended(_)
            | Self::Forgotten
            | Self::Renewed
            | Self::Released
            | Self::SessionEnded(_)
            | Self::SessionUnknown => false,
        }
    }
}
