//! The layout of the SQLite file, on one screen.
//!
//! | table | row | id | life |
//! |---|---|---|---|
//! | `store` | the only one: who this coordinator is, the latest start number, which snapshot counts | 1 | made by init; `start` rises at every start; the snapshot columns change when a snapshot is adopted; `probe` changes while commits are tried again after a failure |
//! | `log` | one group commit: its records, postcard-encoded, in order | consecutive from 1, never used twice | appended by a commit; removed some time after an adopted snapshot covers it; a row at or below `store.snapshot_covers` is never read |
//! | `snapshot` | one part of a postcard-encoded snapshot, up to 1 MiB | (`covers`, `part`): the last log row it covers, and its number from 0 | written one by one; counts once `store` names `covers` and the number of parts; removed some time after a later one is adopted |
//! | `history` | one part of what happened, postcard-encoded, for people | (`covers`, `part`): the last log row it tells of, and its number from 0 | written before the snapshot of the same `covers`; removed once newer parts have the entries that are kept; one that is damaged is left out |
//! | `started` | how the two clocks stood at a start, so that moments in the log can be shown as times | the start number | made by a start; the last 1,000 are kept |
//!
//! Every row of `log`, `history` and `snapshot` carries the start number of its writer and a CRC-32 over id, start and content.
//! `PRAGMA application_id` says that the file is ours, `PRAGMA user_version` is the version of this layout.

/// What `PRAGMA application_id` says: "FPCO".
pub(super) const APPLICATION_ID: i64 = 0x4650_434f;

/// The version of the layout below.
pub(super) const LAYOUT: i64 = 2;

pub(super) const CREATE: &str = "
CREATE TABLE store (
  only_row        INTEGER PRIMARY KEY CHECK (only_row = 1),
  issuer          TEXT    NOT NULL,
  epoch           INTEGER NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  start           INTEGER NOT NULL,
  snapshot_covers INTEGER NOT NULL,
  snapshot_parts  INTEGER NOT NULL,
  probe           INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
  id       INTEGER PRIMARY KEY,
  start    INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  records  BLOB    NOT NULL
) STRICT;
CREATE TABLE snapshot (
  covers   INTEGER NOT NULL,
  part     INTEGER NOT NULL,
  start    INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  content  BLOB    NOT NULL,
  PRIMARY KEY (covers, part)
) STRICT;
CREATE TABLE history (
  covers   INTEGER NOT NULL,
  part     INTEGER NOT NULL,
  entries  INTEGER NOT NULL,
  start    INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  content  BLOB    NOT NULL,
  PRIMARY KEY (covers, part)
) STRICT;
CREATE TABLE started (
  start   INTEGER PRIMARY KEY,
  at_ms   INTEGER NOT NULL,
  unix_ms INTEGER NOT NULL
) STRICT;
";

pub(super) const INSERT_STORE: &str = "INSERT INTO store VALUES (1, ?1, ?2, ?3, 0, 0, 0, 0)";
pub(super) const READ_STORE: &str =
    "SELECT issuer, epoch, created_unix_ms, start, snapshot_covers, snapshot_parts FROM store";
pub(super) const READ_START: &str = "SELECT start FROM store";
pub(super) const TAKE_START: &str = "UPDATE store SET start = start + 1 RETURNING start";
pub(super) const PROBE: &str = "UPDATE store SET probe = probe + 1 WHERE start = ?1";

// The check of the start number and the change are one statement, so nothing comes between them.
pub(super) const APPEND: &str = "INSERT INTO log SELECT ?1, ?2, ?3, ?4 FROM store WHERE start = ?2";
pub(super) const PUT_PART: &str =
    "INSERT OR REPLACE INTO snapshot SELECT ?1, ?2, ?3, ?4, ?5 FROM store WHERE start = ?3";
pub(super) const PUT_HISTORY: &str =
    "INSERT OR REPLACE INTO history SELECT ?1, ?2, ?3, ?4, ?5, ?6 FROM store WHERE start = ?4";
pub(super) const NOTE_START: &str = "INSERT OR REPLACE INTO started SELECT ?1, ?2, ?3 FROM store WHERE start = ?1";
pub(super) const FORGET_STARTS: &str = "DELETE FROM started WHERE start <= ?1 - 1000";
pub(super) const ADOPT: &str = "UPDATE store SET snapshot_covers = ?1, snapshot_parts = ?2 WHERE start = ?3";

pub(super) const READ_HISTORY: &str = "SELECT part, history.start, checksum, content FROM history \
     JOIN store ON covers <= snapshot_covers ORDER BY covers, part";
pub(super) const READ_STARTS: &str = "SELECT start, at_ms, unix_ms FROM started ORDER BY start";
pub(super) const READ_LOG: &str = "SELECT id, start, checksum, records FROM log WHERE id > ?1 ORDER BY id";
pub(super) const READ_SNAPSHOT: &str = "SELECT part, snapshot.start, checksum, content FROM snapshot \
     JOIN store ON covers = snapshot_covers WHERE part < snapshot_parts ORDER BY part";

// Bounded, so that a commit never waits behind the removal of a whole log.
pub(super) const TRIM_LOG: &str = "DELETE FROM log WHERE id <= (SELECT min(snapshot_covers, \
     coalesce((SELECT min(id) FROM log), 0) + ?2) FROM store WHERE start = ?1)";
pub(super) const TRIM_SNAPSHOTS: &str = "DELETE FROM snapshot WHERE rowid IN (SELECT snapshot.rowid FROM snapshot \
     JOIN store ON covers < snapshot_covers WHERE store.start = ?1 LIMIT ?2)";
pub(super) const TRIM_HISTORY: &str = "DELETE FROM history WHERE rowid IN (SELECT id FROM (SELECT rowid AS id, \
     sum(entries) OVER (ORDER BY covers DESC, part DESC) - entries AS newer FROM history) WHERE newer >= ?2 LIMIT ?3) \
     AND (SELECT start FROM store) = ?1";
