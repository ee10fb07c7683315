//! A receiver that notes what it is advanced to.

use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::{
    Grant,
    fence::{Rejection, Verdict},
};
use fencepost_receiver::{AdvanceError, Capabilities, Receiver};
use fencepost_testkit::{
    history::{Answer, Doing, Line},
    torture::Recorder,
};

use crate::{gates::Gates, subject::Subject};

/// A history that the composition's advance and the worker's own calls are both noted in.
pub(crate) type Shared = Arc<Mutex<Recorder>>;

pub(crate) fn with<T>(recorder: &Shared, note: impl FnOnce(&mut Recorder) -> std::io::Result<T>) -> T {
    note(&mut recorder.lock().unwrap_or_else(PoisonError::into_inner)).expect("the history can be written")
}

/// Notes each advance and its answer; in a scene it stands at a gate first.
pub(crate) struct Noted<'a, R> {
    pub(crate) inner: &'a R,
    pub(crate) recorder: Shared,
    pub(crate) gates: Gates,
    pub(crate) subject: Subject,
    pub(crate) generation: u32,
    pub(crate) who: String,
}

impl<R: Receiver> Receiver for Noted<'_, R> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn advance(&self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        let (label, who) = (self.subject.label, &self.who);
        let gate = format!("advance.{label}");
        if self.gates.is_there(&gate) {
            self.gates.put(&format!("advancing.{label}.{who}"));
            self.gates.stand(&gate, None);
            self.gates.take_away(&format!("advancing.{label}.{who}"));
        }
        let call = with(&self.recorder, |recorder| {
            recorder.call(Doing::Advance, grant.domain.as_str(), |line| {
                line.resource = Some(self.subject.resource(self.generation));
                line.token = Some(grant.token.to_string());
            })
        });
        let advanced = self.inner.advance(grant).await;
        with(&self.recorder, |recorder| match &advanced {
            Ok(Verdict::Applied(()) | Verdict::Replayed(())) => recorder.answer(call, Answer::Applied, |_| {}),
            Ok(Verdict::Rejected(rejection)) => {
                recorder.answer(call, Answer::Rejected, |line| say_why(line, rejection))
            }
            Err(error) if error.may_have_happened() => recorder.answer(call, Answer::Unknown, |_| {}),
            Err(_) => recorder.answer(call, Answer::Refused, |_| {}),
        });
        advanced
    }
}

pub(crate) fn say_why(line: &mut Line, rejection: &Rejection) {
    line.reason = Some(rejection.code().to_owned());
    if let Rejection::Stale { by, .. } = rejection {
        line.by = Some(by.as_str().to_owned());
    }
}
