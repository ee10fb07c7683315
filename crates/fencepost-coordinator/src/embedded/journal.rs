//! Records to rows and back: the one place that knows what the bytes of a [`Store`] mean.

use std::sync::Arc;

use fencepost_core::{
    Token,
    lease::{Leases, Record, Snapshot},
    sabotage,
};
use serde::Serialize;

use super::{
    history::{Anchor, HISTORY_ENTRIES, History, NotStored, Part},
    store::{Header, Row, Store, StoreError, Upkeep},
};

/// Largest part of a snapshot: a commit that waits behind one waits a few milliseconds.
const PART_BYTES: usize = 1024 * 1024;

/// The log of one start: what it appends is refused once a later start has taken the store.
pub(super) struct Journal {
    store: Box<dyn Store>,
    header: Header,
    start: u64,
    /// The id of the last log row.
    last: u64,
    /// Bytes in log rows that no adopted snapshot covers.
    log_bytes: u64,
    buffer: Vec<u8>,
    history: Arc<History>,
}

impl Journal {
    /// Takes the store over with the next start number, and reads what it holds.
    pub(super) fn take(mut store: Box<dyn Store>) -> Result<(Self, Leases), StoreError> {
        let start = store.take_start()?;
        let header = store.header()?;
        let mut journal =
            Self { store, header, start, last: 0, log_bytes: 0, buffer: Vec::new(), history: Arc::default() };
        journal.load_history()?;
        let leases = journal.load()?;
        if leases.start_number() >= start {
            let been = leases.start_number();
            return Err(StoreError::Damaged(format!("start {been} has been, and its table `store` counts {start}")));
        }
        Ok((journal, leases))
    }

    /// Reads the state that the store holds. To be called after every failed commit, before the next one.
    pub(super) fn load(&mut self) -> Result<Leases, StoreError> {
        self.header = self.store.header()?;
        let Header { issuer, epoch, snapshot_covers, snapshot_parts, .. } = self.header.clone();
        // The row of the table `store` has no checksum, so what has one must agree with it.
        let mut leases = match snapshot_parts {
            0 if snapshot_covers > 0 => {
                let what = format!("its log is covered up to row {snapshot_covers}, by a snapshot of no parts");
                return Err(StoreError::Damaged(what));
            }
            0 => Leases::new(issuer.clone(), epoch),
            parts => Leases::from_snapshot(self.load_snapshot(parts)?),
        };
        if (leases.issuer(), leases.epoch()) != (&issuer, epoch) {
            let (of, in_epoch) = (leases.issuer(), leases.epoch());
            let what =
                format!("its snapshot is of {of}, epoch {in_epoch}, and its table `store` of {issuer}, epoch {epoch}");
            return Err(StoreError::Damaged(what));
        }
        let mut last = snapshot_covers;
        let mut log_bytes = 0;
        let start = self.start;
        let history = Arc::clone(&self.history);
        self.store.read_log(snapshot_covers, &mut |row| {
            match check(&row, "log", last + 1, start) {
                Err(_) if sabotage::active("damage_taken_for_absence") => return Ok(()),
                checked => checked?,
            }
            let records: Vec<Record> = postcard::from_bytes(row.bytes)
                .map_err(|error| format!("log row {} is no records: {error}", row.id))?;
            if let Some(token) = records.iter().filter_map(token_of).find(|token| token.epoch() != epoch) {
                return Err(format!("log row {} has token {token}, and the table `store` epoch {epoch}", row.id));
            }
            let told = records.iter().flat_map(|record| leases.replay_telling(record)).collect::<Vec<_>>();
            history.note(row.start, row.id, told);
            last = row.id;
            log_bytes += row.bytes.len() as u64;
            Ok(())
        })?;
        self.last = last;
        self.log_bytes = log_bytes;
        Ok(leases)
    }

    /// Reads what is kept of the time before the log.
    fn load_history(&mut self) -> Result<(), StoreError> {
        for [start, at_ms, unix_ms] in self.store.noted_starts()? {
            self.history.anchor(start, Anchor { at_ms, unix_ms });
        }
        let history = Arc::clone(&self.history);
        self.store.read_history(&mut |row| {
            if row.checksum == checksum(row.id, row.start, row.bytes) {
                history.restore(row.bytes);
            }
            Ok(())
        })?;
        self.history.stored_through(self.header.snapshot_covers);
        Ok(())
    }

    /// Notes how the clocks stand at this start, for times in the history.
    pub(super) fn note_start(&mut self, at_ms: u64, unix_ms: u64) -> Result<(), StoreError> {
        self.store.note_start(self.start, at_ms, unix_ms)?;
        self.history.anchor(self.start, Anchor { at_ms, unix_ms });
        Ok(())
    }

    pub(super) fn history(&self) -> &Arc<History> {
        &self.history
    }

    fn load_snapshot(&mut self, parts: u64) -> Result<Snapshot, StoreError> {
        let (mut bytes, mut found, start) = (Vec::new(), 0, self.start);
        self.store.read_snapshot(&mut |row| {
            check(&row, "snapshot", found, start)?;
            bytes.extend_from_slice(row.bytes);
            found += 1;
            Ok(())
        })?;
        if found != parts {
            return Err(StoreError::Damaged(format!("the snapshot has {found} parts of {parts}")));
        }
        postcard::from_bytes(&bytes).map_err(|error| StoreError::Damaged(format!("the snapshot is none: {error}")))
    }

    /// Makes records durable, all of them or none. Returns how many bytes they took.
    pub(super) fn commit(&mut self, records: &[Record]) -> Result<usize, StoreError> {
        self.buffer = encode(&records, std::mem::take(&mut self.buffer));
        let bytes = self.buffer.len();
        self.store.append(row(self.last + 1, self.start, &self.buffer))?;
        self.last += 1;
        self.log_bytes += bytes as u64;
        Ok(bytes)
    }

    /// Whether this start may still speak.
    pub(super) fn confirm(&mut self) -> Result<(), StoreError> {
        self.store.confirm(self.start)
    }

    /// Whether commits work.
    pub(super) fn probe(&mut self) -> Result<(), StoreError> {
        self.store.probe(self.start)
    }

    /// Writes one part of the history of what the log rows up to `covers` tell.
    pub(super) fn put_history(&mut self, covers: u64, number: u64, part: &Part) -> Result<(), StoreError> {
        self.store.put_history_part(covers, part.entries, row(number, self.start, &part.bytes))
    }

    /// Writes one part of the snapshot. Nothing reads it before it is [adopted](Self::adopt).
    pub(super) fn put_part(&mut self, covers: u64, part: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.store.put_snapshot_part(covers, row(part, self.start, bytes))
    }

    /// Makes a snapshot whose parts have all been written the one to start from.
    pub(super) fn adopt(&mut self, encoded: &EncodedSnapshot) -> Result<(), StoreError> {
        self.store.adopt_snapshot(encoded.covers, encoded.parts() as u64, self.start)?;
        self.log_bytes = self.log_bytes.saturating_sub(encoded.covered_bytes);
        self.history.stored_through(encoded.covers);
        Ok(())
    }

    /// Removes some of what the adopted snapshot covers; whether there is more.
    pub(super) fn trim(&mut self) -> Result<bool, StoreError> {
        self.store.trim(self.start, HISTORY_ENTRIES)
    }

    pub(super) fn tidy(&mut self) -> Result<(), StoreError> {
        self.store.tidy()
    }

    pub(super) fn upkeep(&self) -> Upkeep {
        self.store.upkeep()
    }

    /// About how large the adopted snapshot is.
    pub(super) fn snapshot_bytes(&self) -> u64 {
        self.header.snapshot_parts * PART_BYTES as u64
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }
}

/// A snapshot in the form in which it is stored.
pub(super) struct EncodedSnapshot {
    /// The last log row it covers.
    pub(super) covers: u64,
    /// How many bytes of log that makes superfluous.
    pub(super) covered_bytes: u64,
    /// What of the history goes with it.
    pub(super) history: Vec<Part>,
    bytes: Vec<u8>,
}

impl EncodedSnapshot {
    /// Encodes a snapshot. Takes time in proportion to its size: not for the thread that commits wait for.
    pub(super) fn new(snapshot: &Snapshot, history: &NotStored, covers: u64, covered_bytes: u64) -> Self {
        Self { covers, covered_bytes, history: history.encode(), bytes: encode(snapshot, Vec::new()) }
    }

    /// How many parts it has: at least one, so that an empty state differs from no snapshot.
    pub(super) fn parts(&self) -> usize {
        self.bytes.len().div_ceil(PART_BYTES).max(1)
    }

    /// One part of it.
    pub(super) fn part(&self, number: usize) -> &[u8] {
        let from = (number * PART_BYTES).min(self.bytes.len());
        &self.bytes[from..(from + PART_BYTES).min(self.bytes.len())]
    }

    /// Its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The token that a record issues.
fn token_of(record: &Record) -> Option<Token> {
    match record {
        Record::Granted { token, .. }
        | Record::Regranted { token, .. }
        | Record::LeaseBroken { fence_to: token, .. } => Some(*token),
        Record::Started { .. }
        | Record::SequenceReserved { .. }
        | Record::SessionOpened { .. }
        | Record::SecretReplaced { .. }
        | Record::SessionClaimed { .. }
        | Record::SessionHeard { .. }
        | Record::SessionEnded { .. }
        | Record::HoldAdded { .. }
        | Record::HoldEnded { .. }
        | Record::LeaseEnded { .. } => None,
    }
}

fn encode(value: &impl Serialize, mut into: Vec<u8>) -> Vec<u8> {
    into.clear();
    postcard::to_extend(value, into).expect("records and snapshots always have an encoding")
}

pub(super) fn row(id: u64, start: u64, bytes: &[u8]) -> Row<'_> {
    Row { id, start, checksum: checksum(id, start, bytes), bytes }
}

fn checksum(id: u64, start: u64, bytes: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&id.to_be_bytes());
    checksum.update(&start.to_be_bytes());
    checksum.update(bytes);
    checksum.finalize()
}

/// What was written is what is read: the counterpart of [`row`].
fn check(row: &Row<'_>, table: &str, expected: u64, latest_start: u64) -> Result<(), String> {
    if row.id != expected {
        return Err(format!("row {expected} of table `{table}` is missing, row {} follows", row.id));
    }
    if row.checksum != checksum(row.id, row.start, row.bytes) {
        return Err(format!("row {} of table `{table}` does not match its checksum", row.id));
    }
    if row.start > latest_start {
        return Err(format!(
            "row {} of table `{table}` was written by start {}, which has not been",
            row.id, row.start
        ));
    }
    Ok(())
}
