//! What has happened, kept for people up to a number.
//!
//! Nothing is written for it when something happens: until the next snapshot the log tells it, and with the snapshot
//! that lets the log be trimmed the entries are written in chunks. In memory they lie in sealed chunks, so a reader
//! holds up the writer for as long as it takes to copy some pointers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fencepost_core::{
    Moment,
    lease::{Event, EventKind, Filter},
};
use serde::{Deserialize, Serialize};

use crate::{HistoryEntry, HistoryNumber, HistoryPage, HistoryQuery};

/// How many entries are kept at least, where so much has happened.
pub(super) const HISTORY_ENTRIES: u64 = 20_000;
/// Entries of a sealed chunk.
const CHUNK: usize = 1_000;
/// A stored part takes entries until it has this many bytes.
const PART_BYTES: usize = 512 * 1024;

/// One entry, as it is kept and stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    commit: u64,
    place: u32,
    unix_ms: Option<u64>,
    event: Event,
}

/// The wall clock beside the clock of leases at a start, to tell times of the latter by the former.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) at_ms: u64,
    pub(super) unix_ms: u64,
}

impl Anchor {
    fn wall(self, at: Moment) -> Option<u64> {
        (self.unix_ms + at.as_millis()).checked_sub(self.at_ms)
    }
}

#[derive(Default)]
pub(super) struct History {
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    sealed: VecDeque<Arc<Vec<Kept>>>,
    open: Vec<Kept>,
    count: u64,
    /// The last entry, by commit and place.
    last: (u64, u32),
    /// Entries up to this commit are stored.
    stored: u64,
    anchors: BTreeMap<u64, Anchor>,
}

/// A part of the history, ready to be stored.
pub(super) struct Part {
    pub(super) entries: u64,
    pub(super) bytes: Vec<u8>,
}

impl History {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn anchor(&self, start: u64, anchor: Anchor) {
        self.content().anchors.insert(start, anchor);
    }

    /// Takes what one commit of a start has made durable; a commit that is here already is not taken again.
    pub(super) fn note(&self, start: u64, commit: u64, events: impl IntoIterator<Item = (Moment, Event)>) {
        let mut events = events.into_iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let mut content = self.content();
        if commit <= content.last.0 {
            return;
        }
        let anchor = content.anchors.get(&start).copied();
        for (place, (at, event)) in (0..).zip(events) {
            let unix_ms = anchor.and_then(|anchor| anchor.wall(at));
            content.push(Kept { commit, place, unix_ms, event });
        }
    }

    /// Takes a stored part. One that is not understood is left out: it decides nothing, and a start must not fail for
    /// it.
    pub(super) fn restore(&self, bytes: &[u8]) {
        let Ok(entries) = postcard::from_bytes::<Vec<Kept>>(bytes) else { return };
        let mut content = self.content();
        // A snapshot that was given up leaves parts behind whose entries come again in a later one.
        for entry in entries {
            if (entry.commit, entry.place) > content.last {
                content.push(entry);
            }
        }
    }

    /// Entries up to this commit are stored.
    pub(super) fn stored_through(&self, commit: u64) {
        self.content().stored = commit;
    }

    /// What is not stored yet.
    pub(super) fn not_stored(&self) -> NotStored {
        let mut content = self.content();
        content.seal();
        let after = content.stored;
        let new = content.sealed.iter().filter(|chunk| chunk.last().is_some_and(|entry| entry.commit > after));
        NotStored { chunks: new.cloned().collect(), after }
    }

    pub(super) fn page(&self, query: &HistoryQuery) -> HistoryPage {
        let mut page = HistoryPage { entries: Vec::new(), next: None };
        let sealed = {
            let content = self.content();
            if page.fill(query, &content.open) {
                return page;
            }
            content.sealed.clone()
        };
        for chunk in sealed.iter().rev() {
            if page.fill(query, chunk) {
                break;
            }
        }
        page
    }
}

impl Content {
    fn push(&mut self, entry: Kept) {
        self.last = (entry.commit, entry.place);
        self.open.push(entry);
        self.count += 1;
        if self.open.len() >= CHUNK {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if !self.open.is_empty() {
            self.sealed.push_back(Arc::new(std::mem::take(&mut self.open)));
        }
        while let Some(oldest) = self.sealed.front()
            && self.count - oldest.len() as u64 >= HISTORY_ENTRIES
        {
            self.count -= oldest.len() as u64;
            self.sealed.pop_front();
        }
    }
}

/// Entries on their way to the store.
pub(super) struct NotStored {
    chunks: Vec<Arc<Vec<Kept>>>,
    after: u64,
}

impl NotStored {
    /// Encodes them. Not for the thread that commits wait for.
    pub(super) fn encode(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut bytes, mut entries) = (Vec::new(), 0);
        for entry in self.chunks.iter().flat_map(|chunk| chunk.iter()).filter(|entry| entry.commit > self.after) {
            bytes = postcard::to_extend(entry, bytes).expect("entries always have an encoding");
            entries += 1;
            if bytes.len() >= PART_BYTES {
                parts.push(Part::of(entries, &bytes));
                (bytes, entries) = (Vec::new(), 0);
            }
        }
        if entries > 0 {
            parts.push(Part::of(entries, &bytes));
        }
        parts
    }
}

impl Part {
    /// The encoding of a sequence is its length and then its elements.
    fn of(entries: u64, elements: &[u8]) -> Self {
        let mut bytes =
            postcard::to_extend(&entries, Vec::with_capacity(elements.len() + 10)).expect("a number has one");
        bytes.extend_from_slice(elements);
        Self { entries, bytes }
    }
}

impl HistoryPage {
    /// Adds what is asked for, from the end of `entries` on; whether the page is complete.
    fn fill(&mut self, query: &HistoryQuery, entries: &[Kept]) -> bool {
        for entry in entries.iter().rev() {
            let number = entry.number();
            if query.before.is_some_and(|before| number >= before) || !entry.is_asked_for(query) {
                continue;
            }
            if self.entries.len() == query.limit {
                self.next = self.entries.last().map(|last| last.number);
                return true;
            }
            self.entries.push(HistoryEntry { number, unix_ms: entry.unix_ms, event: entry.event.clone() });
        }
        false
    }
}

impl Kept {
    fn number(&self) -> HistoryNumber {
        HistoryNumber { commit: self.commit, place: self.place }
    }

    fn is_asked_for(&self, query: &HistoryQuery) -> bool {
        let domain = match &query.filter {
            Filter::Domain(domain) => self.event.domain == *domain,
            Filter::Prefix(prefix) => self.event.domain.as_str().starts_with(prefix),
        };
        let burned = match &self.event.kind {
            EventKind::Granted { .. } => None,
            EventKind::Ended { fence_to, .. } => *fence_to,
        };
        domain && query.token.is_none_or(|token| self.event.token == Some(token) || burned == Some(token))
    }
}
