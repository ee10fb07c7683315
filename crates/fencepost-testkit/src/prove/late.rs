//! Late requests: of an owner that has lost its lease and does not know it.

use std::{cell::Cell, pin::pin, time::Duration};

use fencepost_receiver::VerdictCode::StaleToken;
use futures_util::future::join;
use tokio::time::timeout;

use super::{
    report::Outcome,
    stage::{Advice, PASSED, Stage, Step, applied},
    world::World,
};

pub(super) const FIRST: Advice = Advice {
    meaning: "the rightful owner cannot write, so there is nothing to prove",
    fix: "see the answer in the story; --write, --body, --domain, --header and --epoch describe how the service is \
          written to. A service that has seen greater tokens of this domain needs the same --epoch, or a greater one",
};
pub(super) const AGAIN: Advice = Advice {
    meaning: "an equal token is the same owner, and it may write as often as it likes",
    fix: "refuse a token that is smaller than the fence, and no equal one: `token < fence`",
};
pub(super) const NEXT: Advice = Advice {
    meaning: "the new owner is refused, so nobody can write any more",
    fix: "accept a token that is greater than the fence, and raise the fence to it; the fence never goes down",
};
const STALE: Advice = Advice {
    meaning: "a stale write took effect: what the new owner has written is lost",
    fix: "compare by order, not by equality: refuse when `token < fence`, and raise the fence to every greater token \
          in the transaction that writes. Only a greater token raises it, never the last one that came",
};
const ADVANCED: Advice = Advice {
    meaning: "advancing has no effect: a stale write lands after the new owner has read what it bases its own on",
    fix: "let the advance raise the same fence that a write compares with, and commit it before answering",
};
const LOWERED: Advice = Advice {
    meaning: "the fence went down, or was set by whoever came last",
    fix: "an advance under a smaller token is refused with 412 stale_token, and changes nothing",
};
const SPLIT: Advice = Advice {
    meaning: "the token was checked when the head of the request came, and the write was made later without looking \
              again: in between the new owner has written, and that is lost",
    fix: "compare the token inside the transaction that writes, after its lock is held: in SQLite after \
          BEGIN IMMEDIATE, in PostgreSQL after locking the fence row. A check in a middleware proves nothing",
};
const PAUSED: Advice =
    Advice { meaning: "a process that stood still past the end of its lease has written all the same", fix: STALE.fix };

/// How long the new owner may have to wait for a request that is on its way only in half.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a request in two halves and a whole one met.
enum Half {
    /// The whole one came between them, and the rest was refused.
    Between,
    /// The whole one was answered after the two halves.
    Waited,
    /// It was slow, which says nothing.
    Slow,
}

impl<W: World> Stage<'_, W> {
    pub(super) async fn first_write(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        self.applies(&a, &self.intent(&a), FIRST).await?;
        self.applies(&a, &self.intent(&a), AGAIN).await?;
        let b = self.owner("B").await?;
        self.applies(&b, &self.intent(&b), NEXT).await?;
        Ok(PASSED)
    }

    pub(super) async fn late_after(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        self.applies(&a, &self.intent(&a), NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        let b = self.owner("B").await?;
        let stands = self.intent(&b);
        self.applies(&b, &stands, NEXT).await?;
        self.refuses("A, late,", &late, &[StaleToken], stands.value, STALE).await?;
        self.applies(&b, &self.intent(&b), NEXT).await?;
        Ok(PASSED)
    }

    pub(super) async fn late_before(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        let stands = self.intent(&a);
        self.applies(&a, &stands, NEXT).await?;
        let (late, later) = (self.intent(&a), self.intent(&a));
        let b = self.owner("B").await?;
        let outcome = match &self.plan.advance {
            Some(advance) => {
                let answer = self.send("B, advancing,", &self.request(advance, &b, &self.intent(&b))).await?;
                applied(&answer, NEXT)?;
                let back = self.request(advance, &a, &self.intent(&a));
                self.refuses("A, advancing late,", &back, &[StaleToken], stands.value, LOWERED).await?;
                self.refuses("A, late,", &self.write(&a, &late), &[StaleToken], stands.value, ADVANCED).await?;
                PASSED
            }
            None => {
                let answer = self.send("A, late,", &self.write(&a, &late)).await?;
                if answer.is_success() {
                    self.reads(late.value, NEXT).await?;
                    Outcome::OnlyFencedOnFirstWrite
                } else {
                    self.refused(&answer, &[StaleToken], stands.value, STALE).await?;
                    Outcome::Passed { note: Some("it knows of the grant without being told".to_owned()) }
                }
            }
        };
        let written = self.intent(&b);
        self.applies(&b, &written, NEXT).await?;
        self.refuses("A, later,", &self.write(&a, &later), &[StaleToken], written.value, STALE).await?;
        Ok(outcome)
    }

    pub(super) async fn half_sent(&self) -> Step<Outcome> {
        if !self.plan.write.has_body() {
            let why = format!("{} has no body that could come late", self.plan.write);
            return Ok(Outcome::NotTried { why, asked_for: false });
        }
        // That the new owner's answer takes long may have many reasons. Only where it came twice after the rest was there,
        // and answered, it has waited for that.
        let mut waited = true;
        for _ in 0..2 {
            match self.cut_by_another().await? {
                Half::Between => return Ok(PASSED),
                Half::Waited => {}
                Half::Slow => waited = false,
            }
        }
        Ok(if waited {
            Outcome::Passed { note: Some("the new owner waits until the late body is there".to_owned()) }
        } else {
            let why = "the new owner's write took so long that it did not come between the halves";
            Outcome::NotTried { why: why.to_owned(), asked_for: true }
        })
    }

    /// Once: half of A's request, B's whole one, the rest of A's.
    async fn cut_by_another(&self) -> Step<Half> {
        let a = self.owner("A").await?;
        self.applies(&a, &self.intent(&a), NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        let begun = self.begin("A", &late).await?;
        let b = self.owner("B").await?;
        let stands = self.intent(&b);
        let write = self.write(&b, &stands);
        let mut sent = pin!(self.send_quietly(&write));
        if let Ok(answer) = timeout(PATIENCE, &mut sent).await {
            let answer = self.hear("B", &write, answer)?;
            applied(&answer, NEXT)?;
            let answer = self.finish_quietly(&late, begun).await;
            let answer = self.hear("A, with the rest,", &late, answer)?;
            self.refused(&answer, &[StaleToken], stands.value, SPLIT).await?;
            return Ok(Half::Between);
        }
        // Where it holds its lock from the head on it is slow, and safe as long as the order holds.
        let is_answered = Cell::new(false);
        let rest = async {
            let answer = self.finish_quietly(&late, begun).await;
            is_answered.set(true);
            answer
        };
        let sent = async {
            let answer = sent.await;
            (answer, is_answered.get())
        };
        let (old, (new, has_waited)) = join(rest, sent).await;
        let old = self.hear("A, with the rest,", &late, old)?;
        let new = self.hear("B, meanwhile,", &write, new)?;
        applied(&new, NEXT)?;
        if !old.is_success() {
            self.refused(&old, &[StaleToken], stands.value, SPLIT).await?;
            return Ok(Half::Between);
        }
        self.reads(stands.value, SPLIT).await?;
        Ok(if has_waited { Half::Waited } else { Half::Slow })
    }

    pub(super) async fn paused(&self) -> Step<Outcome> {
        if !self.plan.pause {
            let why = "needs --pause".to_owned();
            return Ok(Outcome::NotTried { why, asked_for: false });
        }
        let a = self.owner("A").await?;
        self.applies(&a, &self.intent(&a), NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        let stopped = self.world.stop_before_sending(&late).await?;
        self.tell("the process of A has its next write ready, and is stopped (SIGSTOP)");
        let token = self.world.grant_after_expiry(&self.plan.domain).await?;
        let b = self.owner_with("B", token);
        let stands = self.intent(&b);
        self.applies(&b, &stands, NEXT).await?;
        let answer = self.world.go_on(stopped).await?;
        let answer = self.hear("A, continued,", &late, answer)?;
        self.refused(&answer, &[StaleToken], stands.value, PAUSED).await?;
        Ok(PASSED)
    }
}
