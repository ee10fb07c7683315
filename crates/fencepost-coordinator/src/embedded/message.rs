use std::time::Duration;

use fencepost_core::{
    Moment,
    lease::{Answer, Command, Ticket},
};
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
    ///
    /// The end of a lease counts from the moment of the decision, whole milliseconds rounded down; so does the elapsed
    /// time, else a holder that adds both would believe up to a millisecond too long.
    pub(super) fn answer(self, answer: Answer, decided: Moment) {
        let elapsed = Duration::from_millis(decided.as_millis()).saturating_sub(self.received);
        // Whoever dropped the call does not want the answer; the effect stands.
        let _ = self.to.send(Ok(Decided { answer, elapsed }));
    }

    pub(super) fn refuse(self, why: &str, may_have_happened: bool) {
        let _ = self.to.send(Err(Unanswered { why: why.to_owned(), may_have_happened }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutant: with the unrounded reading of the clock the second sum is above the moment of the decision.
    #[test]
    fn received_and_elapsed_never_add_up_to_more_than_the_moment_of_the_decision() {
        for (received, expected) in [(1_500_000, 500_000), (1_999_600, 400), (2_000_300, 0)] {
            let received = Duration::from_micros(received);
            let (to, mut answer) = oneshot::channel();
            Reply { received, to }.answer(Answer::Current(true), Moment::from_millis(2_000));
            let elapsed = answer.try_recv().unwrap().unwrap().elapsed;
            assert_eq!(elapsed, Duration::from_micros(expected));
        }
    }
}
