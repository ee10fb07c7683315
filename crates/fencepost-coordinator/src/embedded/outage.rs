//! What the writer does while the store takes no commits.
//!
//! The state in memory is ahead of the store by the batch that failed, and nobody knows whether that batch is there.
//! So the state is read back from the store; renewals that were answered before are kept. On it reads and heartbeats
//! go on, and so do retries of releases that the store knows of. Nothing else is decided until a probe shows that
//! commits work again.

use std::{
    collections::BTreeSet,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use fencepost_core::{
    Moment, SessionId,
    lease::{Command, Output},
};

use super::{
    NotReady,
    clock::moment,
    message::{Call, Message},
    store::StoreError,
    writer::{Batch, Mode, Writer},
};

const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

pub(super) struct Outage {
    since: Instant,
    why: String,
    /// Whether the state in memory may be ahead of the store.
    ahead: bool,
    /// What has been decided since, by time alone or by a session's first heartbeat: to be committed first.
    owed: Output,
    /// The sessions that something of it is about. What memory says of them may not be told: a crash would take it
    /// back.
    owed_to: BTreeSet<SessionId>,
    probe_at: Instant,
    backoff: Duration,
}

impl Outage {
    pub(super) fn until_probe(&self) -> Duration {
        self.probe_at.saturating_duration_since(Instant::now())
    }
}

impl Writer {
    /// A commit failed, or the check of the start number did. Nobody is answered with what was decided.
    pub(super) fn fail(&mut self, output: Output, why: String) {
        let ahead = !output.records().is_empty();
        self.facts.failed_commits.fetch_add(1, Relaxed);
        // Whoever gets an error and asks is to see why.
        self.facts.hinder(Some(NotReady::Storage { why: why.clone() }));
        for ticket in output.failed() {
            if let Some(reply) = self.replies.remove(&ticket) {
                reply.refuse(&why, ahead);
            }
        }
        // Places in the queues do not survive; a retry with the same request id takes a new one.
        for (_, reply) in self.replies.drain() {
            reply.refuse(&why, false);
        }
        let now = moment(self.clock.now());
        for ticket in self.leases.waiting().collect::<Vec<_>>() {
            self.leases.disconnect(ticket, now);
        }
        let (since, backoff, was_ahead) = match &self.mode {
            Mode::Outage(outage) => (outage.since, outage.backoff, outage.ahead),
            Mode::Serving | Mode::Deposed { .. } => {
                self.observer.failed(&why);
                (Instant::now(), FIRST_BACKOFF, false)
            }
        };
        self.mode = Mode::Outage(Outage {
            since,
            why,
            ahead: ahead || was_ahead,
            owed: Output::default(),
            owed_to: BTreeSet::new(),
            probe_at: Instant::now() + backoff,
            backoff: (backoff * 2).min(LONGEST_BACKOFF),
        });
        self.read_back();
    }

    /// Replaces a state that may be ahead of the store by what the store holds, where that can be read.
    fn read_back(&mut self) {
        let Mode::Outage(outage) = &mut self.mode else { return };
        if !outage.ahead {
            return;
        }
        match self.journal.load() {
            Ok(mut found) => {
                found.keep_renewals_of(&self.leases);
                self.leases = found;
                outage.ahead = false;
            }
            Err(StoreError::Deposed { by }) => self.depose(by),
            Err(StoreError::Failed(why) | StoreError::Damaged(why)) => {
                outage.why = why.clone();
                self.facts.hinder(Some(NotReady::Storage { why }));
            }
        }
    }

    /// Handles a batch during an outage.
    pub(super) fn endure(&mut self, batch: &mut Batch) {
        let mut answers = Output::default();
        self.let_time_pass(batch);
        for message in batch.messages.drain(..) {
            match message {
                Message::Call(call) => self.answer_without_commit(call, batch.at, &mut answers),
                // Nobody waits in a queue.
                Message::Disconnected(_) => {}
                Message::Snapshot(encoded) => self.upkeep.encoded(encoded),
                Message::Shutdown(done) => self.closing.get_or_insert_default().extend(done),
            }
        }
        match self.journal.confirm() {
            Ok(()) => self.speak(answers, batch.at),
            Err(StoreError::Deposed { by }) => return self.depose(by),
            Err(StoreError::Failed(why) | StoreError::Damaged(why)) => {
                for ticket in answers.failed() {
                    if let Some(reply) = self.replies.remove(&ticket) {
                        reply.refuse(&why, false);
                    }
                }
            }
        }
        let Mode::Outage(outage) = &self.mode else { return };
        if outage.until_probe().is_zero() && self.closing.is_none() {
            self.try_to_resume();
        }
    }

    fn let_time_pass(&mut self, batch: &Batch) {
        let Mode::Outage(outage) = &mut self.mode else { return };
        if !outage.ahead {
            outage.owed.join(self.leases.tick(batch.at));
        }
    }

    /// Answers a call that leaves no record, and refuses every other.
    fn answer_without_commit(&mut self, call: Call, now: Moment, answers: &mut Output) {
        let Mode::Outage(outage) = &mut self.mode else { return };
        let (needs_commit, session) = match &call.command {
            Command::Heartbeat { caller, .. } | Command::ReadSession { caller } => (false, Some(caller.session)),
            Command::Query(_) => (false, None),
            // Nothing is released in an outage, so a release that was decided is one that the store knows of.
            Command::Release { secret: Some(secret), lease, request } => {
                (!self.leases.is_released(*secret, *lease, *request), None)
            }
            Command::OpenSession { .. }
            | Command::EndSession { .. }
            | Command::Acquire(_)
            | Command::Release { secret: None, .. }
            | Command::Break { .. } => (true, None),
        };
        if needs_commit || outage.ahead {
            return call.reply.refuse(&outage.why, false);
        }
        if session.is_some_and(|session| outage.owed_to.contains(&session)) {
            return call.reply.refuse(&outage.why, true);
        }
        let output = self.leases.step(call.ticket, call.command, now);
        if output.records().is_empty() {
            self.replies.insert(call.ticket, call.reply);
            answers.join(output);
        } else {
            call.reply.refuse(&outage.why, true);
            outage.owed.join(output);
            outage.owed_to.extend(session);
        }
    }

    /// Finds out whether commits work again, and if so commits what is owed.
    fn try_to_resume(&mut self) {
        let probed = self.facts.timed(|| self.journal.probe()).0;
        let Mode::Outage(outage) = &mut self.mode else { return };
        match probed {
            Ok(()) => {}
            Err(StoreError::Deposed { by }) => return self.depose(by),
            Err(StoreError::Failed(why) | StoreError::Damaged(why)) => {
                outage.probe_at = Instant::now() + outage.backoff;
                outage.backoff = (outage.backoff * 2).min(LONGEST_BACKOFF);
                outage.why = why.clone();
                return self.facts.hinder(Some(NotReady::Storage { why }));
            }
        }
        self.read_back();
        let Mode::Outage(outage) = &mut self.mode else { return };
        if outage.ahead {
            outage.probe_at = Instant::now() + outage.backoff;
            outage.backoff = (outage.backoff * 2).min(LONGEST_BACKOFF);
            return;
        }
        let since = outage.since;
        let owed = std::mem::take(&mut outage.owed);
        // A failure here goes back to the beginning of the outage, with a longer backoff.
        if self.settle(owed, 0, moment(self.clock.now())) {
            self.mode = Mode::Serving;
            self.facts.hinder(None);
            self.observer.resumed(since.elapsed());
        }
    }
}
