use std::ffi::OsString;

use clap::Args;
use fencepost_core::{
    Domain, Epoch, Issuer, Token,
    fence::{Closure, Condition, LiveLease},
};
use fencepost_receiver::{ReceiverSeed, file};
use fencepost_rusqlite::{incarnation, recover, status};
use serde_json::json;

use crate::{
    command::guard::{refused_json, seed_of, snapshot, tell_refused},
    coordinator::UrlArgs,
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::{FileResource, Resource, SqliteResource},
};

/// Open a receiver whose storage was restored, copied or moved
#[derive(Args, Debug)]
#[command(after_long_help = "\
A receiver that finds itself at another place, gone back, or without its records accepts nothing: nobody can know which \
tokens it has seen. Once you know what happened to the storage and that nothing more is going to, this opens it again:

  fencepost recover sqlite:/var/lib/shop.db
  fencepost recover file:report.csv
  fencepost recover file:report.csv --domain report    # where its sidecar is lost, and with it the name

It notes which storage is there, reads from the coordinator in one read which leases are live and which token comes next, \
and goes ahead only if the storage is still the noted one. From then on:
  - the known epoch is the coordinator's, or the greater one that was known;
  - domains without a fence accept the coordinator's next token and later (the unfenced floor), and fences below it are \
dropped, except those of live leases: whoever holds a lease goes on with it;
  - where records of operations may be lost while their effects are there, the horizon rises to the same token: a retry of \
an operation born before is answered `operation_too_old`, whether or not it had taken effect, so look before you do it \
again. Operations without `born` cannot be saved this way.

Without the coordinator it stays closed and this exits 69. Nothing is ever lowered, so running it again, or on a receiver \
that is open, is harmless; where it was killed half-way, run it again. A receiver that was never guarded is not recovered \
but guarded: `fencepost help guard`. After a database, see by `fencepost audit` that its tables have their guards.

What it cannot bring back is what your own data has lost; restoring that comes first.")]
pub(crate) struct RecoverArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// The domain of a file whose sidecar is lost; otherwise it has to be the one that the sidecar names
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) async fn run(args: RecoverArgs, output: Output) -> Result<Exit, Failure> {
    match Resource::parse(&args.resource)? {
        Resource::Sqlite(database) => recover_database(&database, &args, output).await,
        Resource::File(file) => recover_file(&file, &args, output).await,
    }
}

async fn recover_database(resource: &SqliteResource, args: &RecoverArgs, output: Output) -> Result<Exit, Failure> {
    if args.domain.is_some() {
        let what = format!("--domain: {} has a fence for each domain", resource.typed);
        return Err(Failure::new(Exit::Usage, what).then(format!("fencepost recover {}", resource.typed)));
    }
    let mut connection = resource.connect()?;
    let failed = |error| resource.failed(error);
    let was = match status(&connection) {
        Ok(status) => status.condition,
        Err(fencepost_rusqlite::MaintenanceError::Closed(Closure::NotGuarded)) => {
            return Err(resource.closed(Closure::NotGuarded));
        }
        Err(fencepost_rusqlite::MaintenanceError::Closed(why)) => Condition::Closed(why),
        Err(error) => return Err(failed(error)),
    };
    // In this order, so that a storage that is replaced while the coordinator is asked is not taken for this one.
    let noted = incarnation(&connection).map_err(failed)?;
    let seed = seed(args).await?;
    let recovered = recover(&mut connection, &noted, &seed, resource.file.receiver().seen()).map_err(failed)?;
    let now = status(&connection).map_err(failed)?;
    let done = Done {
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

async fn recover_file(resource: &FileResource, args: &RecoverArgs, output: Output) -> Result<Exit, Failure> {
    let failed = |error| resource.failed(error);
    let typed_domain = args.domain.as_deref().map(Domain::new).transpose()?;
    let (was, kept_domain) = match resource.receiver.status() {
        Ok(status) => (status.condition, Some(status.domain)),
        Err(file::MaintenanceError::Closed(Closure::NotGuarded)) => return Err(resource.closed(Closure::NotGuarded)),
        Err(file::MaintenanceError::Closed(why)) => (Condition::Closed(why), None),
        Err(error) => return Err(failed(error)),
    };
    if was == Condition::Closed(Closure::NotGuarded) {
        return Err(resource.closed(Closure::NotGuarded));
    }
    let Some(domain) = typed_domain.or(kept_domain) else {
        let what = format!("{}: its sidecar is lost, and with it the name of its domain", resource.typed);
        return Err(Failure::new(Exit::Usage, what)
            .detail("a name that is not the one its writers acquire shuts them all out")
            .then(format!("fencepost recover {} --domain NAME", resource.typed)));
    };
    let noted = resource.receiver.incarnation().map_err(failed)?;
    let seed = seed(args).await?;
    let recovered = resource.receiver.recover(&domain, &noted, &seed).map_err(failed)?;
    let now = resource.receiver.status().map_err(failed)?;
    let done = Done {
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

/// What the coordinator knows, in one read. Nobody else can say it: without it the receiver stays as it is.
async fn seed(args: &RecoverArgs) -> Result<ReceiverSeed, Failure> {
    let snapshot = snapshot(&args.url).await;
    seed_of(snapshot.map_err(|failure| failure.detail("nothing was changed: what is live only the coordinator knows"))?)
}

/// What a recovery has come to.
struct Done {
    was: Condition,
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
        output.command("next", &format!("fencepost audit {typed}"))?;
        Ok(Exit::Done)
    }
}
