use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use fencepost_core::{Epoch, Issuer};

use crate::embedded::{
    Embedded, OpenError, Options,
    store::{EachRow, Header, Row, Store, StoreError, Upkeep},
};

/// A disk in memory. It lives as long as any clone of it, so that a coordinator can be opened on it again.
#[derive(Clone)]
pub struct MemoryStore {
    disk: Arc<Disk>,
}

/// Something that goes wrong, until [`MemoryStore::heal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The next commit of records fails and has not happened; commits after it work.
    FailNextCommitBefore,
    /// The next commit of records fails and has happened all the same; commits after it work.
    FailNextCommitAfter,
    /// Every commit fails without effect.
    RefuseCommits,
    /// Every commit, and every read.
    RefuseAll,
    /// Commits neither fail nor succeed; a new start is taken all the same.
    Stall,
}

#[derive(Default)]
struct Disk {
    content: Mutex<Content>,
    healed: Condvar,
}

#[derive(Default)]
struct Content {
    header: Option<Header>,
    log: BTreeMap<u64, Stored>,
    snapshots: BTreeMap<(u64, u64), Stored>,
    history: BTreeMap<(u64, u64), (u64, Stored)>,
    started: BTreeMap<u64, [u64; 3]>,
    fault: Option<Fault>,
    stalled: bool,
}

/// What a commit is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Records,
    Other,
}

#[derive(Clone)]
struct Stored {
    start: u64,
    checksum: u32,
    bytes: Vec<u8>,
}

impl Stored {
    fn of(row: &Row<'_>) -> Self {
        Self { start: row.start, checksum: row.checksum, bytes: row.bytes.to_vec() }
    }

    fn row(&self, id: u64) -> Row<'_> {
        Row { id, start: self.start, checksum: self.checksum, bytes: &self.bytes }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// A new coordinator `test` at epoch 0, created at the beginning of 1970.
    #[must_use]
    pub fn new() -> Self {
        Self::at_epoch(Epoch::ZERO)
    }

    /// The same at another epoch, whose tokens have more digits.
    #[must_use]
    pub fn at_epoch(epoch: Epoch) -> Self {
        let issuer = Issuer::new("test").expect("a valid name");
        let header = Header { issuer, epoch, created_unix_ms: 0, start: 0, snapshot_covers: 0, snapshot_parts: 0 };
        let store = Self { disk: Arc::default() };
        store.content().header = Some(header);
        store
    }

    /// Starts a coordinator on it. One that is open already is thereby deposed.
    ///
    /// # Errors
    /// When a fault is in force, or the content was damaged.
    pub fn open(&self, options: Options) -> Result<Embedded, OpenError> {
        Embedded::start(Box::new(self.clone()), None, options, Path::new("(memory)"))
    }

    /// Lets something go wrong from now on.
    pub fn inject(&self, fault: Fault) {
        self.content().fault = Some(fault);
    }

    /// Ends whatever goes wrong.
    pub fn heal(&self) {
        self.content().fault = None;
        self.disk.healed.notify_all();
    }

    /// Whether a commit hangs in [`Fault::Stall`] at present.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.content().stalled
    }

    /// Flips one bit of the last log row.
    pub fn damage_last_row(&self) {
        if let Some(mut last) = self.content().log.last_entry()
            && let Some(byte) = last.get_mut().bytes.last_mut()
        {
            *byte ^= 1;
        }
    }

    /// The latest start number.
    #[must_use]
    pub fn latest_start(&self) -> u64 {
        self.content().header.as_ref().map_or(0, |header| header.start)
    }

    /// How many log rows there are.
    #[must_use]
    pub fn log_rows(&self) -> usize {
        self.content().log.len()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.disk.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change as the fault in force allows.
    fn commit(&self, kind: Kind, start: u64, change: impl FnOnce(&mut Content)) -> Result<(), StoreError> {
        let mut content = self.content();
        while content.fault == Some(Fault::Stall) {
            content.stalled = true;
            content = self.disk.healed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
        content.stalled = false;
        Self::change(content, kind, start, change)
    }

    fn change(
        mut content: MutexGuard<'_, Content>,
        kind: Kind,
        start: u64,
        change: impl FnOnce(&mut Content),
    ) -> Result<(), StoreError> {
        let latest = content.header.as_ref().map_or(0, |header| header.start);
        if latest != start {
            return Err(StoreError::Deposed { by: latest });
        }
        match content.fault {
            None | Some(Fault::Stall) => change(&mut content),
            Some(Fault::FailNextCommitBefore | Fault::FailNextCommitAfter) if kind == Kind::Other => {
                change(&mut content);
            }
            Some(Fault::FailNextCommitBefore) => {
                content.fault = None;
                return Err(failed("the commit failed before it took effect"));
            }
            Some(Fault::FailNextCommitAfter) => {
                content.fault = None;
                change(&mut content);
                return Err(failed("the commit failed after it took effect"));
            }
            Some(Fault::RefuseCommits | Fault::RefuseAll) => return Err(failed("no space left")),
        }
        Ok(())
    }

    fn read(&self) -> Result<MutexGuard<'_, Content>, StoreError> {
        let content = self.content();
        if content.fault == Some(Fault::RefuseAll) {
            return Err(failed("input/output error"));
        }
        Ok(content)
    }
}

fn failed(why: &str) -> StoreError {
    StoreError::Failed(why.to_owned())
}

fn header(content: &Content) -> Result<Header, StoreError> {
    content.header.clone().ok_or_else(|| StoreError::Damaged("no header".to_owned()))
}

impl Store for MemoryStore {
    fn header(&mut self) -> Result<Header, StoreError> {
        header(&*self.read()?)
    }

    fn take_start(&mut self) -> Result<u64, StoreError> {
        let latest = header(&*self.read()?)?.start;
        Self::change(self.content(), Kind::Other, latest, |content| {
            if let Some(header) = &mut content.header {
                header.start += 1;
            }
        })?;
        Ok(latest + 1)
    }

    fn append(&mut self, row: Row<'_>) -> Result<(), StoreError> {
        self.commit(Kind::Records, row.start, |content| {
            let before = content.log.insert(row.id, Stored::of(&row));
            assert!(before.is_none(), "the id of a log row is used once");
        })
    }

    fn confirm(&mut self, start: u64) -> Result<(), StoreError> {
        match header(&*self.read()?)?.start {
            latest if latest == start => Ok(()),
            by => Err(StoreError::Deposed { by }),
        }
    }

    fn probe(&mut self, start: u64) -> Result<(), StoreError> {
        self.commit(Kind::Other, start, |_| {})
    }

    fn read_log(&mut self, after: u64, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let content = self.read()?;
        content.log.range(after + 1..).try_for_each(|(id, row)| each(row.row(*id)).map_err(StoreError::Damaged))
    }

    fn put_snapshot_part(&mut self, covers: u64, part: Row<'_>) -> Result<(), StoreError> {
        self.commit(Kind::Other, part.start, |content| {
            content.snapshots.insert((covers, part.id), Stored::of(&part));
        })
    }

    fn adopt_snapshot(&mut self, covers: u64, parts: u64, start: u64) -> Result<(), StoreError> {
        self.commit(Kind::Other, start, |content| {
            if let Some(header) = &mut content.header {
                (header.snapshot_covers, header.snapshot_parts) = (covers, parts);
            }
        })
    }

    fn read_snapshot(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let content = self.read()?;
        let Header { snapshot_covers: covers, snapshot_parts: parts, .. } = header(&content)?;
        let mut parts = content.snapshots.range((covers, 0)..(covers, parts));
        parts.try_for_each(|((_, part), row)| each(row.row(*part)).map_err(StoreError::Damaged))
    }

    fn put_history_part(&mut self, covers: u64, entries: u64, part: Row<'_>) -> Result<(), StoreError> {
        self.commit(Kind::Other, part.start, |content| {
            content.history.insert((covers, part.id), (entries, Stored::of(&part)));
        })
    }

    fn read_history(&mut self, each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let content = self.read()?;
        let covers = header(&content)?.snapshot_covers;
        let mut parts = content.history.range(..(covers + 1, 0));
        parts.try_for_each(|((_, part), (_, row))| each(row.row(*part)).map_err(StoreError::Damaged))
    }

    fn note_start(&mut self, start: u64, at_ms: u64, unix_ms: u64) -> Result<(), StoreError> {
        self.commit(Kind::Other, start, |content| {
            content.started.insert(start, [start, at_ms, unix_ms]);
        })
    }

    fn noted_starts(&mut self) -> Result<Vec<[u64; 3]>, StoreError> {
        Ok(self.read()?.started.values().copied().collect())
    }

    fn trim(&mut self, start: u64, history: u64) -> Result<bool, StoreError> {
        let covers = header(&*self.read()?)?.snapshot_covers;
        self.commit(Kind::Other, start, |content| {
            content.log.retain(|id, _| *id > covers);
            content.snapshots.retain(|(of, _), _| *of >= covers);
            let mut newer = 0;
            let parts = std::mem::take(&mut content.history).into_iter().rev();
            let kept = parts.take_while(|(_, (entries, _))| {
                newer += entries;
                newer - entries < history
            });
            content.history = kept.collect();
        })?;
        Ok(false)
    }

    fn tidy(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep::NotNeeded
    }
}
