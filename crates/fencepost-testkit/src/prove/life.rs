//! What happens between two requests: restarts, and a restore.

use std::time::Duration;

use fencepost_receiver::VerdictCode::{ReceiverClosed, StaleToken, UnknownEpoch};
use tokio::time::{Instant, sleep};

use super::{
    late::NEXT,
    report::{Kind, Outcome},
    stage::{Advice, PASSED, Stage, Step, failed},
    world::{Hook, World},
};

const FORGOT: Advice = Advice {
    meaning: "the highest token, or the operations, were kept in memory and are gone with the restart: a late request \
              writes over the new owner",
    fix: "keep the fence in the database beside the data, raised in the transaction that writes",
};
const RESTORED: Advice = Advice {
    meaning: "after the restore the service knows nothing of the newer owner, and accepts what it refused before",
    fix: "accept nothing after a restore until the receiver is recovered: answer 503 receiver_closed. Recovery raises \
          the floor to the coordinator's next token, which the hook has in FENCEPOST_NEXT_TOKEN",
};
const NOT_BACK: Advice = Advice {
    meaning: "the hook has come back and the service does not answer",
    fix: "let the hook return when the service listens, or at least start it",
};
const COORDINATOR: Advice = Advice {
    meaning: "tokens go on after a restart of the coordinator, with a gap: nobody may count on their values",
    fix: "compare tokens by order only",
};

/// How long a service may take until it answers after a restart.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

impl<W: World> Stage<'_, W> {
    pub(super) async fn coordinator_restart(&self) -> Step<Outcome> {
        let a = self.owner("A").await?;
        self.applies(&a, &self.intent(&a), NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        self.world.restart_coordinator().await?;
        self.tell("the coordinator is restarted");
        self.applies(&a, &self.intent(&a), COORDINATOR).await?;
        let b = self.owner("B").await?;
        assert!(a.token < b.token, "a restarted coordinator grants a greater token");
        let stands = self.intent(&b);
        self.applies(&b, &stands, COORDINATOR).await?;
        self.refuses("A, late,", &late, &[StaleToken], stands.value, COORDINATOR).await?;
        Ok(PASSED)
    }

    pub(super) async fn service_restart(&self) -> Step<Outcome> {
        if !self.plan.hooks.restart {
            let why = "needs --restart-hook".to_owned();
            return Ok(Outcome::NotTried { why, asked_for: false });
        }
        let a = self.owner("A").await?;
        let first = self.intent(&a);
        let answer = self.applies(&a, &first, NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        let b = self.owner("B").await?;
        let stands = self.intent(&b);
        self.applies(&b, &stands, NEXT).await?;
        self.hook(Hook::Restart).await?;
        self.refuses("A, late,", &late, &[StaleToken], stands.value, FORGOT).await?;
        self.replays(&b, &first, &answer, stands.value, FORGOT).await?;
        self.applies(&b, &self.intent(&b), NEXT).await?;
        Ok(PASSED)
    }

    pub(super) async fn restore(&self) -> Step<Outcome> {
        let hooks = self.plan.hooks;
        if !(hooks.backup && hooks.restore) {
            let why = "needs --backup-hook and --restore-hook".to_owned();
            return Ok(Outcome::NotTried { why, asked_for: hooks.backup || hooks.restore });
        }
        let a = self.owner("A").await?;
        let kept = self.intent(&a);
        self.applies(&a, &kept, NEXT).await?;
        let late = self.write(&a, &self.intent(&a));
        self.hook(Hook::Backup).await?;
        let b = self.owner("B").await?;
        self.applies(&b, &self.intent(&b), NEXT).await?;
        self.hook(Hook::Restore).await?;
        let codes = [StaleToken, ReceiverClosed, UnknownEpoch];
        let answer = self.send("A, late,", &late).await?;
        if answer.says(ReceiverClosed) && self.reads_nothing().await? {
            return Ok(closed());
        }
        self.refused(&answer, &codes, kept.value, RESTORED).await?;
        let c = self.owner("C").await?;
        let next = self.intent(&c);
        let answer = self.send("C", &self.write(&c, &next)).await?;
        if answer.says(ReceiverClosed) {
            return Ok(closed());
        }
        if !answer.is_success() {
            return Err(failed(
                Kind::Refusal,
                "C to write, or 503 receiver_closed",
                format!("answered {answer}"),
                NEXT,
            ));
        }
        self.reads(next.value, NEXT).await?;
        Ok(PASSED)
    }

    async fn hook(&self, hook: Hook) -> Step<()> {
        let next = self.world.next_token().await?;
        self.world.hook(hook, next).await?;
        self.tell(format!("the {} hook has run", hook.as_str()));
        let started = Instant::now();
        loop {
            // A service that is starting, or the proxy before it, may say so; one that stays closed to readers is judged by
            // the requests that come next.
            let found = match self.look_quietly().await {
                Ok(answer) if answer.says(ReceiverClosed) && answer.verdict.is_some() => return Ok(()),
                Ok(answer) if !matches!(answer.status, 502..=504) => return Ok(()),
                Ok(_) if started.elapsed() > PATIENCE => return Ok(()),
                Ok(answer) => format!("answered {answer}"),
                Err(none) => none.to_string(),
            };
            if started.elapsed() > PATIENCE {
                return Err(failed(Kind::Silence, "an answer after the hook", found, NOT_BACK));
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether it is closed to readers too: it answers 503 and shows no value.
    async fn reads_nothing(&self) -> Step<bool> {
        let answer = self.look_quietly().await;
        let is_closed = answer.is_ok_and(|answer| answer.status == ReceiverClosed.status());
        if is_closed {
            self.tell(format!("GET {}: answered 503", self.plan.read.as_str()));
        }
        Ok(is_closed)
    }
}

fn closed() -> Outcome {
    Outcome::Passed { note: Some("it accepts nothing until it is recovered".to_owned()) }
}
