//! Retries: one effect, whoever asks again, and the answer of the first time.

use fencepost_receiver::VerdictCode::{OperationConflict, StaleToken};

use super::{
    late::NEXT,
    report::Outcome,
    stage::{Advice, Intent, PASSED, Stage, Step},
    world::World,
};

const TWICE: Advice = Advice {
    meaning: "the operation took effect a second time, or its sender is told that it never did",
    fix: "record the id with the answer in the transaction that writes, and look for it before anything else: \
          a retry gets the recorded answer and changes nothing",
};
const BY_THE_NEXT: Advice = Advice {
    meaning: "the next owner finishes what the last one began, and must not do it twice",
    fix: "record operations for the domain and not for the token: key them by domain and id",
};
const AFTER_STALENESS: Advice = Advice {
    meaning: "the write did happen, and its sender, who lost only the answer, is told that it did not",
    fix: "look for the recorded operation before comparing the token: a retry is replayed even if its token is stale",
};
const UNRAISED: Advice = Advice {
    meaning: "the new owner has had an operation replayed and goes on from there, and a stale write still lands",
    fix: "a replay under a greater token raises the fence as a write does",
};
const OTHER_REQUEST: Advice = Advice {
    meaning: "two different requests with one operation id: the second took effect, or its sender believes that it did",
    fix: "record a digest of method, path and body with the operation, and answer 422 operation_conflict where it \
          differs; change nothing",
};

impl<W: World> Stage<'_, W> {
    pub(super) async fn retry_same_owner(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let (first, second) = (self.intent(&a), self.intent(&a));
        let answer = self.applies(&a, &first, NEXT).await?;
        self.replays(&a, &first, &answer, first.value, TWICE).await?;
        self.applies(&a, &second, NEXT).await?;
        self.replays(&a, &first, &answer, second.value, TWICE).await?;
        Ok(PASSED)
    }

    pub(super) async fn retry_next_owner(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let (first, late) = (self.intent(&a), self.intent(&a));
        let answer = self.applies(&a, &first, NEXT).await?;
        let b = self.owner("B").await?;
        self.replays(&b, &first, &answer, first.value, BY_THE_NEXT).await?;
        self.refuses("A, late,", &self.write(&a, &late), &[StaleToken], first.value, UNRAISED).await?;
        let second = self.intent(&b);
        self.applies(&b, &second, NEXT).await?;
        self.replays(&b, &first, &answer, second.value, BY_THE_NEXT).await?;
        Ok(PASSED)
    }

    pub(super) async fn retry_late(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let first = self.intent(&a);
        let answer = self.applies(&a, &first, NEXT).await?;
        let b = self.owner("B").await?;
        let second = self.intent(&b);
        self.applies(&b, &second, NEXT).await?;
        self.replays(&a, &first, &answer, second.value, AFTER_STALENESS).await?;
        Ok(PASSED)
    }

    pub(super) async fn reused_id(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let first = self.intent(&a);
        self.applies(&a, &first, NEXT).await?;
        let other = Intent { operation: first.operation.clone(), ..self.intent(&a) };
        self.refuses("A", &self.write(&a, &other), &[OperationConflict], first.value, OTHER_REQUEST).await?;
        let b = self.owner("B").await?;
        let other = Intent { operation: first.operation.clone(), ..self.intent(&b) };
        self.refuses("B", &self.write(&b, &other), &[OperationConflict], first.value, OTHER_REQUEST).await?;
        Ok(PASSED)
    }
}
