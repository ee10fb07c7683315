//! A worker process: it does what it is told, one request at a time, with the real client over HTTP and the real
//! receiver on its own connection. It is told nothing about promises.
//!
//! It writes with the grant that it was given, whatever has become of its lease meanwhile: it stands for a program that
//! looked at its lease, was stopped, and goes on exactly where it was.

use std::{
    io::{self, BufRead, Lines, StdinLock, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use fencepost::{Advance, AdvancingError, FencedLease};
use fencepost_client::{HttpCoordinator, Lease, LeaseState, Session};
use fencepost_core::{
    Domain, Grant, Holder, Ttl, Wait,
    fence::{Operation, RecordedResult},
};
use fencepost_rusqlite::SqliteFile;
use rusqlite::{Connection, Transaction, params};
use tokio::runtime::Runtime;

use super::{
    protocol::{Manner, Reply, Request, domain_of},
    script::{Change, Fenced},
};
use crate::{
    exit::Exit,
    failure::{Failure, REPORT},
};

/// A worker of the demo; started by `fencepost demo` and of no use to anybody else.
#[derive(Args, Clone, Debug)]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    name: String,
    #[arg(long)]
    url: String,
    #[arg(long)]
    database: PathBuf,
}

/// Serves until standard input ends.
///
/// # Errors
/// When nobody listens, or there is nothing to work with.
pub(crate) fn run(args: &WorkerArgs) -> Result<Exit, Failure> {
    let failed = |why: Whatever| Failure::new(Exit::Bug, format!("worker {}: {why}", args.name)).then(REPORT);
    serve(args).map(|()| Exit::Done).map_err(failed)
}

type Whatever = Box<dyn std::error::Error + Send + Sync>;

fn serve(args: &WorkerArgs) -> Result<(), Whatever> {
    die_with_parent()?;
    // One thread only, so that one call that blocks is enough to block all of the runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let receiver = SqliteFile::new(&args.database);
    let connection = receiver.connect()?;
    let coordinator = HttpCoordinator::new(&args.url)?;
    let mut link = Link { input: io::stdin().lock().lines() };
    let mut worker = Worker { args, runtime, coordinator, receiver, connection, hold: None };
    while let Some(request) = link.hear()? {
        let reply = worker.serve(request, &mut link).unwrap_or_else(|why| Reply::Failed { why: why.to_string() });
        link.say(&reply)?;
    }
    Ok(())
}

/// A worker that is stopped or in the middle of a call hears no end of input, so the kernel ends it when the demo is gone,
/// however that came.
fn die_with_parent() -> Result<(), Whatever> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

struct Link<'a> {
    input: Lines<StdinLock<'a>>,
}

impl Link<'_> {
    fn hear(&mut self) -> Result<Option<Request>, Whatever> {
        let Some(line) = self.input.next() else { return Ok(None) };
        Ok(Some(serde_json::from_str(&line?)?))
    }

    fn say(&mut self, reply: &Reply) -> Result<(), Whatever> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", serde_json::to_string(reply)?)?;
        Ok(stdout.flush()?)
    }
}

/// Either kind of lease, as the composition hands it out.
enum Held {
    Plain(Lease),
    Fenced(FencedLease),
}

impl Held {
    fn lease(&self) -> &Lease {
        match self {
            Self::Plain(lease) => lease,
            Self::Fenced(lease) => lease,
        }
    }
}

struct Hold {
    item: String,
    grant: Grant,
    held: Held,
    reading: Option<i64>,
}

struct Worker<'a> {
    args: &'a WorkerArgs,
    runtime: Runtime,
    coordinator: HttpCoordinator,
    receiver: SqliteFile,
    connection: Connection,
    hold: Option<Hold>,
}

impl Worker<'_> {
    fn serve(&mut self, request: Request, link: &mut Link<'_>) -> Result<Reply, Whatever> {
        match request {
            Request::Acquire { item, fenced, ttl, wait } => self.acquire(item, fenced, ttl, wait),
            Request::Release => self.release(),
            Request::Look => self.look(),
            Request::Read => self.read(),
            Request::Write { change, operation, manner } => {
                let request = serde_json::to_vec(&change)?;
                self.write(change, &Operation::new(operation, &request), manner, link)
            }
            Request::GoOn => Err("there is nothing to go on with".into()),
            Request::Block { ms } => {
                let block = async move { std::thread::sleep(Duration::from_millis(ms)) };
                self.runtime.block_on(async { tokio::spawn(block).await })?;
                self.look()
            }
        }
    }

    /// Until it is granted or the wait is over. A machine so busy that a grant is old when it arrives gets another try.
    fn acquire(&mut self, item: String, fenced: Fenced, ttl: Ttl, wait: Wait) -> Result<Reply, Whatever> {
        self.hold = None;
        let until = Instant::now() + wait.get();
        let held = loop {
            let (holder, domain) = (Holder::new(&self.args.name)?, domain_of(&item)?);
            let session = self.runtime.block_on(Session::open(self.coordinator.clone(), holder, ttl))?;
            let error = match self.runtime.block_on(self.acquire_once(&session, domain, fenced, wait)) {
                Ok(held) => break held,
                Err(error) => error,
            };
            if let AdvancingError::Acquire(refused) = &error
                && let Some(held) = refused.held_by()
            {
                return Ok(Reply::Held { holder: held.holder.to_string() });
            }
            let came_late = error.is_worth_repeating() || session.over().is_some();
            if !came_late || Instant::now() >= until {
                return Err(error.into());
            }
        };
        let grant = held.lease().grant().clone();
        let token = grant.token;
        self.hold = Some(Hold { item, grant, held, reading: None });
        Ok(Reply::Granted { token })
    }

    async fn acquire_once(
        &self,
        session: &Session,
        domain: Domain,
        fenced: Fenced,
        wait: Wait,
    ) -> Result<Held, AdvancingError> {
        let acquire = session.acquire(domain).wait(wait);
        Ok(match fenced {
            Fenced::OnFirstWrite => Held::Plain(acquire.await?),
            Fenced::OnAcquire => Held::Fenced(acquire.advance(&self.receiver).await?),
        })
    }

    fn release(&mut self) -> Result<Reply, Whatever> {
        let hold = self.hold.take().ok_or(NO_LEASE)?;
        self.runtime.block_on(async {
            match hold.held {
                Held::Plain(lease) => lease.release().await,
                Held::Fenced(lease) => lease.release().await,
            }
        })?;
        Ok(Reply::Done)
    }

    fn look(&self) -> Result<Reply, Whatever> {
        let lease = self.hold.as_ref().ok_or(NO_LEASE)?.held.lease();
        let why = match lease.state() {
            LeaseState::Held | LeaseState::InDoubt { .. } => None,
            LeaseState::Lost(loss) => Some(loss.to_string()),
        };
        let remaining_ms = u64::try_from(lease.remaining().as_millis()).unwrap_or(u64::MAX);
        Ok(Reply::Looked { held: why.is_none(), remaining_ms, why })
    }

    fn read(&mut self) -> Result<Reply, Whatever> {
        let hold = self.hold.as_mut().ok_or(NO_LEASE)?;
        let sql = "SELECT amount FROM stock WHERE item = ?1";
        let amount = self.connection.query_row(sql, [&hold.item], |row| row.get(0))?;
        hold.reading = Some(amount);
        Ok(Reply::Read { amount })
    }

    fn write(
        &mut self,
        change: Change,
        operation: &Operation,
        manner: Manner,
        link: &mut Link<'_>,
    ) -> Result<Reply, Whatever> {
        let hold = self.hold.as_ref().ok_or(NO_LEASE)?;
        let (sql, amount) = match change {
            Change::To(amount) => (SET, amount),
            Change::By(difference) => (ADD, difference),
            Change::ReadingPlusOne => (SET, hold.reading.ok_or("nothing was read")? + 1),
        };
        if manner == Manner::Announced {
            link.say(&Reply::Sending)?;
        }
        let name = &self.args.name;
        let mutation = |tx: &Transaction<'_>| -> Result<RecordedResult, Whatever> {
            let left: i64 = tx.query_row(sql, params![amount, name, hold.item], |row| row.get(0))?;
            if manner == Manner::HeldOpen {
                link.say(&Reply::Inside)?;
                match link.hear()? {
                    Some(Request::GoOn) => {}
                    _ => return Err("told something else than to go on".into()),
                }
            }
            Ok(RecordedResult::new(left.to_string())?)
        };
        let verdict = self.receiver.receiver().write(&mut self.connection, &hold.grant, operation, mutation)?;
        Ok(match manner {
            Manner::Unheard => Reply::Done,
            Manner::Plain | Manner::Announced | Manner::HeldOpen => Reply::Verdict(verdict.into()),
        })
    }
}

const NO_LEASE: &str = "it has acquired nothing";
const SET: &str = "UPDATE stock SET amount = ?1, set_by = ?2 WHERE item = ?3 RETURNING amount";
const ADD: &str = "UPDATE stock SET amount = amount + ?1, set_by = ?2 WHERE item = ?3 RETURNING amount";
