//! The statements of a receiver. Parameters are numbered; their meaning stands at each.

/// The receiver and one domain, to be run after `BEGIN IMMEDIATE`. ?1 domain, ?2 operation id or NULL.
///
/// Columns: the 11 of [`ReceiverRow`](super::ReceiverRow), the 3 of [`DomainRow`](super::DomainRow), and the number of
/// rows in the table of entries. The fences are counted only where the domain has none, to tell a domain that nobody has
/// written to from one whose fence was removed.
pub const STANDING: &str = "\
SELECT r.condition, r.issuer, r.known_epoch, r.floor, r.unfenced_floor, r.horizon, r.fences, r.recovery, r.device, \
r.inode, r.counter, f.token, \
CASE WHEN f.token IS NULL THEN (SELECT count(*) FROM main.fencepost_fence) END, \
(SELECT o.fingerprint FROM main.fencepost_operation AS o WHERE o.domain = ?1 AND o.id = ?2), \
(SELECT count(*) FROM main.fencepost_entry) \
FROM main.fencepost_receiver AS r LEFT JOIN main.fencepost_fence AS f ON f.domain = ?1 WHERE r.id = 1";

/// The receiver alone: the 11 columns of [`ReceiverRow`](super::ReceiverRow).
pub const RECEIVER: &str = "\
SELECT condition, issuer, known_epoch, floor, unfenced_floor, horizon, fences, recovery, device, inode, counter \
FROM main.fencepost_receiver WHERE id = 1";

/// The first fence of a domain. ?1 domain, ?2 token. The number of fences in the receiver rises with it.
pub const INSERT_FENCE: &str = "INSERT INTO main.fencepost_fence (domain, token) VALUES (?1, ?2)";

/// A greater token for a domain that has a fence. ?1 domain, ?2 token. Changes one row, or the fence was not lower.
pub const RAISE_FENCE: &str = "UPDATE main.fencepost_fence SET token = ?2 WHERE domain = ?1 AND token < ?2";

/// Opens the guarded tables for one domain, until the counter rises. ?1 domain, ?2 the receiver's counter plus one.
pub const ENTER: &str = "INSERT INTO main.fencepost_entry (domain, counter) VALUES (?1, ?2)";

/// Closes what was entered. Changes as many rows as domains were entered; fewer mean that a savepoint was rolled back.
pub const LEAVE: &str = "DELETE FROM main.fencepost_entry";

/// Ends every change of a receiver. ?1 how many fences were added, negative where some were removed.
pub const RAISE_COUNTER: &str =
    "UPDATE main.fencepost_receiver SET counter = counter + 1, fences = fences + ?1 WHERE id = 1";

/// Records an operation. ?1 domain, ?2 id, ?3 fingerprint, ?4 born or NULL, ?5 the token it was applied under, ?6 result.
pub const RECORD: &str = "\
INSERT INTO main.fencepost_operation (domain, id, fingerprint, born, token, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What an operation answered. ?1 domain, ?2 id.
pub const RESULT: &str = "SELECT result FROM main.fencepost_operation WHERE domain = ?1 AND id = ?2";

/// The first row of the receiver. ?1 issuer, ?2 known epoch, ?3 floor, ?4 recovery id, ?5 device, ?6 inode, ?7 counter.
pub const CREATE_RECEIVER: &str = "\
INSERT INTO main.fencepost_receiver (id, layout, condition, issuer, known_epoch, floor, fences, recovery, device, inode, \
counter) VALUES (1, 1, 'open', ?1, ?2, ?3, 0, ?4, ?5, ?6, ?7)";

/// Learns an epoch and a floor; what is lower changes nothing. ?1 known epoch, ?2 floor or NULL.
pub const LEARN: &str = "\
UPDATE main.fencepost_receiver SET counter = counter + 1, known_epoch = max(known_epoch, ?1), \
floor = nullif(max(coalesce(floor, 0), coalesce(?2, 0)), 0) WHERE id = 1";

/// Takes on the identity of the storage it lives on now, and opens. ?1 recovery id, ?2 device, ?3 inode, ?4 the least
/// counter to go on from, ?5 the number of fences.
pub const REOPEN: &str = "\
UPDATE main.fencepost_receiver SET counter = max(counter + 1, ?4), condition = 'open', recovery = ?1, device = ?2, \
inode = ?3, fences = ?5 WHERE id = 1";

/// Raises the least token accepted without a fence. ?1 token.
pub const RAISE_UNFENCED_FLOOR: &str = "\
UPDATE main.fencepost_receiver SET counter = counter + 1, unfenced_floor = max(coalesce(unfenced_floor, 0), ?1) \
WHERE id = 1";

/// Raises the bound below which operation records may be missing. ?1 token.
pub const RAISE_HORIZON: &str =
    "UPDATE main.fencepost_receiver SET counter = counter + 1, horizon = max(coalesce(horizon, 0), ?1) WHERE id = 1";

/// The domains whose fence is below a token. ?1 token.
pub const FENCES_BELOW: &str = "SELECT domain FROM main.fencepost_fence WHERE token < ?1";

/// Removes one fence. ?1 domain.
pub const DELETE_FENCE: &str = "DELETE FROM main.fencepost_fence WHERE domain = ?1";

/// Removes the operation records born below the horizon; those without `born` count by the token they were applied under.
pub const DELETE_OPERATIONS: &str = "\
DELETE FROM main.fencepost_operation WHERE coalesce(born, token) < (SELECT horizon FROM main.fencepost_receiver)";

/// Fences in byte order of domains. ?1 the domain to go on after, or '', ?2 how many at most.
pub const LIST_FENCES: &str =
    "SELECT domain, token FROM main.fencepost_fence WHERE domain > ?1 ORDER BY domain LIMIT ?2";
