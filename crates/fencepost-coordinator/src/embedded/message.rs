use std::time::Duration;

use fencepost_core::lease::{Answer, Command, Ticket};
use tokio::sync::oneshot;

use super::journal::EncodedSnapshot;

/// What comes to the writer's thread.
pub(super) enum Message {
    Call(Call),
    /// The future of a waiting acquire was dropped.
    Disconnected(Ticket),
    /// The snapshot that the writer asked for is encoded.
    Snapshot(EncodedSnapshot),
    /// Answer what is queued, close the store, and say so.
    Shutdown(Option<oneshot::Sender<()>>),
}

/// One call on its way to the machine.
pub(super) struct Call {
    pub(super) ticket: Ticket,
    pub(super) command: Command,
    pub(super) reply: Reply,
}

/// Where a call's answer goes.
pub(super) struct Reply {
    /// The clock's reading when the call was received.
    pub(super) received: Duration,
    pub(super) to: oneshot::Sender<Settled>,
}

/// How a call ends.
pub(super) type Settled = Result<Decided, Unanswered>;

/// An answer, and how long the call had been here when it was decided.
pub(super) struct Decided {
    pub(super) answer: Answer,
    pub(super) elapsed: Duration,
}

/// A call that is owed an error instead of an answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) why: String,
    pub(super) may_have_happened: bool,
}

impl Reply {
    /// Hands out an answer that may be spoken.
    pub(super) fn answer(self, answer: Answer, decided: Duration) {
        let elapsed = decided.saturating_sub(self.received);
        // Whoever dropped the call does not want the answer; the effect stands.
        let _ = self.to.send(Ok(Decided { answer, elapsed }));
    }

    pub(super) fn refuse(self, why: &str, may_have_happened: bool) {
        let _ = self.to.send(Err(Unanswered { why: why.to_owned(), may_have_happened }));
    }
}
