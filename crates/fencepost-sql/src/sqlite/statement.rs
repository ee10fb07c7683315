//! The statements of a receiver. Parameters are numbered; their meaning stands at each.

/// The receiver and one domain, to be run after `BEGIN IMMEDIATE`. ?1 domain, ?2 operation id or NULL.
///
/// Columns: the 11 of [`ReceiverRow`](super::ReceiverRow), the 3 of [`DomainRow`](super::DomainRow), and how many domains
/// are entered at this moment. The fences are counted only where the domain has none, to tell a domain that nobody has
/// written to from one whose fence was removed. A row that is there without its token gives 0, and one without its fingerprint
/// or with a result that no receiver records an empty blob: NULL would say that there is no row.
pub const STANDING: &str = "\
SELECT r.condition, r.issuer, r.known_epoch, r.floor, r.unfenced_floor, r.horizon, r.fences, r.recovery, r.device, \
r.inode, c.counter, CASE WHEN f.domain IS NOT NULL THEN ifnull(f.token, 0) END, \
CASE WHEN f.domain IS NULL THEN (SELECT count(*) FROM main.fencepost_fence) END, \
(SELECT CASE WHEN typeof(o.result) = 'blob' AND length(o.result) <= 65536 THEN ifnull(o.fingerprint, x'') ELSE x'' END \
FROM main.fencepost_operation AS o WHERE o.domain = ?1 AND o.id = ?2), \
(SELECT count(*) FROM main.fencepost_entry AS e WHERE e.slot > 0 AND e.counter > c.counter) \
FROM main.fencepost_receiver AS r CROSS JOIN main.fencepost_entry AS c \
LEFT JOIN main.fencepost_fence AS f ON f.domain = ?1 WHERE r.id = 1 AND c.slot = 0";

/// The receiver alone: the 11 columns of [`ReceiverRow`](super::ReceiverRow).
pub const RECEIVER: &str = "\
SELECT r.condition, r.issuer, r.known_epoch, r.floor, r.unfenced_floor, r.horizon, r.fences, r.recovery, r.device, \
r.inode, c.counter FROM main.fencepost_receiver AS r CROSS JOIN main.fencepost_entry AS c WHERE r.id = 1 AND c.slot = 0";

/// The first fence of a domain. ?1 domain, ?2 token. Followed by [`COUNT_FENCES`].
pub const INSERT_FENCE: &str = "INSERT INTO main.fencepost_fence (domain, token) VALUES (?1, ?2)";

/// A greater token for a domain that has a fence. ?1 domain, ?2 token. Changes one row, or the fence was not lower.
pub const RAISE_FENCE: &str = "UPDATE main.fencepost_fence SET token = ?2 WHERE domain = ?1 AND token < ?2";

/// Keeps the number of fences. ?1 how many were added, negative where some were removed.
pub const COUNT_FENCES: &str = "UPDATE main.fencepost_receiver SET fences = fences + ?1 WHERE id = 1";

/// Opens the guarded tables for one domain, until the counter rises. ?1 slot, from 1 on, ?2 domain, ?3 the counter plus one.
pub const ENTER: &str = "REPLACE INTO main.fencepost_entry (slot, domain, counter) VALUES (?1, ?2, ?3)";

/// Closes what was entered and ends the change: the counter rises. ?1 the counter plus one, ?2 how many domains were
/// entered. Changes one row, or none where fewer are entered by now: then a savepoint was rolled back, and the fence with it.
pub const LEAVE: &str = "\
UPDATE main.fencepost_entry SET counter = ?1 WHERE slot = 0 AND counter = ?1 - 1 \
AND ?2 = (SELECT count(*) FROM main.fencepost_entry AS e WHERE e.slot > 0 AND e.counter = ?1)";

/// Forgets the slots of a write over several domains, so that they are not searched for ever.
pub const FORGET_SLOTS: &str = "DELETE FROM main.fencepost_entry WHERE slot > 1";

/// Ends a change in which nothing was entered, and closes what was left open.
pub const RAISE_COUNTER: &str = "UPDATE main.fencepost_entry SET counter = counter + 1 WHERE slot = 0";

/// The counter's first value. ?1 counter. Changes nothing where there is one.
pub const START_COUNTER: &str = "\
INSERT INTO main.fencepost_entry (slot, counter) \
SELECT 0, ?1 WHERE NOT EXISTS (SELECT 1 FROM main.fencepost_entry WHERE slot = 0)";

/// Goes on from a greater counter. ?1 the least one to go on from.
pub const SKIP_COUNTER: &str = "UPDATE main.fencepost_entry SET counter = max(counter + 1, ?1) WHERE slot = 0";

/// Records an operation. ?1 domain, ?2 id, ?3 fingerprint, ?4 born or NULL, ?5 the greatest token it was
/// applied under, ?6 result.
pub const RECORD: &str = "\
INSERT INTO main.fencepost_operation (domain, id, fingerprint, born, token, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// What an operation answered. ?1 domain, ?2 id.
pub const RESULT: &str = "SELECT result FROM main.fencepost_operation WHERE domain = ?1 AND id = ?2";

/// The first row of the receiver. ?1 issuer, ?2 known epoch, ?3 floor, ?4 recovery id, ?5 device, ?6 inode.
pub const CREATE_RECEIVER: &str = "\
INSERT INTO main.fencepost_receiver (id, layout, condition, issuer, known_epoch, floor, fences, recovery, device, inode) \
VALUES (1, 1, 'open', ?1, ?2, ?3, 0, ?4, ?5, ?6)";

/// Learns an epoch and a floor; what is lower changes nothing. ?1 known epoch, ?2 floor or NULL.
pub const LEARN: &str = "\
UPDATE main.fencepost_receiver SET known_epoch = max(known_epoch, ?1), \
floor = nullif(max(coalesce(floor, 0), coalesce(?2, 0)), 0) WHERE id = 1";

/// Takes on the identity of the storage it lives on now, and opens. ?1 recovery id, ?2 device, ?3 inode, ?4 the number of
/// fences.
pub const REOPEN: &str = "\
UPDATE main.fencepost_receiver SET condition = 'open', recovery = ?1, device = ?2, inode = ?3, fences = ?4 WHERE id = 1";

/// Raises the least token accepted without a fence. ?1 token.
pub const RAISE_UNFENCED_FLOOR: &str =
    "UPDATE main.fencepost_receiver SET unfenced_floor = max(coalesce(unfenced_floor, 0), ?1) WHERE id = 1";

/// Raises the bound below which operation records may be missing. ?1 token.
pub const RAISE_HORIZON: &str =
    "UPDATE main.fencepost_receiver SET horizon = max(coalesce(horizon, 0), ?1) WHERE id = 1";

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
