use std::ffi::OsString;

use clap::Args;
use fencepost_core::{Issuer, Token, fence::LiveLease, lease::LiveSnapshot};
use fencepost_rusqlite::{collect, status};
use serde_json::json;

use crate::{
    command::guard::{next_token, refused_json, snapshot, tell_refused},
    coordinator::UrlArgs,
    exit::Exit,
    failure::Failure,
    output::{Output, counted},
    resource::Resource,
};

/// Forget the fences of domains that nobody holds
#[derive(Args, Debug)]
#[command(after_long_help = "\
Asks the coordinator which leases are live and which token comes next. Old tokens of forgotten domains stay refused: the \
unfenced floor rises first. With --horizon, records of operations that were born below it go too; a retry of such an \
operation is answered `operation_too_old`, so choose a horizon older than any retry. It cannot be above the next token, and never goes down.")]
pub(crate) struct CollectArgs {
    /// The resource, as sqlite:PATH or file:PATH
    resource: OsString,
    /// Forget operation records born below this token
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    horizon: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

/// What was typed, as far as it is understood before anything is opened or asked.
pub(crate) fn understand(args: &CollectArgs) -> Result<(Resource, Option<Token>), Failure> {
    let resource = Resource::parse(&args.resource)?;
    let horizon = args.horizon.as_deref().map(str::parse::<Token>).transpose();
    Ok((resource, horizon.map_err(|invalid| invalid.named("horizon"))?))
}

pub(crate) async fn run(args: CollectArgs, output: Output) -> Result<Exit, Failure> {
    let (resource, horizon) = understand(&args)?;
    let done = match &resource {
        Resource::Sqlite(database) => {
            let _collecting = database.doing("collecting the fences of");
            let mut connection = database.connect()?;
            let snapshot = snapshot(&args.url).await?;
            let here = status(&connection).map_err(|error| database.failed(error))?;
            let next = same_issuer(&database.typed, &here.issuer, &snapshot, &args.url)?;
            refuse_unborn(horizon, next)?;
            let collected = collect(&mut connection, next, &snapshot.leases, horizon);
            let collected = collected.map_err(|error| database.failed(error))?;
            let horizon = Horizon { asked: horizon, before: here.horizon };
            let (fences, operations) = (collected.fences, collected.operations);
            Done { next, fences, operations, horizon, refused: collected.refused }
        }
        Resource::File(file) => {
            let _collecting = file.doing("collecting the fence of");
            let here = file.receiver.status().map_err(|error| file.failed(error))?;
            let snapshot = snapshot(&args.url).await?;
            let next = same_issuer(&file.typed, &here.issuer, &snapshot, &args.url)?;
            refuse_unborn(horizon, next)?;
            let collected = file.receiver.collect(next, &snapshot.leases, horizon);
            let collected = collected.map_err(|error| file.failed(error))?;
            let horizon = Horizon { asked: horizon, before: here.horizon };
            let (fences, operations) = (collected.fences, collected.operations);
            Done { next, fences, operations, horizon, refused: collected.refused }
        }
    };
    tell(&done, output)
}

/// What a collection has come to.
struct Done {
    next: Token,
    fences: u64,
    operations: u64,
    horizon: Horizon,
    refused: Vec<LiveLease>,
}

/// The bound below which operation records go. It never goes down.
#[derive(Clone, Copy)]
struct Horizon {
    asked: Option<Token>,
    before: Option<Token>,
}

/// A horizon above the next token would refuse operations of holders that are yet to come, and cannot be taken back.
fn refuse_unborn(horizon: Option<Token>, next: Token) -> Result<(), Failure> {
    match horizon {
        Some(horizon) if horizon > next => {
            let what = format!("horizon: {horizon} is above {next}, the next token of the coordinator");
            Err(Failure::new(Exit::Usage, what).then(format!("--horizon with {next} at most")))
        }
        _ => Ok(()),
    }
}

/// The next token, where it is the receiver's own coordinator that says so. Another's numbers would shut out every live
/// holder of this one.
fn same_issuer(typed: &str, here: &Issuer, snapshot: &LiveSnapshot, url: &UrlArgs) -> Result<Token, Failure> {
    if *here != snapshot.issuer {
        let what = format!("{typed} takes grants of issuer {here}, and {} is {}", url.url, snapshot.issuer);
        return Err(Failure::new(Exit::Rejected, what).then("--url with the coordinator that it was guarded for"));
    }
    next_token(snapshot)
}

fn tell(done: &Done, output: Output) -> Result<Exit, Failure> {
    if output.json {
        output.json(&json!({
            "fences": done.fences,
            "operations": done.operations,
            "unfenced_floor": done.next,
            "horizon": done.horizon.asked.max(done.horizon.before),
            "refused": refused_json(&done.refused),
        }))?;
    } else {
        output.line(&format!(
            "forgot {} and {}; domains without a fence accept {} and later",
            counted(done.fences, "fence", "fences"),
            counted(done.operations, "operation record", "operation records"),
            done.next
        ))?;
        if let (Some(asked), Some(before)) = (done.horizon.asked, done.horizon.before)
            && before > asked
        {
            output
                .line(&format!("the horizon stays at {before}: it was above {asked} already, and never goes down"))?;
        }
        tell_refused(&done.refused, output)?;
    }
    Ok(Exit::Done)
}
