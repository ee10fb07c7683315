//! The writes of a worker: one with its retries, and what is asked for again later.

use fencepost_client::LeaseState;
use fencepost_core::{
    Grant, OperationId,
    fence::{Fingerprint, Operation, RejectedBy, Rejection, Verdict},
};
use fencepost_testkit::history::{Answer, Doing};

use super::{Held, Worker};
use crate::{
    noted::{say_why, with},
    subject::{Set, Subject},
};

/// What a worker notes of a write under a token from before the resource was copied back.
pub(crate) const OLDER_REFUSED: &str = "an older token was refused after the copying back";

/// A write, as it can be repeated.
#[derive(Clone)]
pub(super) struct Effect {
    pub(super) subject: Subject,
    pub(super) generation: u32,
    pub(super) grant: Grant,
    pub(super) operation: Operation,
    pub(super) element: String,
    pub(super) set: Set,
}

#[derive(PartialEq, Eq)]
pub(super) enum Came {
    /// Applied, now or before.
    Through,
    Rejected,
    /// Nobody knows.
    Nowhere,
}

impl Worker {
    /// Writes until there is an answer, and hears one of ten answers not.
    pub(super) fn write(&mut self, effect: &Effect, held: Option<&Held>) -> Came {
        let recorder = self.recorder_of(effect.subject);
        for _ in 0..8 {
            let call = with(&recorder, |recorder| {
                recorder.call(Doing::Write, effect.grant.domain.as_str(), |line| {
                    line.resource = Some(effect.subject.resource(effect.generation));
                    line.token = Some(effect.grant.token.to_string());
                    line.value = Some(effect.element.clone());
                    line.name_operation(&effect.operation);
                })
            });
            let answer = |got: Answer| with(&recorder, |recorder| recorder.answer(call, got, |_| {}));
            if !effect.subject.is_fenced() {
                let written = self.store.write_unfenced(effect.subject, &effect.set);
                answer(if written.is_ok() { Answer::Applied } else { Answer::Unknown });
                return if written.is_ok() { Came::Through } else { Came::Nowhere };
            }
            match self.store.write(effect.subject, &effect.grant, &effect.operation, &effect.set) {
                Ok(Verdict::Applied(()) | Verdict::Replayed(())) if self.random.chance(10) => answer(Answer::Unknown),
                Ok(Verdict::Applied(())) => {
                    answer(Answer::Applied);
                    return Came::Through;
                }
                Ok(Verdict::Replayed(())) => {
                    answer(Answer::Replayed);
                    return Came::Through;
                }
                Ok(Verdict::Rejected(rejection)) => {
                    with(&recorder, |recorder| {
                        recorder.answer(call, Answer::Rejected, |line| say_why(line, &rejection))
                    });
                    self.complain_of(&rejection, held);
                    return Came::Rejected;
                }
                Err(error) => {
                    answer(if error.may_have_happened() { Answer::Unknown } else { Answer::Refused });
                    self.note(&format!("a write failed: {error}"));
                    if !error.retryable() {
                        return Came::Nowhere;
                    }
                    self.pause(5, 40);
                }
            }
        }
        Came::Nowhere
    }

    /// A holder that still believes in its lease was refused, and nothing but a recovery may have done that.
    fn complain_of(&mut self, rejection: &Rejection, held: Option<&Held>) {
        let is_recovery = match rejection {
            Rejection::Closed(_) | Rejection::UnknownEpoch { .. } | Rejection::OperationTooOld => true,
            Rejection::Stale { by, .. } => match by {
                RejectedBy::Fence => false,
                RejectedBy::Floor | RejectedBy::UnfencedFloor => true,
            },
            _ => false,
        };
        let believes = held.is_some_and(|held| match held.lease().state() {
            LeaseState::Held | LeaseState::InDoubt { .. } => true,
            LeaseState::Lost(_) => false,
        });
        if believes && !is_recovery {
            self.note(&format!("BROKEN a rightful holder was refused: {rejection}"));
        }
    }

    /// A retry that comes late, under the token of then or under that of now: its effect is there, whoever owns the
    /// domain by now.
    pub(super) fn retry_an_earlier_one(&mut self, current: &Grant) {
        if self.effects.is_empty() || !self.random.chance(40) {
            return;
        }
        let at = usize::try_from(self.random.next() % self.effects.len() as u64).unwrap();
        let mut effect = self.effects.swap_remove(at);
        let generation = self.generation();
        if effect.generation != generation {
            self.try_what_is_older(Effect { generation, ..effect });
            return;
        }
        if effect.grant.domain == current.domain && self.random.chance(50) {
            effect.grant = current.clone();
        }
        if self.random.chance(40) {
            self.ask_for_something_else(effect);
        } else {
            self.write(&effect, None);
        }
    }

    /// Another request under an operation id that is in use, as of a program that draws its ids badly. It is refused as long
    /// as the operation is on record, and after that it is too old.
    fn ask_for_something_else(&mut self, effect: Effect) {
        let element = self.fresh_element();
        let set = effect.set.with(&element);
        let operation = Operation { fingerprint: Fingerprint::of(set.as_str().as_bytes()), ..effect.operation.clone() };
        if self.write(&Effect { operation, element, set, ..effect }, None) == Came::Through {
            self.note("BROKEN I7: another request was accepted under an operation id that was in use");
        }
    }

    /// Another write under a token from before the resource was copied back. All leases of then had ended by then.
    fn try_what_is_older(&mut self, effect: Effect) {
        let element = self.fresh_element();
        let set = effect.set.with(&element);
        let id = OperationId::new(&element).unwrap();
        let operation = Operation::new(id, set.as_str().as_bytes()).born(effect.grant.token);
        match self.write(&Effect { operation, element, set, ..effect }, None) {
            Came::Through => self.note("BROKEN I11: a token from before the copying back was accepted after it"),
            Came::Rejected => self.note(OLDER_REFUSED),
            Came::Nowhere => {}
        }
    }
}
