//! What the workers meet: a coordinator with its durable store, its HTTP server, and a database with a guarded table.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use fencepost_coordinator::{
    Coordinator,
    embedded::{self, Embedded, InitOptions},
};
use fencepost_core::Epoch;
use fencepost_receiver::ReceiverSeed;
use fencepost_rusqlite::{DomainExpression, Mode, guard};
use fencepost_server::{Metrics, Options, Server};
use rusqlite::{Connection, ErrorCode, params};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{
    promise::Seen,
    protocol::{DOMAIN_EXPRESSION, TABLE},
    script::Act,
};
use crate::{
    exit::Exit,
    failure::{AGAIN, Failure, REPORT},
};

pub(super) struct Stage {
    pub(super) url: String,
    pub(super) address: SocketAddr,
    pub(super) data: PathBuf,
    pub(super) database: PathBuf,
    coordinator: Embedded,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

fn unusable(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::CannotWrite, format!("{what}: {why}"))
        .then("set TMPDIR to a folder on a disk with some room, and run the demo again")
}

impl Stage {
    /// Sets everything up below `dir`, which is empty.
    pub(super) async fn set(dir: &Path, acts: &[Act]) -> Result<Self, Failure> {
        let data = dir.join("coordinator");
        let metrics = Metrics::new();
        let init = InitOptions { epoch: Some(Epoch::ZERO), ..InitOptions::default() };
        let identity = Embedded::init(&data, init).map_err(|error| unusable("no coordinator", error))?;
        let options = embedded::Options { observer: Some(metrics.commit_observer()), ..embedded::Options::default() };
        let coordinator = Embedded::open(&data, options).map_err(|error| unusable("no coordinator", error))?;

        let server = Server::bind((Ipv4Addr::LOCALHOST, 0), coordinator.clone(), metrics, Options::default()).await;
        let server = server
            .map_err(|error| Failure::new(Exit::Denied, format!("no server on loopback: {error}")).then(AGAIN))?;
        let address = server.local_addr().map_err(|error| Failure::new(Exit::Bug, error.to_string()).then(REPORT))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.serve(async {
            // Dropping the sender stops the server as well.
            let _ = stopped.await;
        }));

        let snapshot = coordinator.snapshot(String::new()).await.map_err(|error| unusable("no snapshot", error))?;
        let next = snapshot.next_token.ok_or_else(|| unusable("no snapshot", "a new coordinator has no token left"))?;
        let seed = ReceiverSeed::new(identity.issuer, identity.epoch).with_snapshot(next, snapshot.leases);
        let database = dir.join("shop.db");
        guarded_database(&database, acts, &seed)?;
        let url = format!("http://{address}");
        Ok(Self { url, address, data, database, coordinator, stop: Some(stop), server })
    }

    /// Stops the server and closes the coordinator's store.
    pub(super) async fn strike(mut self) {
        drop(self.stop.take());
        // It ends by itself, at the latest when its time for calls under way is over; a panic in it changes nothing now.
        let _ = (&mut self.server).await;
        self.coordinator.shutdown().await;
    }

    /// Every byte of the database file. There is no second file: in its rollback journal mode SQLite keeps what is
    /// committed in this one alone.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        fs::read(&self.database).map_err(unreadable)
    }

    pub(super) fn amount(&self, item: &str) -> Result<i64, Failure> {
        let connection = Connection::open(&self.database).map_err(unreadable)?;
        let sql = "SELECT amount FROM stock WHERE item = ?1";
        connection.query_row(sql, [item], |row| row.get(0)).map_err(unreadable)
    }

    /// Runs a statement as any program would that knows SQLite and nothing else.
    pub(super) fn plain(&self, sql: &str) -> Result<Seen, Failure> {
        let connection = Connection::open(&self.database).map_err(unreadable)?;
        Ok(match connection.execute(sql, []) {
            Ok(rows) => Seen::NotRefused(rows),
            Err(error) if is_the_guard(&error) => Seen::RefusedByGuard,
            Err(error) => Seen::SqlFailed(error.to_string()),
        })
    }
}

fn is_the_guard(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) && error.to_string().starts_with("fencepost:")
}

fn unreadable(error: impl std::fmt::Display) -> Failure {
    unusable("the database cannot be used", error)
}

fn guarded_database(path: &Path, acts: &[Act], seed: &ReceiverSeed) -> Result<(), Failure> {
    let make = || -> Result<(), Box<dyn std::error::Error>> {
        let mut connection = Connection::open(path)?;
        connection.execute_batch(&format!(
            "CREATE TABLE {TABLE} (item TEXT PRIMARY KEY, amount INTEGER NOT NULL, set_by TEXT NOT NULL)"
        ))?;
        for scene in acts.iter().flat_map(|act| &act.scenes) {
            let sql = format!("INSERT OR IGNORE INTO {TABLE} VALUES (?1, ?2, '')");
            connection.execute(&sql, params![scene.item, scene.amount])?;
        }
        let domain = DomainExpression::new(DOMAIN_EXPRESSION)?;
        guard(&mut connection, TABLE, &domain, Mode::Enforce, Some(seed))?;
        Ok(())
    };
    make().map_err(|error| unusable("no guarded database", error))
}
