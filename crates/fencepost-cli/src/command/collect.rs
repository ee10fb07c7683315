use std::ffi::OsString;

use clap::Args;
use fencepost_core::Token;
use fencepost_rusqlite::{collect, status};
use serde_json::json;

use crate::{
    command::guard::{next_token, snapshot},
    coordinator::UrlArgs,
    exit::Exit,
    failure::Failure,
    output::Output,
    resource::SqliteResource,
};

/// Forget the fences of domains that nobody holds
#[derive(Args, Debug)]
#[command(after_long_help = "\
Asks the coordinator which leases are live and which token comes next. Old tokens of forgotten domains stay refused: the \
unfenced floor rises first. With --horizon, records of operations that were born below it go too; a retry of such an \
operation is answered `operation_too_old`, so choose a horizon older than any retry.")]
pub(crate) struct CollectArgs {
    /// The database, as sqlite:PATH
    resource: OsString,
    /// Forget operation records born below this token
    #[arg(long, value_name = "TOKEN")]
    horizon: Option<String>,
    #[command(flatten)]
    url: UrlArgs,
}

pub(crate) async fn run(args: CollectArgs, output: Output) -> Result<Exit, Failure> {
    let resource = SqliteResource::parse(&args.resource)?;
    let horizon = args.horizon.as_deref().map(str::parse::<Token>).transpose();
    let horizon = horizon.map_err(|invalid| invalid.named("horizon"))?;
    let mut connection = resource.connect()?;
    let snapshot = snapshot(&args.url).await?;
    let here = status(&connection).map_err(|error| resource.failed(error))?.issuer;
    if here != snapshot.issuer {
        // Another coordinator's numbers would shut out every live holder of this one.
        let what =
            format!("{} takes grants of issuer {here}, and {} is {}", resource.typed, args.url.url, snapshot.issuer);
        return Err(
            Failure::new(Exit::Rejected, what).then("--url with the coordinator that this database was guarded for")
        );
    }
    let next = next_token(&snapshot)?;
    let collected =
        collect(&mut connection, next, &snapshot.leases, horizon).map_err(|error| resource.failed(error))?;
    if output.json {
        let refused: Vec<_> =
            collected.refused.iter().map(|lease| json!({"domain": lease.domain, "token": lease.token})).collect();
        output.json(&json!({
            "fences": collected.fences,
            "operations": collected.operations,
            "unfenced_floor": next,
            "refused": refused,
        }))?;
    } else {
        output.line(&format!(
            "forgot {} fences and {} operation records; domains without a fence accept {next} and later",
            collected.fences, collected.operations
        ))?;
        for lease in &collected.refused {
            output.line(&format!(
                "  {} with token {} is not accepted here: its holder has to acquire anew",
                lease.domain, lease.token
            ))?;
        }
    }
    Ok(Exit::Done)
}
