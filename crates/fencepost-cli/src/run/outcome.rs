//! What became of a command, from what its warden has said and how that ended: decided here, told elsewhere.
//!
//! A warden says what it is about to do before it does it. So where it has not said that the gate is opened, nothing was
//! started, whatever became of the warden; where it has, and nothing after that, nobody can know.

use super::{
    link::{End, NoCommand, Report},
    plan::Why,
};

/// What the warden has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The process that may be the command: the gate was about to be opened for it.
    pub(crate) opening: Option<u32>,
    pub(crate) started: bool,
    none: Option<NoCommand>,
    /// How that process has ended, or, before the gate was opened, the one that waited there.
    pub(crate) ended: Option<End>,
    pub(crate) gone: Option<Why>,
}

impl Heard {
    pub(crate) fn take(&mut self, report: Report) {
        match report {
            Report::Opening(pid) => self.opening = Some(pid),
            Report::Started => self.started = true,
            Report::None(none) => self.none = Some(none),
            Report::Ended(end) => self.ended = Some(end),
            Report::Gone(why) => self.gone = Some(why),
        }
    }
}

/// Why the warden is listened to no longer, when no member of the command lives any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It has said all that there was, or is gone before its time.
    Ended,
    /// The end of the lease came so near that it must have failed, and it was ended with the command.
    LastLine,
    /// It has taken half of a start, which is none, and was ended.
    HalfTold,
}

/// What became of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has run until this end.
    Ended(End),
    /// It has run, and was stopped because of the lease.
    Stopped(End),
    /// It has run until this end of its own, which came after that of the lease.
    Outlived(End),
    /// It has not run.
    NotRun(NotRun),
    /// It may have run. It does not any more.
    Unknown,
}

/// Why there was no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotRun {
    /// What the warden, or the process that waited, has found.
    Found(NoCommand),
    /// The process that was to become it has ended like this.
    FirstEnded(End),
    /// The warden was ended.
    WardenEnded,
    /// The warden did not take a whole start.
    HalfTold,
    /// The lease was lost first.
    Lost,
}

/// What became of it, where `is_lost` says whether a lease is known to be lost.
pub(crate) fn outcome(heard: &Heard, silence: Silence, is_lost: bool) -> Outcome {
    match &heard.none {
        // It came too late because it was lost.
        Some(NoCommand::TooLate) if is_lost => return Outcome::NotRun(NotRun::Lost),
        Some(none) => return Outcome::NotRun(NotRun::Found(none.clone())),
        None => {}
    }
    let is_over = is_lost || silence == Silence::LastLine;
    // A warden that is gone takes the command with it.
    let end = heard.ended.unwrap_or(End::Killed(9));
    match (heard.started, heard.opening, heard.ended) {
        (true, _, _) => match heard.gone {
            Some(Why::Lost) => Outcome::Stopped(end),
            Some(Why::Outlived) => Outcome::Outlived(end),
            Some(Why::Leftovers) => Outcome::Ended(end),
            None if is_over => Outcome::Stopped(end),
            None => Outcome::Ended(end),
        },
        (false, Some(_), None) => Outcome::Unknown,
        (false, Some(_), Some(end)) => Outcome::NotRun(match heard.gone {
            Some(Why::Lost | Why::Outlived) => NotRun::Lost,
            Some(Why::Leftovers) => NotRun::FirstEnded(end),
            None if is_over => NotRun::Lost,
            None => NotRun::FirstEnded(end),
        }),
        (false, None, Some(end)) => Outcome::NotRun(NotRun::FirstEnded(end)),
        (false, None, None) if is_over => Outcome::NotRun(NotRun::Lost),
        (false, None, None) => Outcome::NotRun(match silence {
            Silence::HalfTold => NotRun::HalfTold,
            Silence::Ended | Silence::LastLine => NotRun::WardenEnded,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(reports: &[Report]) -> Heard {
        let mut heard = Heard::default();
        reports.iter().for_each(|report| heard.take(report.clone()));
        heard
    }

    fn every_way() -> impl Iterator<Item = (Silence, bool)> {
        [Silence::Ended, Silence::LastLine, Silence::HalfTold]
            .into_iter()
            .flat_map(|silence| [false, true].map(|is_lost| (silence, is_lost)))
    }

    /// Mutant: a warden that has said nothing after that is taken to have started nothing.
    #[test]
    fn where_the_gate_may_be_open_nobody_says_that_nothing_was_started() {
        for (silence, is_lost) in every_way() {
            assert_eq!(outcome(&heard(&[Report::Opening(7)]), silence, is_lost), Outcome::Unknown);
        }
    }

    /// Mutant: the end of the lease is told as a stopped command, whether or not there was one.
    #[test]
    fn where_the_gate_was_never_opened_nobody_says_that_anything_was_stopped() {
        for (silence, is_lost) in every_way() {
            for reports in [&[][..], &[Report::Ended(End::Killed(15))], &[Report::None(NoCommand::TooLate)]] {
                assert!(matches!(outcome(&heard(reports), silence, is_lost), Outcome::NotRun(_)), "{reports:?}");
            }
        }
        assert_eq!(outcome(&heard(&[]), Silence::LastLine, false), Outcome::NotRun(NotRun::Lost));
        assert_eq!(outcome(&heard(&[]), Silence::Ended, false), Outcome::NotRun(NotRun::WardenEnded));
        assert_eq!(outcome(&heard(&[]), Silence::HalfTold, false), Outcome::NotRun(NotRun::HalfTold));
        assert_eq!(outcome(&heard(&[]), Silence::HalfTold, true), Outcome::NotRun(NotRun::Lost));
    }

    /// Mutant: what the process at the gate ended with is taken for the command's end.
    #[test]
    fn a_process_that_ends_at_the_gate_is_no_command_that_ended() {
        let ended = Report::Ended(End::Exited(80));
        let late = [Report::Opening(7), Report::None(NoCommand::TooLate), ended.clone(), Report::Gone(Why::Leftovers)];
        let found = |none| Outcome::NotRun(NotRun::Found(none));
        assert_eq!(outcome(&heard(&late), Silence::Ended, false), found(NoCommand::TooLate));
        assert_eq!(outcome(&heard(&late), Silence::Ended, true), Outcome::NotRun(NotRun::Lost));
        let killed = [Report::Opening(7), Report::Ended(End::Killed(9)), Report::Gone(Why::Leftovers)];
        let first = Outcome::NotRun(NotRun::FirstEnded(End::Killed(9)));
        assert_eq!(outcome(&heard(&killed), Silence::Ended, false), first);
        let stopped = [Report::Opening(7), Report::Ended(End::Killed(9)), Report::Gone(Why::Lost)];
        assert_eq!(outcome(&heard(&stopped), Silence::Ended, true), Outcome::NotRun(NotRun::Lost));
    }

    #[test]
    fn a_command_that_ran_is_told_by_why_it_ended() {
        let ran = |more: &[Report]| heard(&[&[Report::Opening(7), Report::Started], more].concat());
        let exited = Report::Ended(End::Exited(0));
        for (why, is) in [
            (Why::Lost, Outcome::Stopped(End::Exited(0))),
            (Why::Outlived, Outcome::Outlived(End::Exited(0))),
            (Why::Leftovers, Outcome::Ended(End::Exited(0))),
        ] {
            assert_eq!(outcome(&ran(&[exited.clone(), Report::Gone(why)]), Silence::Ended, false), is);
        }
        assert_eq!(outcome(&ran(&[]), Silence::Ended, false), Outcome::Ended(End::Killed(9)));
        assert_eq!(outcome(&ran(&[]), Silence::Ended, true), Outcome::Stopped(End::Killed(9)));
        assert_eq!(outcome(&ran(&[]), Silence::LastLine, false), Outcome::Stopped(End::Killed(9)));
    }
}
