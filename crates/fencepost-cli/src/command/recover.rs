use std::ffi::OsString;

use clap::Args;
use fencepost_core::{
    Domain, Epoch, Issuer, Token,
    fence::{Closure, Condition, LiveLease},
};
use fencepost_receiver::{ReceiverSeed, file};
use fencepost_rusqlite::{fences, incarnation, recover, status};
use rusqlite::Connection;
use serde_json::json;

use crate::{
    command::guard::{refused_json, seed_of, snapshot, tell_refused},
    coordinator::UrlArgs,
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
    shell,
};

/// How many fences are read at one time.
const ROWS: u32 = 1_000;

/// Open a receiver whose storage was restored, copied or moved
#[derive(Args, Debug)]
#[command(after_long_help = "\
A receiver that finds itself at another place, gone back, or without its records accepts nothing: nobody can know which \
tokens it has seen. Once you know what happened to the storage and that nothing more is going to, this opens it again:

  fencepost recover sqlite:/var/lib/shop.db
  fencepost recover file:report.csv
  fencepost recover file:report.csv --domain report --url URL    # where its sidecar is lost, and the names in it

It notes which storage is there, reads from the coordinator in one read which leases are live and which token comes next, \
and goes ahead only if the storage is still the noted one. From then on:
  - the known epoch is the coordinator's, or the greater one that was known;
  - domains without a fence accept the coordinator's next token and later (the unfenced floor), and fences below it are \
dropped, except those of live leases: whoever holds a lease goes on with it;
  - where records of operations may be lost while their effects are there, the horizon rises to the same token: a retry of \
an operation born before is answered `operation_too_old`, whether or not it had taken effect, so look before you do it \
again. Operations without `born` cannot be saved this way.

Whose grants a receiver accepts stands in its records. Where those are lost, whoever is asked now is believed for ever: \
so name the coordinator (--url or FENCEPOST_URL), or the issuer that has to answer (--issuer); nobody is taken by default.

A receiver may have seen more than the coordinator remembers: a greater epoch, or a fence at or above its next token. Then \
that coordinator was restored from a backup, or is another one under the same name, and this says so; with --json \
`coordinator_behind` is true. Find out which it is before anybody writes.

Without the coordinator it stays closed and this exits 69; the same where the storage was replaced meanwhile. Nothing is ever lowered, so running it again, or on a receiver \
that is open, is harmless; where it was killed half-way, run it again. A receiver that was never guarded is not recovered \
but guarded: `fencepost help guard`. After a database, see by `fencepost audit` that its tables have their guards.

What it cannot bring back is what your own data has lost; restoring that comes first.")]
pub(crate) struct RecoverArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// The domain of a file whose sidecar is lost; otherwise it has to be the one that the sidecar names
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// The issuer that the coordinator has to be; where the records are lost, this or --url has to be given
    #[arg(long, value_name = "NAME")]
    issuer: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &RecoverArgs) -> Result<(Resource, Option<Domain>, Option<Issuer>), Failure> {
    let issuer = args.issuer.as_deref().map(Issuer::new).transpose()?;
    let resource = Resource::parse(&args.resource)?;
    let domain = match (&resource, &args.domain) {
        (Resource::Sqlite(database), Some(_)) => {
            let what = format!("--domain: {} has a fence for each domain", database.typed);
            return Err(Failure::new(Exit::Usage, what).then(format!("fencepost recover {}", database.typed)));
        }
        (Resource::File(_), Some(domain)) => Some(Domain::new(domain)?),
        (Resource::Sqlite(_) | Resource::File(_), None) => None,
    };
    Ok((resource, domain, issuer))
}

/// `url_was_named` where the coordinator is not the one by default.
pub(crate) async fn run(args: RecoverArgs, url_was_named: bool, output: Output) -> Result<Exit, Failure> {
    let (resource, domain, issuer) = understand(&args)?;
    let coordinator = Asked { url: &args.url, is_named: url_was_named || issuer.is_some(), issuer };
    match resource {
        Resource::Sqlite(database) => recover_database(&database, coordinator, output).await,
        Resource::File(file) => recover_file(&file, domain, coordinator, output).await,
    }
}

async fn recover_database(resource: &SqliteResource, coordinator: Asked<'_>, output: Output) -> Result<Exit, Failure> {
    let _recovering = resource.doing("recovering");
    let mut connection = resource.connect()?;
    let failed = |error| resource.failed(error);
    let (was, known) = match status(&connection) {
        Ok(status) => {
            // A fence that cannot be read is for the recovery to refuse.
            let fence = greatest_fence(&connection).unwrap_or_default();
            (status.condition, Some(Known { epoch: status.known_epoch, fence }))
        }
        Err(fencepost_rusqlite::MaintenanceError::Closed(Closure::NotGuarded)) => {
            return Err(resource.closed(Closure::NotGuarded));
        }
        Err(fencepost_rusqlite::MaintenanceError::Closed(why)) => (Condition::Closed(why), None),
        Err(error) => return Err(failed(error)),
    };
    // In this order, so that a storage that is replaced while the coordinator is asked is not taken for this one.
    let noted = incarnation(&connection).map_err(failed)?;
    if noted.recovery.is_none() {
        coordinator.must_be_named(&format!("fencepost recover {}", resource.typed))?;
    }
    let seed = coordinator.seed().await?;
    let recovered = recover(&mut connection, &noted, &seed, resource.file.receiver().seen()).map_err(failed)?;
    drop(connection);
    let now = status(&resource.connect()?).map_err(failed)?;
    found_open(now.condition, |why| resource.closed(why))?;
    let done = Done {
        ahead: known.filter(|known| known.is_ahead_of(&seed)),
        was,
        issuer: now.issuer,
        known_epoch: now.known_epoch,
        unfenced_floor: now.unfenced_floor,
        horizon: now.horizon,
        fences_dropped: recovered.fences_dropped,
        refused: recovered.refused,
    };
    done.tell(&resource.typed, output)
}

/// The greatest of all fences.
fn greatest_fence(connection: &Connection) -> Result<Option<Token>, fencepost_rusqlite::MaintenanceError> {
    let (mut greatest, mut after) = (None, None);
    loop {
        let rows = fences(connection, after.as_ref(), ROWS)?;
        greatest = greatest.max(rows.iter().map(|fence| fence.token).max());
        match rows.into_iter().next_back() {
            Some(last) => after = Some(last.domain),
            None => return Ok(greatest),
        }
    }
}

async fn recover_file(
    resource: &FileResource,
    typed_domain: Option<Domain>,
    coordinator: Asked<'_>,
    output: Output,
) -> Result<Exit, Failure> {
    let again = |domain: &str| format!("fencepost recover {}{}", resource.typed, shell::option("--domain", domain));
    let failed = |error: file::MaintenanceError| match error {
        file::MaintenanceError::WrongDomain { ref here, .. } => {
            Failure::new(Exit::Rejected, error.to_string()).then(again(here.as_str()))
        }
        error => resource.failed(error),
    };
    let _recovering = resource.doing("recovering");
    let (was, kept_domain, known) = match resource.receiver.status() {
        Ok(status) => {
            let known = Known { epoch: status.known_epoch, fence: status.fence };
            (status.condition, Some(status.domain), Some(known))
        }
        Err(file::MaintenanceError::Closed(Closure::NotGuarded)) => return Err(resource.closed(Closure::NotGuarded)),
        Err(file::MaintenanceError::Closed(why)) => (Condition::Closed(why), None, None),
        Err(error) => return Err(failed(error)),
    };
    if was == Condition::Closed(Closure::NotGuarded) {
        return Err(resource.closed(Closure::NotGuarded));
    }
    let Some(domain) = typed_domain.or(kept_domain) else {
        let what = format!("{}: its sidecar is lost, and with it the name of its domain", resource.typed);
        return Err(Failure::new(Exit::Usage, what)
            .detail("a name that is not the one its writers acquire shuts them all out")
            .then(again("NAME")));
    };
    let noted = resource.receiver.incarnation().map_err(failed)?;
    if noted.recovery.is_none() {
        coordinator.must_be_named(&again(domain.as_str()))?;
    }
    let seed = coordinator.seed().await?;
    let recovered = resource.receiver.recover(&domain, &noted, &seed).map_err(failed)?;
    let now = resource.receiver.status().map_err(failed)?;
    found_open(now.condition, |why| resource.closed(why))?;
    let done = Done {
        ahead: known.filter(|known| known.is_ahead_of(&seed)),
        was,
        issuer: now.issuer,
        known_epoch: now.known_epoch,
        unfenced_floor: now.unfenced_floor,
        horizon: now.horizon,
        fences_dropped: recovered.fences_dropped,
        refused: recovered.refused,
    };
    done.tell(&resource.typed, output)
}

/// Which coordinator is asked, and who it has to be.
struct Asked<'a> {
    url: &'a UrlArgs,
    /// Whether anybody has said which one it is, by its address or by its issuer.
    is_named: bool,
    issuer: Option<Issuer>,
}

impl Asked<'_> {
    /// For a receiver that has no record of its issuer: the one that answers becomes that for ever, so whatever happens to
    /// listen at the usual address is not good enough.
    fn must_be_named(&self, again: &str) -> Result<(), Failure> {
        if self.is_named {
            return Ok(());
        }
        let what = "its records are lost, and with them whose grants it accepts: name the coordinator";
        Err(Failure::new(Exit::Usage, what)
            .detail("nothing was changed; whoever answers becomes its issuer for ever, so nobody is asked by default")
            .then(format!("{again} --url URL"))
            .then(format!("{again} --issuer NAME")))
    }

    /// What the coordinator knows, in one read. Nobody else can say it: without it the receiver stays as it is.
    async fn seed(&self) -> Result<ReceiverSeed, Failure> {
        let unchanged = "nothing was changed: what is live only the coordinator knows";
        let found = snapshot(self.url).await.map_err(|failure| failure.detail(unchanged))?;
        match &self.issuer {
            Some(issuer) if *issuer != found.issuer => {
                let what = format!("--issuer: the coordinator at {} is {}, not {issuer}", self.url.url, found.issuer);
                Err(Failure::new(Exit::Usage, what)
                    .detail("nothing was changed")
                    .then(format!("name the coordinator that is {issuer}: --url URL")))
            }
            Some(_) | None => seed_of(found),
        }
    }
}

/// What the receiver has seen of its coordinator. It is read before that one is asked: a token that it had granted by then
/// is below its next one.
struct Known {
    epoch: Epoch,
    fence: Option<Token>,
}

impl Known {
    /// Whether the coordinator does not remember what it must have done: it was restored, or is another one.
    fn is_ahead_of(&self, coordinator: &ReceiverSeed) -> bool {
        let has_granted_less = |(fence, next): (Token, Token)| fence >= next;
        self.epoch > coordinator.known_epoch || self.fence.zip(coordinator.next).is_some_and(has_granted_less)
    }
}

/// Asked of a receiver that is opened anew, so that nobody is told that it is open by whoever has only written so.
fn found_open(condition: Condition, closed: impl FnOnce(Closure) -> Failure) -> Result<(), Failure> {
    match condition {
        Condition::Open => Ok(()),
        Condition::Closed(why) => {
            Err(closed(why).detail("it was recovered, and was closed again when it was looked at after that"))
        }
    }
}

/// What a recovery has come to.
struct Done {
    was: Condition,
    /// What was known, where that is more than the coordinator knows.
    ahead: Option<Known>,
    issuer: Issuer,
    known_epoch: Epoch,
    unfenced_floor: Option<Token>,
    horizon: Option<Token>,
    fences_dropped: u64,
    refused: Vec<LiveLease>,
}

impl Done {
    fn tell(&self, typed: &str, output: Output) -> Result<Exit, Failure> {
        let why = match self.was {
            Condition::Open => None,
            Condition::Closed(why) => Some(why),
        };
        if output.json {
            output.json(&json!({
                "was": if why.is_none() { "open" } else { "closed" },
                "why": why,
                "issuer": self.issuer,
                "known_epoch": self.known_epoch,
                "unfenced_floor": self.unfenced_floor,
                "horizon": self.horizon,
                "fences": self.fences_dropped,
                "refused": refused_json(&self.refused),
                "coordinator_behind": self.ahead.is_some(),
            }))?;
            return Ok(Exit::Done);
        }
        let was = why.map_or_else(|| "open".to_owned(), |why| format!("closed: {why}"));
        let bound = |bound: Option<Token>| bound.map_or_else(|| "none".to_owned(), |bound| bound.to_string());
        output.line(&format!("recovered {typed}: it accepts tokens again (it was {was})"))?;
        output.facts(
            2,
            &[
                ("issuer", self.issuer.to_string()),
                ("known epoch", self.known_epoch.to_string()),
                ("unfenced floor", bound(self.unfenced_floor)),
                ("horizon", bound(self.horizon)),
                ("fences dropped", self.fences_dropped.to_string()),
            ],
        )?;
        tell_refused(&self.refused, output)?;
        if let Some(known) = &self.ahead {
            let fence = bound(known.fence);
            output.sentence(
                2,
                &format!(
                    "warning: the coordinator is behind this receiver, which knew epoch {} and has a fence at {fence}: it \
                     was restored from a backup, or is another one under the same name; find out which before anybody writes",
                    known.epoch
                ),
            )?;
        }
        output.command("next", &format!("fencepost audit {typed}"))?;
        Ok(Exit::Done)
    }
}
