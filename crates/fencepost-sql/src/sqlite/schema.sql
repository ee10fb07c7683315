-- Fencepost's records in a SQLite database, layout 1. All of it lives in the database that holds the guarded tables.
--
--   fencepost_receiver     one row: what this receiver knows. Made by the first guard, never removed.
--                          Epoch, floors and horizon only rise.
--   fencepost_entry        slot 0: how many changes there have been, which only rises. Slots from 1 on: the domains that
--                          the last transaction entered. Such a row counts while its counter is that of slot 0 plus one,
--                          and every write ends by raising slot 0, so a row left behind opens nothing.
--   fencepost_fence        domain -> highest token it was raised to. Removed by collection, below unfenced_floor.
--   fencepost_operation    (domain, operation id) -> what was asked and answered. Removed by collection, below horizon.
--   fencepost_guard        the guarded tables. What the guard does stands in its triggers, not here.
--   fencepost_observation  the last 1000 changes that guards in observe mode would have refused.
--
-- A write that raises nothing and records nothing changes one page of these: that of fencepost_entry.
-- Tokens are integers: epoch * 2^43 + sequence. Names compare byte by byte.

CREATE TABLE IF NOT EXISTS main.fencepost_receiver (
    id             INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    layout         INTEGER NOT NULL CHECK (layout = 1),
    condition      TEXT    NOT NULL,
    issuer         TEXT    NOT NULL,
    known_epoch    INTEGER NOT NULL CHECK (known_epoch BETWEEN 0 AND 1048575),
    floor          INTEGER CHECK (floor > 0),
    unfenced_floor INTEGER CHECK (unfenced_floor > 0),
    horizon        INTEGER CHECK (horizon > 0),
    fences         INTEGER NOT NULL CHECK (fences >= 0),
    recovery       BLOB    NOT NULL CHECK (length(recovery) = 16),
    device         INTEGER NOT NULL,
    inode          INTEGER NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS main.fencepost_entry (
    slot    INTEGER NOT NULL PRIMARY KEY CHECK (slot >= 0),
    domain  TEXT,
    counter INTEGER NOT NULL CHECK (counter > 0)
) STRICT;

CREATE TABLE IF NOT EXISTS main.fencepost_fence (
    domain TEXT    NOT NULL PRIMARY KEY,
    token  INTEGER NOT NULL CHECK (token > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS main.fencepost_operation (
    domain      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    fingerprint BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    born        INTEGER CHECK (born > 0),
    token       INTEGER NOT NULL CHECK (token > 0),
    result      BLOB    NOT NULL,
    PRIMARY KEY (domain, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS main.fencepost_guard (
    name       TEXT    NOT NULL PRIMARY KEY COLLATE NOCASE,
    expression TEXT    NOT NULL,
    observed   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS main.fencepost_observation (
    id     INTEGER NOT NULL PRIMARY KEY,
    name   TEXT    NOT NULL,
    action TEXT    NOT NULL,
    domain ANY,
    at     TEXT    NOT NULL
) STRICT;

CREATE TRIGGER IF NOT EXISTS main.fencepost_receiver_once BEFORE INSERT ON fencepost_receiver
WHEN EXISTS (SELECT 1 FROM fencepost_receiver)
BEGIN SELECT RAISE(ABORT, 'fencepost: this database is a receiver already'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_receiver_rises BEFORE UPDATE ON fencepost_receiver
WHEN NEW.issuer IS NOT OLD.issuer
    OR NEW.known_epoch < OLD.known_epoch
    OR coalesce(NEW.floor, 0) < coalesce(OLD.floor, 0)
    OR coalesce(NEW.unfenced_floor, 0) < coalesce(OLD.unfenced_floor, 0)
    OR coalesce(NEW.horizon, 0) < coalesce(OLD.horizon, 0)
BEGIN SELECT RAISE(ABORT, 'fencepost: what a receiver knows only rises'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_receiver_stays BEFORE DELETE ON fencepost_receiver
BEGIN SELECT RAISE(ABORT, 'fencepost: a receiver is never forgotten, or every old token would be accepted'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_counter_once BEFORE INSERT ON fencepost_entry
WHEN NEW.slot = 0 AND EXISTS (SELECT 1 FROM fencepost_entry WHERE slot = 0)
BEGIN SELECT RAISE(ABORT, 'fencepost: there is one counter of changes'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_counter_rises BEFORE UPDATE ON fencepost_entry
WHEN OLD.slot = 0 AND (NEW.slot IS NOT 0 OR NEW.counter <= OLD.counter)
BEGIN SELECT RAISE(ABORT, 'fencepost: the counter of changes only rises'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_counter_stays BEFORE DELETE ON fencepost_entry
WHEN OLD.slot = 0
BEGIN SELECT RAISE(ABORT, 'fencepost: the counter of changes is never forgotten'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_fence_once BEFORE INSERT ON fencepost_fence
WHEN EXISTS (SELECT 1 FROM fencepost_fence WHERE domain = NEW.domain)
BEGIN SELECT RAISE(ABORT, 'fencepost: this domain has a fence already'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_fence_rises BEFORE UPDATE ON fencepost_fence
WHEN NEW.token < OLD.token OR NEW.domain IS NOT OLD.domain
BEGIN SELECT RAISE(ABORT, 'fencepost: a fence only rises'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_fence_stays BEFORE DELETE ON fencepost_fence
WHEN OLD.token >= coalesce((SELECT unfenced_floor FROM fencepost_receiver), 0)
BEGIN SELECT RAISE(ABORT, 'fencepost: a fence is removed by collection only, below the unfenced floor'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_operation_once BEFORE INSERT ON fencepost_operation
WHEN EXISTS (SELECT 1 FROM fencepost_operation WHERE domain = NEW.domain AND id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'fencepost: this operation is recorded already'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_operation_settled BEFORE UPDATE ON fencepost_operation
BEGIN SELECT RAISE(ABORT, 'fencepost: what an operation answered never changes'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_operation_stays BEFORE DELETE ON fencepost_operation
WHEN coalesce(OLD.born, OLD.token) >= coalesce((SELECT horizon FROM fencepost_receiver), 0)
BEGIN SELECT RAISE(ABORT, 'fencepost: an operation record is removed by collection only, below the horizon'); END;

CREATE TRIGGER IF NOT EXISTS main.fencepost_observation_bounded AFTER INSERT ON fencepost_observation
BEGIN
    UPDATE fencepost_guard SET observed = observed + 1 WHERE name = NEW.name;
    DELETE FROM fencepost_observation WHERE id <= NEW.id - 1000;
END;
