//! The scene in which the coordinator loses its store for good and begins again, as an operator has to do it: under its
//! name, in a greater epoch, of which every receiver is told together with a floor at the begin of that epoch, and not
//! before everybody's belief in a lease of before has ended.

use std::{fs, path::Path, thread, time::Duration};

use fencepost_coordinator::Coordinator as _;
use fencepost_core::{Epoch, Issuer};
use fencepost_testkit::{
    history::{Action, Call, Outcome},
    torture::{Deed, Target, now_us},
};

use crate::{
    arena::{Mistake, server_runs},
    nemesis::Nemesis,
    rights::set_wall_clock,
    subject::{Kind, SUBJECTS, Subject, database},
    worker::TTL_MS,
};

/// What is noted of a call under a token of an epoch that was lost, made after its receiver had been told of the next one.
pub(crate) const LOST_EPOCH_REFUSED: &str = "a token of the lost epoch was refused";
/// What is noted of a call under a token of the new epoch at a receiver that had not been told of it yet.
pub(crate) const UNTOLD_EPOCH_REFUSED: &str = "a token of the new epoch was refused by a receiver not yet told of it";
/// A wall clock from before the store was made: what a start pushes the sequence by is nothing then.
const A_DAY_BACK: i64 = -86_400;

/// A receiver that was told: from then on it must accept nothing of an earlier epoch.
pub(crate) struct Told {
    subject: Subject,
    epoch: Epoch,
    at_us: u64,
}

impl Nemesis {
    /// Nothing where nobody came to stand before a write in time: it may be begun again then. What does not come off after
    /// the loss is broken.
    pub(crate) fn lose_the_store(&mut self, subject: Subject) -> Option<()> {
        let snapshot = self.runtime.block_on(self.coordinator.snapshot(String::new())).ok()?;
        let copy = self.root.join("backup-of-the-store");
        let takes_a_copy = self.orders.mistake == Some(Mistake::OlderCopy);
        if takes_a_copy {
            self.kill_the_server();
            copy_files(&self.root.join("data"), &copy);
            self.perform(Deed::Restart);
        }
        let hold = format!("hold.{}", subject.label);
        self.gates.put(&hold);
        self.gates.write("focus", subject.label);
        let late = self.somebody_at(subject, None)?;

        self.kill_the_server();
        self.empty_the_store();
        if takes_a_copy {
            copy_files(&copy, &self.root.join("data"));
        }
        if self.begin_again(snapshot.issuer, snapshot.epoch, subject, &late).is_none() {
            self.verdict.broken.push("the store was lost: work did not go on, or nobody was refused".to_owned());
        }
        Some(())
    }

    fn kill_the_server(&mut self) {
        self.perform(Deed::Kill(Target::Server));
    }

    fn empty_the_store(&self) {
        for entry in fs::read_dir(self.root.join("data")).unwrap().flatten() {
            fs::remove_file(entry.path()).unwrap();
        }
    }

    fn begin_again(&mut self, issuer: Issuer, lost: Epoch, subject: Subject, late: &str) -> Option<()> {
        let mistake = self.orders.mistake;
        let epoch = if mistake == Some(Mistake::SameEpoch) { lost } else { Epoch::new(lost.get() + 1).unwrap() };
        if mistake != Some(Mistake::TooEarly) {
            // bounded: by the greatest TTL of all sessions, after which nobody believes
            thread::sleep(Duration::from_millis(TTL_MS));
        }
        if mistake == Some(Mistake::OlderCopy) {
            set_wall_clock(&self.root, A_DAY_BACK);
            self.perform(Deed::Restart);
        } else {
            // Some receivers are told before the coordinator begins, and some after: whoever has not been told refuses.
            self.tell_receivers(Kind::Sqlite, &issuer, epoch);
            self.server.begin_again(issuer.as_str(), epoch.get());
            server_runs(Some(self.server.pid()));
            self.server_is_up = true;
            if epoch > lost && mistake != Some(Mistake::TooEarly) {
                let untold = SUBJECTS.into_iter().find(|subject| subject.kind == Kind::File && subject.is_fenced())?;
                self.gates.write("focus", untold.label);
                self.somebody_got(untold, |call| is_rejected(call, "unknown_epoch") && is_of(call, epoch))?;
                self.gates.write("focus", subject.label);
            }
            self.tell_receivers(Kind::File, &issuer, epoch);
        }
        // The holder of before writes at last. The next one has read and not written yet: only the floor can refuse it.
        self.somebody_at(subject, Some(late))?;
        self.gates.put(&format!("go.{late}"));
        self.gone_from(subject, late)?;
        self.gates.take_away(&format!("hold.{}", subject.label));
        if mistake.is_some() {
            return Some(());
        }
        for subject in SUBJECTS.into_iter().filter(|subject| subject.is_fenced()) {
            self.gates.write("focus", subject.label);
            let is_write = |call: &Call| matches!(call.action, Action::Write { .. }) && is_of(call, epoch);
            self.somebody_got(subject, |call| is_write(call) && call.outcome == Outcome::Applied)?;
        }
        self.gates.take_away("focus");
        Some(())
    }

    /// By the real command, each receiver by its own line.
    fn tell_receivers(&mut self, kind: Kind, issuer: &Issuer, epoch: Epoch) {
        let (root, subjects) = (self.root.clone(), SUBJECTS.into_iter().filter(|subject| subject.is_fenced()));
        let (epoch_text, floor) = (epoch.get().to_string(), format!("{epoch}.0"));
        let mut vouched = vec!["--issuer", issuer.as_str(), "--epoch", &epoch_text];
        // Of the first epoch there is no such token.
        if epoch > Epoch::ZERO && self.orders.mistake != Some(Mistake::NoFloor) {
            vouched.extend(["--floor", &floor]);
        }
        let subjects: Vec<Subject> = subjects.filter(|subject| subject.kind == kind).collect();
        match kind {
            Kind::Sqlite => self.run_guard(&database_line(&root), &vouched),
            Kind::File => subjects.iter().for_each(|subject| self.run_guard(&file_line(&root, *subject), &vouched)),
        }
        let at_us = now_us(0);
        self.told.extend(subjects.into_iter().map(|subject| Told { subject, epoch, at_us }));
    }

    fn run_guard(&self, line: &[String], vouched: &[&str]) {
        let arguments: Vec<&str> = line.iter().map(String::as_str).chain(vouched.iter().copied()).collect();
        let output = self.server.shell().command(&arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Nothing of a lost epoch is accepted by whoever was told of a later one.
    pub(crate) fn judge_lost_epochs(&mut self, calls: &[Call]) {
        for call in calls {
            let Some(presented) = token_of(call).map(|token| token.epoch()) else { continue };
            let of = |told: &&Told| told.subject.domain().as_str() == call.domain;
            let told = self.told.iter().filter(of).filter(|told| call.called_us.is_some_and(|at| at > told.at_us));
            let known = told.map(|told| told.epoch).max();
            if known.is_some_and(|known| presented < known) {
                match call.outcome {
                    Outcome::Applied | Outcome::Value(_) => self.verdict.broken.push(format!(
                        "I11: a token of epoch {presented} was accepted in {} after its receiver had been told of a later one",
                        call.domain
                    )),
                    Outcome::Rejected { .. } => self.verdict.notes.count(LOST_EPOCH_REFUSED),
                    // What had been done before the loss stays done.
                    Outcome::Replayed
                    | Outcome::Granted { .. }
                    | Outcome::Done
                    | Outcome::Refused
                    | Outcome::Unknown => {}
                }
            }
            if is_rejected(call, "unknown_epoch") {
                self.verdict.notes.count(UNTOLD_EPOCH_REFUSED);
            }
        }
    }
}

/// How a database is guarded, but for who vouches.
pub(crate) fn database_line(root: &Path) -> Vec<String> {
    let resource = format!("sqlite:{}", database(root).display());
    ["guard", &resource, "guarded", "--domain", "'set/' || label"].map(str::to_owned).into()
}

/// How a file is guarded, but for who vouches.
pub(crate) fn file_line(root: &Path, subject: Subject) -> Vec<String> {
    let resource = format!("file:{}", subject.file(root).display());
    ["guard", &resource, "--domain", subject.domain().as_str()].map(str::to_owned).into()
}

fn token_of(call: &Call) -> Option<fencepost_core::Token> {
    match &call.action {
        Action::Write { token, .. } | Action::Advance { token } => Some(*token),
        Action::Read { token } => *token,
        Action::Acquire | Action::Renew | Action::Release | Action::Open | Action::Heartbeat | Action::End => None,
    }
}

fn is_of(call: &Call, epoch: Epoch) -> bool {
    token_of(call).is_some_and(|token| token.epoch() == epoch)
}

fn is_rejected(call: &Call, why: &str) -> bool {
    matches!(&call.outcome, Outcome::Rejected { reason } if reason == why)
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
