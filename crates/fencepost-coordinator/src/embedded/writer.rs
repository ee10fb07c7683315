//! The one thread that decides, commits and answers, in this order.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed, mpsc::Receiver},
    time::Duration,
};

use fencepost_core::{
    Moment,
    lease::{Leases, Output, Ticket},
};
use tokio::sync::{broadcast, oneshot};

use super::{
    Clock, NotReady, Observer,
    clock::moment,
    facts::Facts,
    journal::Journal,
    lock::DirectoryLock,
    message::{Message, Reply},
    outage::Outage,
    store::StoreError,
    upkeep::Upkeeper,
};
use crate::WatchedEvents;

/// The longest sleep when nothing is due.
const LONG: Duration = Duration::from_secs(3600);

/// Why a call is not answered by a coordinator that was shut down.
pub(super) const SHUT_DOWN: &str = "the coordinator is shut down";

pub(super) struct Writer {
    pub(super) inbox: Receiver<Message>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) leases: Leases,
    pub(super) journal: Journal,
    pub(super) mode: Mode,
    /// Calls of the present batch, and calls that wait in a queue of the machine.
    pub(super) replies: HashMap<Ticket, Reply>,
    pub(super) events: broadcast::Sender<Arc<WatchedEvents>>,
    pub(super) event_number: u64,
    pub(super) facts: Arc<Facts>,
    pub(super) observer: Box<dyn Observer>,
    pub(super) upkeep: Upkeeper,
    pub(super) batch_most: usize,
    pub(super) closing: Option<Vec<oneshot::Sender<()>>>,
    pub(super) _lock: Option<DirectoryLock>,
}

/// Whether the writer may commit.
pub(super) enum Mode {
    Serving,
    Outage(Outage),
    /// For ever: a later start has the store.
    Deposed {
        why: String,
    },
}

/// A batch: what came in, and the moment at which all of it is decided.
pub(super) struct Batch {
    pub(super) messages: Vec<Message>,
    pub(super) at: Moment,
}

impl Writer {
    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let mut messages = Vec::with_capacity(self.batch_most);
        loop {
            self.collect(&mut messages);
            let mut batch = Batch { messages, at: moment(self.clock.now()) };
            if !batch.messages.is_empty() || self.is_due(batch.at) {
                match self.mode {
                    Mode::Serving => self.serve(&mut batch),
                    Mode::Outage(_) => self.endure(&mut batch),
                    Mode::Deposed { .. } => self.turn_away(&mut batch),
                }
            }
            messages = batch.messages;
            if let Some(waiting) = self.closing.take() {
                return self.close(waiting);
            }
        }
    }

    /// Waits until there is something to do and takes what is there, without waiting for more.
    fn collect(&mut self, messages: &mut Vec<Message>) {
        match self.inbox.try_recv() {
            Ok(message) => messages.push(message),
            // To spin before falling asleep wins ten microseconds on an idle machine and loses more on a busy one.
            Err(_) => {
                let sleep = self.sleep();
                // The writer keeps a sender of its own, so the channel never disconnects.
                if let Ok(message) = self.inbox.recv_timeout(sleep) {
                    messages.push(message);
                }
            }
        }
        while messages.len() < self.batch_most
            && let Ok(message) = self.inbox.try_recv()
        {
            messages.push(message);
        }
        let calls = messages.iter().filter(|message| matches!(message, Message::Call(_))).count() as u64;
        self.facts.queued.fetch_sub(calls, Relaxed);
        self.facts.calls.fetch_add(calls, Relaxed);
    }

    /// How long nothing is due.
    fn sleep(&mut self) -> Duration {
        let upkeep = match self.mode {
            Mode::Serving => self.upkeep_when_idle().unwrap_or(LONG),
            Mode::Outage(_) | Mode::Deposed { .. } => LONG,
        };
        match &self.mode {
            Mode::Serving => self.leases.next_wakeup().map_or(upkeep, |at| self.clock.until(at).min(upkeep)),
            Mode::Outage(outage) => outage.until_probe(),
            Mode::Deposed { .. } => LONG,
        }
    }

    /// Whether there is something to do without a call.
    fn is_due(&self, at: Moment) -> bool {
        match &self.mode {
            Mode::Serving => self.leases.next_wakeup().is_some_and(|due| due <= at),
            Mode::Outage(outage) => outage.until_probe().is_zero(),
            Mode::Deposed { .. } => false,
        }
    }

    /// Decides a batch, makes it durable, and answers.
    fn serve(&mut self, batch: &mut Batch) {
        let at = batch.at;
        let mut output = self.leases.tick(at);
        let mut calls = 0;
        self.facts.batches.fetch_add(1, Relaxed);
        for message in batch.messages.drain(..) {
            match message {
                Message::Call(call) => {
                    calls += 1;
                    self.replies.insert(call.ticket, call.reply);
                    output = self.leases.step_after(output, call.ticket, call.command, at);
                }
                Message::Disconnected(ticket) => {
                    if self.replies.remove(&ticket).is_some() {
                        self.leases.disconnect(ticket, at);
                    }
                }
                Message::Snapshot(encoded) => self.upkeep.encoded(encoded),
                Message::Shutdown(done) => self.closing.get_or_insert_default().extend(done),
            }
        }
        if fencepost_core::sabotage::active("reply_before_fsync") {
            return self.answer_before_it_is_durable(output, at);
        }
        if self.settle(output, calls, at) {
            self.upkeep.served();
            self.upkeep_under_load();
        }
    }

    /// Makes an output durable and speaks; whether that worked.
    pub(super) fn settle(&mut self, output: Output, calls: usize, decided: Moment) -> bool {
        let records = output.records().len();
        let (result, took) = if records == 0 {
            self.facts.timed(|| self.journal.confirm().map(|()| 0))
        } else {
            self.facts.timed(|| self.journal.commit(output.records()))
        };
        match result {
            Ok(bytes) => {
                if records > 0 {
                    self.facts.commits.fetch_add(1, Relaxed);
                    self.facts.records.fetch_add(records as u64, Relaxed);
                    self.facts.log_bytes.fetch_add(bytes as u64, Relaxed);
                }
                self.observer.committed(calls, records, took);
                self.speak(output, decided);
                true
            }
            Err(StoreError::Deposed { by }) => {
                self.depose(by);
                false
            }
            Err(StoreError::Failed(why) | StoreError::Damaged(why)) => {
                self.fail(output, why);
                false
            }
        }
    }

    /// Hands out the answers of an output whose records are durable.
    pub(super) fn speak(&mut self, output: Output, decided: Moment) {
        let spoken = output.committed();
        // Before the answers, so that whoever has one finds in the history what it was about.
        let watched = if self.events.receiver_count() > 0 { spoken.events.clone() } else { Vec::new() };
        self.event_number += spoken.events.len() as u64;
        let told = spoken.events.into_iter().map(|event| (decided, event));
        self.journal.history().note(self.journal.start(), self.journal.last(), told);
        for (ticket, answer) in spoken.answers {
            if let Some(reply) = self.replies.remove(&ticket) {
                reply.answer(answer, decided);
            }
        }
        if !watched.is_empty() {
            let first = self.event_number - watched.len() as u64 + 1;
            // Nobody may be reading any more, which is no error.
            let _ = self.events.send(Arc::new(WatchedEvents { first, events: watched }));
        }
    }

    /// The deliberate defect `reply_before_fsync`: answers leave a few milliseconds before what they promise is
    /// durable, long enough for a kill to fall in between.
    fn answer_before_it_is_durable(&mut self, output: Output, decided: Moment) {
        let records = output.records().to_vec();
        self.speak(output, decided);
        if !records.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
            let _ = self.journal.commit(&records);
        }
    }

    /// A later start has the store. Everything that is still owed an answer gets an error, now and for ever.
    pub(super) fn depose(&mut self, by: u64) {
        let not_ready = NotReady::Deposed { by };
        let why = not_ready.to_string();
        for (_, reply) in self.replies.drain() {
            reply.refuse(&why, false);
        }
        self.facts.hinder(Some(not_ready));
        self.observer.deposed(by);
        self.mode = Mode::Deposed { why };
    }

    fn turn_away(&mut self, batch: &mut Batch) {
        let Mode::Deposed { why } = &self.mode else { return };
        for message in batch.messages.drain(..) {
            match message {
                Message::Call(call) => call.reply.refuse(why, false),
                Message::Disconnected(_) | Message::Snapshot(_) => {}
                Message::Shutdown(done) => self.closing.get_or_insert_default().extend(done),
            }
        }
    }

    /// Answers what is left with an error, tidies the store, and lets go of it.
    fn close(mut self, waiting: Vec<oneshot::Sender<()>>) {
        for (_, reply) in self.replies.drain() {
            reply.refuse(SHUT_DOWN, false);
        }
        let mut done = waiting;
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Call(call) => call.reply.refuse(SHUT_DOWN, false),
                Message::Disconnected(_) | Message::Snapshot(_) => {}
                Message::Shutdown(more) => done.extend(more),
            }
        }
        self.facts.hinder(Some(NotReady::Stopped));
        // The store is closed before the lock of its directory is let go.
        drop(self);
        for done in done {
            let _ = done.send(());
        }
    }
}
