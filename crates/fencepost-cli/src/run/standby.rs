//! The warden as `run` has it: standing by while the leases are acquired, and gone before `run` is.

use std::{
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream as Socket, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use fencepost_client::{BootClock, Clock};
use fencepost_core::Moment;
use rustix::{
    io::Errno,
    process::{Signal, WaitOptions, getpid, set_child_subreaper, wait},
};
use tokio::time::{sleep, timeout};

use super::{
    ask::Ask,
    cgroup::Cgroup,
    link::{End, Link, NoCommand, Report, hand_over, room_for_a_start},
    tree::{self, Known},
    warden::WARDEN,
};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure},
};

/// How long a warden that has nothing left to do may take to end.
const LEAVING: Duration = Duration::from_millis(500);

/// A warden. Unless it is told to start the command, it never does.
#[derive(Debug)]
pub(crate) struct Standby {
    pub(crate) link: Link,
    warden: Child,
    /// Children from before the command: whoever became this process may have had some.
    earlier: Vec<Known>,
}

impl Standby {
    /// Starts it. Nothing is waited for.
    ///
    /// # Errors
    /// When the system does not let it be started.
    pub(crate) fn start(ask: &Ask) -> Result<Self, Failure> {
        Self::started(ask).map_err(cannot_start)
    }

    fn started(ask: &Ask) -> io::Result<Self> {
        tree::is_shown()?;
        let me = getpid();
        let earlier = tree::members(me, &[])?.into_iter().map(Known::new).collect();
        if !tree::is_childless() && tree::may_hide_children()? {
            return Err(io::Error::other(
                "/proc hides processes, and those of the command could not be told from earlier ones",
            ));
        }
        // Should the warden be killed, its orphans come here.
        set_child_subreaper(Some(me))?;
        let (ours, theirs) = Socket::pair()?;
        room_for_a_start(&ours)?;
        hand_over(&ours, rustix::stdio::stdin())?;
        let mut command = Command::new("/proc/self/exe");
        let limits = [ask.limits.stop_after_ms, ask.limits.margin_ms].map(|ms| ms.to_string());
        command.arg0("fencepost").arg(WARDEN).args(limits).arg("--").args(&ask.command);
        let warden = command.stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
        Ok(Self { link: Link::new(ours)?, warden, earlier })
    }

    /// Waits until it cannot start the command any more, and says why. Safe to drop and to call again.
    pub(crate) async fn fails(&mut self) -> Failure {
        match self.link.hear().await {
            Ok(Some(Report::None(NoCommand::System(why)))) => cannot_start(io::Error::other(why)),
            Ok(Some(Report::Ended(end))) => ended_before(end),
            Ok(Some(Report::Opening(_) | Report::Started | Report::None(_) | Report::Gone(_)) | None) | Err(_) => {
                warden_ended()
            }
        }
    }

    /// Waits for its end, until then, and makes sure of what it may have left: afterwards no member of the command lives.
    /// As long as the system does not show who does, this goes on: nothing may be given back before.
    pub(crate) async fn see_it_gone(&mut self, kill_at: Moment) {
        let mut pause = Duration::from_millis(1);
        let ended = loop {
            let ended = match self.warden.try_wait() {
                // It has ended, and the system keeps no end of it: whoever called ignores the ends of children.
                Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => break None,
                ended => ended.ok().flatten(),
            };
            if ended.is_some() || BootClock.now() >= kill_at {
                break ended;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        // It ends by itself once it has no child, and got every orphan of the command: what is here is not of it.
        if ended.is_some_and(|status| status.success()) {
            return;
        }
        let mut seen_none = 0;
        loop {
            let earlier: Vec<_> = self.earlier.iter().filter_map(Known::alive).collect();
            let left = tree::signal_all(getpid(), &earlier, &[Signal::KILL]);
            // Orphans that came here have no other parent to take note of their end.
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            // Who has no child has no descendant, whatever the system shows. Children from before the command remain, and
            // one whose end somebody else is told first, a debugger: what ends while the list is read may hide the next.
            seen_none = if matches!(left, Ok(0)) { seen_none + 1 } else { 0 };
            if seen_none > 0 && tree::is_childless() || seen_none > 1 && !tree::may_hide_children().unwrap_or(true) {
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        Cgroup::remove_left_by(self.warden.id());
    }

    /// Lets it go, and waits until it has gone: nothing of `run` outlives it.
    pub(crate) async fn stand_down(mut self) {
        self.link.hang_up().await;
        // The command is not to be started any more, or is gone. Where nothing shows who lives, that has to do.
        let _ = timeout(2 * LEAVING, self.see_it_gone(BootClock.now().after(LEAVING))).await;
    }
}

/// The command cannot be started here.
pub(crate) fn cannot_start(error: io::Error) -> Failure {
    Failure::new(Exit::Configuration, format!("the command cannot be started: {error}"))
        .then("see that /proc is mounted and that processes may be started")
}

/// Somebody has ended the warden before it had done anything.
pub(crate) fn warden_ended() -> Failure {
    Failure::new(Exit::Signal(9), "the process that was to start the command was ended")
        .detail("the command was not started")
        .then(AGAIN)
}

/// The warden was too slow for what it was told.
pub(crate) fn half_told() -> Failure {
    let what = "the process that was to start the command did not take all that it was told, and was ended";
    Failure::new(Exit::Unreachable, what).detail("the command was not started").then(AGAIN)
}

/// Somebody has ended the process that was to become the command.
pub(crate) fn ended_before(end: End) -> Failure {
    let (exit, how) = match end {
        End::Exited(code) => (Exit::Command(code), format!("with exit code {code}")),
        End::Killed(signal) => (Exit::Signal(signal), format!("by signal {signal}")),
    };
    Failure::new(exit, format!("the process that was to become the command was ended {how}"))
        .detail("the command was not started")
        .then(AGAIN)
}
