use std::{
    fs::{self, File},
    future::Future,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use fencepost_coordinator::{
    AcquireRequest, Coordinator as _, SessionKey,
    embedded::{
        Embedded, InitOptions, OpenError, Options,
        testing::{ManualClock, ManualWallClock},
    },
};
use fencepost_core::{Domain, Epoch, Holder, Issuer, RequestId, Token, Ttl, limits};
use rusqlite::{Connection, params, types::Value};
use tempfile::TempDir;

use crate::{decision::folder, made::Made};

const DATABASE: &str = "coordinator.sqlite";
const EDITS: usize = 8;

/// The coordinator's data directory as a damaged disk, or a hand, may have left it: it is refused in words, or the
/// coordinator that opens it holds what was granted. The first byte says what is damaged.
pub fn store(bytes: &[u8]) {
    let mut made = Made::of(bytes);
    match made.byte() % 8 {
        0 => head(made),
        1 => in_use(made),
        _ => rows(made),
    }
}

/// What every round begins with: a store of three starts, with a log and a history, and one of them with a snapshot.
struct Template {
    database: Vec<u8>,
    kept: Kept,
    held: Vec<Held>,
}

/// What was granted, and the last row of the log when it was: the grant stands in that row or before it.
struct Held {
    domain: Domain,
    token: Token,
    by_row: i64,
}

fn options(snapshot_log_bytes: u64) -> Options {
    Options {
        clock: Some(Arc::new(ManualClock::new(7, 50_000))),
        wall_clock: Some(Arc::new(ManualWallClock::new(1_900_000_000_000))),
        snapshot_log_bytes,
        ..Options::default()
    }
}

fn finished<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(work)
}

async fn session(coordinator: &Embedded) -> SessionKey {
    let ttl = Ttl::from_millis(limits::TTL_MOST_MS).expect("the longest");
    let holder = Holder::new("h").expect("a name");
    coordinator.open_session(holder, ttl).await.expect("a session").answer.key()
}

async fn grant(coordinator: &Embedded, key: &SessionKey, nth: u8) -> (Domain, Token) {
    let domain = Domain::new(&format!("d{nth}")).expect("a name");
    let request = AcquireRequest::new(key, domain.clone(), RequestId::from_bytes([nth; 16]));
    let granted = coordinator.acquire(request).await.expect("a free domain is granted");
    let permission = granted.answer.acquired.permission;
    (domain, permission.grant().expect("a grant under safety").token)
}

async fn held(coordinator: &Embedded, key: &SessionKey, nth: u8, database: &Path) -> Held {
    let (domain, token) = grant(coordinator, key, nth).await;
    let connection = Connection::open(database).expect("the store is read beside its coordinator");
    let sql = "SELECT max(snapshot_covers, coalesce((SELECT max(id) FROM log), 0)) FROM store";
    let by_row = connection.query_row(sql, [], |row| row.get(0)).expect("the log has rows");
    Held { domain, token, by_row }
}

fn template(with_snapshot: bool) -> &'static Template {
    static MADE: [OnceLock<Template>; 2] = [const { OnceLock::new() }; 2];
    MADE[usize::from(with_snapshot)].get_or_init(|| {
        let folder = folder();
        let dir = folder.path().join("data");
        let issuer = Issuer::new("fuzz").expect("a name");
        let init = InitOptions { issuer: Some(issuer), epoch: Some(Epoch::ZERO), wall_clock: options(0).wall_clock };
        Embedded::init(&dir, init).expect("an empty directory takes a store");
        let database = dir.join(DATABASE);
        let held = finished(async {
            let coordinator =
                Embedded::open(&dir, options(if with_snapshot { 1 } else { u64::MAX })).expect("a new store opens");
            let key = session(&coordinator).await;
            let mut granted = Vec::new();
            for nth in 0..4 {
                granted.push(held(&coordinator, &key, nth, &database).await);
            }
            // The snapshot is written beside the calls.
            while with_snapshot && coordinator.statistics().snapshots == 0 {
                coordinator.heartbeat(&key, fencepost_core::lease::Claim::Held(Vec::new())).await.expect("a session");
            }
            coordinator.shutdown().await;
            for nth in 4..6 {
                let coordinator = Embedded::open(&dir, options(u64::MAX)).expect("the store opens again");
                granted.push(held(&coordinator, &key, nth, &database).await);
                coordinator.shutdown().await;
            }
            granted
        });
        let kept = Kept::read(&Connection::open(&database).expect("the store opens")).expect("whole tables");
        Template { database: fs::read(database).expect("the store"), kept, held }
    })
}

/// A directory with a copy of the template's database.
fn copied(template: &Template) -> (TempDir, PathBuf) {
    let folder = folder();
    let database = folder.path().join(DATABASE);
    fs::write(&database, &template.database).expect("a copy of the store");
    (folder, database)
}

fn opened(dir: &Path) -> Result<Embedded, OpenError> {
    // Whatever it is, somebody will be told.
    Embedded::open(dir, options(u64::MAX)).inspect_err(|error| drop(error.to_string()))
}

/// The first bytes of the file are others.
fn head(mut made: Made<'_>) {
    let (folder, database) = copied(template(true));
    let mut file = fs::read(&database).expect("the copy");
    let cut = if made.one_in(4) { made.below(100) } else { file.len() };
    file.truncate(cut);
    while !made.is_empty() {
        let (at, other) = (made.below(100), made.byte());
        if let Some(byte) = file.get_mut(at) {
            *byte ^= other;
        }
    }
    fs::write(&database, file).expect("the damaged copy");
    if let Ok(coordinator) = opened(folder.path()) {
        finished(coordinator.shutdown());
    }
}

/// Somebody else has the lock, and has written anything into it.
fn in_use(made: Made<'_>) {
    let (folder, _) = copied(template(true));
    let mut lock = File::create(folder.path().join("lock")).expect("a lock file");
    lock.write_all(made.rest()).expect("it is written");
    lock.lock().expect("nobody else has it");
    let refused = opened(folder.path()).expect_err("a store that is in use is not opened");
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused:?}");
}

/// What a start goes by, row by row as it stands in the database.
#[derive(Debug, PartialEq)]
struct Kept {
    /// Who the coordinator is and where it begins, which has no checksum; what the file says of itself.
    header: Rows,
    /// The parts of the adopted snapshot.
    snapshot: Rows,
    /// What the log has beyond it.
    log: Rows,
    /// What decides nothing: times, the history, what else `store` has.
    beside: [Rows; 3],
}

type Rows = Vec<Vec<Value>>;

fn number(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

impl Kept {
    fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let rows = |sql: &str| -> rusqlite::Result<Rows> {
            let mut statement = connection.prepare(sql)?;
            let columns = statement.column_count();
            let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect())?;
            rows.collect()
        };
        Ok(Self {
            header: rows(
                "SELECT issuer, epoch, start, snapshot_covers, snapshot_parts, user_version, application_id \
                 FROM store, pragma_user_version, pragma_application_id",
            )?,
            snapshot: rows(
                "SELECT snapshot.* FROM snapshot JOIN store ON covers = snapshot_covers WHERE part < snapshot_parts \
                 ORDER BY part",
            )?,
            log: rows("SELECT log.* FROM log JOIN store ON id > snapshot_covers ORDER BY id")?,
            beside: [
                rows("SELECT created_unix_ms, probe FROM store")?,
                rows("SELECT * FROM started ORDER BY start")?,
                rows("SELECT * FROM history ORDER BY covers, part")?,
            ],
        })
    }

    /// The last row of the log that the snapshot has in it.
    fn covers(&self) -> i64 {
        number(&self.header[0][3])
    }

    /// The last row that counts.
    fn last(&self) -> i64 {
        self.log.last().map_or_else(|| self.covers(), |row| number(&row[0]))
    }
}

/// What the next start owes to whoever damaged `before` into `after`.
enum Owed {
    /// Nothing is known: the row without a checksum is another, or somebody has written a checksum too.
    Words,
    /// A refusal: what has a checksum is not what was written, or rows that others follow are gone.
    Refusal,
    /// Only what decides nothing is another: a refusal, or all that there was.
    RefusalOrAll,
    /// All that there is, which is all that there was but for rows from the end of the log. Nobody can know that those were
    /// there: a disk that loses what it said was synced leaves no trace.
    All,
}

impl Owed {
    fn of(before: &Kept, after: &Kept) -> Self {
        if before.header != after.header {
            return Self::Words;
        }
        if before.snapshot != after.snapshot || !before.log.starts_with(&after.log) {
            let parts: Vec<_> = after.snapshot.iter().map(|part| &part[1..]).collect();
            let log: Vec<_> = after.log.iter().map(Vec::as_slice).collect();
            let has_its_parts = parts.len() == before.snapshot.len() && are_whole(&parts, 0);
            return if has_its_parts && are_whole(&log, before.covers() + 1) { Self::Words } else { Self::Refusal };
        }
        if before.beside == after.beside { Self::All } else { Self::RefusalOrAll }
    }
}

/// Whether rows count up from the first number without a hole, and each says the checksum that it has: their columns are
/// number, start, checksum and content.
fn are_whole(rows: &[&[Value]], first: i64) -> bool {
    let is_whole = |(number, row): (i64, &&[Value])| {
        let [Value::Integer(id), Value::Integer(start), Value::Integer(said), Value::Blob(content)] = row else {
            return false;
        };
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&id.to_be_bytes());
        checksum.update(&start.to_be_bytes());
        checksum.update(content);
        *id == number && i64::from(checksum.finalize()) == *said
    };
    (first..).zip(rows).all(is_whole)
}

/// What was written opens, and holds what was granted; so does it without the last row of its log, which it cannot miss.
pub fn taken() {
    for template in [template(false), template(true)] {
        for lost in 0..2 {
            let (folder, database) = copied(template);
            let connection = Connection::open(&database).expect("the copy opens");
            let sql = "DELETE FROM log WHERE id > (SELECT max(id) FROM log) - ?1";
            assert_eq!(connection.execute(sql, [lost]).expect("the log is there"), lost as usize);
            drop(connection);
            assert_eq!(holds_what_it_owes(template, folder.path(), &database), lost == 0, "the last row has a grant");
        }
    }
}

/// Rows are changed, removed and moved.
fn rows(mut made: Made<'_>) {
    let template = template(made.one_in(2));
    let (folder, database) = copied(template);
    let connection = Connection::open(&database).expect("the copy opens");
    for _ in 0..EDITS {
        if made.is_empty() {
            break;
        }
        edit(&connection, &mut made);
    }
    drop(connection);
    holds_what_it_owes(template, folder.path(), &database);
}

/// Opens what is left of the template; whether all that was granted is held there.
fn holds_what_it_owes(template: &Template, dir: &Path, database: &Path) -> bool {
    let kept = Kept::read(&Connection::open(database).expect("the copy opens")).expect("whole tables");
    let owed = Owed::of(&template.kept, &kept);
    let coordinator = match (opened(dir), &owed) {
        (Ok(_), Owed::Refusal) => panic!("what is damaged was taken for what was written: {kept:?}"),
        (Err(error), Owed::All) => panic!("nothing is damaged, and it is refused: {error}"),
        (Err(_), Owed::Words | Owed::Refusal | Owed::RefusalOrAll) => return false,
        (Ok(coordinator), Owed::Words | Owed::RefusalOrAll | Owed::All) => coordinator,
    };
    finished(async {
        let here = coordinator.snapshot(String::new()).await.expect("a coordinator that has opened reads");
        let mut holds_all = false;
        if !matches!(owed, Owed::Words) {
            let last = kept.last();
            let (there, lost): (Vec<_>, Vec<_>) = template.held.iter().partition(|held| held.by_row <= last);
            for Held { domain, token, .. } in &there {
                let is_held = here.leases.iter().any(|lease| lease.domain == *domain && lease.token == *token);
                assert!(is_held, "{domain} was granted with {token}, and is not held: {here:?}");
            }
            let (_, token) = grant(&coordinator, &session(&coordinator).await, 9).await;
            let least = there.iter().map(|held| held.token).max();
            assert!(Some(token) > least, "{token} was granted after {least:?}");
            holds_all = lost.is_empty();
        }
        coordinator.shutdown().await;
        holds_all
    })
}

fn edit(connection: &Connection, made: &mut Made<'_>) {
    // What the layout does not take is no damage that there can be.
    let change = |sql: &str, value: Value, row: i64| drop(connection.execute(sql, params![value, row]));
    let row = made.below(8) as i64;
    match made.byte() % 16 {
        0 => {
            let column =
                made.of_these(&["epoch", "created_unix_ms", "start", "snapshot_covers", "snapshot_parts", "probe"]);
            change(&format!("UPDATE store SET {column} = ?1 WHERE ?2 = ?2"), made.number().into(), row);
        }
        1 => {
            let sql = if made.one_in(4) {
                "DELETE FROM store WHERE ?1 = ?1 AND ?2 = ?2"
            } else {
                "UPDATE store SET issuer = ?1 WHERE ?2 = ?2"
            };
            change(sql, made.text(16).into(), row);
        }
        2 => {
            let pragma = made.of_these(&["user_version", "application_id"]);
            let value = i32::try_from(made.number()).unwrap_or_default();
            connection.pragma_update(None, pragma, value).expect("a number of 32 bits");
        }
        3..=5 => {
            let (table, column, id) = made.of_these(&TABLES);
            let position = row % 4;
            let sql = format!("SELECT {id}, {column} FROM {table} ORDER BY {id} LIMIT 1 OFFSET ?1");
            let found =
                connection.query_row(&sql, [position], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)));
            let Ok((rowid, mut content)) = found else { return };
            if made.one_in(3) {
                content.truncate(made.below(content.len() + 1));
            }
            let at = made.below(256) * content.len() / 256;
            if let Some(byte) = content.get_mut(at) {
                *byte ^= made.byte();
            }
            change(&format!("UPDATE {table} SET {column} = ?1 WHERE {id} = ?2"), content.into(), rowid);
        }
        6..=8 => {
            let (table, _, id) = made.of_these(&TABLES);
            let column = made.of_these(&["start", "checksum"]);
            let sql = format!(
                "UPDATE {table} SET {column} = ?1 WHERE {id} = (SELECT {id} FROM {table} ORDER BY {id} LIMIT 1 OFFSET ?2)"
            );
            change(&sql, made.number().into(), row % 4);
        }
        9..=10 => {
            // Its own number tells that a row is not the one that it was.
            let sql = "UPDATE log SET id = ?1 WHERE id = (SELECT id FROM log ORDER BY id DESC LIMIT 1 OFFSET ?2)";
            change(sql, made.number().into(), row % 4);
        }
        11 => {
            let sql = "DELETE FROM log WHERE id = (SELECT id FROM log ORDER BY id DESC LIMIT 1 OFFSET ?2) AND ?1 = ?1";
            change(sql, 0.into(), row % 4);
        }
        12 => {
            let column = made.of_these(&["covers", "part"]);
            change(&format!("UPDATE snapshot SET {column} = ?1 WHERE ?2 = ?2"), made.number().into(), row);
        }
        13 => {
            let column = made.of_these(&["covers", "part", "entries"]);
            change(&format!("UPDATE history SET {column} = ?1 WHERE ?2 = ?2"), made.number().into(), row);
        }
        _ => {
            let column = made.of_these(&["start", "at_ms", "unix_ms"]);
            let sql = format!(
                "UPDATE started SET {column} = ?1 WHERE start = (SELECT start FROM started ORDER BY start LIMIT 1 OFFSET ?2)"
            );
            change(&sql, made.number().into(), row % 4);
        }
    }
}

/// Each with the column of its content and that of its rows.
const TABLES: [(&str, &str, &str); 3] =
    [("log", "records", "id"), ("snapshot", "content", "rowid"), ("history", "content", "rowid")];
