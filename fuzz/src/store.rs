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
        1 => taken(made),
        _ => rows(made),
    }
}

/// What every round begins with: a store of three starts, with a log and a history, and one of them with a snapshot.
struct Template {
    database: Vec<u8>,
    key: SessionKey,
    held: Vec<(Domain, Token)>,
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

async fn grant(coordinator: &Embedded, key: &SessionKey, nth: u8) -> (Domain, Token) {
    let domain = Domain::new(&format!("d{nth}")).expect("a name");
    let request = AcquireRequest::new(key, domain.clone(), RequestId::from_bytes([nth; 16]));
    let granted = coordinator.acquire(request).await.expect("a free domain is granted");
    let permission = granted.answer.acquired.permission;
    (domain, permission.grant().expect("a grant under safety").token)
}

fn template(with_snapshot: bool) -> &'static Template {
    static MADE: [OnceLock<Template>; 2] = [const { OnceLock::new() }; 2];
    MADE[usize::from(with_snapshot)].get_or_init(|| {
        let folder = folder();
        let dir = folder.path().join("data");
        let issuer = Issuer::new("fuzz").expect("a name");
        let init = InitOptions { issuer: Some(issuer), epoch: Some(Epoch::ZERO), wall_clock: None };
        Embedded::init(&dir, init).expect("an empty directory takes a store");
        let ttl = Ttl::from_millis(limits::TTL_MOST_MS).expect("the longest");
        let (key, held) = finished(async {
            let coordinator =
                Embedded::open(&dir, options(if with_snapshot { 1 } else { u64::MAX })).expect("a new store opens");
            let holder = Holder::new("h").expect("a name");
            let key = coordinator.open_session(holder, ttl).await.expect("a session").answer.key();
            let mut held = Vec::new();
            for nth in 0..4 {
                held.push(grant(&coordinator, &key, nth).await);
            }
            // The snapshot is written beside the calls.
            while with_snapshot && coordinator.statistics().snapshots == 0 {
                coordinator.heartbeat(&key, fencepost_core::lease::Claim::Held(Vec::new())).await.expect("a session");
            }
            coordinator.shutdown().await;
            for nth in 4..6 {
                let coordinator = Embedded::open(&dir, options(u64::MAX)).expect("the store opens again");
                held.push(grant(&coordinator, &key, nth).await);
                coordinator.shutdown().await;
            }
            (key, held)
        });
        Template { database: fs::read(dir.join(DATABASE)).expect("the store"), key, held }
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
fn taken(made: Made<'_>) {
    let (folder, _) = copied(template(true));
    let mut lock = File::create(folder.path().join("lock")).expect("a lock file");
    lock.write_all(made.rest()).expect("it is written");
    lock.lock().expect("nobody else has it");
    let refused = opened(folder.path()).expect_err("a store that is in use is not opened");
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused:?}");
}

/// What the edits leave to be asserted.
#[derive(Default)]
struct Damage {
    /// The row that says who the coordinator is and where to begin has no checksum.
    header: bool,
    /// The last row of the log, of which nobody can know that it was there.
    tail: bool,
}

/// Rows are changed, removed and moved. What is damaged is refused; the history alone decides nothing.
fn rows(mut made: Made<'_>) {
    let template = template(made.one_in(2));
    let (folder, database) = copied(template);
    let connection = Connection::open(&database).expect("the copy opens");
    let mut damage = Damage::default();
    for _ in 0..EDITS {
        if made.is_empty() {
            break;
        }
        edit(&connection, &mut made, &mut damage);
    }
    drop(connection);
    let Ok(coordinator) = opened(folder.path()) else { return };
    finished(async {
        let here = coordinator.snapshot(String::new()).await.expect("a coordinator that has opened reads");
        if !damage.header && !damage.tail {
            for (domain, token) in &template.held {
                let is_held = here.leases.iter().any(|lease| lease.domain == *domain && lease.token == *token);
                assert!(is_held, "{domain} was granted with {token}, and is not held: {here:?}");
            }
        }
        if !damage.header {
            let (_, token) = grant(&coordinator, &template.key, 9).await;
            let least = template.held.iter().map(|(_, token)| *token).max().expect("grants");
            assert!(damage.tail || token > least, "{token} was granted after {least}");
        }
        coordinator.shutdown().await;
    });
}

fn edit(connection: &Connection, made: &mut Made<'_>, damage: &mut Damage) {
    // What the layout does not take is no damage that there can be.
    let change = |sql: &str, value: Value, row: i64| drop(connection.execute(sql, params![value, row]));
    let row = made.below(8) as i64;
    match made.byte() % 16 {
        0 => {
            damage.header = true;
            let column =
                made.of_these(&["epoch", "created_unix_ms", "start", "snapshot_covers", "snapshot_parts", "probe"]);
            change(&format!("UPDATE store SET {column} = ?1 WHERE ?2 = ?2"), made.number().into(), row);
        }
        1 => {
            damage.header = true;
            let sql = if made.one_in(4) {
                "DELETE FROM store WHERE ?1 = ?1 AND ?2 = ?2"
            } else {
                "UPDATE store SET issuer = ?1 WHERE ?2 = ?2"
            };
            change(sql, made.text(16).into(), row);
        }
        2 => {
            damage.header = true;
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
            damage.tail = true;
            change(sql, made.number().into(), row % 4);
        }
        11 => {
            damage.tail = true;
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
