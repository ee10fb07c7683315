//! A coordinator of which every call about a session is noted: those that no worker makes by itself, but its session's
//! thread.

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{Answered, CallError, Coordinator, Opened, SessionKey};
use fencepost_core::{
    Holder, Ttl,
    lease::{Claim, Heartbeat, HeartbeatRefusal, LimitReached, SessionRefusal},
};
use fencepost_testkit::{
    history::{Answer, Doing},
    pass_on,
};

use crate::noted::{Shared, with};

#[derive(Clone)]
pub(crate) struct NotedSessions {
    pub(crate) inner: HttpCoordinator,
    pub(crate) recorder: Shared,
}

impl NotedSessions {
    async fn noted<T, R>(
        &self,
        doing: Doing,
        done: Answer,
        call: impl Future<Output = Result<T, CallError<R>>>,
    ) -> Result<T, CallError<R>> {
        let number = with(&self.recorder, |recorder| recorder.call_of_session(doing));
        let came = call.await;
        let got = match &came {
            Ok(_) => done,
            Err(error) if error.may_have_happened() => Answer::Unknown,
            Err(_) => Answer::Refused,
        };
        with(&self.recorder, |recorder| recorder.answer(number, got, |_| {}));
        came
    }
}

impl Coordinator for NotedSessions {
    pass_on!(inner: read_session, acquire, release, break_lease, check, list, snapshot);

    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        self.noted(Doing::Open, Answer::Opened, self.inner.open_session(holder, ttl)).await
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        self.noted(Doing::Heartbeat, Answer::Renewed, self.inner.heartbeat(key, claim)).await
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        self.noted(Doing::End, Answer::Ended, self.inner.end_session(key)).await
    }
}
