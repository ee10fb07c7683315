//! When the command is to be stopped: decided here, done by the warden.

use fencepost_core::Moment;

/// How long stopping may take, and how early it has to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// From TERM to KILL.
    pub(crate) stop_after_ms: u64,
    /// From KILL to the local deadline: what finding and killing every member may take.
    pub(crate) margin_ms: u64,
}

impl Limits {
    /// For the shortest time that a grant or a renewal gives.
    pub(crate) fn new(stop_after_ms: u64, ttl_ms: u64) -> Self {
        Self { stop_after_ms, margin_ms: (ttl_ms / 20).clamp(50, 500) }
    }

    /// What has to be left for a command to be started at all.
    pub(crate) fn least_ms(self) -> u64 {
        self.stop_after_ms + self.margin_ms
    }
}

/// Why the command is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The lease is lost, or its local deadline comes near.
    Lost,
    /// The command has ended by itself, and the lease had ended before.
    Outlived,
    /// The command has ended by itself and left members behind.
    Leftovers,
}

impl Why {
    /// As it is told.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Outlived => "outlived",
            Self::Leftovers => "leftovers",
        }
    }

    /// What [`as_str`](Self::as_str) has written.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Lost, Self::Outlived, Self::Leftovers].into_iter().find(|why| why.as_str() == word)
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this moment.
    Wait(Moment),
    /// Ask every member to end.
    Term,
    /// End every member.
    Kill,
}

/// The plan for one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    limits: Limits,
    until: Moment,
    stopping: Option<(Why, Moment)>,
    was_asked: bool,
}

impl Plan {
    /// For a lease that may be believed in until this moment.
    pub(crate) fn new(limits: Limits, until: Moment) -> Self {
        Self { limits, until, stopping: None, was_asked: false }
    }

    /// The command has ended by itself; what it has left is stopped. Whoever asks has to hear whether it may have worked
    /// on after the lease.
    pub(crate) fn ended(&mut self, now: Moment) {
        self.stop(if now >= self.until { Why::Outlived } else { Why::Leftovers }, now);
    }

    /// Whether there is time for a command at all.
    pub(crate) fn may_start(&self, now: Moment) -> bool {
        now < self.term_at()
    }

    /// A renewal, or what a loss has left of it.
    pub(crate) fn believed_until(&mut self, until: Moment) {
        self.until = until;
    }

    /// Stops the command from now on. The first reason stays.
    pub(crate) fn stop(&mut self, why: Why, now: Moment) {
        if self.stopping.is_none() {
            let by_deadline = self.until.before_millis(self.limits.margin_ms);
            self.stopping = Some((why, now.after_millis(self.limits.stop_after_ms).min(by_deadline)));
        }
    }

    /// Why the command is being stopped, once it is.
    pub(crate) fn stopping(&self) -> Option<Why> {
        self.stopping.map(|(why, _)| why)
    }

    /// The step for this moment. `Term` is said once.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        if self.stopping.is_none() && now >= self.term_at() {
            self.stop(Why::Lost, now);
        }
        let Some((_, kill_at)) = self.stopping else { return Step::Wait(self.term_at()) };
        // A renewal never buys more time for a command that is being stopped; a loss may leave it less.
        let kill_at = kill_at.min(self.until.before_millis(self.limits.margin_ms));
        if now >= kill_at {
            return Step::Kill;
        }
        if !self.was_asked {
            self.was_asked = true;
            return Step::Term;
        }
        Step::Wait(kill_at)
    }

    /// When the command is to be asked to end, unless a renewal comes.
    pub(crate) fn term_at(&self) -> Moment {
        self.until.before_millis(self.limits.least_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { stop_after_ms: 1_000, margin_ms: 100 };

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    fn plan() -> Plan {
        Plan::new(LIMITS, at(10_000))
    }

    #[test]
    fn term_comes_early_enough_for_kill_to_land_before_the_deadline() {
        let mut plan = plan();
        assert_eq!(plan.step(at(0)), Step::Wait(at(8_900)));
        assert_eq!(plan.step(at(8_899)), Step::Wait(at(8_900)));
        assert_eq!(plan.step(at(8_900)), Step::Term);
        assert_eq!(plan.stopping(), Some(Why::Lost));
        assert_eq!(plan.step(at(8_901)), Step::Wait(at(9_900)));
        assert_eq!(plan.step(at(9_900)), Step::Kill);
    }

    #[test]
    fn a_renewal_in_time_lets_the_command_go_on() {
        let mut plan = plan();
        plan.believed_until(at(15_000));
        assert_eq!(plan.step(at(8_900)), Step::Wait(at(13_900)));
        assert_eq!(plan.stopping(), None);
    }

    #[test]
    fn a_loss_that_is_told_stops_at_once_and_the_deadline_stays_the_end() {
        let mut early = plan();
        early.stop(Why::Lost, at(100));
        assert_eq!(early.step(at(100)), Step::Term);
        assert_eq!(early.step(at(101)), Step::Wait(at(1_100)));
        let mut late = plan();
        late.stop(Why::Lost, at(9_500));
        assert_eq!(late.step(at(9_500)), Step::Term);
        assert_eq!(late.step(at(9_501)), Step::Wait(at(9_900)));
    }

    #[test]
    fn a_warden_that_wakes_late_kills_without_asking() {
        let mut plan = plan();
        assert_eq!(plan.step(at(9_900)), Step::Kill);
        assert_eq!(plan.stopping(), Some(Why::Lost));
    }

    #[test]
    fn members_left_behind_get_the_same_time_and_a_renewal_no_more_of_it() {
        let mut plan = plan();
        plan.stop(Why::Leftovers, at(2_000));
        assert_eq!(plan.step(at(2_000)), Step::Term);
        plan.believed_until(at(20_000));
        assert_eq!(plan.step(at(2_001)), Step::Wait(at(3_000)));
        plan.believed_until(at(2_600));
        assert_eq!(plan.step(at(2_500)), Step::Kill);
        assert_eq!(plan.stopping(), Some(Why::Leftovers));
    }

    /// Mutant: an end after the lease is told as any other.
    #[test]
    fn an_end_after_the_lease_is_told_from_one_within_it() {
        for (ended, why) in [(9_999, Why::Leftovers), (10_000, Why::Outlived)] {
            let mut plan = plan();
            plan.ended(at(ended));
            assert_eq!(plan.stopping(), Some(why));
        }
        let mut stopped = plan();
        stopped.stop(Why::Lost, at(9_000));
        stopped.ended(at(10_000));
        assert_eq!(stopped.stopping(), Some(Why::Lost));
    }

    #[test]
    fn nothing_is_started_that_would_have_to_be_stopped_at_once() {
        assert!(plan().may_start(at(8_899)));
        assert!(!plan().may_start(at(8_900)));
    }
}
